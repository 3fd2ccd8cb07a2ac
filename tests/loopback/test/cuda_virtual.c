/* Virtual memory management. */
#include <signal.h>
#include <unistd.h>

#include "tools/loopback/cuda/loopback_cuda.h"
#include "tests/loopback/test/gate.h"

TestSuite(cuda_virtual, .timeout = TIMEOUT);

#define GRANULE ((size_t)2 << 20)

static CUmemGenericAllocationHandle physical_new(int device, size_t size) {
  CUmemGenericAllocationHandle handle;
  size_t granularity;
  CUmemAllocationProp properties = {
      .type = CU_MEM_ALLOCATION_TYPE_PINNED,
      .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device}};
  succeeds(cudaSetDevice(device));
  succeeds(
      cuMemGetAllocationGranularity(&granularity, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  cr_assert(eq(sz, granularity, GRANULE));
  succeeds(cuMemCreate(&handle, size, &properties, 0));
  return handle;
}

static CUdeviceptr reserve(size_t size) {
  CUdeviceptr address;
  succeeds(cuInit(0));
  succeeds(cuMemAddressReserve(&address, size, 0, 0, 0));
  return address;
}

static CUresult allow(CUdeviceptr address, size_t size, CUmemAccess_flags flags) {
  CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
                            .flags = flags};
  return cuMemSetAccess(address, size, &access, 1);
}

Test(cuda_virtual, mapped_memory_is_device_memory) {
  int word = 0;
  CUmemGenericAllocationHandle handle = physical_new(0, GRANULE);
  CUdeviceptr address = reserve(GRANULE);
  succeeds(cuMemMap(address, GRANULE, 0, handle, 0));
  fails(cuMemsetD32(address, 7, 1), CUDA_ERROR_INVALID_VALUE);
  succeeds(allow(address, GRANULE, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
  succeeds(cuMemsetD32(address, 7, GRANULE / 4));
  succeeds(cuMemcpyDtoH(&word, address + GRANULE - 4, 4));
  cr_assert(eq(int, word, 7));
  fails(cuMemsetD32(address, 7, GRANULE / 4 + 1), CUDA_ERROR_INVALID_VALUE);
}

Test(cuda_virtual, one_piece_of_memory_at_two_addresses) {
  int word = 0;
  CUmemGenericAllocationHandle handle = physical_new(0, GRANULE);
  CUdeviceptr address = reserve(2 * GRANULE);
  succeeds(cuMemMap(address, GRANULE, 0, handle, 0));
  succeeds(cuMemMap(address + GRANULE, GRANULE, 0, handle, 0));
  succeeds(allow(address, 2 * GRANULE, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
  succeeds(cuMemsetD32(address, 42, 1));
  succeeds(cuMemcpyDtoH(&word, address + GRANULE, 4));
  cr_assert(eq(int, word, 42));
}

Test(cuda_virtual, neighbours_are_one_range) {
  CUdeviceptr address = reserve(2 * GRANULE);
  succeeds(cuMemMap(address, GRANULE, 0, physical_new(0, GRANULE), 0));
  succeeds(cuMemMap(address + GRANULE, GRANULE, GRANULE, physical_new(0, 2 * GRANULE), 0));
  succeeds(allow(address, 2 * GRANULE, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
  succeeds(cuMemsetD8(address + 1, 1, 2 * GRANULE - 1));
  cr_assert(ne(ptr, loopback_device_memory((void *)address, 2 * GRANULE), NULL));
}

Test(cuda_virtual, an_offset_is_into_the_physical_memory) {
  int word = 0;
  CUmemGenericAllocationHandle handle = physical_new(0, 2 * GRANULE);
  CUdeviceptr address = reserve(3 * GRANULE);
  succeeds(cuMemMap(address, 2 * GRANULE, 0, handle, 0));
  succeeds(cuMemMap(address + 2 * GRANULE, GRANULE, GRANULE, handle, 0));
  succeeds(allow(address, 3 * GRANULE, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
  succeeds(cuMemsetD32(address, 1, 1));
  succeeds(cuMemsetD32(address + GRANULE, 2, 1));
  succeeds(cuMemcpyDtoH(&word, address + 2 * GRANULE, 4));
  cr_assert(eq(int, word, 2));
}

Test(cuda_virtual, read_only_memory_is_not_written) {
  CUdeviceptr address = reserve(GRANULE);
  int word;
  unsigned long long flags;
  CUmemLocation here = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0};
  succeeds(cuMemMap(address, GRANULE, 0, physical_new(0, GRANULE), 0));
  succeeds(allow(address, GRANULE, CU_MEM_ACCESS_FLAGS_PROT_READ));
  succeeds(cuMemcpyDtoH(&word, address, 4));
  fails(cuMemsetD8(address, 1, 1), CUDA_ERROR_INVALID_VALUE);
  succeeds(cuMemGetAccess(&flags, &here, address));
  cr_assert(eq(u64, flags, CU_MEM_ACCESS_FLAGS_PROT_READ));
}

Test(cuda_virtual, memory_lives_while_it_is_mapped) {
  size_t left, total;
  CUdeviceptr address = reserve(GRANULE);
  CUmemGenericAllocationHandle handle = physical_new(0, GRANULE), again;
  succeeds(cuMemMap(address, GRANULE, 0, handle, 0));
  succeeds(cuMemRelease(handle));
  fails(cuMemRelease(handle), CUDA_ERROR_INVALID_VALUE);
  succeeds(allow(address, GRANULE, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
  succeeds(cuMemsetD8(address, 1, GRANULE));
  succeeds(cuMemRetainAllocationHandle(&again, (void *)address));
  succeeds(cuMemRelease(again));
  succeeds(cuMemGetInfo(&left, &total));
  cr_assert(eq(sz, total - left, GRANULE));
  fails(cuMemAddressFree(address, GRANULE), CUDA_ERROR_INVALID_VALUE);
  succeeds(cuCtxSynchronize());
  succeeds(cuMemUnmap(address, GRANULE));
  succeeds(cuMemGetInfo(&left, &total));
  cr_assert(eq(sz, total, left));
  fails(cuMemsetD8(address, 1, 1), CUDA_ERROR_INVALID_VALUE);
  succeeds(cuMemAddressFree(address, GRANULE));
}

Test(cuda_virtual, the_host_cannot_touch_it, .signal = SIGSEGV) {
  CUdeviceptr address = reserve(GRANULE);
  succeeds(cuMemMap(address, GRANULE, 0, physical_new(0, GRANULE), 0));
  succeeds(allow(address, GRANULE, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
  *(volatile char *)address = 1;
}

Test(cuda_virtual, what_does_not_fit_is_refused) {
  CUmemGenericAllocationHandle handle = physical_new(0, GRANULE), other;
  CUdeviceptr address = reserve(2 * GRANULE);
  CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                    .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
  fails(cuMemCreate(&other, GRANULE + 1, &properties, 0), CUDA_ERROR_INVALID_VALUE);
  fails(cuMemCreate(&other, GRANULE << 20, &properties, 0), CUDA_ERROR_OUT_OF_MEMORY);
  fails(cuMemMap(address, 2 * GRANULE, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
  fails(cuMemMap(address + 2 * GRANULE, GRANULE, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
  succeeds(cuMemMap(address, GRANULE, 0, handle, 0));
  fails(cuMemMap(address, GRANULE, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
  fails(cuMemUnmap(address, 2 * GRANULE), CUDA_ERROR_INVALID_VALUE);
  fails(allow(address, 2 * GRANULE, CU_MEM_ACCESS_FLAGS_PROT_READWRITE), CUDA_ERROR_INVALID_VALUE);
}

Test(cuda_virtual, memory_is_shared_through_a_descriptor) {
  int file, word = 0;
  CUmemGenericAllocationHandle imported, handle = physical_new(0, GRANULE);
  CUdeviceptr address = reserve(2 * GRANULE);
  succeeds(
      cuMemExportToShareableHandle(&file, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
  succeeds(cuMemImportFromShareableHandle(&imported, (void *)(long)file,
                                          CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
  close(file);
  succeeds(cuMemMap(address, GRANULE, 0, handle, 0));
  succeeds(cuMemMap(address + GRANULE, GRANULE, 0, imported, 0));
  succeeds(allow(address, 2 * GRANULE, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
  succeeds(cuMemsetD32(address, 5, 1));
  succeeds(cuMemcpyDtoH(&word, address + GRANULE, 4));
  cr_assert(eq(int, word, 5));
}
