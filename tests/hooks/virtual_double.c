/* Reservations without access, files in memory, and the one mapped into the other. */
#include "tests/hooks/virtual_double.h"

#include <criterion/criterion.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/hooks/doubles.h"

/* Handles and device addresses are numbers here. */

struct virtual_double virtual_double;

#define BLOCKS_MAX 64
#define RESERVATIONS_MAX 64

static struct block {
  int file;
  size_t bytes; /* 0: none */
  int users;    /* its handle, and mappings */
} blocks[BLOCKS_MAX];

static struct reservation {
  char *start; /* NULL: none */
  size_t bytes;
  struct block *mapped[4096]; /* by granule */
} reservations[RESERVATIONS_MAX];

static struct reservation *reservation_at(const void *address) {
  const char *at = address;
  for (int i = 0; i < RESERVATIONS_MAX; i++)
    if (reservations[i].start != NULL && at >= reservations[i].start &&
        at < reservations[i].start + reservations[i].bytes)
      return &reservations[i];
  return NULL;
}

static size_t granule(const struct reservation *in, const void *address) {
  return (size_t)((const char *)address - in->start) / virtual_double.granularity;
}

size_t virtual_double_room(const void *address) {
  const struct reservation *in = reservation_at(address);
  if (in == NULL || in->mapped[granule(in, address)] == NULL)
    return 0;
  return (size_t)(in->start + in->bytes - (const char *)address);
}

static void give_up(struct block *block) {
  if (--block->users > 0)
    return;
  close(block->file);
  doubles.memory += block->bytes;
  doubles.live_bytes -= block->bytes;
  block->bytes = 0;
  virtual_double.blocks--;
}

static void expect_device(const CUmemLocation *location) {
  cr_assert_eq(location->type, CU_MEM_LOCATION_TYPE_DEVICE);
  cr_assert_eq(location->id, 103, "the driver's number of device 3");
}

static CUresult granularity(size_t *bytes, const CUmemAllocationProp *properties,
                            CUmemAllocationGranularity_flags which) {
  (void)which;
  expect_device(&properties->location);
  *bytes = virtual_double.granularity;
  return CUDA_SUCCESS;
}

static CUresult create(CUmemGenericAllocationHandle *handle, size_t bytes,
                       const CUmemAllocationProp *properties, unsigned long long flags) {
  cr_assert_eq(flags, 0);
  expect_device(&properties->location);
  cr_assert(bytes > 0 && bytes % virtual_double.granularity == 0);
  if (bytes > doubles.memory)
    return CUDA_ERROR_OUT_OF_MEMORY;
  for (int i = 0; i < BLOCKS_MAX; i++) {
    if (blocks[i].bytes != 0)
      continue;
    blocks[i] = (struct block){memfd_create("double", MFD_CLOEXEC), bytes, 1};
    cr_assert(blocks[i].file >= 0 && ftruncate(blocks[i].file, (off_t)bytes) == 0);
    doubles.memory -= bytes;
    doubles.live_bytes += bytes;
    virtual_double.blocks++;
    *handle = (CUmemGenericAllocationHandle)(uintptr_t)&blocks[i];
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult release(CUmemGenericAllocationHandle handle) {
  give_up((struct block *)(uintptr_t)handle);
  return CUDA_SUCCESS;
}

static CUresult reserve(CUdeviceptr *address, size_t bytes, size_t alignment, CUdeviceptr wanted,
                        unsigned long long flags) {
  (void)alignment;
  cr_assert(wanted == 0 && flags == 0 && bytes % virtual_double.granularity == 0);
  if (virtual_double.reserve_error != CUDA_SUCCESS)
    return virtual_double.reserve_error;
  for (int i = 0; i < RESERVATIONS_MAX; i++) {
    struct reservation *made = &reservations[i];
    if (made->start != NULL)
      continue;
    cr_assert_leq(bytes / virtual_double.granularity, sizeof made->mapped / sizeof *made->mapped);
    *made = (struct reservation){.bytes = bytes};
    made->start = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    cr_assert_neq(made->start, MAP_FAILED);
    virtual_double.reservations++;
    *address = (CUdeviceptr)made->start;
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult unreserve(CUdeviceptr address, size_t bytes) {
  struct reservation *in = reservation_at((void *)address);
  cr_assert(in != NULL && in->start == (char *)address && in->bytes == bytes);
  for (size_t i = 0; i < bytes / virtual_double.granularity; i++)
    cr_assert_null(in->mapped[i], "something is still mapped there");
  munmap(in->start, bytes);
  in->start = NULL;
  virtual_double.reservations--;
  return CUDA_SUCCESS;
}

static CUresult map(CUdeviceptr address, size_t bytes, size_t offset,
                    CUmemGenericAllocationHandle handle, unsigned long long flags) {
  struct reservation *in = reservation_at((void *)address);
  struct block *block = (struct block *)(uintptr_t)handle;
  cr_assert(in != NULL && flags == 0 && offset == 0 && bytes == block->bytes);
  if (virtual_double.maps_good == 0)
    return virtual_double.map_error;
  if (virtual_double.maps_good > 0)
    virtual_double.maps_good--;
  cr_assert_neq(mmap((void *)address, bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, block->file, 0),
                MAP_FAILED);
  for (size_t at = 0; at < bytes; at += virtual_double.granularity) {
    cr_assert_null(in->mapped[granule(in, (char *)address + at)]);
    in->mapped[granule(in, (char *)address + at)] = block;
  }
  block->users++;
  virtual_double.mappings++;
  return CUDA_SUCCESS;
}

static CUresult unmap(CUdeviceptr address, size_t bytes) {
  struct reservation *in = reservation_at((void *)address);
  cr_assert(in != NULL && in->mapped[granule(in, (void *)address)] != NULL);
  struct block *block = in->mapped[granule(in, (void *)address)];
  cr_assert_eq(bytes, block->bytes, "a mapping is unmapped whole");
  for (size_t at = 0; at < bytes; at += virtual_double.granularity)
    in->mapped[granule(in, (char *)address + at)] = NULL;
  cr_assert_neq(mmap((void *)address, bytes, PROT_NONE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0),
                MAP_FAILED);
  virtual_double.mappings--;
  give_up(block);
  return CUDA_SUCCESS;
}

static CUresult set_access(CUdeviceptr address, size_t bytes, const CUmemAccessDesc *access,
                           size_t count) {
  cr_assert_eq(count, 1);
  expect_device(&access->location);
  cr_assert_eq(access->flags, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  cr_assert_eq(mprotect((void *)address, bytes, PROT_READ | PROT_WRITE), 0);
  return CUDA_SUCCESS;
}

void virtual_double_reset(struct cuda_driver *driver) {
  virtual_double = (struct virtual_double){.granularity = (size_t)2 << 20, .maps_good = -1};
  driver->MemGetAllocationGranularity = granularity;
  driver->MemCreate = create;
  driver->MemRelease = release;
  driver->MemAddressReserve = reserve;
  driver->MemAddressFree = unreserve;
  driver->MemMap = map;
  driver->MemUnmap = unmap;
  driver->MemSetAccess = set_access;
}
