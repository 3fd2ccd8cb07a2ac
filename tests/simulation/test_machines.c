/* Random programs on several machines (machines.h): all that is asked of one machine holds,
 * whatever the links are like; and what agents send meanwhile.
 *
 * build/check/sim --machines 4 runs as many as wanted, and one by its seed. */
#include <criterion/criterion.h>
#include <stdio.h>

#include "tests/simulation/alike.h"
#include "tests/simulation/run.h"
#include "tests/simulation/test_program.h"

#define EVERY 5u /* of the seeds that one machine's tests run, two rounds */

static struct tally tally;

static void run(uint32_t nmachines, uint64_t first) {
  run_on_machines(nmachines);
  for (uint64_t seed = first; seed < 2 * ROWS; seed += EVERY) {
    const char *wrong = run_program(seed, &tally);
    cr_assert_null(wrong, "seed %lu on %u machines: %s", seed, nmachines, wrong);
  }
  run_on_machines(1);
}

static uint64_t sum(enum measure measure, bool even) {
  uint64_t all = 0;
  for (uint32_t i = 0; i < ROWS; i++)
    if (!even || (row_of(i).imbalance == IMBALANCE_NONE && !row_has(row_of(i), TRAIT_ANYHOW)))
      all += tally.rows[i].count[measure];
  return all;
}

static void check(uint32_t nmachines, uint64_t first) {
  run(nmachines, first);
  cr_expect_eq(sum(MEASURE_HANGS, false), 0);
  cr_expect_eq(sum(MEASURE_MISMATCHES, false), 0);
  cr_expect_eq(sum(MEASURE_SHADOWS, true), 0);
  cr_expect_eq(sum(MEASURE_YIELDS, true), 0);
  cr_expect_gt(sum(MEASURE_SHADOWS, false), 1000);
  cr_expect_gt(sum(MEASURE_MESSAGES, false), 1000);
  cr_expect_eq(sum(MEASURE_STILLS, false), 0);
}

Test(machines, two) {
  check(2, 0);
}
Test(machines, three) {
  check(3, 1);
}
Test(machines, eight) {
  check(8, 2);
}

/* Programs whose ranks came to units of two teams in different orders: they followed peers that are
 * in one of them alone, before the unit of the other that all of that one had claimed. */
Test(machines, ranks_of_two_teams_come_to_both_in_one_order) {
  static const uint64_t seeds[] = {28356, 85187, 767173, 1498883, 1503327, 3756186};
  run_on_machines(8);
  for (size_t i = 0; i < sizeof(seeds) / sizeof(*seeds); i++) {
    const char *wrong = run_program(seeds[i], &tally);
    cr_expect_null(wrong, "seed %lu: %s", seeds[i], wrong);
  }
  run_on_machines(1);
}

/* The same of ranks that are stopped where they first differ. */
Test(machines, ranks_stop_alike) {
  uint64_t stopped = 0;
  for (uint64_t seed = 0; seed < 2 * ROWS; seed += EVERY) {
    program_random(&program, seed);
    program.throws = true;
    struct layout layout = layout_random(&program, 2 + (uint32_t)seed % 7, seed);
    struct simulation result = simulate_on(&program, &layout, seed, false);
    cr_assert_not(result.mismatch, "seed %lu: ranks issued different units at one index", seed);
    cr_assert_not(result.deadlock, "seed %lu: nobody can move", seed);
    if (row_has(program.row, TRAIT_INSIDE | TRAIT_ANYHOW))
      continue;
    cr_assert_not(result.wrong_order || result.stuck_on_device || result.left_over, "seed %lu",
                  seed);
    cr_assert_not(result.wrong_failure, "seed %lu: a failure is heard of without one", seed);
    cr_assert(program.row.imbalance != IMBALANCE_NONE || !result.stopped, "seed %lu", seed);
    stopped += result.stopped;
  }
  cr_expect_gt(stopped, ROWS / (2 * EVERY));
}

/* ---- what is sent ---- */

#define RANKS_EACH 8u
#define MACHINES_MOST 32u

static struct simulation right(struct simulation result) {
  const char *wrong = alike_wrong(&result);
  cr_assert_null(wrong, "%s", wrong);
  return result;
}

static struct simulation train(uint32_t nmachines, uint16_t batches, uint16_t less, bool machine) {
  return right(alike_train((struct alike){nmachines, RANKS_EACH}, batches, less, machine));
}

/* How many more messages a unit. */
static double log_traffic(const char *what, uint32_t nmachines, uint64_t count,
                          const struct traffic *more, const struct traffic *less) {
  double messages = ((double)more->messages - (double)less->messages) / (double)count;
  printf("%u machines of %u ranks: %s: %.3f messages, %.1f bytes\n", nmachines, RANKS_EACH, what,
         messages, ((double)more->bytes - (double)less->bytes) / (double)count);
  return messages;
}

/* Only how far ranks are apart is asked for, where it could be too far. */
Test(machines, next_to_nothing_is_sent_while_nobody_waits) {
  struct simulation few = train(4, 100, 100, false), more = train(4, 600, 600, false),
                    many = train(4, 10000, 10000, false);
  cr_expect_eq(many.shadows, 0);
  double below =
      log_traffic("a unit below the bound on running ahead", 4, 1500, &more.traffic, &few.traffic);
  double beyond = log_traffic("a unit beyond it", 4, 28200, &many.traffic, &more.traffic);
  cr_expect_leq(below, 0.001);
  cr_expect_leq(beyond, 0.1);
}

/* Its own machine's ranks show it what there is. */
Test(machines, nothing_is_sent_for_a_rank_that_has_joined_beside_others) {
  for (uint32_t nmachines = 2; nmachines <= 8; nmachines *= 2) {
    struct simulation even = train(nmachines, 600, 600, false),
                      uneven = train(nmachines, 600, 100, false);
    cr_assert_eq(uneven.shadows, 1500);
    double sent = log_traffic("a unit shadowed", nmachines, 1500, &uneven.traffic, &even.traffic);
    cr_expect_leq(sent, 0.02);
  }
}

/* It asks one machine, which tells it, through the root at most. */
Test(machines, what_a_unit_costs_while_a_whole_machine_has_joined) {
  for (uint32_t nmachines = 2; nmachines <= 8; nmachines *= 2) {
    struct simulation even = train(nmachines, 600, 600, false),
                      uneven = train(nmachines, 600, 100, true);
    cr_assert_eq(uneven.shadows, 1500 * RANKS_EACH);
    double sent = log_traffic("a unit that a machine shadows", nmachines, 1500, &uneven.traffic,
                              &even.traffic);
    cr_expect_leq(sent, 2.1);
  }
}

/* A program without a loop: each of its units is claimed by all. What ranks say alike is told once,
 * and of each machine that it does. */
Test(machines, a_claim_costs_two_messages_a_machine) {
  for (uint32_t nmachines = 2; nmachines <= MACHINES_MOST; nmachines *= nmachines < 8 ? 2 : 4) {
    struct alike alike = {nmachines, RANKS_EACH};
    struct traffic few = right(alike_claim(alike, 10)).traffic,
                   more = right(alike_claim(alike, 30)).traffic;
    double sent = log_traffic("a claim of all", nmachines, 20, &more, &few);
    cr_expect_leq(sent, 2.0 * nmachines);
    double bytes = (double)(more.bytes - few.bytes) / 20;
    cr_expect_leq(bytes / sent, 160 + 4 * nmachines);
  }
}
