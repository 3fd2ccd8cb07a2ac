/* Driver API: what is known about a pointer. */
#include "tools/loopback/cuda/driver.h"

#include "tools/loopback/cuda/memory.h"

static bool is_device(const struct memory *memory) {
  return memory->kind == MEMORY_DEVICE || memory->kind == MEMORY_VIRTUAL ||
         memory->kind == MEMORY_MANAGED;
}

static bool is_on_host(const struct memory *memory) {
  return memory->kind != MEMORY_DEVICE && memory->kind != MEMORY_VIRTUAL;
}

/* known is NULL for pageable memory: then all attributes have the value that means so. */
static CUresult get(const struct memory *known, CUpointer_attribute attribute, CUdeviceptr address,
                    void *value) {
  switch ((unsigned)attribute) {
  case CU_POINTER_ATTRIBUTE_CONTEXT:
    *(CUcontext *)value = known ? known->context : NULL;
    return CUDA_SUCCESS;
  case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
    *(unsigned *)value = !known ? 0 : is_device(known) ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
    return CUDA_SUCCESS;
  case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
    *(CUdeviceptr *)value = known ? address : 0;
    return CUDA_SUCCESS;
  case CU_POINTER_ATTRIBUTE_HOST_POINTER:
    *(void **)value = known && is_on_host(known) ? driver_address(address) : NULL;
    return CUDA_SUCCESS;
  case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    *(unsigned long long *)value = known ? known->id : 0;
    return CUDA_SUCCESS;
  case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    *(unsigned *)value = 0;
    return CUDA_SUCCESS;
  case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    *(unsigned *)value = known && known->kind == MEMORY_MANAGED;
    return CUDA_SUCCESS;
  case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
    *(int *)value = known ? known->device : CU_DEVICE_INVALID;
    return CUDA_SUCCESS;
  case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    *(unsigned *)value = known != NULL && known->kind == MEMORY_DEVICE;
    return CUDA_SUCCESS;
  case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
    *(unsigned *)value = 0;
    return CUDA_SUCCESS;
  case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    *(CUdeviceptr *)value = known ? known->address : 0;
    return CUDA_SUCCESS;
  case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
    *(size_t *)value = known ? known->size : 0;
    return CUDA_SUCCESS;
  case CU_POINTER_ATTRIBUTE_MAPPED:
    *(unsigned *)value = known != NULL;
    return CUDA_SUCCESS;
  case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
    *(unsigned *)value = !known            ? CU_POINTER_ATTRIBUTE_ACCESS_FLAG_NONE
                         : known->writable ? CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE
                         : known->readable ? CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READ
                                           : CU_POINTER_ATTRIBUTE_ACCESS_FLAG_NONE;
    return CUDA_SUCCESS;
  case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
    *(CUmemoryPool *)value = NULL;
    return CUDA_SUCCESS;
  default:
    return CUDA_ERROR_NOT_SUPPORTED;
  }
}

CUresult CUDAAPI cuPointerGetAttribute(void *value, CUpointer_attribute attribute,
                                       CUdeviceptr address) {
  struct memory memory;
  DRIVER_TRY(process_check());
  if (!value || !memory_find(driver_address(address), &memory))
    return CUDA_ERROR_INVALID_VALUE;
  return get(&memory, attribute, address, value);
}

/* Unlike the singular, succeeds for a pointer unknown to CUDA: cuPointerGetAttributes. */
CUresult CUDAAPI cuPointerGetAttributes(unsigned count, CUpointer_attribute *attributes,
                                        void **values, CUdeviceptr address) {
  struct memory memory;
  DRIVER_TRY(process_check());
  if (!count || !attributes || !values)
    return CUDA_ERROR_INVALID_VALUE;
  bool known = memory_find(driver_address(address), &memory);
  for (unsigned i = 0; i < count; i++)
    DRIVER_TRY(get(known ? &memory : NULL, attributes[i], address, values[i]));
  return CUDA_SUCCESS;
}
