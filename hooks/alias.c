/* One block of physical memory, mapped at each multiple of its size. The block belongs to its
 * mappings: its handle is given back at once, and with the last mapping the memory goes.
 */
#include "hooks/alias.h"

#include <stdint.h>

bool alias_is_available(const struct cuda_driver *cuda) {
  return cuda->MemGetAllocationGranularity != NULL && cuda->MemCreate != NULL &&
         cuda->MemRelease != NULL && cuda->MemAddressReserve != NULL &&
         cuda->MemAddressFree != NULL && cuda->MemMap != NULL && cuda->MemUnmap != NULL &&
         cuda->MemSetAccess != NULL;
}

static void alias_unmap(const struct cuda_driver *cuda, const struct alias *alias, size_t mapped) {
  for (size_t at = 0; at < mapped; at += alias->block)
    (void)cuda->MemUnmap(alias->address + at, alias->block);
}

static CUresult alias_map(const struct cuda_driver *cuda, CUdevice device,
                          const struct alias *alias, CUmemGenericAllocationHandle physical) {
  CUresult result = CUDA_SUCCESS;
  size_t mapped = 0;
  while (mapped < alias->bytes && result == CUDA_SUCCESS) {
    result = cuda->MemMap(alias->address + mapped, alias->block, 0, physical, 0);
    if (result == CUDA_SUCCESS)
      mapped += alias->block;
  }
  if (result == CUDA_SUCCESS) {
    CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device},
                              .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    result = cuda->MemSetAccess(alias->address, alias->bytes, &access, 1);
  }
  if (result != CUDA_SUCCESS)
    alias_unmap(cuda, alias, mapped);
  return result;
}

CUresult alias_allocate(const struct cuda_driver *cuda, CUdevice device, size_t bytes,
                        struct alias *alias) {
  CUmemAllocationProp properties = {
      .type = CU_MEM_ALLOCATION_TYPE_PINNED,
      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device}};
  size_t granularity = 0;
  CUresult result = cuda->MemGetAllocationGranularity(&granularity, &properties,
                                                      CU_MEM_ALLOC_GRANULARITY_MINIMUM);
  if (result != CUDA_SUCCESS)
    return result;
  alias->block = granularity > ALIAS_BLOCK ? granularity : ALIAS_BLOCK;
  if (bytes > SIZE_MAX - alias->block)
    return CUDA_ERROR_OUT_OF_MEMORY;
  alias->bytes = (bytes + alias->block - 1) / alias->block * alias->block;
  CUmemGenericAllocationHandle physical = 0;
  result = cuda->MemCreate(&physical, alias->block, &properties, 0);
  if (result != CUDA_SUCCESS)
    return result;
  result = cuda->MemAddressReserve(&alias->address, alias->bytes, 0, 0, 0);
  if (result == CUDA_SUCCESS) {
    result = alias_map(cuda, device, alias, physical);
    if (result != CUDA_SUCCESS)
      (void)cuda->MemAddressFree(alias->address, alias->bytes);
  }
  (void)cuda->MemRelease(physical);
  return result;
}

void alias_free(const struct cuda_driver *cuda, const struct alias *alias) {
  alias_unmap(cuda, alias, alias->bytes);
  (void)cuda->MemAddressFree(alias->address, alias->bytes);
}
