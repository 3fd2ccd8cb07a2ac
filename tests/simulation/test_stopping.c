/* Early termination in random programs: all ranks stop where their programs first differ, and
 * nothing is left on any device. build/check/sim --throws 1 --seed shows a program. */
#include <criterion/criterion.h>

#include "tests/simulation/simulate.h"

#define SEEDS 6000

static struct program program;

/* Programs whose ranks leave between iterations. */
static bool take(uint64_t seed, bool several) {
  program_random(&program, seed);
  program.throws = true;
  return !program.torn && !program.hasty && program.failing == FAILING_NEVER &&
         (program.nteams > 1) == several;
}

/* Whether ranks were stopped. */
static bool check(uint64_t seed) {
  struct simulation result = simulate(&program, seed, false);
  cr_assert_not(result.mismatch, "seed %lu: ranks issued different units at one index", seed);
  cr_assert_not(result.deadlock, "seed %lu: nobody can move", seed);
  cr_assert_not(result.wrong_order, "seed %lu: a rank's units are not its program", seed);
  cr_assert_not(result.stuck_on_device, "seed %lu: ranks wait for the device for ever", seed);
  cr_assert_not(result.wrong_failure, "seed %lu: a failure is heard of without one", seed);
  cr_assert_not(result.left_over, "seed %lu: something is left on a device", seed);
  cr_assert_not(program.nteams == 1 && result.inexact, "seed %lu: not where they differ", seed);
  cr_assert(program.imbalance != IMBALANCE_NONE || !result.stopped, "seed %lu: all agree", seed);
  return result.stopped;
}

static void run(bool several) {
  uint64_t stopped = 0;
  for (uint64_t seed = 0; seed < SEEDS; seed++)
    stopped += take(seed, several) && check(seed);
  cr_assert_gt(stopped, SEEDS / 10);
}

Test(stopping, one_team) {
  run(false);
}
Test(stopping, several_teams) {
  run(true);
}

/* Some ranks leave in the middle of an iteration, others fail, or yield at any moment: they may
 * stop later, but nothing else may happen. */
Test(stopping, programs_that_end_anyhow) {
  for (uint64_t seed = 0; seed < SEEDS; seed++) {
    program_random(&program, seed);
    program.throws = true;
    if (!program.torn && !program.hasty && program.failing == FAILING_NEVER)
      continue;
    struct simulation result = simulate(&program, seed, false);
    cr_assert_not(result.mismatch, "seed %lu: ranks issued different units at one index", seed);
    cr_assert_not(result.deadlock, "seed %lu: nobody can move", seed);
  }
}
