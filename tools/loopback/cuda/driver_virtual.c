/* Driver API: virtual memory management. */
#include "tools/loopback/cuda/driver.h"

#include <stdint.h>
#include <string.h>

#include "tools/loopback/cuda/memory.h"
#include "tools/loopback/cuda/virtual.h"

CUresult CUDAAPI cuMemGetAllocationGranularity(size_t *granularity,
                                               const CUmemAllocationProp *properties,
                                               CUmemAllocationGranularity_flags which) {
  DRIVER_TRY(process_check());
  if (!granularity || !properties || which > CU_MEM_ALLOC_GRANULARITY_RECOMMENDED)
    return CUDA_ERROR_INVALID_VALUE;
  *granularity = VIRTUAL_GRANULARITY;
  return CUDA_SUCCESS;
}

/* A wanted address is a hint only: cuMemAddressReserve. */
CUresult CUDAAPI cuMemAddressReserve(CUdeviceptr *address, size_t size, size_t alignment,
                                     CUdeviceptr wanted, unsigned long long flags) {
  (void)wanted;
  DRIVER_TRY(process_check());
  if (!address || flags)
    return CUDA_ERROR_INVALID_VALUE;
  return virtual_reserve(size, alignment, address);
}

CUresult CUDAAPI cuMemAddressFree(CUdeviceptr address, size_t size) {
  DRIVER_TRY(process_check());
  return virtual_unreserve(address, size);
}

CUresult CUDAAPI cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size,
                             const CUmemAllocationProp *properties, unsigned long long flags) {
  DRIVER_TRY(process_check());
  if (!handle || !properties || flags || properties->type != CU_MEM_ALLOCATION_TYPE_PINNED)
    return CUDA_ERROR_INVALID_VALUE;
  unsigned types = properties->requestedHandleTypes;
  if (properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
    return process_unsupported("cuMemCreate of memory that is not a device's");
  if (types & ~(unsigned)CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
    return process_unsupported("cuMemCreate with handles other than file descriptors");
  struct device *device = device_get(properties->location.id);
  return device ? virtual_create(device, size, types != 0, handle) : CUDA_ERROR_INVALID_DEVICE;
}

CUresult CUDAAPI cuMemRelease(CUmemGenericAllocationHandle handle) {
  DRIVER_TRY(process_check());
  return virtual_release(handle);
}

CUresult CUDAAPI cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *address) {
  DRIVER_TRY(process_check());
  return handle ? virtual_retain(address, handle) : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *properties,
                                                        CUmemGenericAllocationHandle handle) {
  struct device *device;
  bool exportable;
  DRIVER_TRY(process_check());
  if (!properties)
    return CUDA_ERROR_INVALID_VALUE;
  DRIVER_TRY(virtual_look(handle, &device, &exportable));
  memset(properties, 0, sizeof *properties);
  properties->type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties->requestedHandleTypes =
      exportable ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR : CU_MEM_HANDLE_TYPE_NONE;
  properties->location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties->location.id = device->ordinal;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemMap(CUdeviceptr address, size_t size, size_t offset,
                          CUmemGenericAllocationHandle handle, unsigned long long flags) {
  DRIVER_TRY(process_check());
  return flags ? CUDA_ERROR_INVALID_VALUE : virtual_map(address, size, offset, handle);
}

CUresult CUDAAPI cuMemUnmap(CUdeviceptr address, size_t size) {
  DRIVER_TRY(process_check());
  return virtual_unmap(address, size);
}

/* Access is one for all devices here: the loopback cannot tell which device a worker's access is
 * for. */
CUresult CUDAAPI cuMemSetAccess(CUdeviceptr address, size_t size, const CUmemAccessDesc *access,
                                size_t count) {
  DRIVER_TRY(process_check());
  bool readable = false, writable = false;
  if (!access || !count)
    return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < count; i++) {
    if (access[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE)
      return process_unsupported("cuMemSetAccess for what is not a device");
    if (!device_get(access[i].location.id))
      return CUDA_ERROR_INVALID_DEVICE;
    readable |= (access[i].flags & CU_MEM_ACCESS_FLAGS_PROT_READ) != 0;
    writable |= access[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  }
  return virtual_set_access(address, size, readable, writable);
}

CUresult CUDAAPI cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location,
                                CUdeviceptr address) {
  struct memory memory;
  DRIVER_TRY(process_check());
  if (!flags || !location || !memory_find(driver_address(address), &memory) ||
      memory.kind != MEMORY_VIRTUAL)
    return CUDA_ERROR_INVALID_VALUE;
  *flags = memory.writable   ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
           : memory.readable ? CU_MEM_ACCESS_FLAGS_PROT_READ
                             : CU_MEM_ACCESS_FLAGS_PROT_NONE;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemExportToShareableHandle(void *shareable, CUmemGenericAllocationHandle handle,
                                              CUmemAllocationHandleType type,
                                              unsigned long long flags) {
  DRIVER_TRY(process_check());
  if (!shareable || flags || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
    return CUDA_ERROR_INVALID_VALUE;
  return virtual_export(handle, shareable);
}

/* The device is unknown to a file descriptor; the importing context's stands in for it. */
CUresult CUDAAPI cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle,
                                                void *shareable, CUmemAllocationHandleType type) {
  CUcontext context;
  DRIVER_TRY(driver_enter(&context));
  if (!handle || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
    return CUDA_ERROR_INVALID_VALUE;
  return virtual_import(context->device, (int)(intptr_t)shareable, handle);
}
