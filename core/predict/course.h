/* The course of one rank: which unit comes next, over all its teams, if everything goes on as
 * before.
 *
 * Every team has a learner of its own, which sees only that team: a barrier of all ranks after each
 * epoch is a loop of barriers to it, and would be issued without asking. The course sees where in
 * the program a unit stands. Shadows are part of it: a rank without data between two barriers must
 * not take its own barriers for a loop. And it is wary: wherever two equal rounds of anything come
 * to an end, it expects nothing, since a rank of another team may go on for another round.
 *
 * It belongs to one rank; no other rank knows it. What it does not expect is agreed on with the
 * others (team_claim), which costs a meeting and is never wrong.
 */
#ifndef NCCL_JOIN_CORE_COURSE_H
#define NCCL_JOIN_CORE_COURSE_H

#include <stdbool.h>

#include "core/unit/unit.h"

/* What a struct course begins with, so that asking costs a load. */
struct course_next {
  uint64_t expected_hash; /* 0: nothing */
  uint64_t usual_hash;    /* 0: nothing */
};

struct course;

/* Allocates a learner and a unit table; NULL without memory. */
struct course *course_create(void);
void course_destroy(struct course *course);

/* Whether the unit of this hash is what comes next. */
static inline bool course_expects(const struct course *course, uint64_t hash) {
  return ((const struct course_next *)(const void *)course)->expected_hash == hash;
}

/* Whether the unit of this hash is what most often came next after the last one: known earlier, and
 * less surely. */
static inline bool course_is_usual(const struct course *course, uint64_t hash) {
  return ((const struct course_next *)(const void *)course)->usual_hash == hash;
}

/* The rank issues the unit of this hash, for real or as a shadow. */
void course_step(struct course *course, uint64_t hash);

#endif
