/* 12,000 random programs through the agreed sequences, in memory. A program that fails is named by
 * its seed; build/check/sim --seed shows it. */
#include <criterion/criterion.h>

#include "tests/simulation/device.h"
#include "tests/simulation/run.h"

#define PROGRAMS_PER_TEST 2000
#define PROGRAMS_PER_SHARE 100

static struct program program;

/* Shares are asked of many programs together: of few, one that goes astray counts for too much. */
static void run(uint64_t first) {
  struct tally tally = {0};
  for (uint64_t seed = first; seed < first + PROGRAMS_PER_TEST; seed++) {
    const char *wrong = run_program(seed, &tally);
    cr_assert_null(wrong, "seed %lu: %s", seed, wrong);
  }
  for (uint32_t i = 0; i < REQUIREMENTS; i++) {
    struct tally_row sum = group_sum(&tally, requirements[i].group);
    double slack = requirements[i].share == 1 ? 0 : 0.02;
    if (sum.programs < PROGRAMS_PER_SHARE)
      continue; /* `make sim` has enough of them */
    cr_assert(row_share(&sum) >= requirements[i].share - slack, "%s: %lu of %lu indices met",
              requirements[i].name, sum.met, sum.indices);
  }
}

#define PROGRAMS(n)                                                                                \
  Test(simulation, programs_from_##n) {                                                            \
    run(n);                                                                                        \
  }
PROGRAMS(0)
PROGRAMS(2000)
PROGRAMS(4000)
PROGRAMS(6000)
PROGRAMS(8000)
PROGRAMS(10000)

/* The checks above would be worth nothing if the simulation could not see a failure. */
Test(simulation, same_seed_same_run) {
  program_random(&program, 7);
  struct simulation a = simulate(&program, 7, false), b = simulate(&program, 7, false);
  cr_assert_eq(a.indices, b.indices);
  cr_assert_eq(a.shadows, b.shadows);
  cr_assert_eq(a.claims, b.claims);
  cr_assert_gt(a.reals, 0);
}

Test(simulation, uneven_programs_have_shadows_and_even_ones_neither_shadows_nor_yields) {
  uint64_t even = 0, uneven = 0;
  for (uint64_t seed = 0; seed < 400; seed++) {
    program_random(&program, seed);
    if (program.torn || program.hasty || program.failing != FAILING_NEVER)
      continue;
    struct simulation result = simulate(&program, seed, false);
    *(program.imbalance == IMBALANCE_NONE ? &even : &uneven) += result.shadows + result.yields;
  }
  cr_assert_eq(even, 0);
  cr_assert_gt(uneven, 1000);
}

/* Two ranks that issue units of two teams in different orders on one stream. */
Test(simulation, streams_that_wait_for_each_other_are_seen) {
  struct device *device;
  program = (struct program){.nranks = 2, .nteams = 2, .one_stream = true, .run_ahead = 8};
  for (uint16_t team = 0; team < 2; team++) {
    program.teams[team] = (struct program_team){2, {0, 1}};
    program.has_axis[team] = true;
    program.team_of[team][0] = program.team_of[team][1] = team;
  }
  for (uint32_t crossed = 0; crossed < 2; crossed++) {
    device = device_create(&program);
    device_issue(device, 0, 0, 0, true);
    device_issue(device, 0, 1, 0, true);
    device_issue(device, 1, crossed, 0, true);
    device_issue(device, 1, 1 - crossed, 0, true);
    cr_assert_eq(device_is_idle(device, 0), !crossed);
    device_destroy(device);
  }
}
