"""nccl4py. The NCCL that the dynamic linker finds is loaded first, and with its name taken the one in
NVIDIA's wheel is not."""
import ranks

ranks.load("libnccl.so.2")
import nccl.core as nccl  # noqa: E402

stream = ranks.begin()
mine = nccl.get_unique_id()
unique_id = nccl.UniqueId.from_bytes(ranks.share(bytes(mine.as_bytes)))
comm = nccl.Communicator.init(ranks.SIZE, ranks.RANK, unique_id)
ranks.loop(lambda send, receive: comm.allreduce(send, receive, nccl.SUM, stream=stream), stream)
comm.destroy()
ranks.say("left")
