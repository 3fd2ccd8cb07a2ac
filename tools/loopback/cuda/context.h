/* Contexts: what streams, events and memory belong to.
 *
 * Every device has a primary context, shared by all users in the process (the runtime retains it);
 * cuCtxCreate makes others. A context structure is never freed, so that a stale pointer can be
 * told from a live one. */
#ifndef LOOPBACK_CUDA_CONTEXT_H
#define LOOPBACK_CUDA_CONTEXT_H

#include <stdbool.h>
#include <stdint.h>

#include <cuda.h>

#include "tools/loopback/cuda/device.h"

struct CUctx_st {
  struct device *device;
  bool primary;
  uint64_t id;
  /* Guarded by the lock of context.c. */
  unsigned retained; /* a created context: 1 until destroyed */
  unsigned flags;
  uint64_t peers; /* bit per ordinal: cuCtxEnablePeerAccess was called */
  /* Guarded by stream_lock (stream.h). */
  CUstream legacy;  /* made at first use */
  CUstream streams; /* all streams not yet drained, linked by next */
};

/* By devices_create; NULL if there is no memory. */
CUcontext context_create_primary(struct device *device);

CUresult context_create(CUcontext *context, unsigned flags, struct device *device);

/* Waits for the context's work, then frees its streams and memory. */
CUresult context_destroy(CUcontext context);

CUresult context_retain_primary(struct device *device, CUcontext *context);

/* The last release destroys what the context holds; so does a reset, whoever still retains it. */
CUresult context_release_primary(struct device *device);
CUresult context_reset_primary(struct device *device);
void context_primary_state(struct device *device, unsigned *flags, bool *active);
void context_primary_set_flags(struct device *device, unsigned flags);

/* Whether a program's handle names a context that is not destroyed. */
bool context_is_live(CUcontext context);

/* The calling thread's current context, or
 *   CUDA_ERROR_INVALID_CONTEXT       there is none
 *   CUDA_ERROR_CONTEXT_IS_DESTROYED  it is gone */
CUresult context_current(CUcontext *context);

/* The stack of contexts of the calling thread. peek gives NULL where there is none. */
CUcontext context_peek(void);
void context_set(CUcontext context);
CUresult context_push(CUcontext context);
CUresult context_pop(CUcontext *context);

/* Peer access from one context to another: CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED,
 * ..._NOT_ENABLED. */
CUresult context_enable_peer(CUcontext from, CUcontext to);
CUresult context_disable_peer(CUcontext from, CUcontext to);

#endif
