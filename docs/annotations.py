#!/usr/bin/env python3
"""What hooks/include/nccl_join.h is for C, in Python, by ctypes; and a program that uses it.

Copy the class. It finds the preloaded libnccl-join.so in the process and does nothing where there
is none. A communicator is a number, its ncclComm_t: in PyTorch (2.6 and later) that of a process group is

    group._get_backend(torch.device("cuda"))._comm_ptr()

and a tensor is registered by its data_ptr(), element count and ncclDataType_t. PyTorch's allocator
keeps memory that tensors give back: register tensors that live as long as the model.

The program below is one rank, to be started as  nccl-join run -n 2 -- python3 annotations.py 3,5
"""
import ctypes
import os
import socket
import struct
import sys
import time


class NcclJoin:
    """The functions of nccl_join.h. Those that ask return `otherwise` without nccl-join."""

    def __init__(self):
        self.library = ctypes.CDLL(None)  # all that is loaded

    def _call(self, name, *arguments):
        function = getattr(self.library, name, None)  # one dlsym; ctypes keeps it
        result = function(*arguments) if function is not None else 0
        if result != 0:
            raise RuntimeError(f"{name} returned {result}; nccl-join's log says why")

    def leave(self, comm):
        """No more data in this loop: answers the others until all have said so."""
        self._call("ncclJoinLeave", ctypes.c_void_p(comm))

    def enter(self, comm):
        """A loop begins."""
        self._call("ncclJoinEnter", ctypes.c_void_p(comm))

    def last_joiner(self, comm, otherwise=0):
        """The rank whose data lasted longest."""
        rank = ctypes.c_int(otherwise)
        self._call("ncclJoinLastJoiner", ctypes.c_void_p(comm), ctypes.byref(rank))
        return rank.value

    def active_ranks(self, comm, nranks, otherwise=None):
        """The ranks that took part with data in this rank's last collective."""
        count, ranks = ctypes.c_int(-1), (ctypes.c_int * nranks)()
        self._call("ncclJoinActiveRanks", ctypes.c_void_p(comm), ctypes.byref(count), ranks)
        return otherwise if count.value < 0 else list(ranks[: count.value])

    def register_state(self, comm, address, count, datatype):
        """A buffer that becomes the last joiner's when all are together again."""
        self._call(
            "ncclJoinRegisterState",
            ctypes.c_void_p(comm),
            ctypes.c_void_p(address),
            ctypes.c_size_t(count),
            ctypes.c_int(datatype),
        )

    def deregister_state(self, comm, address):
        """Before the buffer is freed."""
        self._call("ncclJoinDeregisterState", ctypes.c_void_p(comm), ctypes.c_void_p(address))


# ---- a program: what follows is not needed with a framework ----

COUNT, FLOAT32, SUM = 4, 7, 0


class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_char * 128)]


def check(result):
    if result != 0:
        raise RuntimeError(f"a call of CUDA or NCCL returned {result}")


def share(rank, nranks, payload):
    """Rank 0's bytes for everybody."""
    address = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
    if rank == 0:
        with socket.create_server(address) as server:
            for _ in range(1, nranks):
                with server.accept()[0] as peer:
                    peer.sendall(payload)
        return payload
    for _ in range(1500):
        try:
            with socket.create_connection(address) as peer:
                return peer.recv(len(payload), socket.MSG_WAITALL)
        except ConnectionRefusedError:
            time.sleep(0.02)
    raise RuntimeError("rank 0 cannot be reached")


def load(*names):
    for name in names:
        try:
            return ctypes.CDLL(name, mode=ctypes.RTLD_GLOBAL)
        except OSError:
            pass
    raise RuntimeError(f"none of {', '.join(names)} can be loaded")


class Buffer:
    """Floats on the device."""

    def __init__(self, cuda, values):
        self.cuda, self.address = cuda, ctypes.c_void_p()
        check(cuda.cudaMalloc(ctypes.byref(self.address), ctypes.c_size_t(4 * COUNT)))
        self.write(values)

    def write(self, values):
        data = struct.pack(f"{COUNT}f", *values)
        check(self.cuda.cudaMemcpy(self.address, data, ctypes.c_size_t(4 * COUNT), 1))
        check(self.cuda.cudaDeviceSynchronize())

    def read(self):
        data = ctypes.create_string_buffer(4 * COUNT)
        check(self.cuda.cudaMemcpy(data, self.address, ctypes.c_size_t(4 * COUNT), 2))
        return struct.unpack(f"{COUNT}f", data.raw)


def main():
    if len(sys.argv) != 2 or "WORLD_SIZE" not in os.environ:
        sys.exit("start it with  nccl-join run -n 2 -- python3 annotations.py 3,5  (so many iterations of each rank)")
    rank, nranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    schedule = [int(n) for n in sys.argv[1].split(",")]
    cuda = load("libcudart.so.13", "libcudart.so.12")
    nccl = load("libnccl.so.2")
    join = NcclJoin()
    check(cuda.cudaSetDevice(int(os.environ["LOCAL_RANK"])))
    unique_id, comm = UniqueId(), ctypes.c_void_p()
    if rank == 0:
        check(nccl.ncclGetUniqueId(ctypes.byref(unique_id)))
    unique_id = UniqueId.from_buffer_copy(share(rank, nranks, bytes(unique_id)))
    check(nccl.ncclCommInitRank(ctypes.byref(comm), nranks, unique_id, rank))

    weights, gradient = Buffer(cuda, [float(rank)] * COUNT), Buffer(cuda, [0.0] * COUNT)
    join.register_state(comm.value, weights.address.value, COUNT, FLOAT32)
    active = None
    for i in range(schedule[min(rank, len(schedule) - 1)]):
        gradient.write([float(rank + 1)] * COUNT)
        check(
            nccl.ncclAllReduce(
                gradient.address, gradient.address, ctypes.c_size_t(COUNT), FLOAT32, SUM, comm, None
            )
        )
        active = join.active_ranks(comm.value, nranks)
        check(cuda.cudaDeviceSynchronize())
        weights.write([w + g for w, g in zip(weights.read(), gradient.read())])
    join.leave(comm.value)
    last = join.last_joiner(comm.value, otherwise=-1)
    # One write: lines of several ranks do not mix.
    sys.stdout.write(f"RESULT {rank} weights {weights.read()[0]:g} last {last} active {active}\n")
    sys.stdout.flush()
    join.deregister_state(comm.value, weights.address.value)
    check(nccl.ncclCommDestroy(comm))


if __name__ == "__main__":
    main()
