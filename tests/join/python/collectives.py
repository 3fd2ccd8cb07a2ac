"""One rank of a program in Python that calls NCCL by ctypes: what the scripts beside this share."""

import ctypes
import os
import pathlib
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "docs"))

from annotations import FLOAT32, SUM, UniqueId, check, load, share

RANK, SIZE = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
cuda = load("libcudart.so.13", "libcudart.so.12")


def say(text):
    """One write: lines of several ranks do not mix."""
    sys.stdout.write(f"RESULT {RANK} {text}\n")
    sys.stdout.flush()


def lengths(text):
    """This rank's, of those of all ranks."""
    return int(text.split(",")[RANK])


class Collectives:
    """A communicator of all ranks, and room for a few numbers."""

    ROOM = 64

    def __init__(self):
        self.nccl, self.comm = load("libnccl.so.2"), ctypes.c_void_p()
        self.use_device()
        unique_id = UniqueId()
        if RANK == 0:
            check(self.nccl.ncclGetUniqueId(ctypes.byref(unique_id)))
        unique_id = UniqueId.from_buffer_copy(share(RANK, SIZE, bytes(unique_id)))
        check(self.nccl.ncclCommInitRank(ctypes.byref(self.comm), SIZE, unique_id, RANK))
        self.memory = ctypes.c_void_p()
        check(cuda.cudaMalloc(ctypes.byref(self.memory), ctypes.c_size_t(4 * self.ROOM)))

    def use_device(self):
        """Each thread has its own."""
        check(cuda.cudaSetDevice(int(os.environ["LOCAL_RANK"])))

    def write(self, values):
        data = struct.pack(f"{len(values)}f", *values)
        check(cuda.cudaMemcpy(self.memory, data, ctypes.c_size_t(len(data)), 1))

    def read(self, count):
        data = ctypes.create_string_buffer(4 * count)
        check(cuda.cudaMemcpy(data, self.memory, ctypes.c_size_t(4 * count), 2))
        return list(struct.unpack(f"{count}f", data.raw))

    def issue_all_reduce(self, count):
        memory, size = self.memory, ctypes.c_size_t(count)
        check(self.nccl.ncclAllReduce(memory, memory, size, FLOAT32, SUM, self.comm, None))

    def all_reduce(self, values):
        self.write(values)
        self.issue_all_reduce(len(values))
        return self.read(len(values))

    def broadcast(self, values):
        """Rank 0's."""
        self.write(values)
        memory, count = self.memory, ctypes.c_size_t(len(values))
        check(self.nccl.ncclBroadcast(memory, memory, count, FLOAT32, 0, self.comm, None))
        return self.read(len(values))

    def all_gather(self, values):
        """In place: this rank's part lies where all others look for it."""
        self.write([0.0] * RANK * len(values) + values)
        part = ctypes.c_void_p(self.memory.value + 4 * RANK * len(values))
        check(self.nccl.ncclAllGather(part, self.memory, ctypes.c_size_t(len(values)), FLOAT32, self.comm, None))
        return self.read(SIZE * len(values))

    def destroy(self):
        check(self.nccl.ncclCommDestroy(self.comm))
