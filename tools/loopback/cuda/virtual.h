/* Virtual memory management: addresses, physical memory, and the mapping of one to the other,
 * apart.
 *
 * Physical memory is a file in memory (memfd), so that it can be mapped several times and passed
 * to another process. A reservation is two pieces of address space of the same length, as in
 * region.h: the one a program gets and, if hosts must not touch device memory, another one where
 * the files are mapped. Ranges that are contiguous for the program are contiguous for the
 * loopback.
 *
 * All sizes and offsets are multiples of VIRTUAL_GRANULARITY. Any thread; one lock guards all
 * reservations and physical memory. It is taken before the lock of memory.c. Callers wait for
 * pending work before they unmap, as CUDA asks of them. */
#ifndef LOOPBACK_CUDA_VIRTUAL_H
#define LOOPBACK_CUDA_VIRTUAL_H

#include <stdbool.h>
#include <stddef.h>

#include <cuda.h>

#include "tools/loopback/cuda/device.h"

/* What current devices say. */
#define VIRTUAL_GRANULARITY ((size_t)2 << 20)

CUresult virtual_reserve(size_t size, size_t alignment, CUdeviceptr *address);
CUresult virtual_unreserve(CUdeviceptr address, size_t size);

/* Physical memory of a device; it lives until it is released and no longer mapped. */
CUresult virtual_create(struct device *device, size_t size, bool exportable,
                        CUmemGenericAllocationHandle *handle);
CUresult virtual_release(CUmemGenericAllocationHandle handle);

/* The descriptor is the caller's, to close. An imported handle is another one for the same memory;
 * its device is the one named. */
CUresult virtual_export(CUmemGenericAllocationHandle handle, int *descriptor);
CUresult virtual_import(struct device *device, int descriptor,
                        CUmemGenericAllocationHandle *handle);

/* The handle of what is mapped at an address, with a reference of its own; and what a handle
 * stands for. */
CUresult virtual_retain(const void *address, CUmemGenericAllocationHandle *handle);
CUresult virtual_look(CUmemGenericAllocationHandle handle, struct device **device,
                      bool *exportable);

CUresult virtual_map(CUdeviceptr address, size_t size, size_t offset,
                     CUmemGenericAllocationHandle handle);
CUresult virtual_unmap(CUdeviceptr address, size_t size);

/* Mapped ranges begin without access. */
CUresult virtual_set_access(CUdeviceptr address, size_t size, bool readable, bool writable);

#endif
