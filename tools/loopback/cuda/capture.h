/* Stream capture: work enqueued on a capturing stream becomes nodes of a graph.
 *
 * The rules are those of the CUDA Programming Guide, "Creating a Graph Using Stream Capture":
 * other streams join by waiting for an event recorded in the capture and must be joined back
 * before it ends; the legacy stream cannot be captured, nor used while a blocking stream is; what
 * waits for captured work is an error and invalidates the capture.
 *
 * All functions want stream_lock held unless they say otherwise. */
#ifndef LOOPBACK_CUDA_CAPTURE_H
#define LOOPBACK_CUDA_CAPTURE_H

#include <stdbool.h>
#include <stdint.h>

#include <cuda.h>

#include "tools/loopback/cuda/stream.h"
#include "tools/loopback/cuda/work.h"

/* What cuStreamGetCaptureInfo tells. The tips belong to the stream. */
struct capture_info {
  CUstreamCaptureStatus status;
  uint64_t id;
  CUgraph graph;
  const CUgraphNode *tips;
  size_t ntips;
};

/* Lock not held. */
CUresult capture_begin(CUstream handle, CUstreamCaptureMode mode);
CUresult capture_end(CUstream handle, CUgraph *graph);
CUresult capture_get_info(CUstream handle, struct capture_info *info);

/* What the next captured work depends on: these nodes alone (replaces), or these too.
 * CUDA_ERROR_ILLEGAL_STATE for a stream that is not capturing. Lock not held. */
CUresult capture_update_dependencies(CUstream handle, const CUgraphNode *nodes, size_t count,
                                     bool replaces);

/* Sets the calling thread's mode and gives the one before: cuThreadExchangeStreamCaptureMode. No
 * lock. */
CUstreamCaptureMode capture_exchange_mode(CUstreamCaptureMode mode);

/* For calls that are unsafe while capturing, such as cuMemAlloc:
 * CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED where a capture begun in global mode, or a thread-local
 * one of this thread, is under way and the thread's own mode does not allow them. Lock not held. */
CUresult capture_forbids_unsafe(void);

/* Whether work may be enqueued on a stream: CUDA_ERROR_STREAM_CAPTURE_IMPLICIT for the legacy
 * stream while a blocking stream of its context is capturing, which invalidates that capture;
 * ..._INVALIDATED for a member of an invalid one. */
CUresult capture_allows(CUstream stream);

/* Enqueues bound work, or makes a node of it if the stream is capturing (then *done is a moment
 * that is past). Lock not held. */
CUresult capture_or_enqueue(CUstream handle, struct work *work, struct marker *done);

/* A stream that is capturing cannot be waited for: CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, and the
 * capture is invalid. */
CUresult capture_forbids_wait(CUstream stream);

/* cuEventRecord and cuStreamWaitEvent where the stream is capturing or the event was recorded in a
 * capture. */
CUresult capture_record(CUstream stream, CUevent event, unsigned flags);
CUresult capture_wait(CUstream stream, CUevent event, unsigned flags);

/* The host looks at an event of a capture: CUDA_ERROR_CAPTURED_EVENT; the capture is invalid. */
CUresult capture_touch_event(CUevent event);

/* The stream is being destroyed. */
void capture_abandon(CUstream stream);

#endif
