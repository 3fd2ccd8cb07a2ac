"""CuPy's module for NCCL. The NCCL that the dynamic linker finds is loaded first, and with its name
taken the one in NVIDIA's wheel is not."""
import ranks

ranks.load("libnccl.so.2")
from cupy.cuda import nccl  # noqa: E402

stream = ranks.begin()
unique_id = ranks.share(bytes(nccl.get_unique_id()))
comm = nccl.NcclCommunicator(ranks.SIZE, unique_id, ranks.RANK)
ranks.loop(
    lambda send, receive: comm.allReduce(
        send.address, receive.address, ranks.COUNT, nccl.NCCL_FLOAT32, nccl.NCCL_SUM, stream
    ),
    stream,
)
comm.destroy()
ranks.say("left")
