"""Loops of a few collectives at the end of an epoch: who has no batch in the next one comes from such a loop to the same loop at once.

ends.py HOW ITERATIONS: meters, parameters or callbacks; also: parameters are averaged in every second iteration, too; sharded: one collective, and each rank
leaves out the items of the others, so that they are in different rounds of the loop of epochs; branch: parameters, by a call of its own where a rank has no
batch. ITERATIONS: of each rank, epochs separated by /. RESULT <rank> <epoch> <iterations whose sum is that of the ranks that have it> <sums at its end that are those of all ranks>
"""

import os
import sys

import torch
import torch.distributed as dist

PARAMETERS, METERS = range(4), ("loss", "accuracy", "recall")


def value_of(rank, epoch, what):
    return float(1000000 * (rank + 1) + 10000 * epoch + what)


def is_right(ranks, epoch, what, count):
    tensor = torch.full((count,), value_of(rank, epoch, what), device="cuda")
    dist.all_reduce(tensor)
    return tensor[0].item() == sum(value_of(other, epoch, what) for other in ranks)


def parameters():
    yield from PARAMETERS


def average(ranks, epoch, what):
    return sum(is_right(ranks, epoch, what + k, 6) for k in parameters())


class Callback:
    def __init__(self, number):
        self.number = number

    def on_epoch_end(self, epoch):
        return is_right(range(world), epoch, 9000 + self.number, 5)


class Quiet(Callback):
    def on_epoch_end(self, epoch):
        return 0


CALLBACKS = [Quiet(0), Callback(1), Callback(2), Quiet(3)]


def end(epoch):
    if how == "meters":
        return sum([is_right(range(world), epoch, 9000 + len(meter), 4) for meter in METERS])
    if how == "callbacks":
        right = 0
        for callback in CALLBACKS:
            right += callback.on_epoch_end(epoch)
        return right
    if how == "sharded":
        return is_right(range(world), epoch, 9000, 5)
    return average(range(world), epoch, 9000)


def train(epoch, lengths):
    right = 0
    for i in range(lengths[rank]):
        ranks = [other for other in range(world) if lengths[other] > i]
        whole = is_right(ranks, epoch, 100 * i, 8)
        if how == "also" and i % 2:
            whole &= average(ranks, epoch, 100 * i + 10) == len(PARAMETERS)
        right += whole
    return right


def run(epoch, lengths):
    print(f"RESULT {rank} {epoch} {train(epoch, lengths)} {int(end(epoch))}", flush=True)


def run_or_end(epoch, lengths):
    if not lengths[rank]:
        print(f"RESULT {rank} {epoch} 0 {int(end(epoch))}", flush=True)
        return
    print(f"RESULT {rank} {epoch} {train(epoch, lengths)} {int(end(epoch))}", flush=True)


how, words = sys.argv[1:3]
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
epochs = [[int(word) for word in row.split(",")] for row in words.split("/")]
if how == "sharded":
    for item in range(world * len(epochs)):
        if item % world != rank:
            continue
        run(item // world, epochs[item // world])
elif how == "branch":
    for epoch, lengths in enumerate(epochs):
        run_or_end(epoch, lengths)
else:
    for epoch, lengths in enumerate(epochs):
        run(epoch, lengths)
dist.destroy_process_group()
