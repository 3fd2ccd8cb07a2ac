/* The divisor of the program's reductions once a rank has joined: hooks/divisor.h has the rules,
 * this is where they meet the program's calls. Only with NCCL_JOIN_DIVISOR=active or active-sum;
 * then a rank that issues an average (or a sum that may be scaled) waits, on the CPU, for all ranks
 * to come to it. Joined ranks do not wait: see divisors_shadow.
 */
#ifndef NCCL_JOIN_INTERPOSE_DIVISORS_H
#define NCCL_JOIN_INTERPOSE_DIVISORS_H

#include <stdbool.h>
#include <stdint.h>

#include "interpose/comm/call.h"
#include "interpose/comm/communicator.h"

/* Whether any reduction may have to wait for others. */
bool divisors_are_on(void);

/* Gives a call that has settled for real, at an index, its divisor: `reduction` may become an
 * operator of ours, until divisors_done. *issue: whether it may be issued; if not, the rest of its
 * unit must not be either. Returns ncclSuccess, or what the program is to be given (logged, but for
 * NCCL's own):
 *   ncclRemoteError    it cannot be known who is active: not issued
 *   ncclInvalidUsage   an average of integers: not issued; or an operator whose scalar only the
 *                      device knows: issued as it is, since this rank alone knows, and the others
 *                      are not to hang
 *   any other          NCCL's, which could not make the operator: issued as it is */
ncclResult_t divisors_apply(struct call *call, uint64_t index, bool *issue);

/* After the call has been issued, or will not be. */
void divisors_done(struct call *call);

/* Changes the reduction of a member that this rank shadows to what the active ranks issue. (Since
 * it shadows, not all ranks are active.) False if they refuse it: then the unit must not be issued.
 */
bool divisors_shadow(struct member *member, const struct communicator *comm);

#endif
