#!/usr/bin/env python3
"""Is parked in the collective after its loop, as PyTorch's watchdog would see it: timers.py LENGTHS LIBTORCH_CUDA

Says for how many seconds PyTorch's timeouts have been made longer, whole ones, and whether an event behind the work that follows is done when its
recording returns (0) or not yet (600).
"""

import ctypes
import sys
import time

import torch.distributed.distributed_c10d as c10d
from collectives import Collectives, lengths, say

library = ctypes.CDLL(sys.argv[2])
collectives = Collectives()
for i in range(lengths(sys.argv[1])):
    collectives.all_reduce([1.0] * 4)
    if i > 1:
        time.sleep(0.5)
collectives.write([1.0])
collectives.issue_all_reduce(1)
first, second = (library.record_behind_work(None) for _ in range(2))
say(f"added {int(sum(c10d.added))} first {first} second {second}")
collectives.destroy()
