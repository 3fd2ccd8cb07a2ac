/* Questions that concern all ranks of a team, for those who agree (core/team, core/overlap,
 * core/p2p). Each is answered by a number, a rank or yes and no, so that whoever holds the logs of
 * some of the ranks can answer for them, and the answers of several are put together to one: the
 * largest, the lowest, any.
 *
 * Any thread of any rank may ask. Each log is read once, one after the other: what is asked about
 * only ever comes to be so, and stays, or who asks looks again (logs.h says in which order others
 * see it).
 */
#ifndef NCCL_JOIN_CORE_QUESTIONS_H
#define NCCL_JOIN_CORE_QUESTIONS_H

#include "core/transport/logs.h"

/* ---- a set of ranks: a bit for each ---- */

typedef uint64_t rank_set_t;

static inline size_t rank_set_words(uint32_t nranks) {
  return (nranks + 63u) / 64u;
}

static inline void rank_set_add(rank_set_t *set, uint32_t rank) {
  set[rank / 64] |= UINT64_C(1) << rank % 64;
}

static inline bool rank_set_has(const rank_set_t *set, uint32_t rank) {
  return (set[rank / 64] >> rank % 64 & 1) != 0;
}

/* The largest one in it, or nranks. */
static inline uint32_t rank_set_last(const rank_set_t *set, uint32_t nranks) {
  for (uint32_t rank = nranks; rank > 0; rank--)
    if (rank_set_has(set, rank - 1))
      return rank - 1;
  return nranks;
}

/* ---- what all have passed ---- */

/* The lowest index at which a rank stands. */
static inline uint64_t plane_slowest(const struct plane *plane) {
  uint64_t slowest = UINT64_MAX;
  for (uint32_t rank = 0; rank < plane->nranks; rank++) {
    uint64_t passed = log_passed(log_of(plane, rank));
    slowest = passed < slowest ? passed : slowest;
  }
  return slowest;
}

/* The lowest rank that has passed an index, or nranks. */
static inline uint32_t plane_first_past(const struct plane *plane, uint64_t index) {
  uint32_t rank = 0;
  while (rank < plane->nranks && log_passed(log_of(plane, rank)) <= index)
    rank++;
  return rank;
}

/* Whether every rank has. */
static inline bool plane_all_past(const struct plane *plane, uint64_t index) {
  for (uint32_t rank = 0; rank < plane->nranks; rank++)
    if (log_passed(log_of(plane, rank)) <= index)
      return false;
  return true;
}

/* Whether a rank has not that is neither dead nor gone. */
static inline bool plane_awaits_any(const struct plane *plane, uint64_t index) {
  for (uint32_t rank = 0; rank < plane->nranks; rank++)
    if (log_passed(log_of(plane, rank)) <= index && log_state(log_of(plane, rank)) == RANK_PRESENT)
      return true;
  return false;
}

/* Whether every rank has issued for real what it passed at an index; all have passed it. */
static inline bool plane_all_real(const struct plane *plane, uint64_t index) {
  for (uint32_t rank = 0; rank < plane->nranks; rank++)
    if (!log_is_real(log_of(plane, rank), index))
      return false;
  return true;
}

/* The same; *since: from which index up to that one they have. 0 if not. */
static inline bool plane_all_real_since(const struct plane *plane, uint64_t index,
                                        uint64_t *since) {
  uint64_t last = 0;
  *since = 0;
  for (uint32_t rank = 0; rank < plane->nranks; rank++) {
    uint64_t start = log_run_start(log_of(plane, rank), index);
    if (!log_is_real(log_of(plane, rank), index))
      return false;
    last = start > last ? start : last;
  }
  *since = last;
  return true;
}

/* The largest rank of a set that has issued for real what it passed at an index, or nranks. */
static inline uint32_t plane_last_real(const struct plane *plane, const rank_set_t *set,
                                       uint64_t index) {
  for (uint32_t rank = plane->nranks; rank > 0; rank--)
    if (rank_set_has(set, rank - 1) && log_is_real(log_of(plane, rank - 1), index))
      return rank - 1;
  return plane->nranks;
}

/* Whether a rank has mirrored something at an index (log_say_mirrored). */
static inline bool plane_has_mirrored(const struct plane *plane, uint64_t index) {
  for (uint32_t rank = 0; rank < plane->nranks; rank++)
    if (log_has_mirrored(log_of(plane, rank), index))
      return true;
  return false;
}

/* ---- what all claim ---- */

/* Whether every rank claims something at an index. What it is: team_gather_claims. */
static inline bool plane_all_claim(const struct plane *plane, uint64_t index) {
  for (uint32_t rank = 0; rank < plane->nranks; rank++)
    if (!log_claims(log_of(plane, rank), index))
      return false;
  return true;
}

/* Whether every rank claims a LEAVE at an index, or is parked in one elsewhere. */
static inline bool plane_all_leave(const struct plane *plane, uint64_t index) {
  for (uint32_t rank = 0; rank < plane->nranks; rank++) {
    const struct plane_log *log = log_of(plane, rank);
    struct log_claim claim;
    bool leaves_here =
        log_read_claim(log, index, &claim) && claim.hash == 0 && !(claim.flags & CLAIM_YIELD);
    if (!leaves_here && !log_is_leaving(log))
      return false;
  }
  return true;
}

/* ---- what has become of ranks ---- */

/* The lowest rank that has failed and has not said, at an index or after it, that it was stopped;
 * nranks: there is none. */
static inline uint32_t plane_first_failed(const struct plane *plane, uint64_t index) {
  uint32_t rank = 0;
  while (rank < plane->nranks && (log_state(log_of(plane, rank)) != RANK_FAILED ||
                                  log_has_stopped(log_of(plane, rank), index)))
    rank++;
  return rank;
}

/* The lowest rank that has ended cleanly and claims nothing at an index, or nranks. */
static inline uint32_t plane_first_ended(const struct plane *plane, uint64_t index) {
  uint32_t rank = 0;
  while (rank < plane->nranks &&
         (log_state(log_of(plane, rank)) != RANK_DONE || log_claims(log_of(plane, rank), index)))
    rank++;
  return rank;
}

/* Whether a rank has said so (log_say_unsteady). */
static inline bool plane_any_unsteady(const struct plane *plane) {
  for (uint32_t rank = 0; rank < plane->nranks; rank++)
    if (log_is_unsteady(log_of(plane, rank)))
      return true;
  return false;
}

/* Whether a rank is out of step (log_say_asks). */
static inline bool plane_any_asks(const struct plane *plane) {
  for (uint32_t rank = 0; rank < plane->nranks; rank++)
    if (log_asks(log_of(plane, rank)))
      return true;
  return false;
}

#endif
