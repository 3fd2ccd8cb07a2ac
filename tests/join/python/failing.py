#!/usr/bin/env python3
"""Sums until its data ends or it fails, and cleans up: failing.py HOW LENGTHS

HOW: finally, with, atexit, except, exit (with a status, in a finally), barrier (a last sum in a finally); data: what raises says that there is no more data, and
is handled first; iterator: it is StopIteration; older: all is done while another one is handled. Ranks whose length is below that of the others raise."""

import atexit
import contextlib
import ctypes
import sys

from collectives import FLOAT32, SUM, Collectives, check, lengths, say

how, words = sys.argv[1:3]
n, most = lengths(words), max(int(word) for word in words.split(","))
collectives = Collectives()


class Failure(Exception):
    pass


def sum_of_ones():
    """-1: it has not been done."""
    collectives.write([1.0, -1.0])
    result = ctypes.c_void_p(collectives.memory.value + 4)
    check(collectives.nccl.ncclAllReduce(collectives.memory, result, ctypes.c_size_t(1), FLOAT32, SUM, collectives.comm, None))
    return collectives.read(2)[1]


def train():
    for i in range(most):
        if i == n:
            raise StopIteration if how == "iterator" else Failure
        say(f"sum {i} {sum_of_ones():g}")
    if how == "all":
        raise Failure


def ends():
    say("destroys")
    collectives.destroy()
    say("destroyed")


if how == "with":
    with contextlib.closing(type("Group", (), {"close": staticmethod(ends)})):
        train()
elif how == "atexit":
    atexit.register(ends)
    train()
elif how in ("except", "iterator"):
    try:
        train()
    except (Failure, StopIteration):
        ends()
    else:
        ends()
elif how == "older":
    try:
        raise ImportError
    except ImportError:
        with contextlib.suppress(Failure):
            train()
        ends()
elif how == "data":
    with contextlib.suppress(Failure):
        train()
    ends()
else:
    try:
        try:
            train()
        except Failure:
            if how == "exit":
                sys.exit(3)
            raise
    finally:
        if how == "barrier":
            say(f"last {collectives.all_reduce([1.0] * 2)[0]:g}")
        ends()
