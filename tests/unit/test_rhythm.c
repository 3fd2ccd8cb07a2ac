/* Following by rhythm (core/predict/rhythm.h), on a clock of its own: a follower that does what it
 * is advised, beside a loop that goes by a timetable. */
#include "core/predict/rhythm.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

#define US UINT64_C(1000)
#define MS UINT64_C(1000000)
#define UNITS_MAX 100000

/* What the machine does: a sleep ends so much later than asked, by chance, and takes so much
 * processor time; a shadow takes a moment. */
static struct machine {
  uint64_t overshoot_least, overshoot_width, nap_cost;
  uint64_t held; /* by others, up to so long, at one of ten sleeps */
} machine;
static const struct machine quiet = {30 * US, 60 * US, 30 * US, 0};
static const struct machine busy = {50 * US, 250 * US, 60 * US, 4 * MS};
#define LOOK (200)
#define SHADOW (2 * US)

static struct rhythm *rhythm;
static struct rhythm_budget budget;
static uint64_t now, random_state;

/* When unit n comes, and at which place of the loop it does. */
static uint64_t comes[UNITS_MAX];
static uint32_t nunits, body;

/* What has become of it. */
static uint64_t used, delays[UNITS_MAX];
static uint32_t found, rung;

static void set_up(void) {
  rhythm = rhythm_create();
  cr_assert_not_null(rhythm);
  now = 1000 * MS;
  random_state = 1;
  nunits = found = rung = 0;
  body = 8;
  used = 0;
  machine = quiet;
  rhythm_budget_begin(&budget, now);
}

static void tear_down(void) {
  rhythm_destroy(rhythm);
}

TestSuite(rhythm, .init = set_up, .fini = tear_down);

static uint64_t chance(uint64_t width) {
  random_state = random_state * UINT64_C(6364136223846793005) + 1442695040888963407;
  return width == 0 ? 0 : (random_state >> 33) % width;
}

/* The timetable goes on: an iteration of that length, with all its units at the end. */
static void add_iteration(uint64_t length) {
  uint64_t at = (nunits == 0 ? now : comes[nunits - 1]) + length;
  for (uint32_t i = 0; i < body; i++)
    comes[nunits++] = at + i * 100;
}

static void add_iterations(uint32_t count, uint64_t length, uint64_t jitter) {
  while (count-- > 0)
    add_iteration(length - jitter / 2 + chance(jitter));
}

static void spend(uint64_t cost) {
  used += cost;
  rhythm_budget_spend(&budget, cost);
}

static bool find(void) {
  if (found == nunits || comes[found] > now)
    return false;
  delays[found] = now - comes[found];
  found++;
  rhythm_saw(rhythm, 1 + found % body, now);
  now += SHADOW;
  return true;
}

/* As interpose/park/follower.c does it. The bell takes as long as a sleep to wake anybody. */
static void wait_once(void) {
  rhythm_looked(rhythm, now);
  rhythm_budget_earn(&budget, now);
  struct rhythm_plan plan = rhythm_plan(rhythm, &budget, now);
  uint64_t overshoot = machine.overshoot_least + chance(machine.overshoot_width), begun = now;
  if (machine.held != 0 && chance(10) == 0)
    overshoot += chance(machine.held);
  switch (plan.advice) {
  case RHYTHM_BELL:
    now = (comes[found] > now ? comes[found] : now) + overshoot;
    rung++;
    spend(machine.nap_cost);
    break;
  case RHYTHM_SLEEP:
    cr_assert_gt(plan.until, now, "it sleeps");
    cr_assert_leq(plan.until, now + 300000 * MS);
    now = plan.until + overshoot;
    used += machine.nap_cost;
    rhythm_budget_slept(&budget, plan.until, now, machine.nap_cost);
    break;
  case RHYTHM_LOOK:
    cr_assert_gt(plan.until, now, "it looks");
    while (now < plan.until && comes[found] > now) {
      rhythm_looked(rhythm, now);
      now += LOOK;
    }
    spend(now - begun);
    break;
  }
}

static void follow_all(void) {
  while (found < nunits)
    if (!find())
      wait_once();
}

static int compare(const void *a, const void *b) {
  uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return x < y ? -1 : x > y;
}

/* Of the first units of iterations, those that are waited for, from an iteration on. */
static uint64_t delay(uint32_t from, double part) {
  static uint64_t sorted[UNITS_MAX];
  size_t n = 0;
  for (uint32_t unit = from * body; unit < nunits; unit += body)
    sorted[n++] = delays[unit];
  qsort(sorted, n, sizeof *sorted, compare);
  return sorted[(size_t)((double)n * part)];
}

static double share(uint64_t since) {
  return (double)used / (double)(now - since);
}

static void expect_in_time(const char *loop, uint32_t from) {
  cr_expect_leq(delay(from, 0.5), 10 * US, "%s: half of them within %lu ns", loop,
                delay(from, 0.5));
}

static void expect_cheap(const char *loop) {
  cr_expect_leq(used, (now - 1000 * MS) / 20 + RHYTHM_SAVED, "%s: %f of a processor", loop,
                share(1000 * MS));
}

static void follow(const char *loop, uint32_t from) {
  follow_all();
  expect_in_time(loop, from);
  expect_cheap(loop);
}

/* ---- loops ---- */

Test(rhythm, a_loop_of_any_length_with_more_or_less_jitter) {
  static const uint64_t lengths[] = {10 * MS, 30 * MS, 100 * MS};
  for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
    for (uint64_t percent = 0; percent <= 4; percent++) {
      char loop[64];
      snprintf(loop, sizeof loop, "%lu ms, %lu %% jitter", lengths[i] / MS, percent);
      tear_down();
      set_up();
      add_iterations(500, lengths[i], lengths[i] * percent / 100);
      follow(loop, 10);
      cr_expect_leq(rung, 10, "%s: rung %u times", loop, rung);
    }
}

Test(rhythm, who_wakes_itself_is_rung_for_the_first_iterations_only) {
  add_iterations(100, 20 * MS, 0);
  follow("20 ms", 3);
  cr_expect_leq(rung, 2);
}

/* Where a sleep is dear, and one of ten ends milliseconds late, the time of the loop is not lost.
 */
Test(rhythm, on_a_busy_machine_nobody_is_rung_either) {
  static const uint64_t lengths[] = {10 * MS, 14 * MS, 30 * MS, 100 * MS};
  for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
    for (uint64_t percent = 0; percent <= 4; percent++) {
      char loop[64];
      snprintf(loop, sizeof loop, "busy, %lu ms, %lu %% jitter", lengths[i] / MS, percent);
      tear_down();
      set_up();
      machine = busy;
      add_iterations(500, lengths[i], lengths[i] * percent / 100);
      follow(loop, 10);
      cr_expect_leq(rung, 10, "%s: rung %u times", loop, rung);
    }
}

/* A validation step after every fourth iteration, in the same body. */
Test(rhythm, each_place_of_the_loop_has_a_gap_of_its_own) {
  body = 8;
  for (int i = 0; i < 400; i++) {
    add_iteration(10 * MS);
    nunits -= body / 2;
    uint64_t at = comes[nunits - 1] + 25 * MS;
    for (uint32_t k = 0; k < body / 2; k++)
      comes[nunits++] = at + k * 100;
  }
  follow("two gaps", 10);
}

Test(rhythm, a_loop_of_two_speeds) {
  for (int i = 0; i < 40; i++)
    add_iterations(25, i % 2 == 0 ? 12 * MS : 36 * MS, 200 * US);
  follow("two speeds", 10);
}

Test(rhythm, a_loop_that_drifts) {
  for (uint32_t i = 0; i < 1000; i++)
    add_iterations(1, 20 * MS + (i < 500 ? i : 1000 - i) * 20 * US, 100 * US);
  follow("drift", 10);
}

Test(rhythm, pauses_are_ended_by_the_bell_and_cost_next_to_nothing) {
  for (int i = 0; i < 10; i++) {
    add_iterations(50, 10 * MS, 100 * US);
    add_iteration(5000 * MS);
  }
  follow("pauses", 10);
  cr_expect_leq(delay(10, 1 - 1e-9), 5 * MS, "%lu ns", delay(10, 1 - 1e-9));
  cr_expect_leq(share(1000 * MS), 0.02);
}

/* ---- what must not happen ---- */

/* The others wait for the follower at every iteration: what it is late makes the loop slower. */
static void go_on_together(uint32_t count, uint64_t length) {
  while (count-- > 0) {
    comes[nunits] = now;
    for (uint32_t i = 0; i < body; i++)
      comes[nunits + i] = now + length + i * 100;
    nunits += body;
    follow_all();
  }
}

Test(rhythm, a_loop_that_waits_for_the_follower_can_become_faster) {
  go_on_together(50, 100 * MS);
  uint64_t before = now;
  go_on_together(100, 10 * MS);
  cr_expect_leq(now - before, 1300 * MS, "%lu ms for 100 iterations of 10", (now - before) / MS);
  before = now;
  go_on_together(50, 10 * MS);
  cr_expect_leq(now - before, 510 * MS, "%lu ms for 50", (now - before) / MS);
}

Test(rhythm, who_was_away_catches_up_at_once) {
  add_iterations(20, 10 * MS, 0);
  follow_all();
  add_iterations(10, 10 * MS, 0);
  now = comes[nunits - 1] + MS;
  uint64_t back = now;
  follow_all();
  cr_expect_leq(now - back, MS, "after %lu ns", now - back);
  add_iterations(20, 10 * MS, 0);
  follow_all();
  cr_expect_leq(delay(32, 0.5), 10 * US);
}

Test(rhythm, the_share_holds_whatever_the_rhythm) {
  for (uint64_t length = 200 * US; length < 200 * MS; length *= 2)
    for (uint64_t percent = 0; percent <= 200; percent += 50) {
      tear_down();
      set_up();
      add_iterations(400, length, length * percent / 100);
      follow_all();
      /* The bell's sleeps are as they have always been. */
      uint64_t bells = rung * machine.nap_cost;
      cr_expect_leq(used - (bells < used ? bells : used), (now - 1000 * MS) / 20 + RHYTHM_SAVED,
                    "%lu us, %lu %% jitter: %f", length / US, percent, share(1000 * MS));
    }
}

Test(rhythm, nothing_is_known_at_first_and_after_a_break) {
  cr_expect_eq(rhythm_plan(rhythm, &budget, now).advice, RHYTHM_BELL);
  add_iterations(10, 10 * MS, 0);
  follow_all();
  cr_expect_neq(rhythm_plan(rhythm, &budget, now).advice, RHYTHM_BELL);
  rhythm_begin(rhythm);
  cr_expect_eq(rhythm_plan(rhythm, &budget, now).advice, RHYTHM_BELL);
}

Test(rhythm, a_round_is_from_a_place_to_itself) {
  cr_expect_eq(rhythm_round(rhythm), 0);
  add_iterations(10, 10 * MS, 0);
  follow_all();
  cr_expect_leq(rhythm_round(rhythm), 11 * MS);
  cr_expect_geq(rhythm_round(rhythm), 9 * MS);
}

Test(rhythm, a_budget_is_neither_saved_nor_overdrawn_without_end) {
  rhythm_budget_spend(&budget, UINT64_MAX);
  rhythm_budget_spend(&budget, UINT64_MAX);
  cr_expect_eq(budget.left, -RHYTHM_SAVED);
  rhythm_budget_grant(&budget, 20 * US);
  cr_expect_eq(budget.left, (int64_t)(budget.nap + 20 * US));
  now += 1000000 * MS;
  rhythm_budget_earn(&budget, now);
  cr_expect_eq(budget.left, RHYTHM_SAVED);
  for (int i = 0; i < 1000; i++) /* shorter than what earns a nanosecond */
    rhythm_budget_earn(&budget, now + (uint64_t)i);
  cr_expect_eq(budget.left, RHYTHM_SAVED);
}
