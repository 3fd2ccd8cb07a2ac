/* Runtime API: copies between devices. */
#include "tools/loopback/cudart/runtime.h"

static CUresult contexts(int to, int from, CUcontext *to_context, CUcontext *from_context) {
  CUresult result = runtime_enter();
  if (result == CUDA_SUCCESS)
    result = runtime_primary(to, to_context);
  return result == CUDA_SUCCESS ? runtime_primary(from, from_context) : result;
}

cudaError_t CUDARTAPI cudaMemcpyPeer(void *to, int to_device, const void *from, int from_device,
                                     size_t size) {
  CUcontext target, source;
  CUresult result = contexts(to_device, from_device, &target, &source);
  if (result == CUDA_SUCCESS)
    result = cuMemcpyPeer((CUdeviceptr)to, target, (CUdeviceptr)from, source, size);
  return runtime_result(result);
}

cudaError_t CUDARTAPI cudaMemcpyPeerAsync(void *to, int to_device, const void *from,
                                          int from_device, size_t size, cudaStream_t stream) {
  CUcontext target, source;
  CUresult result = contexts(to_device, from_device, &target, &source);
  if (result == CUDA_SUCCESS)
    result = cuMemcpyPeerAsync((CUdeviceptr)to, target, (CUdeviceptr)from, source, size, stream);
  return runtime_result(result);
}
