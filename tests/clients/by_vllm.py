"""vLLM's module for NCCL, pynccl_wrapper, which opens what VLLM_NCCL_SO_PATH names."""
from vllm.distributed.device_communicators import pynccl_wrapper as pynccl

import ranks  # later: the PyTorch that vLLM imports has a CUDA runtime of its own

nccl = pynccl.NCCLLibrary()
stream = ranks.begin()
unique_id = nccl.ncclGetUniqueId() if ranks.RANK == 0 else pynccl.ncclUniqueId()
unique_id = nccl.unique_id_from_bytes(ranks.share(bytes(unique_id.internal)))
comm = nccl.ncclCommInitRank(ranks.SIZE, unique_id, ranks.RANK)
ranks.loop(
    lambda send, receive: nccl.ncclAllReduce(
        send.address,
        receive.address,
        ranks.COUNT,
        pynccl.ncclDataTypeEnum.ncclFloat32,
        pynccl.ncclRedOpTypeEnum.ncclSum,
        comm,
        stream,
    ),
    stream,
)
nccl.ncclCommDestroy(comm)
ranks.say("left")
