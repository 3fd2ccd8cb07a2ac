/* The predictor of one rank (rank_predictor.h): a learner and the units it speaks of. */
#include "core/predict/rank_predictor.h"

#include <stdlib.h>

#include "core/predict/learner.h"

/* Two rounds of anything, however short. */
#define WARY_UNITS 2
#define WARY_ROUNDS 2

/* Units whose successors are remembered; those that share a place take turns. */
#define RANK_PREDICTOR_UNITS 1024u
#define RANK_PREDICTOR_SCORE_MAX 8u /* so that another phase of the program is believed soon */

/* A unit and what came after it: a majority vote (Boyer and Moore). */
struct successor {
  uint64_t unit, next;
  uint32_t score;
};

struct rank_predictor {
  struct rank_predictor_next next; /* first */
  uint64_t last;                   /* the last unit's hash */
  struct successor after[RANK_PREDICTOR_UNITS];
  symbol_t symbol; /* the learner's, whatever comes of it */
  uint64_t symbol_hash;
  struct learner *learner;
  struct unit_table *table;
};

struct rank_predictor *rank_predictor_create(void) {
  struct rank_predictor *predictor = calloc(1, sizeof(*predictor));
  if (predictor == NULL)
    return NULL;
  predictor->learner = learner_create();
  predictor->table = unit_table_create();
  if (predictor->learner == NULL || predictor->table == NULL) {
    rank_predictor_destroy(predictor);
    return NULL;
  }
  learner_set_run(predictor->learner, WARY_UNITS, WARY_ROUNDS);
  return predictor;
}

void rank_predictor_destroy(struct rank_predictor *predictor) {
  if (predictor == NULL)
    return;
  learner_destroy(predictor->learner);
  unit_table_destroy(predictor->table);
  free(predictor);
}

static void rank_predictor_vote(struct rank_predictor *predictor, uint64_t hash) {
  struct successor *after = &predictor->after[predictor->last % RANK_PREDICTOR_UNITS];
  if (after->unit != predictor->last)
    *after = (struct successor){.unit = predictor->last};
  if (after->next == hash)
    after->score += after->score < RANK_PREDICTOR_SCORE_MAX;
  else if (after->score > 0)
    after->score--;
  else
    *after = (struct successor){predictor->last, hash, 1};
  predictor->last = hash;
  after = &predictor->after[hash % RANK_PREDICTOR_UNITS];
  predictor->next.usual_hash = after->unit == hash && after->score > 0 ? after->next : 0;
}

/* Stands for a unit of that hash. */
static struct member stand_in(uint64_t hash) {
  return (struct member){.comm = (uint32_t)(hash >> 32), .number = (uint32_t)hash};
}

void rank_predictor_step(struct rank_predictor *predictor, uint64_t hash) {
  rank_predictor_vote(predictor, hash);
  if (predictor->symbol != SYMBOL_NONE && hash == predictor->symbol_hash) {
    learner_step_expected(predictor->learner);
  } else {
    const struct member member = stand_in(hash);
    symbol_t symbol = unit_table_intern(predictor->table, (struct unit){&member, 1});
    /* Without memory nothing is expected: every unit is agreed on with the others. */
    if (symbol == SYMBOL_NONE) {
      predictor->next.expected_hash = 0;
      predictor->symbol = SYMBOL_NONE;
      return;
    }
    learner_step(predictor->learner, symbol, unit_table_coarse(predictor->table, symbol));
  }
  predictor->symbol = learner_expected(predictor->learner);
  const struct known_unit *next = unit_table_use(predictor->table, predictor->symbol);
  if (next == NULL)
    predictor->symbol = SYMBOL_NONE;
  predictor->symbol_hash =
      next == NULL ? 0 : (uint64_t)next->single.comm << 32 | next->single.number;
  predictor->next.expected_hash = learner_is_firm(predictor->learner) ? predictor->symbol_hash : 0;
}
