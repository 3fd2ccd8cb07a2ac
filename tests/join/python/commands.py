#!/usr/bin/env python3
"""A leader sends commands, and workers in a loop of their own do what it says: commands.py EPOCHS, of each how many batches it has."""

import sys

from collectives import RANK, Collectives, say

TRAIN, EVALUATE, STOP = 1.0, 2.0, 3.0
collectives = Collectives()


def total(name):
    say(f"{name} {collectives.all_reduce([RANK + 1.0])[0]:g}")


def lead(epochs):
    for n in epochs:
        for _ in range(n):
            collectives.broadcast([TRAIN])
            total("train")
        collectives.broadcast([EVALUATE])
        total("evaluate")
    collectives.broadcast([STOP])


def work():
    while True:
        command = collectives.broadcast([0.0])[0]
        if command == TRAIN:
            total("train")
        elif command == EVALUATE:
            total("evaluate")
        else:
            say(f"stop {command:g}")
            return


if RANK == 0:
    lead([int(n) for n in sys.argv[1].split(",")])
else:
    work()
collectives.destroy()
