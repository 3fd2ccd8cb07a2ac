/* What stands for a thread: who uses an endpoint, and whether it can still come back to it.
 *
 * Not the address of thread-local storage: glibc gives that of a thread that has ended to the next
 * one.
 */
#ifndef NCCL_JOIN_INTERPOSE_THREAD_H
#define NCCL_JOIN_INTERPOSE_THREAD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "interpose/self/guard.h"

/* Who keeps something for a thread's next call: calls/group.c, and calls/issue.c. */
#define THREAD_KEEPERS 3u

/* Of a thread that has come to NCCL. Never freed: 32 bytes for each. */
struct thread {
  pid_t id; /* gettid */
  _Atomic bool ended;
  struct thread *next;
  void (*at_end[THREAD_KEEPERS])(void); /* NULL: none yet */
};

GUARD_STATE _Thread_local const struct thread *thread_own;

/* The first call of a thread. Without memory, one record for all such threads. */
const struct thread *thread_register(void);

/* The calling thread's. */
static inline const struct thread *thread_self(void) {
  return thread_own != NULL ? thread_own : thread_register();
}

/* The calling thread keeps memory until it ends: `release` is called then, on the thread. At most
 * THREAD_KEEPERS functions; asking again for the same one is asking once. */
void thread_at_end(void (*release)(void));

/* Whether the thread's functions have returned: none of its calls can come any more. False of NULL,
 * and of a thread that was never registered. */
bool thread_has_ended(const struct thread *thread);

/* For how long the thread has run on a processor so far, in nanoseconds, and how often it has begun
 * to, as one number that changes whenever it runs. 0 if that cannot be told. Reads /proc. */
uint64_t thread_runs(const struct thread *thread);

#endif
