/* A joined rank that wakes itself in time for what the others commit (core/predict/rhythm.h): when
 * a parked thread sleeps, until when, and when it looks. For wait_look.c and wait_issue.c alone.
 *
 * The thread waits in one team, whose bell it hears, and looks at all that it answers for: the unit
 * that is due first decides, and the processor time is that of the endpoint it waits in.
 */
#ifndef NCCL_JOIN_INTERPOSE_FOLLOWER_H
#define NCCL_JOIN_INTERPOSE_FOLLOWER_H

#include "interpose/park/wait_private.h"

/* A unit has been found in an endpoint, which the thread has entered or holds, that is to be issued
 * as a shadow. */
void follower_saw(const struct wait *wait, struct endpoint *end);

/* Nothing has been found in an endpoint that is not waited in. The next follower_wait takes into
 * account when that one is to be looked at again. */
void follower_consider(struct wait *wait, struct endpoint *end);

/* As team_wait in the endpoint's team; returns when any endpoint considered is to be looked at. */
enum team_verdict follower_wait(struct wait *wait, struct endpoint *end, struct unit *unit,
                                unsigned milliseconds);

#endif
