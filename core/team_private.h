/* What the files of the agreed sequence (team.h) share: team.c decides, team_text.c knows the text
 * ring, team_others.c the other ranks, team_past.c what they did. Not for anybody else. */
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

/* The lowest index that any rank stands at. */
uint64_t team_slowest(const struct team *team);

/* The symbol of G[index]: of the learner's history, in which no LEAVE stands. SYMBOL_NONE for a
 * LEAVE, and for what is too long ago. */
symbol_t team_symbol_at(const struct team *team, uint64_t index);

/* Fills what the claims, whose symbols are known, say of the past. */
void team_look_back(struct team *team);

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
