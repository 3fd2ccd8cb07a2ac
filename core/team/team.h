/* One rank's end of a team's agreed sequence G: G[i] is the unit that all ranks of the team issue
 * at index i, each for real or as a shadow. No mismatched collective ever reaches NCCL: that is the
 * invariant, and this file is where it is kept.
 *
 * How a rank gets its next unit X into G at index i:
 *   - team_commit: X is what every rank's learner expects at i. It is published and issued at once.
 *   - team_claim, then team_poll until it settles: anything else. If some rank has passed i, G[i]
 *     is what that rank issued; if all have claimed i, the winner rule (settle.h) decides.
 *     Meanwhile every unit that settles to something else is a shadow to be issued.
 *   - team_claim_leave: the same for the special unit LEAVE, which loses to every other claim. It
 *     settles when all ranks of the team claim it. A rank that has claimed does not commit until
 *     its claim has settled, even if its unit comes to be expected: it has left its peers' loop,
 *     and they may be about to issue another round of it.
 *   - team_yield: this rank is parked in another team and has nothing here. It follows what the
 *     others agree on at this index. It cannot be taken back: others may have counted on it.
 *
 * No function here blocks, allocates (team_create and a group not seen before apart) or makes a
 * system call (ringing the bell apart): the caller polls, and waits with team_wait in between. One
 * thread at a time per team, which the caller sees to.
 */
#ifndef NCCL_JOIN_CORE_TEAM_H
#define NCCL_JOIN_CORE_TEAM_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "core/team/team_state.h"
#include "core/predict/learner.h"
#include "core/p2p/peers.h"
#include "core/place/place_table.h"
#include "core/transport/logs.h"
#include "core/unit/unit.h"

enum team_verdict {
  TEAM_PARKED,  /* not settled yet: wait, then poll again */
  TEAM_REAL,    /* the claim has settled: issue it for real */
  TEAM_SHADOW,  /* issue the unit as a shadow, then poll again */
  TEAM_MIRROR,  /* issue these sends and receives as one, then poll again */
  TEAM_OUTSIDE, /* of an exchange: a peer issues its side of it outside of the sequence, so that it
                   is none in this program: issue it in the same way */
  TEAM_REFUSED, /* the claim has settled, and all ranks know that it must not be issued:
                   team_refused_for */
  TEAM_STOPPED, /* not all ranks want the same, and all have agreed to stop here: team_stop.h */
  TEAM_LEFT,    /* all ranks of the team have left */
  TEAM_FAILED,  /* see team_failure: nothing more will settle */
};

/* NULL if there is no memory. The plane stays the caller's and must outlive the team. */
struct team *team_create(struct plane *plane);
void team_destroy(struct team *team);

/* What is expected where nothing is: no unit has that many members. */
extern struct known_unit team_nothing;

/* The slow half of team_commit: looking further ahead, room in the log, learning, ringing. */
bool team_commit_slowly(struct team *team, struct unit unit);
void team_look_further(struct team *team);
void team_published(struct team *team);

/* Learns the units that have been committed since the last time: what all functions but the next
 * three begin with. */
void team_catch_up(struct team *team);

/* Publishes the expected unit as issued for real. False if that takes more than a few stores:
 * nothing has changed then, and team_commit does it. */
static LOG_INLINE bool team_commit_expected(struct team *team) {
  if (team->head >= team->limit || !team->run_real)
    return false;
  const struct known_unit *unit = *team->expected++;
  log_commit(team->own, &team->head, &unit->hash, &team->reals, &team->run_start);
  return true;
}

/* After a commit: whether team_published is to be called, because somebody waits, or must be
 * told. */
static LOG_INLINE bool team_is_awaited(const struct team *team) {
  return !plane_is_calm(team->shared, &team->calm);
}

/* If the unit is what every rank expects now, publishes it as issued for real and returns true:
 * issue it. Otherwise changes nothing. Never waits. */
static inline bool team_commit(struct team *team, struct unit unit) {
  const struct known_unit *expected = *team->expected;
  bool matches =
      unit.nmembers == expected->nmembers &&
      memcmp(unit.members, expected->members, sizeof(*unit.members) * unit.nmembers) == 0;
  if (!matches || !team_commit_expected(team))
    return team_commit_slowly(team, unit);
  if (team_is_awaited(team))
    team_published(team);
  return true;
}

/* Where nothing is expected as this rank may have gone round to a loop: expects all the same what
 * would be otherwise, if where it stands tells that it has not. Returns whether anything is
 * expected then. Its rounds are kept for the next time. */
bool team_look_here(struct team *team, const struct place *place);

/* The next unit is not to be committed, whatever is expected: this rank had better meet the others
 * there. */
void team_expect_nothing(struct team *team);

/* unit_hash of the unit as the team knows it: with the place that its own has been taken for.
 */
uint64_t team_class_hash(struct team *team, struct unit unit);

/* Whether something has happened that an active rank must hear of before it issues anything:
 * team_events. */
static LOG_INLINE bool team_must_attend(const struct team *team) {
  return plane_has_events(team->shared, &team->calm);
}

/* Parks on a unit, a mark, or LEAVE. No claim may be open. `flags`: enum claim_flag, of which this
 * function adds what says that it is a mark. The members are copied; a unit of more than
 * UNIT_MEMBERS_MAX members is not, and must stay until it has settled. place: where it stands in
 * the program, with the id that the unit has; copied; NULL: not known. */
void team_claim(struct team *team, struct unit unit, uint32_t flags, const struct place *place);
void team_claim_leave(struct team *team);

/* The same as team_claim. looks: how the members look (look.h), copied; NULL: all 0. */
void team_claim_looking(struct team *team, struct unit unit, uint32_t flags,
                        const struct place *place, const look_t *looks);

/* After TEAM_SHADOW, TEAM_MIRROR and team_foresees: how the buffers of the unit's members look on
 * the ranks that issue it, as far as that is known: as this rank has issued it itself, or as a rank
 * said that claimed it. NULL: all 0. Valid as long as the unit. */
static inline const look_t *team_looks(const struct team *team) {
  return team->followed.handed_out;
}

/* At the present index, where no claim is open and another rank claims a unit: follow what the
 * others agree on. Until it has settled nothing is committed here, and a claim waits behind it (and
 * is issued for real if it is just that unit). */
void team_yield(struct team *team);
static inline bool team_is_yielding(const struct team *team) {
  return team->yielded == team->head + 1;
}

/* Withdraws an open claim that cannot settle any more (the caller gives up). The team has failed
 * for this rank. */
void team_give_up(struct team *team);

/* One look at the other ranks. With a claim open, any verdict. Without one (this rank is parked in
 * another team, and answers or has yielded here), TEAM_PARKED, TEAM_SHADOW, TEAM_STOPPED (it has
 * yielded here) or TEAM_FAILED. For TEAM_SHADOW, *unit is the unit to issue, valid until the next
 * call; it is already published as issued; so are the members of *unit for TEAM_MIRROR (peers.h).
 * After TEAM_REAL, TEAM_REFUSED, TEAM_STOPPED and TEAM_LEFT the claim is closed. */
enum team_verdict team_poll(struct team *team, struct unit *unit);

/* Waits until another rank may have done something, at most some milliseconds: polls once more
 * between announcing the wait and sleeping, and hands the verdict out if it is not TEAM_PARKED. */
enum team_verdict team_wait(struct team *team, struct unit *unit, unsigned milliseconds);

/* Index of the unit that the last verdict, or commit, was about. */
static inline uint64_t team_index(const struct team *team) {
  return team->head - 1;
}

/* How many collectives of the program have been passed: without the marks and resynchronised
 * buffers of nccl_join_enter and nccl_join_leave. */
static inline uint64_t team_collectives(const struct team *team) {
  return team->head - team->leaves - team->own_units;
}

/* Whether at the unit that the last verdict was about (TEAM_REAL, TEAM_LEFT) all ranks are together
 * again: all claimed it, and since the last rejoin some had joined; or a rank said by
 * MARK_LOOP_END that it has no more data, and so did all others, or they begin a loop or leave. Not
 * where ranks issued it without asking, because all expected it: then at the next unit that all
 * claim. */
bool team_is_rejoin(const struct team *team);

/* Whether the last joiner's buffers are to be broadcast there. All ranks say the same. Those that
 * want nothing else meanwhile claim MARK_STATE_DONE next. */
bool team_is_resync(const struct team *team);

/* At a rejoin: of the last unit that not all ranks issued for real, the largest rank that did. All
 * ranks say the same. It is among those that say that they are together. */
uint32_t team_last_joiner(const struct team *team);

/* Whether this rank was one of those. */
bool team_was_last(const struct team *team);

/* The joined rank for whose sake the last unit was refused. */
uint32_t team_refused_for(const struct team *team);

/* Which ranks issued G[index] for real, once all ranks have passed it: active[rank]. TEAM_PARKED
 * until then, TEAM_FAILED if it will not be known. index: one of the last PLANE_RUN_AHEAD passed by
 * this rank. */
enum team_verdict team_active(struct team *team, uint64_t index, bool *active);

/* The same for one rank only. */
enum team_verdict team_is_active(struct team *team, uint64_t index, uint32_t rank, bool *active);

/* Since which index a rank has issued nothing but shadows, at an index where it is not active
 * (team_is_active). */
uint64_t team_joined_since(const struct team *team, uint64_t index, uint32_t rank);

/* As team_wait, for the first two: waits at most some milliseconds until another rank may have done
 * something. */
void team_wait_others(struct team *team, uint64_t index, unsigned milliseconds);

/* Says that this rank has just shadowed a unit whose result is thereby wrong on the active ranks,
 * though it should be an error: their next call learns it from team_events. kind: enum member_kind.
 */
void team_report_lossy(struct team *team, uint8_t kind);

/* The same of a receive of `peer`, which this rank has mirrored (kind MEMBER_SEND); or of one of
 * its own that was not issued, because `peer` has joined (MEMBER_RECEIVE). */
void team_report_lossy_post(struct team *team, uint8_t kind, uint32_t peer);

/* In the place of a kind: the shadow is not what a plug-in would have made of it. */
#define LOSSY_HOOK 0

/* A lossy shadow of another rank. */
struct lossy_event {
  uint32_t rank, peer; /* peer: of a kind that is point to point */
  uint64_t index;
  uint8_t kind;
};

/* What has happened since the last call that active ranks must know; false if nothing (more). Call
 * until false where team_must_attend. */
bool team_events(struct team *team, struct lossy_event *event);

/* Whether there is one of which the program has not heard yet; it stays to be heard of. Any thread
 * may ask. */
bool team_find_event(const struct team *team, struct lossy_event *event);

/* Posts sends and receives (peers.h) that are about to be issued as one, and rings. If they are in
 * one group with a unit, or are one, once that has settled. Any thread. */
enum post_result team_post(struct team *team, const struct posts *posts);

/* After POST_FULL: as that, once another rank may have done something, or after some
 * milliseconds. */
enum post_result team_post_later(struct team *team, const struct posts *posts,
                                 unsigned milliseconds);

/* After POST_DONE, where it was not known yet what the posts meet (struct unequal): looks again. If
 * that is still so, waits until another rank may have posted something, or for a few
 * milliseconds. */
void team_look_at_posts(struct team *team, const struct posts *posts, unsigned milliseconds);

/* Whether all ranks know that there are exchanges where this one stands: it has been in the
 * sequence, or this rank's has been taken for one. */
bool team_knows_exchange(struct team *team, struct unit exchange);

/* Whether this rank has issued an exchange outside of the sequence, at an index that has not
 * settled. Exchanges that follow before it settles are issued outside, too: else ranks would come
 * to be a round apart. */
static inline bool team_is_outside(const struct team *team) {
  return team->outside.index == team->head + 1;
}

/* The claim just made is of an exchange, of these sends and receives, which must stay until it has
 * settled. */
void team_claim_posts(struct team *team, const struct posts *posts);

/* Whether this rank leaves a loop of collectives with sends and receives from a place, which has
 * been described (peers_learn_place): the last unit stands in a loop, and they do not. place: its
 * id. */
bool team_leaves_by(struct team *team, uint32_t place);

/* Then, before they are posted: announces them (peers.h), so that its peers see that it has left
 * the loop. Whether to wait until they have left it, too; if so, to be followed by team_hold. No
 * claim may be open. in_stream: they are in the stream of the loop's collectives. strict: an order
 * that nothing tells is FAILURE_UNSURE. */
bool team_stand_behind(struct team *team, const struct posts *posts, bool in_stream, bool strict);

/* From here on team_poll returns TEAM_REAL once the ranks that are linked with this one have left
 * the loop; meanwhile what those that go on in it issue is TEAM_SHADOW. */
void team_hold(struct team *team);

/* Whether they all have. */
bool team_has_left_together(struct team *team);

/* The wait is over. left: that has been seen. Otherwise this rank goes on all the same. Not while
 * team_is_yielding: others count on it. */
void team_release(struct team *team, bool left);

/* Whether this rank has shadowed what its peers did in the loop since it has waited. */
static inline bool team_has_answered_loop(const struct team *team) {
  return team->behind.was_ahead;
}

/* Whether this rank has passed an index, not too long ago, and issued a shadow there: what was
 * spoiled was no result of its own. */
bool team_has_shadowed(const struct team *team, uint64_t index);

/* The rank goes on with its program: it no longer answers in teams in which it has no claim. */
void team_stop_answering(struct team *team);

/* After FAILURE_RANK, or where a shadow could not be issued because a rank has failed: one failure
 * brings others with it (an active rank aborts because a peer was killed), and they may be heard of
 * first. Looks again, and names the rank that began: one that has died, else one that failed while
 * no other had, then the one that had issued least. If another rank has failed, failed.how is
 * FAILURE_RANK afterwards; if none has, nothing changes. */
void team_find_culprit(struct team *team);

/* What a rank waits in, or, if it is not parked, the last unit that it has passed; nmembers 0: it
 * leaves. Valid until the next poll. False: that cannot be told. What another rank has published is
 * text only as far as it can be printed. */
struct team_last {
  struct unit unit;
  const char *place; /* ""; or where that stands in its program */
  bool parked;
};
bool team_last_unit(struct team *team, uint32_t rank, struct team_last *last);

/* Whether a rank that is further than this one waits in a unit, or has passed one last, of a loop
 * in which this rank has issued that, too, and which it has left: it stands at `here`, in none of
 * the loops around. So the ranks are uneven. False where that cannot be told. */
bool team_is_in_left_loop(struct team *team, uint32_t rank, const struct place *here);

/* Says to the team whether this rank's process is parked in a LEAVE, of this team or another. */
void team_say_leaving(struct team *team, bool leaving);

/* With LEAVE claimed: whether every rank that has not claimed it here is parked in a LEAVE
 * elsewhere. If that stays so, ranks leave their teams in different orders, and wait for each
 * other. */
bool team_all_leaving(const struct team *team);

/* Marks ranks whose process is gone as failed. Costs system calls: for waits that last. */
void team_look_for_the_dead(struct team *team);

/* A rank that has yet to come to the team (attachment_plane_early) has ended elsewhere. This rank
 * says so in its place. */
void team_end_absent(struct team *team, uint32_t rank, enum rank_state state);

/* What a rank says where a round begins of the loop at a level around the place with this id
 * (place_round_begins). totals: how many rounds there are, by level; number: place_rounds_number.
 * Never 0. */
uint64_t team_says(uint32_t place, const uint32_t totals[PLACE_LEVELS], uint32_t level,
                   uint32_t number);

/* The rank's next unit, which it has not claimed yet, begins a round (place_round_begins). says, by
 * level: what is published when the unit is passed; 0: at that level none begins. Until then the
 * rank counts as being in the round before. */
void team_say_round(struct team *team, const uint64_t says[PLACE_LEVELS]);

/* The same, and the unit is claimed, not committed, so that all see where the round begins.
 * quietly: only if a rank next to this one is seen to be in another round. levels: from the
 * outermost of which a round begins, to the last one whose rounds are those of all ranks: each
 * comes to the unit, or they have been seen to be (team_counts_rounds). */
struct team_levels {
  uint32_t first, end;
};
void team_begin_round(struct team *team, struct team_levels levels,
                      const uint64_t says[PLACE_LEVELS], bool quietly);

/* Whether it is to be claimed; and whether it says something. */
bool team_begins_round(const struct team *team);
bool team_is_saying(const struct team *team);

/* The rank says no more where its rounds begin. Any thread. */
void team_say_no_rounds(struct team *team);

/* Whether all ranks have once said the same rounds where they claimed one unit in so many of the
 * outermost loops around a place, also where rounds begin (place_round_begins), or as many rounds
 * where one of them began one: none of them goes over something else, or over what cannot be read.
 */
bool team_counts_rounds(const struct team *team, const struct place *place, uint32_t levels);

/* Whether ranks stand aside of the team (interpose/comm/apart.h). Any thread may ask. */
bool team_is_apart(const struct team *team);

/* How many units this rank has passed. Any thread may ask. */
uint64_t team_passed(const struct team *team);

/* Whether ranks of the team have sent or received anything. Any thread. */
bool team_posts(const struct team *team);

/* Whether another rank has failed before it issued so many units: the rest of them will never be
 * done. Names the rank that began it, and how many it has issued. Any thread may ask. */
bool team_find_lost(const struct team *team, uint64_t units, uint32_t *rank, uint64_t *issued);

/* This rank ends: cleanly after TEAM_LEFT or where nobody can need it, or with a failure that frees
 * all who wait. Any thread may say so, while another is parked. */
void team_end(struct team *team, enum rank_state state);

/* This rank cannot issue the unit that it has passed last, and ends with a failure. */
void team_end_short(struct team *team);

/* Whether the program stands between two iterations: the learner says so, or the unit expected here
 * does (a body that holds whole epochs may begin anywhere), which leaves a loop, or is one at which
 * ranks have waited for each other. */
bool team_is_between_iterations(struct team *team);

/* The invariants; asserted in debug builds. They concern this process's memory alone: what lies in
 * the plane another process may have overwritten. */
bool team_is_valid(const struct team *team);

#endif
