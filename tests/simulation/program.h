/* Random training programs for the simulation: what each rank of a team issues, in order.
 *
 * A program has a loop body of 1 to 8 buckets (signatures may repeat), run for a number of
 * iterations that may differ by rank and by epoch, an optional log unit every k iterations, and 0
 * to 2 units after each epoch. Without a unit after the epochs nothing marks their ends, and they
 * are one.
 */
#ifndef NCCL_JOIN_TESTS_SIMULATION_PROGRAM_H
#define NCCL_JOIN_TESTS_SIMULATION_PROGRAM_H

#include <stdbool.h>
#include <stdint.h>

#include "core/unit.h"

#define PROGRAM_RANKS_MAX 64
#define PROGRAM_BUCKETS_MAX 8
#define PROGRAM_EPOCHS_MAX 12
#define PROGRAM_AFTER_MAX 2

enum imbalance { IMBALANCE_NONE, IMBALANCE_CONSTANT, IMBALANCE_VARYING };

struct program {
  uint32_t nranks, epochs, nbuckets, nafter;
  uint32_t log_every; /* 0: no log unit */
  enum imbalance imbalance;
  struct member buckets[PROGRAM_BUCKETS_MAX], log, after[PROGRAM_AFTER_MAX];
  uint32_t iterations[PROGRAM_EPOCHS_MAX][PROGRAM_RANKS_MAX];
  /* How it runs. */
  uint32_t run_ahead;  /* units a rank may issue before the oldest has been done by all */
  uint32_t sync_every; /* iterations between synchronisations with the device; 0: only at the end */
  bool sync_after;     /* synchronises after each epoch's units */
  uint32_t speed[PROGRAM_RANKS_MAX]; /* how often a rank is scheduled, 1 to 8 */
};

/* One unit of one rank, and where in the program it stands. */
struct step {
  struct member member;
  uint64_t point; /* the same on two ranks only for the same place: epoch, iteration, place in it */
  bool synchronise; /* afterwards the rank waits until all its units are done */
};

/* Deterministic by seed. */
void program_random(struct program *program, uint64_t seed);

/* The steps of a rank, in order; the caller frees *steps. Returns how many, or aborts without
 * memory. */
uint64_t program_steps(const struct program *program, uint32_t rank, struct step **steps);

/* xorshift64*, so that a seed means the same everywhere. */
uint64_t random_next(uint64_t *state);
uint32_t random_below(uint64_t *state, uint32_t bound);

#endif
