/* Memory of a kind, from an odd page on (registrable.h). */
#include "hooks/registrable.h"

#include <stdint.h>
#include <unistd.h>

#include "core/unit/look.h"
#include "hooks/alias.h"

static CUresult registrable_map(const struct cuda_driver *cuda, CUdevice device,
                                const struct registrable *memory,
                                CUmemGenericAllocationHandle physical) {
  CUresult result = cuda->MemMap(memory->start, memory->mapped, 0, physical, 0);
  if (result != CUDA_SUCCESS)
    return result;
  CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device},
                            .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  result = cuda->MemSetAccess(memory->start, memory->mapped, &access, 1);
  if (result != CUDA_SUCCESS)
    (void)cuda->MemUnmap(memory->start, memory->mapped);
  return result;
}

/* One physical block, for a mapping of several would be another thing to NCCL. It belongs to the
 * mapping: its handle is given back at once. */
static CUresult allocate_mapped(const struct cuda_driver *cuda, CUdevice device, unsigned look,
                                size_t bytes, struct registrable *memory) {
  CUmemAllocationProp properties = {
      .type = CU_MEM_ALLOCATION_TYPE_PINNED,
      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device},
      .requestedHandleTypes =
          (CUmemAllocationHandleType)((look & LOOK_HANDLES) >> LOOK_HANDLES_SHIFT),
      .allocFlags = {.gpuDirectRDMACapable = (look & LOOK_RDMA) != 0}};
  size_t granularity = 0;
  if (!alias_is_available(cuda))
    return CUDA_ERROR_NOT_SUPPORTED;
  CUresult result = cuda->MemGetAllocationGranularity(&granularity, &properties,
                                                      CU_MEM_ALLOC_GRANULARITY_MINIMUM);
  if (result != CUDA_SUCCESS)
    return result;
  if (bytes > SIZE_MAX - granularity)
    return CUDA_ERROR_OUT_OF_MEMORY;
  memory->mapped = (bytes + granularity - 1) / granularity * granularity;
  CUmemGenericAllocationHandle physical = 0;
  result = cuda->MemCreate(&physical, memory->mapped, &properties, 0);
  if (result != CUDA_SUCCESS)
    return result;
  result = cuda->MemAddressReserve(&memory->start, memory->mapped, 0, 0, 0);
  if (result == CUDA_SUCCESS) {
    result = registrable_map(cuda, device, memory, physical);
    if (result != CUDA_SUCCESS)
      (void)cuda->MemAddressFree(memory->start, memory->mapped);
  }
  (void)cuda->MemRelease(physical);
  return result;
}

CUresult registrable_allocate(const struct cuda_driver *cuda, CUdevice device, unsigned look,
                              size_t bytes, struct registrable *memory) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  *memory = (struct registrable){.start = 0};
  if (bytes > SIZE_MAX - 3 * page)
    return CUDA_ERROR_OUT_OF_MEMORY;
  size_t whole = bytes + 3 * page;
  CUresult result = (look & LOOK_MAPPED) != 0 ? allocate_mapped(cuda, device, look, whole, memory)
                                              : cuda->MemAlloc(&memory->start, whole);
  memory->address = (memory->start + 2 * page - 1) / (2 * page) * (2 * page) + page;
  memory->bytes = memory->start + (memory->mapped != 0 ? memory->mapped : whole) - memory->address;
  return result;
}

void registrable_free(const struct cuda_driver *cuda, const struct registrable *memory) {
  if (memory->mapped == 0) {
    (void)cuda->MemFree(memory->start);
    return;
  }
  (void)cuda->MemUnmap(memory->start, memory->mapped);
  (void)cuda->MemAddressFree(memory->start, memory->mapped);
}
