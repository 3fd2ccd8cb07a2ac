/* The predictor of one rank: which unit comes next, over all its teams, if everything goes on as
 * before.
 *
 * Every team has a learner of its own, which sees only that team: a barrier of all ranks after each
 * epoch is a loop of barriers to it, and would be issued without asking. The rank predictor sees
 * where in the program a unit stands. Shadows are part of it: a rank without data between two
 * barriers must not take its own barriers for a loop. And it is wary: wherever two equal rounds of
 * anything come to an end, it expects nothing, since a rank of another team may go on for another
 * round.
 *
 * It belongs to one rank; no other rank knows it. What it does not expect is agreed on with the
 * others (team_claim), which costs a meeting and is never wrong.
 */
#ifndef NCCL_JOIN_CORE_RANK_PREDICTOR_H
#define NCCL_JOIN_CORE_RANK_PREDICTOR_H

#include <stdbool.h>

#include "core/unit/unit.h"

/* What a struct rank_predictor begins with, so that asking costs a load. */
struct rank_predictor_next {
  uint64_t expected_hash; /* 0: nothing */
  uint64_t usual_hash;    /* 0: nothing */
};

struct rank_predictor;

/* Allocates a learner and a unit table; NULL without memory. */
struct rank_predictor *rank_predictor_create(void);
void rank_predictor_destroy(struct rank_predictor *predictor);

/* Whether the unit of this hash is what comes next. */
static inline bool rank_predictor_expects(const struct rank_predictor *predictor, uint64_t hash) {
  return ((const struct rank_predictor_next *)(const void *)predictor)->expected_hash == hash;
}

/* Whether the unit of this hash is what most often came next after the last one: known earlier, and
 * less surely. */
static inline bool rank_predictor_is_usual(const struct rank_predictor *predictor, uint64_t hash) {
  return ((const struct rank_predictor_next *)(const void *)predictor)->usual_hash == hash;
}

/* The rank issues the unit of this hash, for real or as a shadow. */
void rank_predictor_step(struct rank_predictor *predictor, uint64_t hash);

#endif
