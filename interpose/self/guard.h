/* Whether a call of an NCCL function is the program's own, for the wrappers to act on, or one to be
 * passed through.
 *
 * Passed through are:
 *   - calls made inside another one: libnccl calls itself by its exported names (ncclBcast calls
 *     ncclBroadcast), and so do handlers, hooks and plug-ins. Wrappers raise the depth around their
 *     handler, process.c around leave_process: whatever those call, by real.X or by ncclX, reaches
 *     NCCL and nothing else;
 *   - all calls of a process that is off: NCCL_JOIN=0, or forked from one that had a communicator.
 *
 * The depth belongs to a thread and lives in initial-exec TLS: no call, no allocation. A thread
 * that longjmps out of an NCCL call stays raised and is passed through from then on.
 */
#ifndef NCCL_JOIN_INTERPOSE_GUARD_H
#define NCCL_JOIN_INTERPOSE_GUARD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "interpose/places/native/native_sites.h"

struct communicator;
struct seat;

enum guard_mode {
  GUARD_UNDECIDED = 0, /* before the first call: the environment has not been read */
  GUARD_ON,
  GUARD_OFF, /* for the rest of the process's life */
};

/* Hidden by name, because the declaration decides whether it is reached through the GOT. */
#define GUARD_STATE extern __attribute__((visibility("hidden")))

/* The communicator that a thread has committed to last (fast_path.h). */
struct guard_fast_path {
  const void *handle; /* GUARD_NO_HANDLE: none */
  struct communicator *comm;
  struct seat *seat;
};
/* NULL may be passed by a program. */
#define GUARD_NO_HANDLE ((const void *)UINTPTR_MAX)

/* What a thread is inside of, in one word so that one comparison asks for all of it. */
struct guard_thread {
  union {
    struct {
      int depth;  /* wrappers entered; 0 in the program's own code */
      int groups; /* groups that the program has open, one in the other */
    };
    uint64_t any;
  };
  /* Where its call stands, kept here because this variable is at hand: that of places.h. Never
   * NULL. */
  struct native_site *site;
  struct guard_fast_path fast_path;
  uint64_t number;            /* of the thread, from 1 on, in the upper half; 0: it has none yet */
  struct native_bounds stack; /* places.h: since a place was last looked up the long way */
};
GUARD_STATE _Thread_local struct guard_thread guard_thread;

/* Whether places are looked for (NCCL_JOIN_PLACES). Set before the mode is GUARD_ON. */
GUARD_STATE _Atomic bool guard_places;

/* GUARD_ON is stored after the real functions have been found: who reads it in guard_acts may read
 * those (real.h) without further ado. Elsewhere nothing is published with it. */
GUARD_STATE _Atomic(enum guard_mode) guard_mode;

/* If the mode is undecided, reads NCCL_JOIN and NCCL_JOIN_PLACES and finds the real functions; it
 * stays undecided as long as there is no NCCL. Returns whether it is GUARD_ON. Any thread. In
 * nccl/decision.c, since finding NCCL is the job of a room above this one. */
bool guard_decide(void);

/* GUARD_OFF for good. Async-signal-safe. */
void guard_turn_off(void);

/* Whether a call made now is to be acted on; otherwise it is passed through, and this is all that
 * costs. */
static inline bool guard_acts(void) {
  if (guard_thread.depth > 0)
    return false;
  enum guard_mode mode = atomic_load_explicit(&guard_mode, memory_order_acquire);
  return mode == GUARD_ON || (mode == GUARD_UNDECIDED && guard_decide());
}

/* Whether a call made now is passed through for certain; the rest of what guard_acts asks may wait.
 * In a process that is off, raises the thread for good, so that its next call is seen to pass at
 * once. */
static inline bool guard_passes(void) {
  if (guard_thread.depth > 0)
    return true;
  if (atomic_load_explicit(&guard_mode, memory_order_relaxed) != GUARD_OFF)
    return false;
  guard_thread.depth = 1;
  return true;
}

/* Whether the thread is in the program's own code and in no group. */
static inline bool guard_is_open(void) {
  return guard_thread.any == 0;
}

/* Between these two all calls of this thread pass through. They nest. */
static inline void guard_raise(void) {
  guard_thread.depth++;
}
static inline void guard_lower(void) {
  guard_thread.depth--;
}

#endif
