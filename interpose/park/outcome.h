/* What ends a wish of a parked thread (answer.h), for answer.c.
 */
#ifndef NCCL_JOIN_INTERPOSE_OUTCOME_H
#define NCCL_JOIN_INTERPOSE_OUTCOME_H

#include "interpose/park/answer.h"

/* Whether the call that the wish is for cannot return an error of ours, and is no part of NCCL: the
 * rank wants to leave, one way or the other. */
bool wish_only_leaves(const struct wish *wish);

/* It is issued by all ranks, or all have left. */
void outcome_well(struct wish *wish);

/* The rank goes on. The memory of its shadows is kept for the next time: to free it waits for the
 * whole device, and so for collectives of other communicators whose peers may wait for this rank.
 */
void outcome_returns(struct endpoint *end);

/* Nothing is agreed on any more: the call goes through as it comes (apart.h). */
void outcome_aside(struct wish *wish);

/* TEAM_FAILED. */
void outcome_failed(struct wish *wish);

/* Another thread of the process has broken it off, and said why. */
void outcome_broken(struct wish *wish);

/* NCCL_JOIN_TIMEOUT has passed. False if that is no reason to give up (patience_is_programs_own):
 * nothing has changed then. */
bool outcome_late(struct wish *wish);

/* Of a LEAVE, asked now and then: ranks may destroy their communicators in different orders, which
 * NCCL does not mind: then each waits here for one that waits elsewhere. Seen so twice, the rank
 * goes on, and leaves its claim behind for those that come here later. */
void outcome_in_another_order(struct wish *wish);

#endif
