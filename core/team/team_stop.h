/* Early termination: when the first rank leaves, all ranks of its teams stop at the same unit
 * (NCCL_JOIN_EARLY_EXIT=throw).
 *
 * The rule. A claim with CLAIM_TOGETHER is issued only if all ranks of the team claim the same
 * unit. If they do not, nobody issues anything: all pass the index as one at which they stopped,
 * and each hears of it with the call it is parked in. It is settled as every index is, by a
 * function of the claims that all ranks see alike, so all stop at the same one; what was issued
 * before it has been issued by all of them for real, so nothing is left on any stream. Afterwards
 * the sequence goes on: a program may catch the error and go on together.
 *
 * When to claim. A rank that has left can only stop the others where they have not gone past it. So
 * with early termination nobody commits the first unit of an iteration (team_must_meet): there all
 * ranks meet, once per loop body. Within the body they commit as ever. Before a body is known all
 * units are claimed anyway, also by a rank without any iteration, which stops all with their first
 * unit.
 *
 * Where an iteration begins is what the learner takes for it (learner_may_begin_iteration); also
 * that of a loop in the body, which may be an epoch. A rank that leaves elsewhere, in the middle of
 * a body, is shadowed to the next place where all meet.
 *
 * Sends and receives are answered as ever (peers.h): those of the iteration that a rank has left
 * were on their way before their collective could be claimed.
 *
 * Several teams. A rank that is stopped in one team is stopped in all. In those where it claims
 * nothing it leaves a claim behind (team_stop), which binds as a yield does: its peers there stop
 * as soon as all have come to that index, and so on from team to team. When it comes back to such a
 * team it passes that index first, and hears no more of it. What a rank requests in a team
 * meanwhile stays claimed, since others may have counted on it. A rank that yields (overlap.h) to a
 * claim that is to be issued by all has left its loop, and stops them likewise. Ranks of different
 * teams may thus differ by what they do in a body before the first unit that they have in common.
 *
 * Failures. A rank that fails before all have claimed an index frees the ranks that are parked, as
 * ever. Once they have, the stop is agreed. A rank that returns first and ends its process with an
 * error takes nothing away from the others, who find what it had passed (team_stop_or_fail; the
 * same holds where all have agreed to refuse a unit). Nor
 * does one that has left behind that it was stopped: that still counts at its index
 * (log_has_stopped).
 *
 * Devices. A rank that is told may end its process at once, and with it what its device has not
 * done yet. A peer that has come further may wait for just that on its own device, where nobody
 * tells it. So it is told when its device is done (interpose/park/stopping.c): all that it has
 * issued, its peers issue too, or have. Not where a rank has failed, nor among teams that send and
 * receive, where a rank that stops may leave a send without its receive.
 *
 * A rank whose claims have no CLAIM_TOGETHER stops with those that have it. (Settings that differ
 * are refused before: interpose/comm/alike.h.)
 */
#ifndef NCCL_JOIN_CORE_TEAM_STOP_H
#define NCCL_JOIN_CORE_TEAM_STOP_H

#include "core/team/team.h"

/* Whether the next unit must be claimed although it could be committed. */
bool team_must_meet(struct team *team);

/* After TEAM_STOPPED, team->stop.exhausted is whether this rank wanted something else than those
 * who go on; team->stop.rank is the lowest such rank, or, if team->stop.elsewhere, one that was
 * stopped in another of its teams. */

/* This rank has been stopped in another team, and has no claim here; it may have yielded. */
void team_stop(struct team *team);

/* Whether a rank has failed before it had come to where all stop: what this rank has issued for it
 * may never be done. */
bool team_stop_is_lost(const struct team *team);

#endif
