"""CuPy's module for NCCL, up to a communicator, which without a GPU is not made."""
import cupy
from cupy.cuda import nccl

version = nccl.get_version()
print("CuPy", cupy.__version__, "NCCL", f"{version // 10000}.{version // 100 % 100}.{version % 100}")
unique_id = nccl.get_unique_id()
print("unique id", len(unique_id))
try:
    nccl.NcclCommunicator(1, unique_id, 0)
except nccl.NcclError as error:
    print("communicator", error)
