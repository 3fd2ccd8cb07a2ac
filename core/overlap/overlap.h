/* Several teams at once: what a rank that is parked with a claim in one team does for its others.
 *
 * Every team has an agreed sequence of its own (team.h). A rank that waits in team A keeps its
 * other teams waiting. Three rules say when it answers them, and keep one order among teams:
 *
 *   - Order. Where a rank of both A and B has issued a unit of B before it comes to our place in A,
 *     we pass that unit before our claim in A settles. So units of overlapping teams are issued in
 *     the same order by both, also where they share a stream. Ranks of one team alone do not tell:
 *     while one of both is behind what they have issued there, it may come to the other's first.
 *   - Yield, between two. We claim in A and miss in B; a rank of both teams claims in B and misses
 *     in A. Neither can go on before one of them gives way, so this needs no time: both see both
 *     claims and come to the same answer (overlap_goes_before). Who gives way yields (team_yield).
 *   - Yield, in a chain. We wait for a rank that waits for another, and so on, back to one that
 *     misses us in a team that not all of them see. Nobody knows the whole chain; that nothing
 *     moves any more is known by asking whether everybody we wait for is parked, and waits for
 *     somebody who is (overlap_quiet). Then ranks yield one by one, those first that most likely
 *     have left their loop. A rank that is at work, however slow, makes its whole chain wait; but
 *     not one of which a parked rank says that it has been left behind by it (overlap_held.c): that
 *     one may wait for its device.
 *
 * A yield is always safe for the agreement: if it is wrong, units of different places of the
 * program meet. Devices are another matter. Once ranks differ in what comes first, streams that
 * hold units of three or more teams could wait for each other in a ring. Two rules keep them from
 * it:
 *
 *   - Step by step. Before a rank begins with a unit of one team, all ranks of its other teams have
 *     passed what it has issued there for real (overlap_must_wait). Say that a unit is out once the
 *     last rank of its team has passed it. Then of two units that stand in one stream, and of two
 *     units of one team, the first is out before the second is: no ring of them is possible. It is
 *     the ranks' host threads that keep step, not their devices. Where of any two teams of a rank
 *     one has all ranks of the other, its units are in one order anyway, and nobody waits. A
 *     program in which nobody has joined yet may not be made to wait for ever: a rank may come to
 *     its unit only once another has told it to, outside of NCCL, after a later one. As long as all
 *     issue for real there is no ring but the program's own, so then a rank waits for a moment only
 *     (overlap_patience).
 *   - Asking. A rank whose program waits for its device, or whose stream is full, waits outside of
 *     our calls, and answers nobody. So a rank that is out of step (it has yielded because only
 *     time told it to, or has shadowed others and then met them in the middle of their loop)
 *     asks before every unit from then on, and so does every rank that shares a team with it. A
 *     unit that all have claimed comes on every device. But of one that a rank has claimed and
 *     others have passed, some may have neither done yet: the rank goes back to its program when
 *     they have (overlap_must_wait), or after a second, since they may wait for it themselves.
 *     Ranks may be out of step without having seen it.
 *
 * The rank predictor is what the rank's own program does, over all its teams in order: a learner
 * for one team takes a barrier of all ranks, seen a few times, for a loop of barriers, and would
 * issue it without asking. Nothing is committed that the rank predictor does not expect. It decides
 * only between asking and not asking, so ranks need not agree on it.
 *
 * Pure: no NCCL, no clock of its own. All teams of a struct overlap are driven by one thread at a
 * time, but another thread may add and remove teams. With one team everything here does nothing.
 */
#ifndef NCCL_JOIN_CORE_OVERLAP_H
#define NCCL_JOIN_CORE_OVERLAP_H

#include <stdatomic.h>

#include "core/team/team.h"

/* How long it must have been quiet before the ranks of a chain yield, in milliseconds. Each class
 * waits for one step more, and within a class ranks follow each other, so that one yields at a time
 * and the others see what has come of it: a yield is seen by the next look, a millisecond later. */
#define OVERLAP_STEP_MS UINT64_C(64)
#define OVERLAP_STAGGER UINT64_C(32) /* ranks; less than a step */
#define OVERLAP_NEVER UINT64_MAX
#define OVERLAP_ISSUE_MS 5000 /* longer than NCCL takes to connect ranks */

/* For how long ranks that are behind are waited for, at first and at most, while nobody has joined:
 * more than it takes ranks that are all parked to answer each other. So many times as long if one
 * is parked with a claim: it may be out of its loop, and will answer once its peers have come. */
#define OVERLAP_PATIENCE_MS 1000
#define OVERLAP_PATIENCE_LEAST_MS 1
#define OVERLAP_PATIENCE_CLAIMED 10

struct overlap;
struct overlap_team;

/* The teams of the rank with this identity: unique among the ranks of all teams. NULL without
 * memory. */
struct overlap *overlap_create(uint64_t identity);
void overlap_destroy(struct overlap *overlap);

/* identities: of the team's ranks, by rank; copied. Sets the team's is_held. NULL without
 * memory: the team then stands alone. The result is the overlap's, valid until it is removed. */
struct overlap_team *overlap_add(struct overlap *overlap, struct team *team,
                                 const uint64_t *identities);
void overlap_remove(struct overlap *overlap, struct team *team);

static inline uint32_t overlap_nteams(const struct overlap *overlap) {
  return atomic_load((const _Atomic uint32_t *)(const void *)overlap);
}

/* ---- the program's own units ---- */

/* An index of another team that not all of its ranks have passed. */
struct overlap_behind {
  struct team *team;
  uint64_t index;
};

/* Whether a rank of another team has not passed yet what this rank has issued there: the next unit
 * of this team must be neither committed nor claimed (overlap_wait). Then *behind says where. team
 * NULL: of any team; who has claimed what it has issued is not to go back to its program yet. */
bool overlap_must_wait(struct overlap *overlap, const struct team *team,
                       struct overlap_behind *behind);

/* For how many milliseconds those behind are to be waited for, before a unit of `team` (NULL: after
 * one of any): less and less where that has been in vain. OVERLAP_NEVER: until they have come, as a
 * rank has joined, or will, since it leaves and has not passed what comes next. */
uint64_t overlap_patience(struct overlap *overlap, const struct team *team,
                          const struct overlap_behind *behind);

/* They have been waited for: in vain, or they have come. */
void overlap_waited(struct overlap *overlap, const struct overlap_behind *behind, bool in_vain);

/* Whether what the team expects may be committed. */
bool overlap_may_commit(struct overlap *overlap, struct team *team);

/* Flags of a claim (enum claim_flag), for others to weigh it by. */
uint32_t overlap_claim_flags(const struct overlap *overlap, struct team *team, struct unit unit);

/* The unit, the team's last, has been committed, or has settled for real or as a shadow; or a LEAVE
 * has. */
void overlap_issued(struct overlap *overlap, const struct team *team, struct unit unit);

/* ---- parked ---- */

/* The rank parks with claims in some of its teams; ends when it goes back to its program.
 * now_ms: any clock that the ranks of all teams share. */
void overlap_park(struct overlap *overlap, uint64_t now_ms);

/* The same without claims, because of overlap_must_wait. It answers its other teams only where
 * nobody can move otherwise. */
void overlap_wait(struct overlap *overlap, uint64_t now_ms);
void overlap_return(struct overlap *overlap);

/* Something has settled for this rank. */
void overlap_moved(struct overlap *overlap, uint64_t now_ms);

/* The rank is about to issue that, which may take a while. Until overlap_moved, but for
 * OVERLAP_ISSUE_MS at most, it counts as moving. After that it may wait for its peers there. */
void overlap_issues(struct overlap *overlap, uint64_t now_ms);

/* Which team must not be answered now: another thread's, or one where a unit has been agreed but
 * not issued yet. */
void overlap_set_available(struct overlap_team *team, bool available);

/* For how many milliseconds nobody has moved whom this rank waits for, however indirectly. Also
 * tells the others the same of this rank. */
uint64_t overlap_quiet(struct overlap *overlap, uint64_t now_ms);

/* Whether a rank has gone on in another team without this one, and may now wait on its device for
 * what this one has yet to issue there. */
bool overlap_holds_up(struct overlap *overlap);

/* A look around begins, after it has been quiet for so long. */
void overlap_look(struct overlap *overlap, uint64_t quiet_ms);

/* Whether to poll a team without a claim of ours: its next unit, if it has settled, is to be
 * issued as a shadow. Yields there if that is due. */
bool overlap_answers(struct overlap_team *team);

/* How long it must be quiet before a look around does more than it does now; OVERLAP_NEVER if
 * time makes no difference. */
uint64_t overlap_delay(const struct overlap *overlap);

/* The last yield was a guess: nothing but size or rank told which goes first. Reset by who says so.
 */
bool overlap_guessed(struct overlap *overlap, struct unit *requested, struct member *yielded_to);

/* ---- the rule between two claims ---- */

struct overlap_claim {
  bool leave;
  bool predicted; /* see CLAIM_PREDICTED */
  bool expected, seen;
  uint32_t reals;  /* units issued for real, in all teams */
  uint32_t recent; /* of those, since both ranks last issued the same one for real */
  uint64_t bytes;
  uint64_t identity;
  struct place place; /* nnodes 0: not known */
};

/* Whether a goes before b, whose rank then yields. A strict order. *guess: whether only size or
 * rank decided. In order: any unit before LEAVE; a unit in a loop before one that has left it, or
 * passed it by (place.h); what its rank's predictor says; the most recent units; what the team's
 * learner expects; a unit seen before; what comes first in the program; the larger unit; the lower
 * identity. */
bool overlap_goes_before(const struct overlap_claim *a, const struct overlap_claim *b, bool *guess);

#endif
