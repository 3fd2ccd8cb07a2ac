"""CuPy's NCCL communicator, with as many iterations as a rank has data.

    nccl-join run -n 8 python by_cupy.py

A rank that has no more data comes to nccl.destroy, and answers the sums of the others with zeros until they come there, too.
"""
import os
import socket
import time

import cupy
import numpy
from cupy.cuda import nccl

RANK, SIZE = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


def share(payload):
    """Rank 0's bytes for all, over the port that torchrun and nccl-join run have chosen."""
    address = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
    if RANK == 0:
        with socket.create_server(address) as server:
            for _ in range(1, SIZE):
                server.accept()[0].sendall(payload)
        return payload
    while True:
        try:
            with socket.create_connection(address) as peer:
                return peer.recv(len(payload), socket.MSG_WAITALL)
        except ConnectionRefusedError:
            time.sleep(0.05)


def main():
    cupy.cuda.Device(int(os.environ["LOCAL_RANK"])).use()
    unique_id = share(bytes(nccl.get_unique_id()))
    communicator = nccl.NcclCommunicator(SIZE, unique_id, RANK)
    stream = cupy.cuda.Stream(non_blocking=True)
    total = numpy.zeros(4, numpy.float32)
    for i in range(10 + 5 * RANK):
        with stream:
            gradient = cupy.asarray(numpy.full(4, i + 1, numpy.float32))
            communicator.allReduce(
                gradient.data.ptr, gradient.data.ptr, gradient.size, nccl.NCCL_FLOAT32, nccl.NCCL_SUM, stream.ptr
            )
        total += cupy.asnumpy(gradient, stream)
    print(f"rank {RANK} total {total.tolist()}", flush=True)
    communicator.destroy()


main()
