/* What a learner is (learner.h), for learner.c, which decides, and learner_questions.c, which is
 * asked. Not for anybody else. */
#ifndef NCCL_JOIN_CORE_LEARNER_PRIVATE_H
#define NCCL_JOIN_CORE_LEARNER_PRIVATE_H

#include "core/predict/learner_body.h"
#include "core/predict/learner_lags.h"

/* After a unit that was not expected: the other explanation for it, until a unit tells which is
 * right. */
struct doubt {
  bool open;
  bool varies;      /* the unit stood at `place` with another count; else `place` was left out */
  uint32_t place;   /* where the cursor was */
  symbol_t symbol;  /* the unit */
  uint32_t cursor;  /* where the cursor would be by now */
  uint32_t patient; /* units until the question is dropped */
};

struct learner {
  struct learner_next next;
  uint64_t alert; /* units from this position on go the long way, even if expected */

  /* Positions at which there is something to do, the next alert being the first of them: */
  uint64_t ripe;     /* a hypothesis could be taken */
  uint64_t check_at; /* hypotheses have to be checked; NEVER: there are none */
  uint64_t watchful; /* contexts are looked at before this: something unexpected was near */

  /* One more than the position of the last unit that was not expected, and of the last insert. For
   * a body just taken: of the last unit that its hypothesis did not foresee. */
  uint64_t wrong_at, inserted_at;

  uint64_t inserts;     /* since the last unit of the body */
  struct credit credit; /* pays for copying bodies */
  struct doubt doubt;
  struct lags lags;
  struct body body;
  struct shelf shelf;
};

#endif
