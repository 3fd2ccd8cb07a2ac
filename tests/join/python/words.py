"""The module nccl_join with a communicator made by ctypes: two epochs with nothing between them but leave() and enter().

    words.py 3,5,2/4,1,6     iterations of the ranks in each epoch

Prints the sums, and what the module says of the job meanwhile. Without nccl-join in front the words do nothing.
"""
import ctypes
import os
import sys

import nccl_join
import ranks

FLOAT32, SUM = 7, 0


class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_byte * 128)]


def begin(nccl):
    unique_id, comm = UniqueId(), ctypes.c_void_p()
    if ranks.RANK == 0:
        ranks.check(nccl.ncclGetUniqueId(ctypes.byref(unique_id)))
    unique_id = UniqueId.from_buffer_copy(ranks.share(bytes(unique_id)))
    ranks.check(nccl.ncclCommInitRank(ctypes.byref(comm), ranks.SIZE, unique_id, ranks.RANK))
    return comm


def add(nccl, comm, stream, send, receive):
    arguments = [ctypes.c_void_p(send.address), ctypes.c_void_p(receive.address), ctypes.c_size_t(ranks.COUNT)]
    ranks.check(nccl.ncclAllReduce(*arguments, FLOAT32, SUM, comm, ctypes.c_void_p(stream)))
    ranks.check(ranks.cuda.cudaStreamSynchronize(ctypes.c_void_p(stream)))


def main():
    stream = ranks.begin()
    nccl = ctypes.CDLL("libnccl.so.2")
    comm = begin(nccl)
    send, receive = ranks.Array(), ranks.Array()
    for epoch, counts in enumerate(sys.argv[1].split("/")):
        nccl_join.enter(comm.value)
        for i in range(int(counts.split(",")[ranks.RANK])):
            send.write(2.0**ranks.RANK, i + 1.0)
            ranks.check(ranks.cuda.cudaDeviceSynchronize())
            add(nccl, comm, stream, send, receive)
            ranks.say("sum %d %d %g %g" % (epoch, i, *receive.read()))
        nccl_join.leave(comm)
    ranks.say(f"active {nccl_join.is_active()}")
    if nccl_join.is_active():
        jobs = nccl_join.status(os.getpid())
        pids = [rank["pid"] for job in jobs for rank in job["ranks"]]
        ranks.say(f"status {len(pids)} ranks, of which {pids.count(os.getpid())} is this one")
        try:
            nccl_join.leave(0)
        except RuntimeError as error:
            ranks.say(str(error))
        try:
            nccl_join.leave("comm")
        except TypeError as error:
            ranks.say(str(error))
    ranks.check(nccl.ncclCommDestroy(comm))
    ranks.say("left")


main()
