"""Gradients of DistributedDataParallel, and right behind each epoch what PyTorch makes of sends and receives.

behind.py gather|scatter|send ITERATIONS: of each rank, epochs separated by /. RESULT <rank> <epoch> <iterations whose gradients are those
of the ranks that have it> <from how many ranks the right numbers came>
"""

import os
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
how, epochs = sys.argv[1], [[int(word) for word in epoch.split(",")] for epoch in sys.argv[2].split("/")]


def value_of(rank, epoch, i):
    return float(1000 * rank + 100 * epoch + 10 * i + 1)


def numbers(rank, epoch):
    return torch.full((3,), float(1000 * rank + epoch + 1), device="cuda")


def are_from(ranks, found, epoch):
    return sum(torch.equal(a, numbers(other, epoch)) for other, a in zip(ranks, found))


def gather(epoch):
    found = [torch.zeros(3, device="cuda") for _ in range(world)] if rank == 0 else None
    dist.gather(numbers(rank, epoch), found, dst=0)
    return are_from(range(world), found, epoch) if rank == 0 else 0


def scatter(epoch):
    found = torch.zeros(3, device="cuda")
    dist.scatter(found, [numbers(0, epoch)] * world if rank == 0 else None, src=0)
    return are_from([0], [found], epoch)


def send(epoch):
    if rank > 0:
        dist.send(numbers(rank, epoch), dst=0)
        return 0
    found = [torch.zeros(3, device="cuda") for _ in range(1, world)]
    for other in range(1, world):
        dist.recv(found[other - 1], src=other)
    return are_from(range(1, world), found, epoch)


model = DistributedDataParallel(torch.nn.Linear(1, 1, bias=False).cuda())
for epoch, lengths in enumerate(epochs):
    right = 0
    for i in range(lengths[rank]):
        model.zero_grad()
        model(torch.full((1, 1), value_of(rank, epoch, i), device="cuda")).sum().backward()
        ranks = [other for other in range(world) if lengths[other] > i]
        wanted = sum(value_of(other, epoch, i) for other in ranks)
        right += torch.allclose(model.module.weight.grad * world, torch.tensor([[wanted]], device="cuda"))
    came = {"gather": gather, "scatter": scatter, "send": send}[how](epoch)
    print(f"RESULT {rank} {epoch} {right} {came}", flush=True)
dist.destroy_process_group()
