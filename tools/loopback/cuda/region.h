/* Regions: pieces of address space with a guard page on either side.
 *
 *        guard | canary | bytes of the program | canary | guard
 *
 * The bytes end at the guard page, but for what their alignment leaves over; that rest, and the
 * rest of the first page, hold a canary. A hidden region has two addresses: the one a program
 * gets, where every access faults, and the one the loopback itself uses. Otherwise the two are
 * one. */
#ifndef LOOPBACK_CUDA_REGION_H
#define LOOPBACK_CUDA_REGION_H

#include <stdbool.h>
#include <stddef.h>

/* "Any address of a variable residing in global memory or returned by one of the memory allocation
 * routines from the driver or runtime API is always aligned to at least 256 bytes": CUDA
 * Programming Guide, Device Memory Accesses. */
#define REGION_ALIGNMENT 256

struct region {
  char *shown;   /* mapping whose addresses the program gets */
  char *mapped;  /* mapping that holds the bytes; the same unless hidden */
  size_t length; /* of each mapping, guard pages included */
  size_t offset; /* of the program's bytes in it */
  size_t size;   /* of the program's bytes */
};

/* False if there is no address space. Small regions are filled with a pattern: device memory
 * starts undefined. */
bool region_create(struct region *region, size_t size, bool hidden);
void region_destroy(struct region *region);

/* Whether nothing was written between the program's bytes and the guard pages. */
bool region_is_intact(const struct region *region);

#endif
