"""A rank fails in its second epoch, and the process group is destroyed on the way out.

failing.py HOW ITERATIONS: finally, with or atexit; all: each rank raises, at once. ITERATIONS: of each rank, in both epochs; the one with the fewest fails where the others go on.
RESULT <rank> <epoch> <iteration> <sum of the gradients of the ranks that have it>
"""

import atexit
import contextlib
import os
import sys

import torch
import torch.distributed as dist


class Failure(Exception):
    pass


def sums(epoch):
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(1, 1, bias=False).cuda())
    for i in range(max(lengths)):
        if i == lengths[rank]:
            if epoch == 1:
                raise Failure
            break
        model.zero_grad()
        model(torch.full((1, 1), world * (rank + 1.0), device="cuda")).sum().backward()
        print(f"RESULT {rank} {epoch} {i} {next(model.parameters()).grad.item():g}", flush=True)
    if epoch == 1 and how == "all":
        raise Failure


def train():
    for epoch in range(2):
        sums(epoch)


how, lengths = sys.argv[1], [int(word) for word in sys.argv[2].split(",")]
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
if how == "with":
    with contextlib.closing(type("Group", (), {"close": staticmethod(dist.destroy_process_group)})):
        train()
elif how == "atexit":
    atexit.register(dist.destroy_process_group)
    train()
else:
    try:
        train()
    finally:
        dist.destroy_process_group()
