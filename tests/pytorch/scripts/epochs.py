"""Epochs of a DistributedDataParallel with nothing between them, or something between some.

epochs.py HOW ITERATIONS: plain; function, which each epoch calls; accumulate, with no_sync in every first of two; every, with a sum of all ranks behind every second epoch; pairs, with a sum of two ranks in each iteration; thread, all in a thread, as Ray Train does it, with a function in Python that the backward pass calls in one of its own. ITERATIONS: of each
rank, epochs separated by /. RESULT <rank> <epoch> <iterations whose gradients are those of the ranks that have it>
"""

import os
import sys
import threading

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


class Summed(torch.autograd.Function):
    """What SyncBatchNorm does: a collective of its own in the backward pass."""

    @staticmethod
    def forward(_, value):
        return value.clone()

    @staticmethod
    def backward(_, gradient):
        dist.all_reduce(torch.ones(5, device="cuda"))
        return gradient


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weights = torch.nn.Parameter(torch.zeros(4))

    def forward(self, value):
        total = (self.weights * value).sum()
        return Summed.apply(total) if how == "thread" else total


def value_of(rank, epoch, i):
    return float(100000 * (rank + 1) + 10000 * epoch + i)


def step(epoch, i):
    value = value_of(rank, epoch, i)
    if how == "accumulate":
        value /= 2
        with model.no_sync():
            model(value).backward()
    model(value).backward()
    expected = sum(value_of(other, epoch, i) for other in range(world) if epochs[epoch][other] > i)
    right = torch.allclose(model.module.weights.grad * world, torch.full((4,), expected, device="cuda"))
    model.zero_grad()
    if how == "pairs":
        total = torch.full((2,), value_of(rank, epoch, i), device="cuda")
        dist.all_reduce(total, group=pairs[rank // 2])
        right &= total[0].item() == sum(value_of(other, epoch, i) for other in range(world) if other // 2 == rank // 2 and epochs[epoch][other] > i)
    return right


def train(epoch):
    return sum(step(epoch, i) for i in range(epochs[epoch][rank]))


def end(epoch):
    total = torch.full((3,), 10.0 * epoch + rank, device="cuda")
    dist.all_reduce(total)
    return 100 * (total[0].item() == sum(10.0 * epoch + other for other in range(world)))


def run_plain():
    for epoch in range(len(epochs)):
        right = 0
        for i in range(epochs[epoch][rank]):
            right += step(epoch, i)
        print(f"RESULT {rank} {epoch} {right}", flush=True)


def run_function():
    for epoch in range(len(epochs)):
        print(f"RESULT {rank} {epoch} {train(epoch)}", flush=True)


def run_every():
    for epoch in range(len(epochs)):
        right = train(epoch)
        if epoch % 2 == 1:
            right += end(epoch)
        print(f"RESULT {rank} {epoch} {right}", flush=True)


def run_thread():
    def run():
        global model
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        model = DistributedDataParallel(Model().cuda())
        run_function()
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()


how, words = sys.argv[1:3]
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
model = DistributedDataParallel(Model().cuda()) if how != "thread" else None
pairs = [dist.new_group([first, first + 1]) for first in range(0, world - 1, 2)] if how == "pairs" else []
epochs = [[int(word) for word in row.split(",")] for row in words.split("/")]
{"plain": run_plain, "every": run_every, "thread": run_thread}.get(how, run_function)()
dist.destroy_process_group()
