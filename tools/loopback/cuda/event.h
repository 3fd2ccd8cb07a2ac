/* Events: the moment of a stream when they were recorded last, and its time. */
#ifndef LOOPBACK_CUDA_EVENT_H
#define LOOPBACK_CUDA_EVENT_H

#include <stdint.h>

#include <cuda.h>

#include "tools/loopback/cuda/context.h"
#include "tools/loopback/cuda/stream.h"

/* One recording of an event. It outlives the event if work still waits for it. Guarded by
 * stream_lock. */
struct recording {
  unsigned references;
  struct marker marker;
  int64_t nanoseconds; /* monotonic clock; 0 until then */
};

struct CUevent_st {
  CUcontext context;
  unsigned flags; /* CU_EVENT_... */
  /* Guarded by stream_lock. */
  struct recording *latest; /* NULL: never recorded, or recorded in a capture */
  uint64_t capture;         /* identifier of the capture it was recorded in last, or 0 */
  CUgraphNode *tips;        /* the nodes it stands for there; owned */
  size_t ntips;
};

/* These take stream_lock themselves. An event that is none is CUDA_ERROR_INVALID_HANDLE. */
CUresult event_create(CUcontext context, unsigned flags, CUevent *event);
CUresult event_destroy(CUevent event);

/* flags: CU_EVENT_RECORD_DEFAULT or CU_EVENT_RECORD_EXTERNAL; the latter is not supported in a
 * capture. */
CUresult event_record(CUevent event, CUstream stream, unsigned flags);
CUresult event_query(CUevent event);
CUresult event_synchronise(CUevent event);
CUresult event_elapsed(CUevent from, CUevent to, float *milliseconds);

/* flags: CU_EVENT_WAIT_DEFAULT or CU_EVENT_WAIT_EXTERNAL. */
CUresult event_wait(CUstream stream, CUevent event, unsigned flags);

/* For workers; stream_lock not held. */
void recording_stamp(struct recording *recording);
void recording_wait(struct recording *recording);
void recording_release(struct recording *recording);

#endif
