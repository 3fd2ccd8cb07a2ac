#!/usr/bin/env python3
"""Trains one model after the other, each several times: cells.py LENGTHS[/LENGTHS...][+LENGTHS...]. Models are apart by `+`."""

import sys

from collectives import RANK, Collectives, lengths, say

collectives = Collectives()


def first():
    return collectives.all_reduce([RANK + 1.0] * 8)[0]


def second():
    return collectives.all_reduce([RANK + 1.0] * 6)[0]


def train(step, n, cell):
    say(f"begin {cell} {collectives.all_reduce([RANK + 1.0])[0]:g}")
    for i in range(n):
        say(f"sum {cell} {i} {step():g}")


for step, model in zip((first, second), sys.argv[1].split("+")):
    for number, text in enumerate(model.split("/")):
        train(step, lengths(text), f"{step.__name__} {number}")
collectives.destroy()
