/* What the files of the agreed sequence (team.h) share: team.c looks, team_commit.c expects and
 * publishes, team_claim.c wishes, team_follow.c and team_settle.c pass an index; team_stop.c where
 * all stop; team_text.c knows the text ring, team_others.c the other ranks, team_past.c what they
 * did. Not for anybody else. */
#ifndef NCCL_JOIN_CORE_TEAM_PRIVATE_H
#define NCCL_JOIN_CORE_TEAM_PRIVATE_H

#include "core/team.h"

#define LOAD(object) atomic_load_explicit(&(object), memory_order_relaxed)
#define STORE(object, value) atomic_store_explicit(&(object), (value), memory_order_relaxed)

/* The first failure counts. */
void team_fail(struct team *team, enum team_failure failure, uint32_t rank, uint64_t index);

/* Whether the team has failed; looks at what the other ranks say of themselves. */
bool team_look_for_failures(struct team *team);

/* Whether sends and receives are this thread's, to issue and to answer. */
bool team_is_answering(const struct team *team);

/* Whether the entry ring has room for one more entry. Moves the limit on. */
bool team_has_room(struct team *team);

/* Passes an index. flags: ENTRY_; text: where the unit is written, or, of a shadow, the rank whose
 * unit it is. */
void team_publish(struct team *team, struct unit unit, uint64_t hash, uint32_t flags,
                  uint32_t text);

/* After something that nobody foresees: as team_published, and rings for those who wake themselves
 * for what is committed (team_nap.h), too. */
void team_tell(struct team *team);

/* Shows the claim at the present index, unless this rank has yielded there. */
void team_show_claim(struct team *team);

/* Claims CLAIM_YIELD, and these flags, at the present index, in place of what it has yielded there.
 */
void team_leave_yield(struct team *team, uint32_t flags);

/* Says that this rank answers what is posted, if it does. Whether it has said anything new. */
bool team_say_answering(struct team *team);

/* Passes the present index as the unit (or LEAVE) that G has there: the unit of rank `source`, with
 * the flags of the rank that knew. */
enum team_verdict team_pass(struct team *team, struct unit unit, uint64_t hash, uint32_t flags,
                            uint32_t source);

/* Some rank that has passed our index, and its entry there; false if none has. */
bool team_somebody_passed(const struct team *team, uint32_t *rank,
                          const struct plane_entry **entry);

/* Takes G[head] over from a rank that has passed it. */
enum team_verdict team_follow(struct team *team, uint32_t rank, const struct plane_entry *entry,
                              struct unit *unit);

/* All claims at our index; false while one is missing or is just being changed. */
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

/* Whether a rank has left behind, at our index or after it, that it was stopped in another team. */
bool team_has_stopped(const struct team *team, const struct plane_log *log);

/* A rank has failed: TEAM_STOPPED if it had agreed to stop at our index before, else TEAM_FAILED.
 */
enum team_verdict team_stop_or_fail(struct team *team);

/* The lowest index that any rank stands at. */
uint64_t team_slowest(const struct team *team);

/* The symbol of G[index]: of the learner's history, in which no LEAVE stands. SYMBOL_NONE for a
 * LEAVE, and for what is too long ago. */
symbol_t team_symbol_at(const struct team *team, uint64_t index);

/* Where the ranks have come to our index: whether there was a unit since the last reunion that not
 * all of them issued for real; and whether a rank issued the last of those for real, or there was
 * none. */
bool team_is_uneven(const struct team *team);
bool team_was_active_last(const struct team *team, uint32_t rank);

/* Fills what the claims, whose symbols are known, say of the past. */
void team_look_back(struct team *team);

/* Whether ranks wait for each other at a unit that comes after another. */
bool team_is_meeting(const struct team *team, symbol_t before, symbol_t unit);

/* Takes from a unit that has just been passed with these flags, and before it is learnt, where
 * ranks wait for each other, and where iterations begin: where all claimed another unit than was
 * expected. */
void team_learn_places(struct team *team, symbol_t symbol, uint32_t flags);

/* Whether two units have come one after the other lately, and not where ranks wait for each other.
 */
bool team_goes_on_so(const struct team *team, symbol_t before, symbol_t symbol);

/* Whether the unit expected here, which looks like what this rank claims, is one of a loop that
 * this rank has left. */
bool team_is_of_the_loop(struct team *team);

/* The same where nobody commits, for the claims to settle, because the loop has not been learnt
 * yet, or one of its units is not firm: whether what this rank claims is not the unit that looks
 * like it and may settle here (CLAIM_ELSEWHERE). */
bool team_claims_elsewhere(struct team *team);

/* A claim's unit_hash, told apart from that of claims which mean another unit that looks like it;
 * and back. */
static inline uint64_t claim_identity(uint64_t hash, uint32_t flags) {
  return flags & CLAIM_ELSEWHERE ? hash ^ UINT64_C(0x9e3779b97f4a7c15) : hash;
}

/* Writes the claim's text; false while the slowest rank may still need what it would overwrite. */
bool team_write_text(struct team *team);

enum read_result { READ_UNIT, READ_TOO_BIG, READ_CORRUPT };

/* Copies a unit out of a rank's log into members_followed, whatever is there: READ_UNIT only if it
 * hashes to what it says. */
enum read_result team_read_text(struct team *team, const struct plane_log *log, uint32_t position,
                                uint64_t *hash, struct unit *unit);

/* An index published with 32 bits, not after `near` and less than 2^32 before it. */
static inline uint64_t log_unwrap(uint32_t low, uint64_t near) {
  return near - (uint32_t)((uint32_t)near - low);
}

/* What the rank had issued for real, in all its teams, before it passed an index. */
static inline uint32_t log_reals_before(const struct plane_log *log, uint64_t index) {
  return index == 0 ? 0 : LOAD(log->entries[(index - 1) % PLANE_RING].reals);
}

#endif
