"""A rank without data, or with little, between two barriers: zero.py ITERATIONS [barrier] [buffers] [group]; then a sum over all ranks.

    zero.py 0,3 barrier    rank 0 has none, rank 1 three; a barrier comes before the loop, too
    zero.py 1,3 group      it trains in a group of its own: the default group's first collective comes after the loop. The legacy
                           backend makes a group's communicator with that, and waits there for rank 0, which makes its id
"""

import os
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

rank = int(os.environ["RANK"])
local = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local)
device_ids = None if local == rank else [local]  # PyTorch's legacy backend guesses it by the global rank
dist.init_process_group("nccl")
lengths = [int(word) for word in sys.argv[1].split(",")]
if "barrier" in sys.argv:
    dist.barrier(device_ids=device_ids)
model = torch.nn.Linear(2, 4)
if "buffers" in sys.argv:
    model = torch.nn.Sequential(model, torch.nn.BatchNorm1d(4))
group = dist.new_group() if "group" in sys.argv else None
model = DistributedDataParallel(model.cuda(), process_group=group)
for _ in range(lengths[min(rank, len(lengths) - 1)]):
    model(torch.ones(3, 2, device="cuda")).sum().backward()
    torch.cuda.synchronize()
print(f"RESULT {rank} out of data", flush=True)
dist.barrier(device_ids=device_ids)
numbers = torch.full((3,), float(rank + 1), device="cuda")
dist.all_reduce(numbers)
print(f"RESULT {rank} sum {numbers.tolist()}", flush=True)
dist.destroy_process_group()
