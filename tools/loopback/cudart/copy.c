/* Runtime API: copies and fills. Compiled twice, see runtime.h. */
#include "tools/loopback/cudart/runtime.h"

#include <stdbool.h>

static bool is_on_host(const void *address) {
  unsigned type, managed;
  if (cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)address) !=
      CUDA_SUCCESS)
    return true;
  cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, (CUdeviceptr)address);
  return type == CU_MEMORYTYPE_HOST || managed;
}

/* How cuMemcpy2D is told which side a pointer is on. */
static bool types(enum cudaMemcpyKind kind, CUmemorytype *to, CUmemorytype *from) {
  static const CUmemorytype table[][2] = {
      [cudaMemcpyHostToHost] = {CU_MEMORYTYPE_HOST, CU_MEMORYTYPE_HOST},
      [cudaMemcpyHostToDevice] = {CU_MEMORYTYPE_DEVICE, CU_MEMORYTYPE_HOST},
      [cudaMemcpyDeviceToHost] = {CU_MEMORYTYPE_HOST, CU_MEMORYTYPE_DEVICE},
      [cudaMemcpyDeviceToDevice] = {CU_MEMORYTYPE_DEVICE, CU_MEMORYTYPE_DEVICE},
      [cudaMemcpyDefault] = {CU_MEMORYTYPE_UNIFIED, CU_MEMORYTYPE_UNIFIED},
  };
  if ((unsigned)kind >= sizeof table / sizeof *table)
    return false;
  *to = table[kind][0];
  *from = table[kind][1];
  return true;
}

static CUresult describe(CUDA_MEMCPY2D *copy, void *to, size_t to_pitch, const void *from,
                         size_t from_pitch, size_t width, size_t rows, enum cudaMemcpyKind kind) {
  *copy = (CUDA_MEMCPY2D){.srcHost = from,
                          .srcDevice = (CUdeviceptr)from,
                          .srcPitch = from_pitch,
                          .dstHost = to,
                          .dstDevice = (CUdeviceptr)to,
                          .dstPitch = to_pitch,
                          .WidthInBytes = width,
                          .Height = rows};
  if (!types(kind, &copy->dstMemoryType, &copy->srcMemoryType))
    return (CUresult)cudaErrorInvalidMemcpyDirection;
  if (to_pitch < width || from_pitch < width)
    return (CUresult)cudaErrorInvalidPitchValue;
  return runtime_enter();
}

static CUresult copy(void *to, const void *from, size_t size, enum cudaMemcpyKind kind) {
  CUdeviceptr target = (CUdeviceptr)to, source = (CUdeviceptr)from;
  CUresult result = runtime_enter();
  if (result != CUDA_SUCCESS)
    return result;
  switch ((int)kind) {
  case cudaMemcpyHostToHost:
    if (!is_on_host(to) || !is_on_host(from))
      return CUDA_ERROR_INVALID_VALUE;
    return cuMemcpy(target, source, size);
  case cudaMemcpyHostToDevice:
    return cuMemcpyHtoD(target, from, size);
  case cudaMemcpyDeviceToHost:
    return cuMemcpyDtoH(to, source, size);
  case cudaMemcpyDeviceToDevice:
    return cuMemcpyDtoD(target, source, size);
  case cudaMemcpyDefault:
    return cuMemcpy(target, source, size);
  default:
    return (CUresult)cudaErrorInvalidMemcpyDirection;
  }
}

static CUresult copy_async(void *to, const void *from, size_t size, enum cudaMemcpyKind kind,
                           CUstream stream) {
  CUdeviceptr target = (CUdeviceptr)to, source = (CUdeviceptr)from;
  CUresult result = runtime_enter();
  if (result != CUDA_SUCCESS)
    return result;
  switch ((int)kind) {
  case cudaMemcpyHostToHost:
    if (!is_on_host(to) || !is_on_host(from))
      return CUDA_ERROR_INVALID_VALUE;
    return cuMemcpyAsync(target, source, size, stream);
  case cudaMemcpyHostToDevice:
    return cuMemcpyHtoDAsync(target, from, size, stream);
  case cudaMemcpyDeviceToHost:
    return cuMemcpyDtoHAsync(to, source, size, stream);
  case cudaMemcpyDeviceToDevice:
    return cuMemcpyDtoDAsync(target, source, size, stream);
  case cudaMemcpyDefault:
    return cuMemcpyAsync(target, source, size, stream);
  default:
    return (CUresult)cudaErrorInvalidMemcpyDirection;
  }
}

cudaError_t CUDARTAPI cudaMemcpy(void *to, const void *from, size_t size,
                                 enum cudaMemcpyKind kind) {
  return runtime_result(copy(to, from, size, kind));
}

cudaError_t CUDARTAPI cudaMemcpyAsync(void *to, const void *from, size_t size,
                                      enum cudaMemcpyKind kind, cudaStream_t stream) {
  return runtime_result(copy_async(to, from, size, kind, stream));
}

cudaError_t CUDARTAPI cudaMemcpy2D(void *to, size_t to_pitch, const void *from, size_t from_pitch,
                                   size_t width, size_t rows, enum cudaMemcpyKind kind) {
  CUDA_MEMCPY2D described;
  CUresult result = describe(&described, to, to_pitch, from, from_pitch, width, rows, kind);
  return runtime_result(result == CUDA_SUCCESS ? cuMemcpy2DUnaligned(&described) : result);
}

cudaError_t CUDARTAPI cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from,
                                        size_t from_pitch, size_t width, size_t rows,
                                        enum cudaMemcpyKind kind, cudaStream_t stream) {
  CUDA_MEMCPY2D described;
  CUresult result = describe(&described, to, to_pitch, from, from_pitch, width, rows, kind);
  return runtime_result(result == CUDA_SUCCESS ? cuMemcpy2DAsync(&described, stream) : result);
}

cudaError_t CUDARTAPI cudaMemset(void *to, int value, size_t size) {
  RUNTIME_CALL(cuMemsetD8((CUdeviceptr)to, (unsigned char)value, size));
}

cudaError_t CUDARTAPI cudaMemsetAsync(void *to, int value, size_t size, cudaStream_t stream) {
  RUNTIME_CALL(cuMemsetD8Async((CUdeviceptr)to, (unsigned char)value, size, stream));
}

cudaError_t CUDARTAPI cudaMemset2D(void *to, size_t pitch, int value, size_t width, size_t rows) {
  RUNTIME_CALL(cuMemsetD2D8((CUdeviceptr)to, pitch, (unsigned char)value, width, rows));
}

cudaError_t CUDARTAPI cudaMemset2DAsync(void *to, size_t pitch, int value, size_t width,
                                        size_t rows, cudaStream_t stream) {
  RUNTIME_CALL(
      cuMemsetD2D8Async((CUdeviceptr)to, pitch, (unsigned char)value, width, rows, stream));
}
