/* Memory that a device may use: what was allocated or registered, and where its bytes are.
 *
 * One lock guards the registry; it is taken last of all locks and never while waiting. Functions
 * may be called from any thread, workers included, unless they say otherwise. */
#ifndef LOOPBACK_CUDA_MEMORY_H
#define LOOPBACK_CUDA_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cuda.h>

#include "tools/loopback/cuda/context.h"
#include "tools/loopback/cuda/region.h"

enum memory_kind {
  MEMORY_DEVICE,     /* cuMemAlloc, cuMemAllocAsync */
  MEMORY_HOST,       /* cuMemAllocHost, cuMemHostAlloc */
  MEMORY_REGISTERED, /* cuMemHostRegister: the bytes are the program's */
  MEMORY_MANAGED,    /* cuMemAllocManaged */
  MEMORY_VIRTUAL,    /* cuMemMap: the bytes are those of a physical allocation (virtual.h) */
};

struct memory {
  uintptr_t address; /* as the program knows it */
  size_t size;
  char *bytes; /* the same memory as the loopback reaches it */
  enum memory_kind kind;
  CUcontext context; /* MEMORY_VIRTUAL: NULL */
  int device;        /* ordinal */
  unsigned flags;    /* as passed by the program */
  uint64_t id;       /* never used twice in a process */
  bool leaving;      /* somebody is about to free it */
  bool readable, writable;
  uintptr_t reservation; /* MEMORY_VIRTUAL: neighbours with the same one are contiguous */
  struct region region;  /* not MEMORY_REGISTERED, MEMORY_VIRTUAL */
};

/* Where a range of addresses lies; what a copy may do with it follows from that. */
enum memory_place {
  PLACE_PAGEABLE = 1, /* unknown to CUDA: the host's alone */
  PLACE_HOST = 2,     /* pinned or registered */
  PLACE_DEVICE = 4,
  PLACE_MANAGED = 8,
};
#define PLACE_FOR_HOST (PLACE_PAGEABLE | PLACE_HOST | PLACE_MANAGED)
#define PLACE_FOR_DEVICE (PLACE_HOST | PLACE_DEVICE | PLACE_MANAGED)
#define PLACE_ANY (PLACE_PAGEABLE | PLACE_FOR_DEVICE)

struct memory_view {
  char *bytes;
  enum memory_place place;
};

/* Allocates for a context. kind: MEMORY_DEVICE, MEMORY_HOST or MEMORY_MANAGED; size > 0.
 * CUDA_ERROR_OUT_OF_MEMORY when the device's memory, or this machine's, is used up. */
CUresult memory_allocate(CUcontext context, enum memory_kind kind, size_t size, unsigned flags,
                         void **address);

/* Frees what starts at address and is of one of these kinds (a mask of 1 << kind);
 * CUDA_ERROR_INVALID_VALUE if there is none. No work that uses it may be pending. Ends the process
 * if a canary is gone. */
CUresult memory_free(void *address, unsigned kinds);

/* The first half of freeing, before the caller waits for pending work: checks as memory_free does,
 * and marks the memory so that nobody else frees it. */
CUresult memory_leave(void *address, unsigned kinds);

/* CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED if any of it is known already. */
CUresult memory_register(CUcontext context, void *address, size_t size, unsigned flags);
CUresult memory_unregister(void *address);

/* Enters or removes a mapped range; virtual.c owns its bytes. */
CUresult memory_map(const struct memory *range);
CUresult memory_unmap(uintptr_t address, size_t size);
CUresult memory_set_access(uintptr_t address, size_t size, bool readable, bool writable);

/* Copies the entry that contains address; false if none does. */
bool memory_find(const void *address, struct memory *found);

/* Where [address, address + size) lies. CUDA_ERROR_INVALID_VALUE if it goes outside an allocation,
 * if it is not in one of the places, or if it may not be written (read) as asked. */
CUresult memory_view(const void *address, size_t size, unsigned places, bool write,
                     struct memory_view *view);

/* Takes bytes of a device's memory, or gives them back; false if there is not so much left. */
bool memory_take(struct device *device, size_t size);
void memory_give(struct device *device, size_t size);
size_t memory_left(struct device *device);

/* Frees all that belongs to a context. */
void memory_free_context(CUcontext context);

/* Checks every canary; ends the process with abort if one is gone. Gives up after a second if the
 * lock cannot be had. */
void memory_check_all(void);

#endif
