#!/usr/bin/env python3
"""One thread that drives two ranks of a communicator, in groups, in epochs with nothing between them: driven.py BATCHES[/BATCHES...]

Prints of each sum the epoch that it is of, as both ranks have it."""

import ctypes
import pathlib
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "docs"))

from annotations import FLOAT32, SUM, check, load

RANKS = 2
cuda, nccl = load("libcudart.so.13", "libcudart.so.12"), load("libnccl.so.2")
comms, memory = (ctypes.c_void_p * RANKS)(), [ctypes.c_void_p() for _ in range(RANKS)]


def on(rank):
    check(cuda.cudaSetDevice(rank))
    return memory[rank]


def add(value):
    data = struct.pack("f", value)
    for rank in range(RANKS):
        check(cuda.cudaMemcpy(on(rank), data, ctypes.c_size_t(len(data)), 1))
    check(nccl.ncclGroupStart())
    for rank in range(RANKS):
        check(nccl.ncclAllReduce(on(rank), memory[rank], ctypes.c_size_t(1), FLOAT32, SUM, ctypes.c_void_p(comms[rank]), None))
    check(nccl.ncclGroupEnd())
    sums = []
    for rank in range(RANKS):
        room = ctypes.create_string_buffer(len(data))
        check(cuda.cudaMemcpy(room, on(rank), ctypes.c_size_t(len(data)), 2))
        sums += struct.unpack("f", room.raw)
    return [total / RANKS for total in sums]


check(nccl.ncclCommInitAll(comms, RANKS, None))
for rank in range(RANKS):
    on(rank)
    check(cuda.cudaMalloc(ctypes.byref(memory[rank]), ctypes.c_size_t(4)))
lengths = [int(word) for word in sys.argv[1].split("/")]
for epoch in range(len(lengths)):
    for i in range(lengths[epoch]):
        print("RESULT 0 sum %d %d %g %g" % (epoch, i, *add(epoch)), flush=True)
check(nccl.ncclGroupStart())
for rank in range(RANKS):
    check(nccl.ncclCommDestroy(ctypes.c_void_p(comms[rank])))
check(nccl.ncclGroupEnd())
