#!/usr/bin/env python3
"""Validates in the iteration of the last batch, as Lightning does: last_batch.py LENGTHS[/LENGTHS...]"""

import sys

from collectives import RANK, Collectives, lengths, say

collectives = Collectives()


def validate(epoch):
    total = collectives.all_reduce([RANK + 1.0])[0]
    say(f"validation {epoch} {total:g} {collectives.all_reduce([RANK + 1.0, 1.0])[1]:g}")


def train(n, epoch):
    for i in range(n):
        collectives.all_reduce([1.0] * 8)
        say(f"sum {i} {collectives.all_reduce([RANK + 1.0] * 4)[0]:g}")
        if i == n - 1:
            validate(epoch)


for epoch, text in enumerate(sys.argv[1].split("/")):
    train(lengths(text), epoch)
collectives.destroy()
