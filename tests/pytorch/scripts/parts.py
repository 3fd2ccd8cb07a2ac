"""Ranks leave a loop of all of them into a collective of their half alone: parts.py ITERATIONS [ready]; then a sum over all ranks.

    parts.py 2,5,1,4          that collective is the first of the half: the legacy backend makes its communicator then, for which the
                              first rank of the half makes the id that the other one waits for
    parts.py 2,5,1,4 ready    there was one before the loop
"""

import os
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
lengths = [int(word) for word in sys.argv[1].split(",")]
half = ranks // 2
parts = [dist.new_group(list(range(half))), dist.new_group(list(range(half, ranks)))]
part = parts[rank // half]
if "ready" in sys.argv:
    dist.barrier(part)
model = DistributedDataParallel(torch.nn.Linear(2, 4).cuda())
for _ in range(lengths[rank]):
    model(torch.ones(3, 2, device="cuda")).sum().backward()
    torch.cuda.synchronize()
print(f"RESULT {rank} out of data", flush=True)
numbers = torch.full((2,), float(rank + 1), device="cuda")
dist.all_reduce(numbers, group=part)
print(f"RESULT {rank} half {numbers.tolist()}", flush=True)
numbers = torch.full((3,), float(rank + 1), device="cuda")
dist.all_reduce(numbers)
print(f"RESULT {rank} sum {numbers.tolist()}", flush=True)
dist.destroy_process_group()
