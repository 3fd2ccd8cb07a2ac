"""Training loops behind each other whose gradients look alike: only where backward is called tells one from the other, and no other collective is between them.

loops.py HOW ITERATIONS: models: each loop trains its own DistributedDataParallel; one: all train the same; hook: as one, with a communication hook, which
calls all_reduce from Python in the engine's thread. ITERATIONS: of each rank, loops separated by +, epochs by /. RESULT <rank> <epoch> <iterations whose
gradients are those of the ranks that have it>
"""

import os
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

LOOPS = 2


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weights = torch.nn.Parameter(torch.zeros(4))

    def forward(self, value):
        return (self.weights * value).sum()


def value_of(rank, epoch, loop, i):
    return float(100000 * (rank + 1) + 10000 * epoch + 1000 * loop + i)


def summed(state, bucket):
    work = dist.all_reduce(bucket.buffer(), async_op=True)
    return work.get_future().then(lambda future: future.value()[0] / world)


def is_right(model, lengths, epoch, loop, i):
    expected = sum(value_of(other, epoch, loop, i) for other in range(world) if lengths[loop][other] > i)
    right = torch.allclose(model.module.weights.grad * world, torch.full((4,), expected, device="cuda"))
    model.zero_grad()
    return right


how, words = sys.argv[1:3]
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
models = [DistributedDataParallel(Model().cuda()) for _ in range(LOOPS if how == "models" else 1)]
if how == "hook":
    models[0].register_comm_hook(None, summed)
for epoch, loops in enumerate(words.split("/")):
    lengths = [[int(word) for word in loop.split(",")] for loop in loops.split("+")]
    right = 0
    for i in range(lengths[0][rank]):
        models[0](value_of(rank, epoch, 0, i)).backward()
        right += is_right(models[0], lengths, epoch, 0, i)
    for i in range(lengths[1][rank]):
        models[-1](value_of(rank, epoch, 1, i)).backward()
        right += is_right(models[-1], lengths, epoch, 1, i)
    print(f"RESULT {rank} {epoch} {right}", flush=True)
dist.destroy_process_group()
