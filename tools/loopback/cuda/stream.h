/* Streams: a queue of work and a worker thread each.
 *
 * One lock, stream_lock, guards all streams, events and captures of the process. What the lock
 * protects is short; work runs without it. Order of locks: stream_lock, then that of context.c or
 * memory.c.
 *
 * Entries of a stream have sequence numbers 1, 2, ...; "enqueued" and "completed" are the last
 * ones. An event, a wait, a synchronisation is a marker: a stream and a sequence number.
 *
 * The legacy default stream of a context is ordered with all its blocking streams both ways (CUDA
 * Runtime API, Stream synchronization behavior): an entry of it waits for all that was enqueued
 * there before, and they for it. */
#ifndef LOOPBACK_CUDA_STREAM_H
#define LOOPBACK_CUDA_STREAM_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include <cuda.h>

#include "tools/loopback/cuda/context.h"
#include "tools/loopback/cuda/work.h"

struct capture;
struct entry;

/* A moment of a stream. Holds a reference to it; stream NULL is a moment that is past. */
struct marker {
  CUstream stream;
  uint64_t sequence;
};

struct CUstream_st {
  CUcontext context;
  unsigned flags; /* CU_STREAM_DEFAULT or CU_STREAM_NON_BLOCKING */
  int priority;
  uint64_t id;
  /* Guarded by stream_lock. */
  unsigned references; /* the program's handle, the worker, and markers */
  bool destroyed;      /* the worker ends once the queue is empty */
  bool has_worker;
  struct entry *head, *tail; /* head is being run */
  uint64_t enqueued, completed;
  uint64_t legacy_seen;    /* entries up to this one of the legacy stream are waited for already */
  pthread_cond_t wake;     /* the worker waits: work has come, or the end */
  pthread_cond_t progress; /* anyone waits: completed has grown */
  struct capture *capture; /* capture.h */
  CUstream next_member;    /* of the capture */
  CUgraphNode *tips;       /* nodes that the next captured one depends on; owned */
  size_t ntips;
  CUstream next; /* in the context's list */
};

/* Priorities go from the lowest to the highest; the numbers of a real device. */
#define STREAM_PRIORITY_LOWEST 0
#define STREAM_PRIORITY_HIGHEST (-5)

/* Functions below take the lock themselves, unless they say that it is held. */
void stream_lock(void);
void stream_unlock(void);

CUresult stream_create(CUcontext context, unsigned flags, int priority, CUstream *stream);

/* Returns at once; pending work is done. CUDA_ERROR_INVALID_HANDLE if it is not a stream made by
 * stream_create. */
CUresult stream_destroy(CUstream handle);

/* The stream behind a program's handle: one of its own, or NULL, CU_STREAM_LEGACY or
 * CU_STREAM_PER_THREAD of the current context. stream_lock held; no reference is taken. */
CUresult stream_find(CUstream handle, CUstream *stream);

/* Appends bound work; waits while the queue is full. Takes over what the work owns, whatever it
 * returns. done may be NULL; else it gets a marker of the entry. Not for capturing streams: see
 * capture_or_enqueue. stream_lock held; released while waiting. */
CUresult stream_enqueue(CUstream stream, struct work *work, struct marker *done);

/* Whether a marker's moment is past. stream_lock held. */
bool marker_is_past(struct marker marker);

/* Waits until it is past and releases the marker. stream_lock not held. */
void marker_wait(struct marker marker);

/* A marker of a stream's last entry. stream_lock held. */
struct marker marker_now(CUstream stream);
void marker_hold(struct marker marker);    /* takes another reference; stream_lock held */
void marker_release(struct marker marker); /* stream_lock held */

/* For cuStreamSynchronize and cuStreamQuery: the legacy stream includes the blocking ones, as an
 * entry of it would. */
CUresult stream_synchronise(CUstream handle);
CUresult stream_query(CUstream handle);

/* Waits for all that is enqueued on a context's streams now. */
void stream_drain_context(CUcontext context);

/* Destroys all streams of a context; none has work left. */
void stream_destroy_context(CUcontext context);

#endif
