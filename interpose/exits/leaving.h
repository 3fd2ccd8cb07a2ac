/* The ways in which a rank leaves its team: cleanly, with a failure, or both at once.
 */
#ifndef NCCL_JOIN_INTERPOSE_LEAVING_H
#define NCCL_JOIN_INTERPOSE_LEAVING_H

#include "interpose/comm/communicator.h"

/* The rank is done with the communicator: claims LEAVE in its team, and answers the others until
 * all have left. Communicators that the same thread drives (ncclCommInitAll, one group) leave
 * together. Does nothing if it has left already or never joined. Bounded by NCCL_JOIN_TIMEOUT.
 *   ncclSuccess        go on into the real call; after the timeout, too
 *   ncclRemoteError    a rank has failed (logged)
 *   ncclInvalidUsage   others are still in their loops: all stop (core/team/team_stop.h; logged)
 *   ncclSystemError    no memory
 * *notice: ncclSuccess, or the error that the program's call must return although it is done: a
 * joined rank has spoiled this one's last collectives (logged). */
ncclResult_t leave_communicator(struct communicator *comm, ncclResult_t *notice);

/* Whether the rank of `comm` has failed as its program would have it: by an abort, or with an
 * exception under way while others go on. Then it is not told again: what is left of its
 * communicators is to be aborted, with success. */
bool leaving_has_given_up(const struct communicator *comm);

/* Whether the thread that leaves `comm`, or makes an annotation on it, does so for `other` too: for
 * a communicator made in the same call or group, and for `comm` itself. */
bool leaves_with(const struct communicator *comm, const struct communicator *other);

/* ncclCommAbort. It is a leave where it comes between two iterations, the peers have issued all
 * that the rank has issued, there is no error on the communicator, and no other thread is parked in
 * the team. Anything else is a failure, and goes through at once, as the rank's further aborts then
 * do. Returns what the rank is to the others now. *result: ncclInvalidUsage where
 * leave_communicator returns it or has a notice, else ncclSuccess. */
enum rank_state leave_by_abort(struct communicator *comm, ncclResult_t *result);

/* Communicators are being made: aborts before that do not make the next one a failure any more. */
void leaving_begins_anew(void);

/* The rank gives up: frees all who are parked in its team, its own threads among them. */
void leave_failed(struct communicator *comm);

#endif
