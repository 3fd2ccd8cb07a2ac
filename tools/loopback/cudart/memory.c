/* Runtime API: memory. */
#include <string.h>

#include "tools/loopback/cudart/runtime.h"

/* "If size is 0, cudaMalloc() returns" success and a null pointer in practice; the driver refuses
 * 0. */
static CUresult allocate(void **address, size_t size, CUresult (*act)(CUdeviceptr *, size_t)) {
  CUdeviceptr allocated = 0;
  if (!address)
    return CUDA_ERROR_INVALID_VALUE;
  CUresult result = runtime_enter();
  if (result == CUDA_SUCCESS && size)
    result = act(&allocated, size);
  if (result == CUDA_SUCCESS)
    *address = runtime_address(allocated);
  return result;
}

cudaError_t CUDARTAPI cudaMalloc(void **address, size_t size) {
  return runtime_result(allocate(address, size, cuMemAlloc));
}

cudaError_t CUDARTAPI cudaMallocManaged(void **address, size_t size, unsigned flags) {
  CUdeviceptr allocated = 0;
  CUresult result = address && size ? runtime_enter() : CUDA_ERROR_INVALID_VALUE;
  if (result == CUDA_SUCCESS)
    result = cuMemAllocManaged(&allocated, size, flags);
  if (result == CUDA_SUCCESS)
    *address = runtime_address(allocated);
  return runtime_result(result);
}

cudaError_t CUDARTAPI cudaMallocPitch(void **address, size_t *pitch, size_t width, size_t rows) {
  CUdeviceptr allocated = 0;
  CUresult result = address && pitch ? runtime_enter() : CUDA_ERROR_INVALID_VALUE;
  if (result == CUDA_SUCCESS)
    result = cuMemAllocPitch(&allocated, pitch, width, rows, 4);
  if (result == CUDA_SUCCESS)
    *address = runtime_address(allocated);
  return runtime_result(result);
}

cudaError_t CUDARTAPI cudaFree(void *address) {
  RUNTIME_CALL(cuMemFree((CUdeviceptr)address));
}

cudaError_t CUDARTAPI cudaHostAlloc(void **address, size_t size, unsigned flags) {
  if (address)
    *address = NULL;
  RUNTIME_CALL(size ? cuMemHostAlloc(address, size, flags) : CUDA_SUCCESS);
}

cudaError_t CUDARTAPI cudaMallocHost(void **address, size_t size) {
  return cudaHostAlloc(address, size, cudaHostAllocDefault);
}

cudaError_t CUDARTAPI cudaFreeHost(void *address) {
  RUNTIME_CALL(address ? cuMemFreeHost(address) : CUDA_SUCCESS);
}

cudaError_t CUDARTAPI cudaHostRegister(void *address, size_t size, unsigned flags) {
  RUNTIME_CALL(cuMemHostRegister(address, size, flags));
}

cudaError_t CUDARTAPI cudaHostUnregister(void *address) {
  RUNTIME_CALL(cuMemHostUnregister(address));
}

cudaError_t CUDARTAPI cudaHostGetDevicePointer(void **device, void *host, unsigned flags) {
  CUdeviceptr address = 0;
  CUresult result = device ? runtime_enter() : CUDA_ERROR_INVALID_VALUE;
  if (result == CUDA_SUCCESS)
    result = cuMemHostGetDevicePointer(&address, host, flags);
  if (result == CUDA_SUCCESS)
    *device = runtime_address(address);
  return runtime_result(result);
}

cudaError_t CUDARTAPI cudaHostGetFlags(unsigned *flags, void *host) {
  RUNTIME_CALL(cuMemHostGetFlags(flags, host));
}

cudaError_t CUDARTAPI cudaMemGetInfo(size_t *left, size_t *total) {
  RUNTIME_CALL(cuMemGetInfo(left, total));
}

cudaError_t CUDARTAPI cudaPointerGetAttributes(struct cudaPointerAttributes *attributes,
                                               const void *address) {
  unsigned type = 0, managed = 0;
  int device = 0;
  CUdeviceptr on_device = 0;
  void *on_host = NULL;
  CUpointer_attribute asked[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                 CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                                 CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
                                 CU_POINTER_ATTRIBUTE_HOST_POINTER};
  void *values[] = {&type, &managed, &device, &on_device, &on_host};
  CUresult result = attributes ? runtime_enter() : CUDA_ERROR_INVALID_VALUE;
  if (result == CUDA_SUCCESS)
    result =
        cuPointerGetAttributes(sizeof asked / sizeof *asked, asked, values, (CUdeviceptr)address);
  if (result != CUDA_SUCCESS)
    return runtime_result(result);
  memset(attributes, 0, sizeof *attributes);
  attributes->device = device;
  attributes->devicePointer = runtime_address(on_device);
  attributes->hostPointer = on_host;
  if (!type) {
    attributes->type = cudaMemoryTypeUnregistered;
    attributes->hostPointer = (void *)address;
  } else if (managed) {
    attributes->type = cudaMemoryTypeManaged;
  } else {
    attributes->type = type == CU_MEMORYTYPE_DEVICE ? cudaMemoryTypeDevice : cudaMemoryTypeHost;
  }
  return cudaSuccess;
}
