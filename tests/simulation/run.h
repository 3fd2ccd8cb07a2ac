/* Running many random programs, counting what came of them, and what must come of them.
 */
#ifndef NCCL_JOIN_TESTS_SIMULATION_RUN_H
#define NCCL_JOIN_TESTS_SIMULATION_RUN_H

#include "tests/simulation/simulate.h"

struct tally_row {
  uint64_t programs, stuck; /* on the device */
  uint64_t indices, met, reals, shadows, commits, claims, yields, late_yields, waits;
};

struct tally {
  struct tally_row rows[PROGRAM_ROWS];
  /* Programs in which something happened that never may: anything in which ranks wait for ever,
   * too, unless they yield although others are at work. Then streams may come to wait for each
   * other; those programs are there to see that no units of different kinds meet even so. */
  uint64_t failures;
};

void tally_add(struct tally *tally, const struct tally *more);

/* Runs the program of a seed. Returns NULL, or what went wrong. */
const char *run_program(uint64_t seed, struct tally *tally);

/* Indices where all real units were of the same place of the program, of all; 1 if there are none.
 */
double row_share(const struct tally_row *row);

struct requirement {
  enum program_group group;
  const char *name;
  double share;
};
#define REQUIREMENTS 6
extern const struct requirement requirements[REQUIREMENTS];

/* All rows of a group together. */
struct tally_row group_sum(const struct tally *tally, enum program_group group);

#endif
