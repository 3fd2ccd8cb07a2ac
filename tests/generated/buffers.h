/* Device memory of the calls that a rank's stream has not been waited for. */
#ifndef GENERATED_BUFFERS_H
#define GENERATED_BUFFERS_H

#include <stdbool.h>
#include <stddef.h>

#include "tests/generated/rank.h"

enum { PENDING_MAX = 64, BUFFERS_BYTES = 4 << 20 };

struct pending {
  struct call *call;
  char *send, *receive;
  size_t receives; /* bytes */
};

struct buffers {
  char *device, *host; /* BUFFERS_BYTES each */
  size_t used;
  int npending;
  struct pending pending[PENDING_MAX];
};

enum { BUFFERS_ALIGNMENT = 256 };

static inline bool buffers_full(const struct buffers *buffers, size_t bytes) {
  return buffers->npending == PENDING_MAX ||
         buffers->used + bytes + 2 * BUFFERS_ALIGNMENT > BUFFERS_BYTES;
}

static inline char *buffers_part(struct buffers *buffers, size_t bytes) {
  char *part = buffers->device + buffers->used;
  buffers->used += (bytes + BUFFERS_ALIGNMENT - 1) / BUFFERS_ALIGNMENT * BUFFERS_ALIGNMENT;
  return part;
}

/* Not if it is full. */
static inline struct pending *buffers_take(struct buffers *buffers, size_t sends, size_t receives) {
  struct pending *pending = &buffers->pending[buffers->npending++];
  pending->send = buffers_part(buffers, sends);
  pending->receive = buffers_part(buffers, receives);
  pending->receives = receives;
  return pending;
}

static inline void buffers_empty(struct buffers *buffers) {
  buffers->npending = 0;
  buffers->used = 0;
}

#endif
