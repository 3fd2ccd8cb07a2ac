/* Early termination in random programs: all ranks stop where their programs first differ, and
 * nothing is left on any device. build/check/sim --throws 1 --seed shows a program. */
#include <criterion/criterion.h>
#include <string.h>

#include "tests/simulation/simulate.h"

#define SEEDS (4 * ROWS)

static struct program program;

/* Programs whose ranks leave between iterations. */
static bool take(uint64_t seed, bool several) {
  struct row row = row_of_seed(seed);
  if (row_has(row, TRAIT_INSIDE | TRAIT_ANYHOW) || row_has(row, TRAIT_SEVERAL) != several)
    return false;
  program_random(&program, seed);
  program.throws = true;
  return true;
}

static bool looks_like(const struct slot *a, const struct slot *b) {
  return a->nmembers == b->nmembers && a->axis == b->axis &&
         memcmp(a->members, b->members, a->nmembers * sizeof(a->members[0])) == 0;
}

/* A loop is taken to begin where its collectives were first seen to repeat: up to an iteration
 * late, where what is before it looks like what is in it. */
static bool has_look_alikes(void) {
  const struct tree *tree = &program.tree;
  for (uint16_t a = 0; a < tree->nnodes; a++)
    for (uint16_t b = 0; b < a; b++)
      if (tree->nodes[a].kind == NODE_UNIT && tree->nodes[b].kind == NODE_UNIT &&
          looks_like(&tree->nodes[a].slot, &tree->nodes[b].slot))
        return true;
  return false;
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
  cr_assert_not(program.nteams == 1 && result.inexact && !has_look_alikes(),
                "seed %lu: not where they differ", seed);
  cr_assert(program.row.imbalance != IMBALANCE_NONE || !result.stopped, "seed %lu: all agree",
            seed);
  return result.stopped;
}

static void run(bool several) {
  uint64_t stopped = 0, taken = 0;
  for (uint64_t seed = 0; seed < SEEDS; seed++) {
    if (!take(seed, several))
      continue;
    taken++;
    stopped += check(seed);
  }
  cr_assert_gt(stopped, taken / 2);
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
    if (!row_has(row_of_seed(seed), TRAIT_INSIDE | TRAIT_ANYHOW))
      continue;
    program_random(&program, seed);
    program.throws = true;
    struct simulation result = simulate(&program, seed, false);
    cr_assert_not(result.mismatch, "seed %lu: ranks issued different units at one index", seed);
    cr_assert_not(result.deadlock, "seed %lu: nobody can move", seed);
  }
}
