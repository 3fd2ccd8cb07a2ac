"""A rank without data, or with little, between two barriers: zero.py ITERATIONS [barrier] [buffers]; then a sum over all ranks.

    zero.py 0,3 barrier    rank 0 has none, rank 1 three; a barrier comes before the loop, too
"""

import os
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

rank = int(os.environ["RANK"])
torch.cuda.set_device(rank)
dist.init_process_group("nccl")
lengths = [int(word) for word in sys.argv[1].split(",")]
if "barrier" in sys.argv:
    dist.barrier()
model = torch.nn.Linear(2, 4)
if "buffers" in sys.argv:
    model = torch.nn.Sequential(model, torch.nn.BatchNorm1d(4))
model = DistributedDataParallel(model.cuda())
for _ in range(lengths[min(rank, len(lengths) - 1)]):
    model(torch.ones(3, 2, device="cuda")).sum().backward()
    torch.cuda.synchronize()
print(f"RESULT {rank} out of data", flush=True)
dist.barrier()
numbers = torch.full((3,), float(rank + 1), device="cuda")
dist.all_reduce(numbers)
print(f"RESULT {rank} sum {numbers.tolist()}", flush=True)
dist.destroy_process_group()
