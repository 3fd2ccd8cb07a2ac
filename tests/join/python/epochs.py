#!/usr/bin/env python3
"""Epochs with nothing between them: epochs.py EPOCHS LENGTHS[/LENGTHS...]

EPOCHS: for (a range), shards (of the batches of each epoch every rank goes over files of its own), many (of 600 more, with a batch on each), models (two of the lengths in each of half as many epochs, by one line), list, keys, values and items (of a dict), backwards, down, zip (of two lists), bar, which rank 0 shows in a generator as tqdm does, and others in a part of it that does less, while, which does not say its rounds, or map, which those of rank 0 do not; thread: for, in a thread; threads: a thread for each epoch, which the main thread goes through. Each epoch has a sum of all ranks at its end if its number is in LENGTHS behind a +, as in
2,3+/4,4. Ranks print of each sum the mean epoch of those that take part, and how many they are.
"""

import sys
import threading

from collectives import RANK, Collectives, say

how, words = sys.argv[1:3]
epochs = [([int(n) for n in text.rstrip("+").split(",")], text.endswith("+")) for text in words.split("/")]
if how == "many":
    epochs[:0] = [([1] * len(epochs[0][0]), False)] * 600
collectives = Collectives()


def add(epoch, name):
    count, total = collectives.all_reduce([1.0, float(epoch)])
    say(f"{name} {total / count:g} {count:g}")


class Bar:
    def __init__(self, numbers):
        self.numbers = numbers

    def __iter__(self):
        if RANK != 0:
            for number in self.numbers:
                yield number
            return
        done = 0
        try:
            for number in self.numbers:
                yield number
                done += 1
        finally:
            done = None


def around(numbers):
    if how == "bar":
        return Bar(numbers)
    if how == "keys":
        return dict.fromkeys(numbers)
    if how == "values":
        return {str(number): number for number in numbers}.values()
    if how == "zip":
        return zip(list(numbers), ["longer"] * (len(numbers) + 1))
    if how == "backwards":
        return reversed((tuple if RANK else list)(reversed(numbers)))
    return map(int, numbers) if how == "map" and RANK == 0 else numbers


def train(epoch):
    lengths, ends = epochs[epoch]
    for i in range(lengths[RANK]):
        add(epoch, f"sum {epoch} {i}")
    if ends:
        add(epoch, f"end {epoch}")


def train_all():
    numbers = range(len(epochs)) if how != "list" else list(range(len(epochs)))
    if how == "zip":
        for number, _ in around(numbers):
            train(number)
        return
    if how == "down":
        for left in range(len(numbers), 0, -1):
            train(len(numbers) - left)
        return
    if how == "items":
        for number, _ in {number: "model" for number in numbers}.items():
            train(number)
        return
    for number in around(numbers):
        train(number)


def train_shards():
    for epoch, (lengths, _) in enumerate(epochs):
        for file in range(2 * len(lengths)):
            if file % len(lengths) != RANK:
                continue
            for i in range(lengths[RANK]):
                add(epoch, f"sum {epoch} {file} {i}")


def train_models():
    if len(epochs) % 2:
        epochs.append(([0] * len(epochs[0][0]), False))
    for epoch in range(len(epochs) // 2):
        for model in range(2):
            train(2 * epoch + model)


def run_in_thread(function, *arguments):
    def run():
        collectives.use_device()
        function(*arguments)
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()


if how == "while":
    number = 0
    while number < len(epochs):
        train(number)
        number += 1
elif how == "models":
    train_models()
elif how == "shards":
    train_shards()
elif how == "threads":
    for number in range(len(epochs)):
        run_in_thread(train, number)
elif how == "thread":
    run_in_thread(train_all)
else:
    train_all()
collectives.destroy()
