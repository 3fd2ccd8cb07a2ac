/* What ends a request of a parked thread (wait.h). For wait_look.c, wait_issue.c and request.c.
 * Each outcome_… that takes a request settles it, unless it says otherwise. */
#ifndef NCCL_JOIN_INTERPOSE_OUTCOME_H
#define NCCL_JOIN_INTERPOSE_OUTCOME_H

#include "interpose/park/wait.h"

/* Whether the request only leaves: a LEAVE, or an exit point. Such a call need not be NCCL's, and
 * then cannot return an error of ours. */
bool request_only_leaves(const struct request *request);

/* The unit is issued by all ranks, or all have left. */
void outcome_well(struct request *request);

/* The rank goes on: it is joined no longer. The memory of its shadows is kept for the next time: to
 * free it waits for the whole device, and so for collectives of other communicators whose peers may
 * wait for this rank. */
void outcome_returns(struct endpoint *end);

/* Nothing is agreed on any more: the call goes through as it comes (apart.h). */
void outcome_aside(struct request *request);

/* The verdict is TEAM_FAILED, or a rank has failed and no shadow can be issued for it
 * (team_find_culprit has been called): logged, with the reason. */
void outcome_failed(struct request *request);

/* The rank's program is to hear with this call that joined ranks have spoiled a collective, and the
 * request will not settle: who has heard of it issues nothing more. The rank fails. */
void outcome_refused(struct request *request);

/* Another thread of the process has broken the wait off (endpoint.broken), and said why. */
void outcome_broken(struct request *request);

/* NCCL_JOIN_TIMEOUT has passed (logged). False if that is no reason to give up
 * (clock_is_programs_own): the request goes on waiting. */
bool outcome_late(struct request *request);

/* Called now and then for a LEAVE. Ranks may destroy their communicators in different orders, which
 * NCCL allows; then each waits here for one that waits elsewhere. Once that has been seen in two
 * calls, the rank goes on, and leaves its claim behind for those that come here later. */
void outcome_in_another_order(struct request *request);

#endif
