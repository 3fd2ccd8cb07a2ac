/* Driver API: allocation and registration of memory. */
#include "tools/loopback/cuda/driver.h"

#include "tools/loopback/cuda/capture.h"
#include "tools/loopback/cuda/memory.h"
#include "tools/loopback/cuda/stream.h"

/* Rows of cuMemAllocPitch begin at multiples of this: CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT. */
#define PITCH 512

static CUresult allocate(enum memory_kind kind, size_t size, unsigned flags, void **address) {
  CUcontext context;
  DRIVER_TRY(driver_enter(&context));
  if (!address || !size)
    return CUDA_ERROR_INVALID_VALUE;
  DRIVER_TRY(capture_forbids_unsafe());
  return memory_allocate(context, kind, size, flags, address);
}

/* Freeing waits for the work of the context that the memory belongs to, as the real driver does:
 * work that is still queued would otherwise touch what is gone. */
static CUresult release(void *address, unsigned kinds) {
  struct memory memory;
  DRIVER_TRY(process_check());
  DRIVER_TRY(capture_forbids_unsafe());
  if (!memory_find(address, &memory))
    return CUDA_ERROR_INVALID_VALUE;
  DRIVER_TRY(memory_leave(address, kinds));
  stream_drain_context(memory.context);
  return memory_free(address, kinds);
}

static CUresult allocate_device(enum memory_kind kind, size_t size, unsigned flags,
                                CUdeviceptr *address) {
  void *allocated;
  if (!address)
    return CUDA_ERROR_INVALID_VALUE;
  DRIVER_TRY(allocate(kind, size, flags, &allocated));
  *address = (CUdeviceptr)allocated;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemAlloc(CUdeviceptr *address, size_t size) {
  return allocate_device(MEMORY_DEVICE, size, 0, address);
}

CUresult CUDAAPI cuMemAllocPitch(CUdeviceptr *address, size_t *pitch, size_t width, size_t rows,
                                 unsigned element) {
  if (!pitch || !width || !rows || (element != 4 && element != 8 && element != 16))
    return CUDA_ERROR_INVALID_VALUE;
  *pitch = (width + PITCH - 1) / PITCH * PITCH;
  return cuMemAlloc(address, *pitch * rows);
}

CUresult CUDAAPI cuMemAllocManaged(CUdeviceptr *address, size_t size, unsigned flags) {
  if (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST)
    return CUDA_ERROR_INVALID_VALUE;
  return allocate_device(MEMORY_MANAGED, size, flags, address);
}

CUresult CUDAAPI cuMemFree(CUdeviceptr address) {
  if (!address)
    return process_check();
  return release(driver_address(address), 1u << MEMORY_DEVICE | 1u << MEMORY_MANAGED);
}

CUresult CUDAAPI cuMemHostAlloc(void **address, size_t size, unsigned flags) {
  unsigned known =
      CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED;
  if (flags & ~known)
    return CUDA_ERROR_INVALID_VALUE;
  return allocate(MEMORY_HOST, size, flags, address);
}

CUresult CUDAAPI cuMemAllocHost(void **address, size_t size) {
  return allocate(MEMORY_HOST, size, 0, address);
}

CUresult CUDAAPI cuMemFreeHost(void *address) {
  return release(address, 1u << MEMORY_HOST);
}

CUresult CUDAAPI cuMemHostRegister(void *address, size_t size, unsigned flags) {
  CUcontext context;
  unsigned known =
      CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP | CU_MEMHOSTREGISTER_READ_ONLY;
  DRIVER_TRY(driver_enter(&context));
  if (!address || !size || flags & ~known)
    return CUDA_ERROR_INVALID_VALUE;
  DRIVER_TRY(capture_forbids_unsafe());
  return memory_register(context, address, size, flags);
}

CUresult CUDAAPI cuMemHostUnregister(void *address) {
  struct memory memory;
  DRIVER_TRY(process_check());
  DRIVER_TRY(capture_forbids_unsafe());
  if (!memory_find(address, &memory) || memory.kind != MEMORY_REGISTERED)
    return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
  stream_drain_context(memory.context);
  return memory_unregister(address);
}

CUresult CUDAAPI cuMemHostGetDevicePointer(CUdeviceptr *device, void *address, unsigned flags) {
  struct memory memory;
  DRIVER_TRY(process_check());
  if (!device || flags || !memory_find(address, &memory) ||
      (memory.kind != MEMORY_HOST && memory.kind != MEMORY_REGISTERED))
    return CUDA_ERROR_INVALID_VALUE;
  *device = (CUdeviceptr)address;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemHostGetFlags(unsigned *flags, void *address) {
  struct memory memory;
  DRIVER_TRY(process_check());
  if (!flags || !memory_find(address, &memory) || memory.kind != MEMORY_HOST)
    return CUDA_ERROR_INVALID_VALUE;
  /* With unified addressing all pinned memory is mapped and portable. */
  *flags = memory.flags | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_PORTABLE;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemGetInfo(size_t *left, size_t *total) {
  CUcontext context;
  DRIVER_TRY(driver_enter(&context));
  if (left)
    *left = memory_left(context->device);
  if (total)
    *total = context->device->total;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemGetAddressRange(CUdeviceptr *base, size_t *size, CUdeviceptr address) {
  struct memory memory;
  DRIVER_TRY(process_check());
  if (!memory_find(driver_address(address), &memory))
    return CUDA_ERROR_NOT_FOUND;
  if (base)
    *base = memory.address;
  if (size)
    *size = memory.size;
  return CUDA_SUCCESS;
}
