/* Waiting of a rank that wakes itself in time for what the others commit (rhythm.h): a commit does
 * not ring for it, and so makes no system call. A rank that claims, yields, posts, ends, passes an
 * index with a unit that was claimed, or is about to wait for other ranks rings for it as for any
 * other. */
#ifndef NCCL_JOIN_CORE_TEAM_NAP_H
#define NCCL_JOIN_CORE_TEAM_NAP_H

#include "core/team/team.h"

/* Says that this rank is about to sleep, or to look without team_poll, from where the bell is now;
 * polls once more, and hands the verdict out if it is not TEAM_PARKED. rung: commits ring, too, as
 * for team_wait. */
enum team_verdict team_announce(struct team *team, struct unit *unit, bool rung, uint32_t *bell);

/* Since then: whether team_poll may have something to say. */
bool team_is_called(const struct team *team, uint32_t bell);

/* Whether some rank has passed this rank's index. */
bool team_is_passed(const struct team *team);

/* Whether what others commit here may be waited for without the bell: not where sends and receives
 * are, of which a parked rank waits for more than commits (peers.h). */
bool team_may_nap(const struct team *team);

/* The unit that is likely to be passed next, and how it looks (team_looks); false if none is. Valid
 * until the next call for the team. */
bool team_foresees(struct team *team, struct unit *unit);

/* Goes through what is needed to follow that unit, without any effect: it brings back what a
 * processor that has slept has lost from its caches. */
void team_rehearse(const struct team *team);

/* Names the place of the loop at which the team stands; not 0. The position in the body that is
 * expected, if that is short; elsewhere (a body of whole epochs, none at all) the units just
 * before. */
uint32_t team_loop_place(const struct team *team);

#endif
