"""One rank of the benchmark python.c: a loop of all-reduces through ctypes, as frameworks without a binding make them.

    python_calls.py RESULTS RANK NRANKS

RESULTS is a file of doubles: one for each rank, how often it has met the others; then rank 0's nanoseconds for one
call, a number for each batch, and 0 at the end.
"""

import ctypes
import mmap
import sys
import time

UNITS = 8  # of an iteration
LEARNT = 512  # iterations; see loop.h
ITERATIONS = 64  # of a batch: fewer units than a rank may be ahead
BATCHES = 40

rank, nranks = int(sys.argv[2]), int(sys.argv[3])
with open(sys.argv[1], "r+b") as file:
    numbers = memoryview(mmap.mmap(file.fileno(), 0)).cast("d")


class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_char * 128)]


def communicator():
    cudart, nccl = ctypes.CDLL("libcudart.so.13"), ctypes.CDLL("libnccl.so.2")
    comm, unique = ctypes.c_void_p(), UniqueId()
    pointer, size, integer = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    nccl.ncclCommInitRank.argtypes = [pointer, integer, UniqueId, integer]
    nccl.ncclAllReduce.argtypes = [pointer, pointer, size, integer, integer, pointer, pointer]
    nccl.ncclCommDestroy.argtypes = [pointer]
    if cudart.cudaSetDevice(0) or nccl.ncclGetUniqueId(ctypes.byref(unique)) or nccl.ncclCommInitRank(
            ctypes.byref(comm), nranks, unique, rank):
        sys.exit(1)
    return nccl, comm


def meet():
    numbers[rank] += 1
    while any(numbers[other] < numbers[rank] for other in range(nranks)):
        time.sleep(0.0001)


def iterate(all_reduce, comm, iterations):
    begun = time.perf_counter_ns()
    for _ in range(iterations):
        for position in range(UNITS):
            all_reduce(None, None, 1000 * (position + 1), 7, 0, comm, None)
    return (time.perf_counter_ns() - begun) / (iterations * UNITS)


def main():
    nccl, comm = communicator()
    for batch in range(BATCHES + 1):
        meet()
        taken = iterate(nccl.ncclAllReduce, comm, ITERATIONS if batch else LEARNT)
        if rank == 0 and batch:
            numbers[nranks + batch - 1] = taken
    meet()
    nccl.ncclCommDestroy(comm)


main()
