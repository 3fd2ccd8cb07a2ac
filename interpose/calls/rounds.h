/* Epochs with nothing between them (NCCL_JOIN_EPOCHS).
 *
 * A rank without further data begins the next epoch, and its calls look like those of the epoch
 * before, which its peers may still be in. If anything that all ranks come to is between the two,
 * it waits there. If nothing is, the loops of the program say that a round of the outermost one
 * begins, or of the one in it, if that has another one around the call (core/place/place_rounds.h):
 * of the outermost one not if the rank's last call was in the round before, at a place to which
 * each round comes once.
 *
 * warn: the rank says so, and claims its first call in the round instead of committing it, so that
 * its peers see where it has begun (team_begin_round): in the first rounds of a loop, and where a
 * rank next to it is seen in another round.
 *
 * wait: all ranks claim a mark in front of that call, as if it were a place of the program: of the
 * inner loop, if all are known to go round both alike. A rank that has no call in a round claims no
 * mark there, and follows those that do.
 *
 * Where the code leaves open whether each round comes to the calls, ranks may have rounds of their
 * own (`if (item % world != rank) continue`): then a round begins only if all ranks have been seen
 * to count them alike (team_counts_rounds). To wait they must have been in any case, or nobody
 * would come; but a rank that comes to the loop for the first time in a later round, as it had
 * nothing to do in those before, claims its mark there if each round comes to it: the claims of
 * that index tell whether all count alike, and if not, the mark goes first (core/team/settle.h).
 */
#ifndef NCCL_JOIN_INTERPOSE_ROUNDS_H
#define NCCL_JOIN_INTERPOSE_ROUNDS_H

#include <stdbool.h>
#include <stddef.h>

#include <nccl.h>

#include "interpose/comm/call.h"

/* Whether the call that places_called has been told of begins a round, in the team of the
 * communicator, which is to be said, so that it may not be committed at once; takes note of it if
 * not. Some 30 ns, as places_round. */
bool rounds_are_due(ncclComm_t handle);

/* Before calls are issued, of one or several of the thread's ranks: says so of those that begin a
 * round, or waits in their teams, in all at once, as peers of one may be others. Returns
 * ncclSuccess, or the error with which the calls are to return, without having been issued. Not
 * inside of a transaction. */
ncclResult_t rounds_begin(const struct call *calls, size_t ncalls);

#endif
