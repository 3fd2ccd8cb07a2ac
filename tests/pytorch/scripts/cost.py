"""What iterations of DistributedDataParallel cost: cost.py SAMPLES [join]; rank 0 leaves at half of them with `uneven`.

Each rank prints iterations per second and its processor time for one, with all threads, in microseconds.
"""

import contextlib
import os
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

WARM = 20
rank = int(os.environ["RANK"])
torch.cuda.set_device(rank)
dist.init_process_group("nccl")
layers = [layer for _ in range(8) for layer in (torch.nn.Linear(64, 64), torch.nn.BatchNorm1d(64), torch.nn.ReLU())]
model = DistributedDataParallel(torch.nn.Sequential(*layers).cuda())
inputs = torch.randn(16, 64, device="cuda")
samples = int(sys.argv[1])
with model.join() if "join" in sys.argv else contextlib.nullcontext():
    for i in range(WARM + (samples // 2 if "uneven" in sys.argv and rank == 0 else samples)):
        if i == WARM:
            begin, used = time.monotonic(), time.process_time()
        model(inputs).sum().backward()
        torch.cuda.synchronize()
    wall, processor = time.monotonic() - begin, time.process_time() - used
done = i + 1 - WARM
print(f"RESULT {rank} {done / wall:.2f} iterations/s {1e6 * processor / done:.0f} us", flush=True)
dist.barrier()
dist.destroy_process_group()
