"""DistributedDataParallel with buffers, and an evaluation through it: it broadcasts them in a forward after one that has trained, so a rank without batches for
the one or the other does so where its peers do not.

buffers.py ITERATIONS EVALUATIONS: of each rank, epochs separated by /. RESULT <rank> <epoch> <iterations whose gradients are all those of the ranks that have
it> <batches of all evaluations, if they are summed rightly>
"""

import os
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weights = torch.nn.Parameter(torch.zeros(4))
        self.register_buffer("mean", torch.zeros(4))
        self.register_buffer("seen", torch.zeros(1, dtype=torch.int64))

    def forward(self, value):
        if self.training:
            self.seen += 1
        return (self.weights * value + self.mean).sum()


def read(words):
    return [[int(word) for word in epoch.split(",")] for epoch in words.split("/")]


def value_of(rank, epoch, i):
    return float(1000 * rank + 100 * epoch + 10 * i + 1)


rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
model = DistributedDataParallel(Model().cuda())
for epoch, (iterations, evaluations) in enumerate(zip(read(sys.argv[1]), read(sys.argv[2]))):
    right = 0
    model.train()
    for i in range(iterations[rank]):
        model.zero_grad()
        model(value_of(rank, epoch, i)).backward()
        expected = sum(value_of(other, epoch, i) for other in range(world) if iterations[other] > i)
        right += torch.allclose(model.module.weights.grad * world, torch.full((4,), expected, device="cuda"))
    model.eval()
    batches = torch.zeros(1, device="cuda")
    with torch.no_grad():
        for i in range(evaluations[rank]):
            model(0.0)
            batches += 1
    dist.all_reduce(batches)
    print(f"RESULT {rank} {epoch} {right} {int(batches)}", flush=True)
dist.destroy_process_group()
