/* Random programs of all rows through the agreed sequences, in memory, and what must come of them
 * (requirements.c). A program that fails is named by its seed; build/check/sim --seed shows it.
 *
 * What is asked is asked of all programs of one sight together, so each test runs one sight.
 */
#include <criterion/criterion.h>
#include <criterion/hooks.h>
#include <malloc.h>

#include "tests/simulation/device.h"
#include "tests/simulation/run.h"

/* So few that one program may have most of what is not met: of those that leave inside iterations,
 * 4.6 % in the first 32 of each row, and 1.1 % in 30,000 (make sim). */
#define PROGRAMS_PER_ROW 10
#define FIRST_OF_ROW UINT64_C(32)

static struct program program;
static struct tally tally;

/* For all tests: each program takes what the one before has given back. */
ReportHook(PRE_ALL)(struct criterion_test_set *tests) {
  (void)tests;
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
}

static void require(const struct requirement *requirement) {
  struct row worst = {0};
  char name[ROW_NAME_SIZE];
  struct tally_row sum = requirement_sum(requirement, &tally, &worst);
  double share = row_share(&sum, requirement->of, requirement->per);
  uint64_t seed = tally.rows[row_number(worst)].seed[requirement->of] - 1;
  cr_expect(share <= requirement_limit(requirement), "%s: %lu of %lu; most: %s, seed %lu",
            requirement->name, sum.count[requirement->of], sum.count[requirement->per],
            row_name(worst, name), seed);
}

static void run(enum sight sight) {
  for (uint64_t seed = FIRST_OF_ROW * ROWS; seed < (FIRST_OF_ROW + PROGRAMS_PER_ROW) * ROWS;
       seed++) {
    if (row_of_seed(seed).sight != sight)
      continue;
    const char *wrong = run_program(seed, &tally);
    cr_assert_null(wrong, "seed %lu: %s", seed, wrong);
  }
  for (uint32_t i = 0; i < REQUIREMENTS; i++)
    require(&requirements[i]);
}

Test(simulation, places_visible) {
  run(SIGHT_VISIBLE);
}
Test(simulation, places_shared_by_several_points) {
  run(SIGHT_WRAPPED);
}
Test(simulation, places_of_engine_threads_unknown) {
  run(SIGHT_ENGINE);
}
Test(simulation, places_hidden) {
  run(SIGHT_HIDDEN);
}
Test(simulation, places_without_order) {
  run(SIGHT_UNORDERED);
}
Test(simulation, places_by_rank_outside_of_loops) {
  run(SIGHT_BY_RANK_OUTSIDE);
}
Test(simulation, places_by_rank_in_loops) {
  run(SIGHT_BY_RANK_INSIDE);
}
Test(simulation, loops_of_one_rank) {
  run(SIGHT_OTHER_LOOP);
}

/* ---- the checks above would be worth nothing if the simulation could not see a failure ---- */

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
  for (uint64_t seed = 0; seed < ROWS; seed++) {
    program_random(&program, seed);
    if (row_has(program.row, TRAIT_ANYHOW))
      continue;
    struct simulation result = simulate(&program, seed, false);
    *(program.row.imbalance == IMBALANCE_NONE ? &even : &uneven) += result.shadows + result.yields;
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
