/* What a rank that makes a communicator shares with the thread that looks for ranks that do not
 * come (interpose/calls/latecomers.h). Whoever is done with it last frees it.
 */
#ifndef NCCL_JOIN_INTERPOSE_LATE_H
#define NCCL_JOIN_INTERPOSE_LATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "core/transport/attachment.h"
#include "interpose/places/places.h"
#include "interpose/self/thread.h"

struct late {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  bool ended; /* the attachment is not to be read any more. With `lock` */
  atomic_int holders;
  const struct attachment *attachment; /* of the communicator; so are the next three */
  uint32_t slots, slot, tag;
  const char *function; /* that makes it */
  const struct thread *maker;
  struct place here; /* where the maker's call stands */
  /* The looking thread's own: how far all ranks were, and since when. */
  uint64_t moves, moved_ms;
};

/* With one holder. NULL: no memory. */
struct late *late_create(void);
void late_release(struct late *late);

/* Waits so long, or until it has ended. With `lock`, which is let go of meanwhile. */
void late_sleep(struct late *late, uint64_t milliseconds);

/* The creation has ended, or the attachment is about to go: nothing is said from here on, and a
 * holder is gone. Any thread. *late is NULL afterwards, and may be before. */
void late_end(struct late **late);

#endif
