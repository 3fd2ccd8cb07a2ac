#!/usr/bin/env python3
"""One model, from code that is not alike on all ranks: own_ways.py HOW LENGTHS[/LENGTHS...]

HOW:
    ways     each rank comes to a sum by either of two branches
    spawned  from code that each rank has with a number of its own, of more digits or fewer, as multiprocessing gives it
             to what it spawns

Ranks print how many of their sums are not those of all ranks at the same point of the same epoch.
"""

import sys

from collectives import RANK, Collectives, say

how, words = sys.argv[1:3]
epochs = [[int(n) for n in text.split(",")] for text in words.split("/")]
world = len(epochs[0])
collectives = Collectives()
wrong = 0


def add(point, epoch, ranks):
    global wrong
    value = float(1000 * epoch + point)
    count, total = collectives.all_reduce([1.0, value] + [0.0] * 6)[:2]
    wrong += (count, total) != (ranks, ranks * value)


def train(number):
    for epoch in range(len(epochs)):
        for i in range(epochs[epoch][RANK]):
            add(1, epoch, sum(n > i for n in epochs[epoch]))
        add(2, epoch, world)


if how == "ways":
    for epoch in range(len(epochs)):
        for i in range(epochs[epoch][RANK]):
            if (i * 7 + epoch * 5 + RANK * 3) % 4 < 2:
                add(1, epoch, world)
            else:
                add(1, epoch, world)
        add(2, epoch, world)
else:
    exec(f"number = {10 ** RANK}; train(number)")
say(f"wrong {wrong}")
collectives.destroy()
