#!/usr/bin/env python3
"""Ends of epochs that not all ways through the code come to: ends.py HOW LENGTHS[/LENGTHS...]

HOW: early (a return before it that nobody takes), flag, handler (a try around both), same (it looks like the batches), every (each second epoch has one), skip (a rank without a batch comes to an end of its own), ways (all come there, and to each batch by either of two branches),
spawned (all come there, from code that each rank has with a number of its own, of more digits or fewer, as multiprocessing
gives it to what it spawns), or shared (each rank leaves out the items of the others, which are as many as epochs, and has an end
for each). Ranks print how many of their sums are not those of all ranks at the same point of the same epoch.
"""

import sys

from collectives import RANK, Collectives, say

how, words = sys.argv[1:3]
epochs = [[int(n) for n in text.split(",")] for text in words.split("/")]
world = len(epochs[0])
enabled, quiet = len(sys.argv) < 99, len(sys.argv) > 99
collectives = Collectives()
wrong = 0


def add(point, epoch, size, ranks):
    global wrong
    value = float(1000 * epoch + point)
    count, total = collectives.all_reduce([1.0, value] + [0.0] * (size - 2))[:2]
    wrong += (count, total) != (ranks, ranks * value)


def train(epoch):
    for i in range(epochs[epoch][RANK]):
        add(1, epoch, 8, sum(n > i for n in epochs[epoch]))


def end(epoch, size=4):
    for k in range(3):
        add(2 + k, epoch, size, world)


def run_early(epoch):
    train(epoch)
    if not enabled:
        return
    end(epoch)


def run_flag(epoch):
    train(epoch)
    if enabled:
        end(epoch)


def run_handler(epoch):
    try:
        train(epoch)
        if quiet:
            return
        end(epoch)
    finally:
        pass


def run_same(epoch):
    train(epoch)
    if enabled:
        end(epoch, 8)


def run_every(epoch):
    train(epoch)
    if epoch % 2 == 1:
        end(epoch)


def run_skip(epoch):
    if not epochs[epoch][RANK]:
        end(epoch)
        return
    train(epoch)
    end(epoch)


def run_ways(epoch):
    for i in range(epochs[epoch][RANK]):
        ranks = sum(n > i for n in epochs[epoch])
        if (i * 7 + epoch * 5 + RANK * 3) % 4 < 2:
            add(1, epoch, 8, ranks)
        else:
            add(1, epoch, 8, ranks)
    end(epoch)


def run_all(number):
    for epoch in range(len(epochs)):
        train(epoch)
        end(epoch)


if how == "spawned":
    exec(f"number = {10 ** RANK}; run_all(number)")
elif how == "shared":
    turn = 0
    for item in range(len(epochs) * world):
        if item % world != RANK:
            continue
        train(turn)
        end(turn)
        turn += 1
else:
    run = globals()["run_" + how]
    for epoch in range(len(epochs)):
        run(epoch)
say(f"wrong {wrong}")
collectives.destroy()
