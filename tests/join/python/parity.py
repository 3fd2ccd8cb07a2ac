#!/usr/bin/env python3
"""Models, one after the other in each epoch, trained by the ranks of a parity, with a sum of all ranks after each: parity.py LENGTHS

LENGTHS: by epoch, with colons between, by model, with slashes between, of each rank: 1,0,2/1,1,1:2,1,1/0,1,1. Ranks print of each sum the
mean number of the models that take part, and how many they are.
"""

import ctypes
import sys

from collectives import RANK, Collectives, say
from annotations import check  # collectives.py says where it lies

epochs = [[[int(n) for n in model.split(",")] for model in epoch.split("/")] for epoch in sys.argv[1].split(":")]
collectives = Collectives()
world, parity = collectives.comm, ctypes.c_void_p()
check(collectives.nccl.ncclCommSplit(world, RANK % 2, RANK, ctypes.byref(parity), None))


def add(comm, number, name, values):
    collectives.comm = comm
    count, total = collectives.all_reduce([1.0, float(number)] + values)[:2]
    collectives.comm = world
    say(f"{name} {total / count:g} {count:g}")


for epoch in range(len(epochs)):
    for model in range(len(epochs[0])):
        number = 10 * epoch + model
        for i in range(epochs[epoch][model][RANK]):
            add(parity, number, f"sum {number} {i}", [])
        add(world, number, f"end {number}", [0.0])
check(collectives.nccl.ncclCommDestroy(parity))
collectives.destroy()
