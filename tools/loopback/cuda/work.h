/* Work: what one entry of a stream, or one node of a graph, does.
 *
 * A piece of work is first described (the program's addresses), then bound (the loopback's
 * addresses), then run by a worker. A graph keeps descriptions and binds a copy of them at each
 * launch, since memory may have been freed in between. */
#ifndef LOOPBACK_CUDA_WORK_H
#define LOOPBACK_CUDA_WORK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cuda.h>

#include "tools/loopback/cuda/object.h"

enum work_kind {
  WORK_NOTHING, /* a place in the order */
  WORK_COPY,
  WORK_FILL,
  WORK_HOST_FUNCTION,
  WORK_CALLBACK,
  WORK_RECORD, /* an event's time */
  WORK_AWAIT,  /* an event */
  WORK_FREE,
  WORK_GRAPH,
};

/* rows of width bytes each, pitch bytes apart. */
struct work_rows {
  size_t width, rows;
};

struct work {
  enum work_kind kind;
  union {
    struct {
      void *to;
      const void *from;
      size_t to_pitch, from_pitch;
      struct work_rows shape;
      unsigned to_places, from_places; /* enum memory_place: where they may lie */
      char *to_bytes;                  /* set by work_bind */
      const char *from_bytes;          /* set by work_bind */
      void *staging;                   /* a copy of pageable bytes, owned; or NULL */
    } copy;
    struct {
      void *to;
      size_t pitch;
      struct work_rows shape;
      uint32_t value;
      unsigned element; /* bytes: 1, 2 or 4 */
      char *to_bytes;   /* set by work_bind */
    } fill;
    struct {
      CUhostFn function;
      void *argument;
    } host;
    struct {
      CUstreamCallback function;
      void *argument;
      CUstream stream; /* as the program named it */
    } callback;
    struct recording *recording; /* WORK_RECORD, WORK_AWAIT; a reference is owned */
    void *freed;
    struct {
      struct work *nodes; /* bound, owned; in an order that satisfies their dependencies */
      size_t count;
      struct object_list objects; /* owned references */
    } graph;
  };
};

/* What a bound copy or fill touches, in terms of enum memory_place. */
struct work_places {
  unsigned to, from;
};

/* Finds the bytes behind the addresses; CUDA_ERROR_INVALID_VALUE if they are not all inside an
 * allocation, or not where the work says. places may be NULL. */
CUresult work_bind(struct work *work, struct work_places *places);

/* Runs bound work, on a worker. */
void work_run(const struct work *work);

/* Gives up what the work owns. stream_lock must not be held. */
void work_release(struct work *work);

/* Copies a node's description: host functions, copies and fills own nothing as long as they are
 * not bound. */
bool work_is_node(const struct work *work);

#endif
