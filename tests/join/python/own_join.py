#!/usr/bin/env python3
"""Trains with PyTorch's Join (torch/distributed/algorithms/join.py stands for it): own_join.py LENGTHS [throw] [first=LENGTHS]

first: an epoch of other lengths before, without it. With `throw` the first rank that is out of data stops all.
"""

import sys

from collectives import RANK, Collectives, lengths, say
from torch.distributed.algorithms.join import Join

throw = "throw" in sys.argv
collectives = Collectives()


def gradients(value):
    return collectives.all_reduce([value] * 4)[0]


def train(n, join):
    for i in range(n):
        if join is not None:
            join.notify()
        if throw:  # as SyncBatchNorm does: a rank that has joined has nothing to give
            collectives.all_gather([float(RANK)] * 2)
        say(f"sum {i} {gradients(RANK + 1.0):g}")


for word in sys.argv[2:]:
    if word.startswith("first="):
        train(lengths(word.partition("=")[2]), None)
own = Join(collectives, lambda: gradients(0.0), throw)
try:
    train(lengths(sys.argv[1]), own)
    own.leave()
    say(f"rounds {own.rounds}")
except RuntimeError as error:
    say(f"stopped: {error}")
say(f"at last {gradients(RANK + 1.0):g}")
collectives.destroy()
