"""nccl4py, up to a communicator, which without a GPU is not made."""
import nccl.core as nccl

version = nccl.get_version()
print("nccl4py", version.nccl4py, "NCCL", version.libnccl.version)
unique_id = nccl.get_unique_id()
print("unique id", len(unique_id.as_bytes))
try:
    nccl.Communicator.init(1, 0, unique_id)
except Exception as error:
    print("communicator", type(error).__name__, error)
