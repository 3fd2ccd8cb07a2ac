"""A group of all ranks trains; the default group's first collective comes after the loop: late.py ITERATIONS.

    late.py 1,3    rank 0 has one iteration, rank 1 three

The legacy backend makes a group's communicator with the group's first collective, and waits there for rank 0, which makes its id.
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
trains = dist.new_group()
model = DistributedDataParallel(torch.nn.Linear(2, 4).cuda(), process_group=trains)
for _ in range(lengths[min(rank, len(lengths) - 1)]):
    model(torch.ones(3, 2, device="cuda")).sum().backward()
    torch.cuda.synchronize()
print(f"RESULT {rank} out of data", flush=True)
dist.barrier()
numbers = torch.full((3,), float(rank + 1), device="cuda")
dist.all_reduce(numbers)
print(f"RESULT {rank} sum {numbers.tolist()}", flush=True)
dist.destroy_process_group()
