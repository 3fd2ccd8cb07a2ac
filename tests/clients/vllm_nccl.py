"""vLLM's module for NCCL, up to a communicator, which without a GPU is not made."""
import vllm
from vllm.distributed.device_communicators.pynccl_wrapper import NCCLLibrary

nccl = NCCLLibrary()
print("vLLM", vllm.__version__, "NCCL", nccl.ncclGetVersion())
unique_id = nccl.ncclGetUniqueId()
print("unique id", len(bytes(unique_id.internal)))
try:
    nccl.ncclCommInitRank(1, unique_id, 0)
except RuntimeError as error:
    print("communicator", error)
