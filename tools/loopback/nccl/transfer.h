/* Sends and receives of one unit, all under way at once.
 *
 * Each direction between two ranks is a ring of slots in shared memory. A message is one or more
 * slots, each with the message's count and datatype, which the receiver compares with its own. A
 * send is done when the receiver has read all of it: NCCL promises no buffering, so a program that
 * needs some must hang here.
 */
#ifndef LOOPBACK_NCCL_TRANSFER_H
#define LOOPBACK_NCCL_TRANSFER_H

#include "communicator.h"
#include "meeting.h"
#include "unit.h"

/* Performs the unit's sends and receives; messages between two ranks in the order they were issued.
 * On the worker. */
enum meeting_result transfers_run(struct ncclComm *comm, const struct unit *unit);

#endif
