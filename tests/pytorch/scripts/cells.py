"""One DistributedDataParallel after the other, a barrier before each, and a rank without data in every one: cells.py ITERATIONS."""

import os
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

rank = int(os.environ["RANK"])
torch.cuda.set_device(rank)
dist.init_process_group("nccl")
lengths = [int(word) for word in sys.argv[1].split(",")]
for cell in range(3):
    dist.barrier()
    model = DistributedDataParallel(torch.nn.Linear(10, 10).cuda())
    for _ in range(lengths[min(rank, len(lengths) - 1)]):
        model(torch.ones(3, 10, device="cuda")).sum().backward()
        torch.cuda.synchronize()
    print(f"RESULT {rank} out of data", flush=True)
dist.barrier()
numbers = torch.full((3,), float(rank + 1), device="cuda")
dist.all_reduce(numbers)
print(f"RESULT {rank} sum {numbers.tolist()}", flush=True)
dist.destroy_process_group()
