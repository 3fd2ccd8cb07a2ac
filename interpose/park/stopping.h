/* What a rank that has been stopped (core/team/team_stop.h) does before its program hears of it. */
#ifndef NCCL_JOIN_INTERPOSE_STOPPING_H
#define NCCL_JOIN_INTERPOSE_STOPPING_H

#include "interpose/park/wait.h"

/* Of requests that were stopped: waits until the devices of their ranks are done, for
 * NCCL_JOIN_TIMEOUT at most. The program may end when it is told, and what its device has not done
 * would be missing to a peer that waits on its own. */
void stopping_finish(const struct request *requests, uint32_t nrequests);

#endif
