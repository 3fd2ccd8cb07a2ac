/* Guarded mappings. */
#include "tools/loopback/cuda/region.h"

#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define CANARY 0xe7
#define UNDEFINED 0xcb

/* Larger regions are left untouched, so that a program may allocate much and use little. */
#define FILL_MAX ((size_t)1 << 20)

static size_t round_up(size_t value, size_t unit) {
  return (value + unit - 1) / unit * unit;
}

static char *map(size_t length, int protection) {
  void *address =
      mmap(NULL, length, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return address == MAP_FAILED ? NULL : address;
}

bool region_create(struct region *region, size_t size, bool hidden) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  if (size > SIZE_MAX / 2)
    return false;
  size_t aligned = round_up(size, REGION_ALIGNMENT);
  size_t inside = round_up(aligned, page);
  *region =
      (struct region){.length = inside + 2 * page, .offset = page + inside - aligned, .size = size};
  region->mapped = map(region->length, PROT_NONE);
  if (!region->mapped)
    return false;
  region->shown = hidden ? map(region->length, PROT_NONE) : region->mapped;
  if (!region->shown || mprotect(region->mapped + page, inside, PROT_READ | PROT_WRITE) != 0) {
    region_destroy(region);
    return false;
  }
  char *bytes = region->mapped + region->offset;
  memset(region->mapped + page, CANARY, region->offset - page);
  memset(bytes + size, CANARY, aligned - size);
  if (size <= FILL_MAX)
    memset(bytes, UNDEFINED, size);
  return true;
}

void region_destroy(struct region *region) {
  if (region->shown && region->shown != region->mapped)
    munmap(region->shown, region->length);
  if (region->mapped)
    munmap(region->mapped, region->length);
  *region = (struct region){0};
}

static bool is_canary(const char *bytes, size_t size) {
  for (size_t i = 0; i < size; i++)
    if ((unsigned char)bytes[i] != CANARY)
      return false;
  return true;
}

bool region_is_intact(const struct region *region) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  const char *end = region->mapped + region->offset + region->size;
  return is_canary(region->mapped + page, region->offset - page) &&
         is_canary(end, (size_t)(region->mapped + region->length - page - end));
}
