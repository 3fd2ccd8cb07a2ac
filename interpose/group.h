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

#include "interpose/call.h"
#include "interpose/communicator.h"
#include "interpose/guard.h"

/* Whether this thread is inside a group. */
static inline bool group_is_open(void) {
  return guard_thread.groups > 0;
}

/* Holds a call back until the group's end. */
ncclResult_t group_hold(const struct call *call);

/* Opens the real group, for a function that must be called inside it now. */
ncclResult_t group_open_real(void);

/* A communicator that is being made in this group: it is added when the group ends well. `handles`:
 * where NCCL writes the handle. */
void group_expect(const struct arrival *arrival, ncclComm_t *handle);

/* The number that all communicators made in this group share (communicator.h, driver). */
uint64_t group_driver(void);

#endif
