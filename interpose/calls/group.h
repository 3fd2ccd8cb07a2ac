/* Groups: calls between an outermost ncclGroupStart and its ncclGroupEnd are held back, so that the
 * unit can be agreed on as a whole before any of it reaches NCCL.
 *
 * The real group is opened only for what cannot be held back (communicators being made or
 * destroyed); NCCL too does those before a group's collectives. State belongs to the thread.
 */
#ifndef NCCL_JOIN_INTERPOSE_GROUP_H
#define NCCL_JOIN_INTERPOSE_GROUP_H

#include <stdbool.h>

#include <nccl.h>

#include "interpose/comm/call.h"
#include "interpose/comm/communicator.h"
#include "interpose/self/guard.h"

/* Whether this thread is inside a group. */
static inline bool group_is_open(void) {
  return guard_thread.groups > 0;
}

/* The calls held back by this thread. */
struct group_calls {
  struct call *calls;
  uint32_t count, room;
  bool long_way; /* among them is one that never takes the fast path */
};
extern __attribute__((visibility("hidden"))) _Thread_local struct group_calls group_calls;

/* Makes room for more calls. False without memory: then the group's end returns ncclSystemError. */
bool group_grow(void);

static inline bool group_is_full(void) {
  return group_calls.count == group_calls.room;
}

/* Counts one more call and returns its place, for the caller to write it. The group is not full. */
static inline struct call *group_hold(void) {
  return &group_calls.calls[group_calls.count++];
}

/* Opens the real group, for a function that must be called inside it now. */
ncclResult_t group_open_real(void);

/* Before a function that must not be held back: opens the real group if the program has one open.
 */
static inline ncclResult_t group_enter_real(void) {
  return group_is_open() ? group_open_real() : ncclSuccess;
}

/* A communicator that is being made in this group: it is added when the group ends well. handle:
 * where NCCL writes it. */
void group_expect(const struct arrival *arrival, ncclComm_t *handle);

/* The number that all communicators made in this group share (communicator.h, driver). */
uint64_t group_driver(void);

#endif
