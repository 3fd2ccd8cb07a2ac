/* What the files of the agreed sequence (team.h) share. Each calls only those named after it:
 * team.c looks; team_stop.c is where all stop; team_settle.c and team_follow.c pass an index;
 * team_claim.c requests; team_commit.c expects and publishes; team_hidden.c, team_guess.c,
 * team_behind.c, team_last.c and team_places.c know what units are; team_epochs.c in which rounds
 * ranks are, and team_runs.c what was real; team_others.c the other ranks, team_past.c what they
 * did; team_text.c the text ring; team_nap.c sleeps and team_tell.c rings. Not for anybody else. */
#ifndef NCCL_JOIN_CORE_TEAM_PRIVATE_H
#define NCCL_JOIN_CORE_TEAM_PRIVATE_H

#include "core/team/team.h"

/* The first failure counts. */
void team_fail(struct team *team, enum team_failure failure, uint32_t rank, uint64_t index);

/* Whether the team has failed; looks at what the other ranks say of themselves. */
bool team_look_for_failures(struct team *team);

/* Whether sends and receives are this thread's, to issue and to answer. */
bool team_is_answering(const struct team *team);

/* Whether the entry ring has room for one more entry. Moves the limit on. */
bool team_has_room(struct team *team);

/* Passes an index. flags: ENTRY_; text: where this rank has written its claim, if that is the unit;
 * source: the rank whose unit it is. */
void team_publish(struct team *team, struct unit unit, uint64_t hash, uint32_t flags, uint32_t text,
                  uint32_t source);

/* After something that nobody foresees: as team_published, and rings for those who wake themselves
 * for what is committed (team_nap.h), too. */
void team_tell(struct team *team);

/* There is room again: commits what has been claimed while only that was missing, and closes the
 * claim. False if it is not expected any more, or may not be committed now: from then on the claim
 * is an ordinary one. */
bool team_commit_claimed(struct team *team);

/* Shows the claim at the present index, unless this rank has yielded there. */
void team_show_claim(struct team *team);

/* Claims CLAIM_YIELD, and these flags, at the present index, in place of what it has yielded there.
 */
void team_leave_yield(struct team *team, uint32_t flags);

/* The same where this rank goes on in another program point than the others, with a claim or
 * without (team_behind.c). */
void team_stay_behind(struct team *team);

/* Closes the claim for this rank alone. Others still see it, as they may have counted on it. At its
 * index the rank is as one that has yielded. */
void team_step_outside(struct team *team);

/* Says that this rank answers what is posted, if it does. Whether it has said anything new. */
bool team_say_answering(struct team *team);

/* Passes the present index as the unit (or LEAVE) that G has there: the unit of rank `source`, with
 * the flags of the rank that knew. place: of the unit, as its rank has described it, or NULL if it
 * is known already, or not known. */
enum team_verdict team_pass(struct team *team, struct unit unit, uint64_t hash, uint32_t flags,
                            uint32_t source, const struct place *place);

/* Some rank that has passed our index, and its entry there; false if none has. */
bool team_somebody_passed(const struct team *team, uint32_t *rank, struct log_entry *entry);

/* Takes G[head] over from a rank that has passed it. */
enum team_verdict team_follow(struct team *team, uint32_t rank, const struct log_entry *entry,
                              struct unit *unit);

/* Sums up all claims at our index; false while one is missing or is just being changed. */
bool team_gather_claims(struct team *team);

/* Passes our index by the claims gathered. */
enum team_verdict team_settle(struct team *team, struct unit *unit);

/* Whether ranks that do not all claim the same, as gathered, stop: team_stop.h. issues: the
 * winner's unit is one to be issued. */
bool team_claims_stop(const struct team *team, bool issues);

/* Passes our index as one at which all stop, by the claims gathered. hash: of the unit that would
 * have been issued. */
enum team_verdict team_settle_stop(struct team *team, uint64_t hash);

/* The same, for the rank that all stop for. elsewhere: it was stopped in another team. */
enum team_verdict team_pass_stop(struct team *team, uint64_t hash, uint32_t rank, bool elsewhere);

/* A rank has failed: TEAM_STOPPED if it had agreed to stop at our index before, else TEAM_FAILED.
 */
enum team_verdict team_stop_or_fail(struct team *team);

/* Where the ranks have come to our index: whether there was a unit since the last rejoin that not
 * all of them issued for real; and whether a rank issued the last of those for real, or there was
 * none. */
bool team_is_uneven(const struct team *team);
bool team_was_active_last(const struct team *team, uint32_t rank);

/* The largest rank of a set for which team_was_active_last is so; false if there is none. */
bool team_find_last_joiner(const struct team *team, const rank_set_t *set, uint32_t *rank);

/* ---- guesses (team_guess.c) ---- */

/* Of the ranks that pass an index one tells that it was a guess: whether another does. */
bool team_is_told(struct team *team);

/* What messages say of a place; place: NULL if it is not known. */
void team_copy_text(char text[PLACE_TEXT_MAX], const struct place *place);

/* Of splits that look alike there is no doubt that they are one: all ranks make each, whoever is to
 * be in the new communicator and whoever is not from branches of their own, and none because it has
 * no more data. */
static inline bool team_is_split(struct unit unit) {
  return unit.nmembers == 1 && unit.members->kind == MEMBER_SPLIT;
}

/* This rank is about to issue what it claims as a unit of G, of this hash and with these flags.
 * Gives a WARN if that may be another point of the program, and returns whether it may. */
bool team_doubt(struct team *team, struct unit unit, uint64_t hash, uint32_t flags);

/* This rank is about to shadow a unit. Gives a WARN if that may be what it claims all the
 * same, and returns whether it may. */
bool team_doubt_apart(struct team *team, struct unit unit, uint64_t hash, uint32_t flags);

/* This rank is about to shadow a unit that the others have not been asked for. Gives a WARN, once
 * for a claim, if with it they go past where this rank stands, in a loop around both, and not all
 * are known to come there: it goes on by itself when they have left the loop, unless that is wrong.
 * Returns whether it has. */
bool team_doubt_passed(struct team *team, struct unit unit, uint32_t flags);

/* This rank is about to pass an index where it has a claim: tells, once, if it cannot see where
 * that stands. */
void team_tell_blind(struct team *team);

/* This rank is about to shadow a unit: tells, once, if neither its own unit nor that one can be
 * seen. */
void team_tell_hidden(struct team *team, struct unit unit);

/* ---- rounds (team_epochs.c) ---- */

/* This rank has issued the unit of a place so many times for real. place: its id. */
void team_count_epoch(struct team *team, uint32_t place, uint32_t times);

/* What this rank says with its claim: how many times it has come there, with this one; 0: not
 * known. */
uint32_t team_epoch(struct team *team);

/* ---- places (team_places.c) ---- */

/* The description of a unit's place that all ranks share; NULL if it is not known. */
struct known_place *team_known_place(const struct team *team, uint32_t id);

/* The unit as the team has it, written to `members` if its place is to be another; and where that
 * is, given where this rank's is (NULL: not known). */
struct unit team_class(struct team *team, struct unit unit, struct member *members);
void team_class_place(const struct team *team, struct unit class, const struct place *own,
                      struct place *place);

/* Whether this rank has issued the unit, which is its own, for the one expected before, that stands
 * at another place. */
bool team_is_taken_for(struct team *team, struct unit unit, const struct known_unit *expected);

/* Whether a unit in G, of this hash, is the one that this rank claims, at another place: as those
 * tell who settle the index, so before the unit is learnt. flags: of its entry. place: of the unit,
 * as its rank has described it; NULL: the table knows it, or nobody does. */
bool team_is_mine(struct team *team, struct unit unit, uint64_t hash, uint32_t flags,
                  const struct place *place);

/* Whether all ranks have issued what stands there, but not all from there: they come to it by ways
 * of their own. NULL: not known. */
bool team_comes_by_ways(const struct known_place *known);

/* The loops around a place whose rounds all ranks count: all are known to come to a point of each
 * round. So ranks that stand there and at another place in such a loop do so in the same round of
 * it. For ranks that have shadowed nothing (even) that loop is one of them in which they have been
 * last, if they have not been in the inner ones around the place. */
place_nodes_t team_clocks(const struct team *team, const struct place *place, bool even);

/* Of a unit that is not the one that this rank claims (team_is_mine): whether it may be all the
 * same (settle_may_be_one). */
bool team_may_be_mine(struct team *team, struct unit unit, uint64_t hash, uint32_t flags);

/* Whether it is a guess that a unit in G, of this hash and with these flags, is the one that this
 * rank claims (settle_is_doubtful). */
bool team_is_doubtful(struct team *team, struct unit unit, uint64_t hash, uint32_t flags);

/* Whether the unit expected here is not the one that this rank claims, although their signatures
 * are equal (CLAIM_APART). */
bool team_expects_another(struct team *team);

/* Which unit is apart from the expected one at an index is said by a mark of its hash, 1 to 254, in
 * struct team and in the entry. Two units may have one mark: then both are apart. */
#define APART_NONE 0u
#define APART_ALL 255u /* of several it is said: then all are that are claimed and not expected */

static inline uint32_t team_apart_mark(uint64_t hash) {
  return 1 + (uint32_t)(hash % (APART_ALL - 1));
}

/* Whether a unit of this hash is apart at this index from what is expected there. */
static inline bool team_is_said_apart(const struct team *team, uint64_t hash) {
  return team->apart == APART_ALL || team->apart == team_apart_mark(hash);
}

/* Whether this rank has issued what it claims for that unit before. */
bool team_has_alias(struct team *team, uint64_t hash);

/* Before an index is passed at which this rank issues its unit: says so if its round begins there.
 * True: the epochs of ranks mix; told once. */
bool team_round_begun(struct team *team);

/* Where all ranks claim one unit, or leave, on several machines: says so if rounds have mixed since
 * a rank began its last one, which could not be seen then. True: they have; told once. */
bool team_look_back(struct team *team);

/* Remembers that what this rank claims has been issued as a unit of G; and that it has issued a
 * unit from the very place that the unit has. */
void team_note_issued(struct team *team, struct unit unit, uint64_t hash);
void team_note_use(struct team *team, struct unit unit, uint64_t hash);

/* Whether a unit of this place is to be claimed, though it is expected, so that all ranks come to
 * know that it is in the program of each: for a while after they have met. */
bool team_must_be_shared(const struct team *team, const struct known_place *known);

/* Whether a unit has come lately from a place that not all ranks have come to: one may wait at it
 * again, and who goes on in the loop does not hear of that. So it asks each TEAM_LONE_ROOM units,
 * or twice as many, and looks ahead no further. */
#define TEAM_LONE_ROOM 16u
bool team_passes_lone_places(const struct team *team);

/* Whether a unit of this place is to be claimed, though it is expected, since it goes round a loop
 * and passes by what other ranks may be about to come to: for a while after they have met; and now
 * and then, as above. before: id of the place before it. */
bool team_passes_by(const struct team *team, uint32_t before, const struct known_place *to);

/* Whether ranks may leave a loop between two units, the places of which are known, so that the
 * second is not to be issued without asking. before: id of a place. */
bool team_leaves_loop(const struct team *team, uint32_t before, const struct known_unit *next);

/* Whether a unit at a place that ends a loop, or begins it again, is asked for: not once it has
 * come as regularly as that, with nobody waiting there (TEAM_STEADY_ROUNDS). */
bool team_asks_for_ends(const struct team *team, const struct known_place *to);

/* Whether other ranks may be about to come to what they have not come to yet, as far as is known:
 * for a while after they have met. Of a unit without a place nothing tells whether that comes
 * before it. */
bool team_may_be_stood_at(const struct team *team);

/* ---- team_behind.c: sends and receives behind a loop of collectives ---- */

/* A loop that has gone round so often in the same way, with nobody waiting, that its end needs no
 * meeting: the buckets of an iteration, rather than the batches of an epoch. */
#define TEAM_STEADY_ROUNDS 64u

/* Whether this rank has announced some since it last issued a unit for real. */
bool team_is_behind(const struct team *team);

/* Then: where the ranks stand that are linked with it, at our index (peers.h). One that goes on in
 * the loop counts as ahead only if this rank waits for it. */
enum peers_stand team_look_behind(struct team *team);

/* Whether a unit stands in the loop that this rank has left. */
bool team_stands_in_left(const struct team *team, struct unit unit);

/* ---- team_runs.c: how many units in a row stand in one innermost loop ---- */

/* A unit has been passed, after one at the place `from`; ids of places that are known. */
void team_run_pass(struct team *team, uint32_t from, uint32_t to);

/* So many more have been passed, of the innermost loop or not. */
void team_run_pass_many(struct team *team, uint32_t count, bool in_loop);

/* Whether the loop may be over, after `more` units that are expected: it has had as many as the
 * last time or at the least, so who is in it may go on in it, or has gone round to it without data
 * for what stands between; or how many it has is not known yet, and this rank's own rounds may
 * tell. turn: whether it has gone round; TURN_ROUND: that has not been looked at. */
bool team_run_may_be_over(const struct team *team, uint32_t more, enum place_turn turn);

/* This rank has gone round to the loop, and its next unit there is the first of it. */
void team_run_restart(struct team *team);

/* Whether that may be so before `count` more have been passed. */
bool team_run_may_end_within(const struct team *team, uint32_t count);

/* Whether a unit at `to` goes on with the innermost loop around that at `from`. */
bool team_run_goes_on(const struct team *team, uint32_t from, uint32_t to);

/* This rank is about to shadow a unit that was committed. Whether that ends a loop in which this
 * rank stands: all have issued the unit before in that loop, and the others have not asked, since
 * its rounds had been steady. What they commit next of the loop is of the round after. */
bool team_is_left(const struct team *team, struct unit unit, uint32_t flags);

/* Takes from a unit that has just been passed with these flags what all ranks know of its place. */
void team_learn_place(struct team *team, struct unit unit, uint32_t flags);

/* For team_rehearse. They have no effect. The first asks what passing the expected unit as a shadow
 * will ask, the second what will be asked of the unit after it. */
bool team_rehearse_following(const struct team *team);
bool team_rehearse_expecting(const struct team *team);

/* ---- units without a place (team_hidden.c) ---- */

/* Whether ranks wait for each other at a unit that comes after another, one of which has no place.
 */
bool team_is_meeting(const struct team *team, symbol_t before, symbol_t unit);

/* Whether what all claim, and not what was expected, ends a loop that had gone round often. */
bool team_loop_has_ended(const struct team *team);

/* Takes from a unit that has just been passed with these flags, and before it is learnt, where
 * ranks wait for each other. */
void team_learn_meeting(struct team *team, symbol_t symbol, uint32_t flags);

/* A text, as read. */
struct text {
  uint64_t hash;
  struct unit unit;          /* in team->followed */
  const struct place *place; /* there, too, or NULL */
};

/* Writes the claim's text; false while the slowest rank may still need what it would overwrite. */
bool team_write_text(struct team *team);

/* READ_GIVEN_UP: its rank has taken its claim away, since something has failed. */
enum read_result { READ_UNIT, READ_TOO_BIG, READ_CORRUPT, READ_GIVEN_UP };

/* Copies a unit, and its place, out of a rank's log into team->followed, whatever is there:
 * READ_UNIT only if it hashes to what it says. */
enum read_result team_read_text(struct team *team, const struct plane_log *log, uint32_t position,
                                struct text *out);

#endif
