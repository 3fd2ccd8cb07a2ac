"""PyTorch's DistributedDataParallel where each rank has as many batches as there are in its files.

    torchrun --nproc-per-node 8 --no-python nccl-join run python ddp.py

A rank that has no more batches waits in the first collective after the loop, and answers the gradients of the others with
zeros until they come there, too. DDP divides gradients by all ranks: with NCCL_JOIN_DIVISOR=active-sum by those with data.
"""
import os

import torch
import torch.distributed as dist
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel


def batches(rank, epoch):
    """In the place of a loader: ranks have different amounts of data."""
    generator = torch.Generator().manual_seed(1000 * epoch + rank)
    for _ in range(10 + 5 * rank):
        inputs = torch.rand(16, 4, generator=generator)
        yield inputs.cuda(), inputs.sum(1, keepdim=True).cuda()


def copy_from_last(model, count):
    """The model of the rank that had the most batches, for all: that of a rank without data is as old as its last batch."""
    world = dist.get_world_size()
    last = torch.tensor(count * world + dist.get_rank()).cuda()
    dist.all_reduce(last, dist.ReduceOp.MAX)
    for parameter in model.parameters():
        dist.broadcast(parameter.data, int(last) % world)


def main():
    rank = int(os.environ["RANK"])
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    model = DistributedDataParallel(torch.nn.Linear(4, 1).cuda())
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for epoch in range(3):
        count = 0
        for inputs, targets in batches(rank, epoch):
            loss = mse_loss(model(inputs), targets)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            count += 1
        copy_from_last(model, count)
        weights = model.module.weight.flatten().tolist()
        print(f"rank {rank} epoch {epoch} batches {count} weights {weights}", flush=True)
    dist.destroy_process_group()


main()
