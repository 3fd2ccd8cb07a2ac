/* What a random program has, before it is written down as a tree (shapes.c).
 *
 * All classes are one program with parts left out, or made alike:
 *
 *     init; warm-up
 *     for each epoch {
 *       front; begin
 *       for each batch { body; log line; perhaps the evaluation }
 *       or the front
 *       for each batch of the validation set { evaluation }
 *       after; checkpoint
 *       if (stop) break;
 *     }
 *     last
 */
#ifndef NCCL_JOIN_TESTS_SIMULATION_PLAN_H
#define NCCL_JOIN_TESTS_SIMULATION_PLAN_H

#include "tests/simulation/program.h"

#define PLAN_BODY_MAX 8
#define PLAN_AFTER_MAX 3
#define PLAN_EQUAL_MAX 9

/* In front of which loop. */
enum front { FRONT_OF_NONE, FRONT_OF_TRAINING, FRONT_OF_EVALUATION, FRONTS };

/* Parts whose number is 0 are not there. */
struct plan {
  uint32_t nbody, nevaluation, nafter, ninit, nlast, ncheckpoint;
  struct slot body[PLAN_BODY_MAX], evaluation[PLAN_BODY_MAX], after[PLAN_AFTER_MAX];
  struct slot log, init, last, checkpoint, extra, first_bucket, begin, in_front;

  uint32_t layers[PLAN_BODY_MAX]; /* so many times that unit of the body; 0: once */
  enum when log_when;
  uint32_t log_every;
  uint32_t evaluate_every;   /* of the rank's steps, in the loop; 0: after it */
  uint32_t accumulate;       /* batches; the body then belongs to an update */
  bool losses;               /* but for its first unit, which each batch has */
  uint32_t nwarm_up;         /* rounds of */
  uint32_t warm_up;          /* so many of the body's units */
  uint32_t unfreeze;         /* epoch from which on there is an extra unit */
  bool stops;                /* all ranks leave the loop of epochs after */
  uint32_t stop;             /* this one */
  uint32_t checkpoint_every; /* epochs */
  uint32_t nequal;           /* the evaluation is one unit so many times */
  bool rebuilt;              /* the first iteration has another body */
  bool states;               /* training, evaluation and what is after stand in one loop */
  bool begins;               /* who has data in an epoch begins it with a unit of its own */
  bool shares;               /* the loop of training, or of epochs, is over what all ranks share */
  bool shares_epochs;        /* ... that of epochs */
  enum front front;          /* some ranks have a unit there, */
  enum when front_when;      /* ... then */
  uint32_t front_value;
  bool branches; /* on local data, whose halves have the same signature */
  uint32_t nexits;
  uint8_t exits[PLAN_BODY_MAX]; /* number of the exit before a unit of the body; 0: none */
  bool skips[PLAN_BODY_MAX];    /* the rest of the iteration may be skipped before it */

  /* How it is written. */
  bool in_train, in_step, in_validate;
  bool shared_step;  /* evaluation and training call the same function */
  uint32_t odd_rank; /* which stands elsewhere */
  bool all_wrapped;  /* all units are called through the wrapper, or half of them */
  uint64_t draws;    /* which units stand elsewhere: what is written twice is equal */
};

/* Draws what the program of the row's class has. */
void plan_random(const struct program *program, struct plan *plan, uint64_t *random);

bool slot_is_bucket(const struct slot *slot);

#endif
