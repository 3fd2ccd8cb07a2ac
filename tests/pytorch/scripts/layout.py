"""DistributedDataParallel, whose gradients become ready in another order than the parameters have: after the first iteration it lays them out anew.

layout.py ITERATIONS: of each rank, epochs separated by /; an empty epoch (3,3//2,0) begins with a new model. RESULT <rank> <epoch> <iterations whose gradients are all those of the ranks that have it>
"""

import os
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

ORDER = 3, 0, 4, 1, 2


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.parts = torch.nn.ParameterList(torch.nn.Parameter(torch.zeros(n)) for n in (3, 5, 2, 7, 4))

    def forward(self, value):
        return sum((self.parts[k] * (value + k)).sum() for k in ORDER)


def value_of(rank, epoch, i):
    return float(1000 * rank + 100 * epoch + 10 * i)


rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
epochs = [[int(word) for word in epoch.split(",") if word] for epoch in sys.argv[1].split("/")]
model = DistributedDataParallel(Model().cuda())
for epoch, lengths in enumerate(epochs):
    if not lengths:
        model = DistributedDataParallel(Model().cuda())
        continue
    right = 0
    for i in range(lengths[rank]):
        model.zero_grad()
        model(value_of(rank, epoch, i)).backward()
        ranks = [other for other in range(world) if lengths[other] > i]
        sums = [sum(value_of(other, epoch, i) + k for other in ranks) for k in range(len(ORDER))]
        right += all(torch.allclose(p.grad * world, torch.full_like(p, s)) for p, s in zip(model.module.parts, sums))
    dist.barrier()
    print(f"RESULT {rank} {epoch} {right}", flush=True)
dist.destroy_process_group()
