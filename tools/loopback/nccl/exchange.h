/* Exchanges: all ranks of a communicator stage something, meet, and read what the others staged.
 *
 * Staging buffers and descriptors exist twice, by the parity of the step (of the unit), so one
 * meeting per exchange is enough: a rank writes for step s+2 only after the meeting of s+1, and
 * nobody arrives there before it has read step s.
 */
#ifndef LOOPBACK_NCCL_EXCHANGE_H
#define LOOPBACK_NCCL_EXCHANGE_H

#include "communicator.h"
#include "meeting.h"
#include "unit.h"

struct exchange {
  struct ncclComm *comm;
  const struct unit *unit;
  bool compared; /* the oracle has agreed to this unit */
};

/* Begins a collective unit: publishes its descriptor. On the worker, like all of these. */
struct exchange exchange_begin(struct ncclComm *comm, const struct unit *unit);

/* Where this rank puts what the next meeting is about. stage_bytes of the segment. */
void *exchange_own_stage(const struct exchange *exchange);

/* Arrives and waits for all ranks. Returns only if they mean the same unit, or if the wait was
 * broken. */
enum meeting_result exchange_meet(struct exchange *exchange);

/* What rank staged for the last meeting. Valid until the next one. */
const void *exchange_stage_of(const struct exchange *exchange, int rank);

/* ---- transfer.c ---- */

/* Performs the unit's sends and receives, all at once; messages between two ranks in the order in
 * which they were issued. On the worker.
 *
 * Each direction between two ranks is a ring of slots in shared memory. A message is one or more
 * slots, each with the message's count and datatype, which the receiver compares with its own. A
 * send is done when the receiver has read all of it: NCCL promises no buffering, so a program that
 * needs some must hang here. */
enum meeting_result transfers_run(struct ncclComm *comm, const struct unit *unit);

/* ---- collective.c ---- */

/* Performs operation with the other ranks of the exchange, in chunks through the staging buffers.
 * On the worker. A buffer that is not wholly inside one allocation of device memory, or that
 * overlaps the other one other than in place, ends the run. */
enum meeting_result collective_run(struct exchange *exchange, const struct operation *operation);

#endif
