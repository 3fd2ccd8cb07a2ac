/* 10,000 random programs through the agreed sequence, in memory. A program that fails is named by
 * its seed. */
#include <criterion/criterion.h>

#include "tests/simulation/simulate.h"

#define PROGRAMS_PER_TEST 1000

static struct program program;

static void run(uint64_t first) {
  uint64_t met = 0, indices = 0;
  for (uint64_t seed = first; seed < first + PROGRAMS_PER_TEST; seed++) {
    program_random(&program, seed);
    struct simulation result = simulate(&program, seed);
    cr_assert(!result.mismatch, "seed %lu: ranks issued different units at one index", seed);
    cr_assert(!result.deadlock, "seed %lu: nobody can move", seed);
    cr_assert(!result.wrong_order, "seed %lu: a rank's real units are not its program", seed);
    if (program.imbalance != IMBALANCE_VARYING) {
      cr_assert_eq(result.met, result.indices, "seed %lu: %lu of %lu indices met", seed, result.met,
                   result.indices);
    } else {
      met += result.met;
      indices += result.indices;
    }
  }
  /* Where the imbalance varies from epoch to epoch, ranks may take a log unit for another's. */
  cr_assert(met >= indices * 97 / 100, "%lu of %lu indices met with varying imbalance", met,
            indices);
}

#define PROGRAMS(n)                                                                                \
  Test(simulation, programs_from_##n) {                                                            \
    run(n);                                                                                        \
  }
PROGRAMS(0)
PROGRAMS(1000)
PROGRAMS(2000)
PROGRAMS(3000)
PROGRAMS(4000)
PROGRAMS(5000)
PROGRAMS(6000)
PROGRAMS(7000)
PROGRAMS(8000)
PROGRAMS(9000)

/* The checks above would be worth nothing if the simulation could not see a failure. */
Test(simulation, same_seed_same_run) {
  program_random(&program, 7);
  struct simulation a = simulate(&program, 7), b = simulate(&program, 7);
  cr_assert_eq(a.indices, b.indices);
  cr_assert_eq(a.shadows, b.shadows);
  cr_assert_eq(a.claims, b.claims);
  cr_assert_gt(a.reals, 0);
}

Test(simulation, uneven_programs_have_shadows_and_even_ones_none) {
  uint64_t even = 0, uneven = 0;
  for (uint64_t seed = 0; seed < 200; seed++) {
    program_random(&program, seed);
    struct simulation result = simulate(&program, seed);
    *(program.imbalance == IMBALANCE_NONE ? &even : &uneven) += result.shadows;
  }
  cr_assert_eq(even, 0);
  cr_assert_gt(uneven, 1000);
}
