"""docs/examples/by_cupy.py with CuPy's own NCCL, and with arrays and streams of the CUDA that the dynamic linker finds: CuPy
brings a CUDA runtime of its own, which asks for a driver of NVIDIA's."""
import ctypes
import pathlib
import runpy

import numpy
import ranks

# With its name taken, the NCCL in NVIDIA's wheel is not loaded.
ranks.load("libnccl.so.2")
import cupy  # noqa: E402


class Stream:
    def __init__(self, non_blocking):
        assert non_blocking
        self.ptr = ranks.begin()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


class Pointer:
    def __init__(self, ptr):
        self.ptr = ptr


class Array:
    def __init__(self, host):
        address = ctypes.c_void_p()
        self.size, self.bytes, self.dtype = host.size, ctypes.c_size_t(host.nbytes), host.dtype
        ranks.check(ranks.cuda.cudaMalloc(ctypes.byref(address), self.bytes))
        self.data = Pointer(address.value)
        ranks.check(ranks.cuda.cudaMemcpy(address, host.tobytes(), self.bytes, ranks.TO_DEVICE))
        ranks.check(ranks.cuda.cudaDeviceSynchronize())

    def read(self, stream):
        host = ctypes.create_string_buffer(self.bytes.value)
        ranks.check(ranks.cuda.cudaStreamSynchronize(ctypes.c_void_p(stream.ptr)))
        ranks.check(ranks.cuda.cudaMemcpy(host, ctypes.c_void_p(self.data.ptr), self.bytes, ranks.TO_HOST))
        return numpy.frombuffer(host.raw, self.dtype)


class Device:
    def __init__(self, number):
        self.number = number

    def use(self):
        ranks.check(ranks.cuda.cudaSetDevice(self.number))


cupy.cuda.Device, cupy.cuda.Stream = Device, Stream
cupy.asarray, cupy.asnumpy = Array, Array.read
example = pathlib.Path(__file__).resolve().parents[2] / "docs/examples/by_cupy.py"
runpy.run_path(str(example), run_name="__main__")
