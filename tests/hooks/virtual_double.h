/* A double of the CUDA driver's virtual memory, beside doubles.h: physical memory is a file in
 * memory, which can be mapped at many addresses. Counted with the other doubles' memory and bytes.
 */
#ifndef TESTS_HOOKS_VIRTUAL_DOUBLE_H
#define TESTS_HOOKS_VIRTUAL_DOUBLE_H

#include "hooks/cuda_driver.h"

struct virtual_double {
  /* What it does. */
  size_t granularity;
  CUresult reserve_error;
  int maps_good; /* so many calls of MemMap succeed; -1: all */
  CUresult map_error;

  /* What there is now. */
  int blocks, reservations, mappings;
};
extern struct virtual_double virtual_double;

/* Back to the beginning, and into a driver's table. */
void virtual_double_reset(struct cuda_driver *driver);

/* Bytes from an address to the end of its reservation, if it is mapped there; 0: not ours. */
size_t virtual_double_room(const void *address);

#endif
