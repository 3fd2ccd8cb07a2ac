"""A rank that goes into another collective than its peer, which finds that out by a monitored barrier of gloo: monitored.py [SECONDS]."""

import datetime
import os
import sys
import time

import torch
import torch.distributed as dist

seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 2.0
rank = int(os.environ["RANK"])
torch.cuda.set_device(rank)
dist.init_process_group("nccl")
monitors = dist.new_group(backend="gloo")
numbers = torch.ones(3, device="cuda")
for _ in range(3):
    dist.all_reduce(numbers)
torch.cuda.synchronize()
dist.monitored_barrier(monitors)
print(f"RESULT {rank} together", flush=True)
if rank == 0:
    begin = time.monotonic()
    try:
        dist.monitored_barrier(monitors, timeout=datetime.timedelta(seconds=seconds))
    finally:
        print(f"RESULT {rank} waited {'as long as it was told' if time.monotonic() - begin >= seconds else 'less'}", flush=True)
else:
    dist.all_reduce(torch.ones(5, device="cuda"))
    torch.cuda.synchronize()
