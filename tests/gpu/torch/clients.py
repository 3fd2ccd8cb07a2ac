"""Clients that reach NCCL without PyTorch's process group: functions found by ctypes, as vLLM's pynccl does, and CuPy's module.

A loop of sums over all ranks, which differs in length from rank to rank; rank r contributes 2^r in each. What comes out names
the ranks that took part.
"""

import ctypes
import os

import torch
from torch.distributed import TCPStore

import job

FLOAT32, SUM, ELEMENTS = 7, 0, 1024


class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_byte * 128)]


def share(options, rank, make):
    """What rank 0 makes, on all ranks."""
    store = TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), options.world, rank == 0)
    if rank == 0:
        store.set("id", make())
    value = store.get("id")
    store.add("read", 1)
    while rank == 0 and int(store.add("read", 0)) < options.world:
        pass
    return value


class CtypesClient:
    """Declares what it needs of libnccl.so.2 and calls it with addresses of tensors."""

    def __init__(self, options, rank):
        library = ctypes.CDLL("libnccl.so.2")
        pointer, size = ctypes.c_void_p, ctypes.c_size_t
        library.ncclCommInitRank.argtypes = [ctypes.POINTER(pointer), ctypes.c_int, UniqueId, ctypes.c_int]
        library.ncclAllReduce.argtypes = [pointer, pointer, size, ctypes.c_int, ctypes.c_int, pointer, pointer]
        library.ncclCommDestroy.argtypes = [pointer]
        self.library, self.comm = library, pointer()
        identity = UniqueId()

        def make():
            self.check(library.ncclGetUniqueId(ctypes.byref(identity)))
            return bytes(identity)

        identity = UniqueId.from_buffer_copy(share(options, rank, make))
        self.check(library.ncclCommInitRank(ctypes.byref(self.comm), options.world, identity, rank))

    def check(self, result):
        if result != 0:
            raise RuntimeError(f"NCCL error {result}")

    def all_reduce(self, send, receive):
        stream = torch.cuda.current_stream().cuda_stream
        arguments = (send.data_ptr(), receive.data_ptr(), ELEMENTS, FLOAT32, SUM, self.comm, stream)
        self.check(self.library.ncclAllReduce(*arguments))

    def destroy(self):
        self.check(self.library.ncclCommDestroy(self.comm))


class CupyClient:
    def __init__(self, options, rank):
        import cupy
        from cupy.cuda import nccl

        def make():
            return bytes(byte & 0xFF for byte in nccl.get_unique_id())

        identity = share(options, rank, make)
        if int(cupy.__version__.split(".")[0]) < 14:  # a tuple of signed numbers until then
            identity = tuple(byte - 256 if byte > 127 else byte for byte in identity)
        self.comm = nccl.NcclCommunicator(options.world, identity, rank)

    def all_reduce(self, send, receive):
        stream = torch.cuda.current_stream().cuda_stream
        self.comm.allReduce(send.data_ptr(), receive.data_ptr(), ELEMENTS, FLOAT32, SUM, stream)

    def destroy(self):
        self.comm.destroy()


def work(options):
    rank = int(os.environ["RANK"])
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
    client = (CtypesClient if options.client == "ctypes" else CupyClient)(options, rank)
    send = torch.full((ELEMENTS,), float(2**rank), device="cuda")
    receive = torch.zeros_like(send)
    sums = []
    for _ in range(options.lengths[0][rank]):
        client.all_reduce(send, receive)
        torch.cuda.synchronize()
        if not bool((receive == receive[0]).all()):
            raise RuntimeError("the elements of a sum differ")
        sums.append(receive[0].item())
    print(f"RESULT {rank} out of data", flush=True)
    client.destroy()
    job.finish(options, rank, torch.nn.Module(), sums)


def reference(options):
    lengths = options.lengths[0]
    for rank, length in enumerate(lengths):
        sums = [sum(2.0**other for other, most in enumerate(lengths) if i < most) for i in range(length)]
        job.finish(options, rank, torch.nn.Module(), sums)


def main():
    options = job.read_options(__doc__, ("--client", {"choices": ["ctypes", "cupy"], "default": "ctypes"}))
    (reference if options.reference else work)(options)


main()
