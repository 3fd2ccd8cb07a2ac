/* Captures of CUDA graphs that are under way in this process, as far as their beginning and end are
 * seen: by the functions of entry/capture_functions.c, which are exported like NCCL's. Without a
 * type of CUDA, because those are declared otherwise than in CUDA's headers: one table serves the
 * runtime and the driver. What follows from a capture is in calls/capture.h.
 */
#ifndef NCCL_JOIN_INTERPOSE_CAPTURES_H
#define NCCL_JOIN_INTERPOSE_CAPTURES_H

#include <stdatomic.h>
#include <stdbool.h>

/* Begun and not ended. Runtime functions that call exported ones of the driver count twice. */
extern __attribute__((visibility("hidden"))) _Atomic int captures_under_way;

/* Whether a capture is known to be under way anywhere in this process. Meanwhile nobody commits on
 * the fast path. */
static inline bool captures_are_under_way(void) {
  return atomic_load(&captures_under_way) > 0;
}

/* Says who is told when a capture begins. Called once there are communicators. */
void captures_tell(void (*begun)(void));

/* A capture is about to begin; has ended, or has not begun after all. Any thread. */
void captures_began(void);
void captures_ended(void);

#endif
