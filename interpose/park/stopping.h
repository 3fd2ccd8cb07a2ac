/* A rank that was stopped in one of its teams stops in all (core/team/team_stop.h).
 */
#ifndef NCCL_JOIN_INTERPOSE_STOPPING_H
#define NCCL_JOIN_INTERPOSE_STOPPING_H

#include "interpose/park/stay.h"

/* The rank of `end` has been stopped there in this stay: says so, with what it wanted there, marks
 * its wishes, and passes it on to all its teams in which it claims nothing, that no other thread
 * uses, and that have not heard of it in this stay. A wish that has not begun yet is settled with
 * ncclInvalidUsage; what it claims in other teams stays claimed until it settles there. */
void stop_rank(struct stay *stay, struct endpoint *end, struct unit wanted);

#endif
