/* What is done where all ranks are together again (core/team/team.h, team_is_rejoin): the last
 * joiner's buffers are broadcast to all, then post hooks are called.
 */
#ifndef NCCL_JOIN_INTERPOSE_REJOIN_H
#define NCCL_JOIN_INTERPOSE_REJOIN_H

#include <stdbool.h>
#include <stdint.h>

#include <nccl.h>

#include "interpose/park/wait.h"

/* Called after wait_until_settled and after issuing what has settled, the endpoints still entered.
 * Does nothing if no request is a rejoin. Waits for the other ranks, and for the device, where
 * buffers are resynchronised. ncclSuccess, or the error that the program's call must return:
 * ncclRemoteError (a rank has failed), a CUDA error, or that of a post hook. All has been logged.
 */
ncclResult_t rejoin_complete(const struct request *requests, uint32_t nrequests);

#endif
