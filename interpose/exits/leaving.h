/* The ways in which a rank leaves its team: cleanly, with a failure, or both at once.
 */
#ifndef NCCL_JOIN_INTERPOSE_LEAVING_H
#define NCCL_JOIN_INTERPOSE_LEAVING_H

#include "interpose/comm/communicator.h"

/* The rank is done with the communicator: claims LEAVE in its team, and answers the others until
 * all have left. Communicators that the same thread drives (ncclCommInitAll, one group) leave
 * together. Nothing if it has left already or never joined. Bounded. ncclSuccess: go on into the
 * real call (after a timeout too); ncclRemoteError: a rank has failed (logged);
 * ncclInvalidUsage: others are still in their loops, and all stop (core/team/team_stop.h; logged).
 * notice: ncclSuccess, or the error that the program's call must return although it is done: a
 * joined rank has spoiled this one's last collectives (logged). */
ncclResult_t leave_communicator(struct communicator *comm, ncclResult_t *notice);

/* Whether the thread that leaves `comm`, or says something on it, does so for `other` too, a
 * communicator made in the same call or group: itself is one. */
bool leaves_with(const struct communicator *comm, const struct communicator *other);

/* ncclCommAbort: a clean departure (between two iterations, all that the rank has issued issued by
 * its peers too, no error on the communicator, no other thread parked in the team) is a leave;
 * anything else is a failure, and goes through at once, as the rank's further aborts then do.
 * Returns what the rank is to the others now. *result: ncclInvalidUsage for either reason above,
 * else ncclSuccess.
 */
enum rank_state leave_by_abort(struct communicator *comm, ncclResult_t *result);

/* Communicators are being made: what was given up before does not count any more. */
void leaving_begins_anew(void);

/* The rank gives up: frees all who are parked in its team, its own threads among them. */
void leave_failed(struct communicator *comm);

#endif
