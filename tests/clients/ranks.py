"""What the programs by_*.py share: who am I, device memory and a stream, rank 0's bytes for all.

Ordinary programs for GPUs, whose CUDA and NCCL are those that the dynamic linker finds. Each is one
rank, started by whatever sets torchrun's variables, and all do the same with another client of NCCL:

    by_*.py 3,8,5    rank 0 sums three times, rank 1 eight times, rank 2 and all after it five times

They print what tests/programs/sum prints.
"""
import ctypes
import os
import socket
import struct
import sys
import time

RANK, SIZE = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
COUNT = 1024
PAIR = 8  # bytes of two elements
TO_DEVICE, TO_HOST = 1, 2


def load(*names):
    for name in names:
        try:
            return ctypes.CDLL(name, mode=ctypes.RTLD_GLOBAL)
        except OSError:
            pass
    raise SystemExit(f"none of {', '.join(names)} can be loaded")


# 12 first: in a process with PyTorch the name of 13 is taken by what its wheel brings.
cuda = load("libcudart.so.12", "libcudart.so.13")


def check(result):
    if result != 0:
        raise SystemExit(f"rank {RANK}: a call of CUDA or NCCL returned {result}")


def begin():
    """Selects the device; returns a stream of its own."""
    check(cuda.cudaSetDevice(int(os.environ["LOCAL_RANK"])))
    stream = ctypes.c_void_p()
    check(cuda.cudaStreamCreateWithFlags(ctypes.byref(stream), 1))
    return stream.value


def share(payload):
    """Rank 0's bytes for everybody."""
    address = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
    if RANK == 0:
        with socket.create_server(address) as server:
            for _ in range(1, SIZE):
                with server.accept()[0] as peer:
                    peer.sendall(payload)
        return payload
    for _ in range(1500):
        try:
            with socket.create_connection(address) as peer:
                return peer.recv(len(payload), socket.MSG_WAITALL)
        except ConnectionRefusedError:
            time.sleep(0.02)
    raise SystemExit(f"rank {RANK}: rank 0 cannot be reached")


class Array:
    """COUNT floats on the device, of which even and odd ones are alike."""

    def __init__(self):
        address = ctypes.c_void_p()
        check(cuda.cudaMalloc(ctypes.byref(address), ctypes.c_size_t(4 * COUNT)))
        self.address = address.value
        self.__cuda_array_interface__ = {
            "shape": (COUNT,),
            "typestr": "<f4",
            "data": (self.address, False),
            "version": 3,
        }

    def _copy(self, to, source, direction):
        check(cuda.cudaMemcpy(to, source, ctypes.c_size_t(4 * COUNT), direction))

    def write(self, even, odd):
        self._copy(ctypes.c_void_p(self.address), struct.pack("2f", even, odd) * (COUNT // 2), TO_DEVICE)

    def read(self):
        host = ctypes.create_string_buffer(4 * COUNT)
        self._copy(host, ctypes.c_void_p(self.address), TO_HOST)
        assert host.raw == host.raw[:PAIR] * (COUNT // 2), "the elements differ"
        return struct.unpack("2f", host.raw[:PAIR])


def say(text):
    """One write: lines of several ranks do not mix."""
    sys.stdout.write(f"RESULT {RANK} {text}\n")
    sys.stdout.flush()


def loop(all_reduce, stream):
    """As many iterations as this rank has."""
    counts = [int(count) for count in sys.argv[1].split(",")]
    send, receive, total = Array(), Array(), 0
    for i in range(counts[min(RANK, len(counts) - 1)]):
        send.write(2.0**RANK, i + 1.0)
        check(cuda.cudaDeviceSynchronize())
        all_reduce(send, receive)
        check(cuda.cudaStreamSynchronize(ctypes.c_void_p(stream)))
        even, odd = receive.read()
        say(f"sum 0 {i} 0 {even:g} {odd:g}")
        total += even
    say(f"total {total:g}")
