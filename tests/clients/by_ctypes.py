"""NCCL by ctypes, as many programs have it."""
import ctypes

import ranks

FLOAT32, SUM = 7, 0


class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_byte * 128)]


nccl = ctypes.CDLL("libnccl.so.2")
stream = ranks.begin()
unique_id, comm = UniqueId(), ctypes.c_void_p()
if ranks.RANK == 0:
    ranks.check(nccl.ncclGetUniqueId(ctypes.byref(unique_id)))
unique_id = UniqueId.from_buffer_copy(ranks.share(bytes(unique_id)))
ranks.check(nccl.ncclCommInitRank(ctypes.byref(comm), ranks.SIZE, unique_id, ranks.RANK))
ranks.loop(
    lambda send, receive: ranks.check(
        nccl.ncclAllReduce(
            ctypes.c_void_p(send.address),
            ctypes.c_void_p(receive.address),
            ctypes.c_size_t(ranks.COUNT),
            FLOAT32,
            SUM,
            comm,
            ctypes.c_void_p(stream),
        )
    ),
    stream,
)
ranks.check(nccl.ncclCommDestroy(comm))
ranks.say("left")
