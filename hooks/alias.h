/* Device memory that is one small block, seen over and over: a range of addresses as long as is
 * asked for, each ALIAS_BLOCK of which is the same physical memory (CUDA driver API, virtual memory
 * management: cuMemCreate, cuMemAddressReserve, cuMemMap). shadow.h says what it may be used for.
 *
 * What is written at one address is sure to be seen at the others only once the operation that
 * wrote it (a memset, a kernel) is done, and by operations that begin after that (CUDA C++
 * Programming Guide, "Virtual Aliasing Support"). A fill on the stream of the reader, before it,
 * is.
 */
#ifndef NCCL_JOIN_HOOKS_ALIAS_H
#define NCCL_JOIN_HOOKS_ALIAS_H

#include <stdbool.h>

#include "hooks/cuda_driver.h"

/* The physical memory of a range; more only where the device's granularity is larger. 2 MiB is that
 * of all devices so far. */
#define ALIAS_BLOCK ((size_t)2 << 20)

struct alias {
  CUdeviceptr address;
  size_t bytes; /* that can be addressed, a multiple of block */
  size_t block; /* physical */
};

/* Whether this driver has what is needed (CUDA 10.2). */
bool alias_is_available(const struct cuda_driver *cuda);

/* At least `bytes` (not 0). Only where alias_is_available, in the device's context. Nothing is held
 * on failure: CUDA_ERROR_OUT_OF_MEMORY, of physical memory or of addresses; anything else, which is
 * also what a device without this answers. */
CUresult alias_allocate(const struct cuda_driver *cuda, CUdevice device, size_t bytes,
                        struct alias *alias);

/* Only when nothing on the device uses it any more. */
void alias_free(const struct cuda_driver *cuda, const struct alias *alias);

#endif
