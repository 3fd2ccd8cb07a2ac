"""A rank that is out of data waits for longer than the process group's timeout: slow.py [SECONDS]."""

import datetime
import os
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

seconds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
rank = int(os.environ["RANK"])
torch.cuda.set_device(rank)
dist.init_process_group("nccl", timeout=datetime.timedelta(seconds=seconds))
model = DistributedDataParallel(torch.nn.Linear(2, 4).cuda())
for i in range(3 if rank == 0 else 3 + 2 * seconds):
    model(torch.ones(3, 2, device="cuda")).sum().backward()
    torch.cuda.synchronize()
    if i >= 3:
        time.sleep(1)
print(f"RESULT {rank} out of data", flush=True)
numbers = torch.full((3,), float(rank + 1), device="cuda")
dist.all_reduce(numbers)
torch.cuda.synchronize()
time.sleep(1)  # for the watchdog, which looks ten times a second
print(f"RESULT {rank} sum {numbers.tolist()}", flush=True)
dist.destroy_process_group()
