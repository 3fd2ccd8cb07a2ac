/* The learner on random streams: against naive finders, and that putting work off decides nothing.
 */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "core/predict/learner.h"
#include "tests/unit/traces.h"

/* In these streams the operation is the symbol: no unit is another one's with a different count. */
static void feed(struct learner *learner, symbol_t symbol) {
  learner_step(learner, symbol, symbol);
}

/* ---- random streams ---- */

/* The smallest period of the last `length` units. */
static uint32_t naive_period(const symbol_t *end, uint32_t length) {
  for (uint32_t period = 1; period < length; period++) {
    uint32_t i = 1;
    while (i + period <= length && end[-(ptrdiff_t)i] == end[-(ptrdiff_t)(i + period)])
      i++;
    if (i + period > length)
      return period;
  }
  return length;
}

Test(learner_random, finds_the_period_of_random_loops_after_random_preambles) {
  uint64_t state = 99;
  for (int round = 0; round < 1000; round++) {
    symbol_t stream[100 + 5 * 150], body[150];
    uint32_t length = 1 + trace_random(&state, 150), letters = 2 + trace_random(&state, 20);
    uint32_t preamble = trace_random(&state, 100), nunits = 0;
    for (uint32_t i = 0; i < length; i++)
      body[i] = 1 + trace_random(&state, letters);
    while (nunits < preamble)
      stream[nunits++] = 1 + trace_random(&state, letters);
    for (uint32_t i = 0; i < 5 * length; i++)
      stream[nunits++] = body[i % length];
    uint32_t period = naive_period(stream + nunits, 5 * length);
    struct learner *other = learner_create();
    for (uint32_t i = 0; i < nunits; i++) {
      if (i >= preamble + LEARNER_REPEATS * period)
        cr_assert_eq(learner_expected(other), stream[i], "round %d, unit %u", round, i);
      feed(other, stream[i]);
    }
    cr_assert_eq(learner_body_length(other), period, "round %d", round);
    cr_assert(learner_is_valid(other));
    learner_destroy(other);
  }
}

Test(learner_random, finds_long_loops_of_few_different_units) {
  uint64_t state = 31;
  for (int round = 0; round < 20; round++) {
    uint32_t length = 1000 + trace_random(&state, 5000), letters = 2 + trace_random(&state, 4);
    symbol_t *body = malloc(length * sizeof *body);
    struct learner *other = learner_create();
    for (uint32_t i = 0; i < length; i++)
      body[i] = 1 + trace_random(&state, letters);
    for (int repeat = 0; repeat < 5; repeat++)
      for (uint32_t i = 0; i < length; i++) {
        cr_assert(repeat < LEARNER_REPEATS || learner_expected(other) == body[i], "round %d",
                  round);
        feed(other, body[i]);
      }
    cr_assert_eq(learner_body_length(other), length);
    learner_destroy(other);
    free(body);
  }
}

Test(learner_random, random_inserts_cost_one_miss_each) {
  uint64_t state = 5;
  for (int round = 0; round < 200; round++) {
    symbol_t body[60];
    uint32_t length = 2 + trace_random(&state, 58), wrong = 0, inserts = 0;
    for (uint32_t i = 0; i < length; i++)
      body[i] = 1 + i; /* all different, so that an insert is an insert beyond doubt */
    struct learner *other = learner_create();
    for (uint32_t i = 0; i < 100 * length; i++) {
      if (i >= 4 * length && trace_random(&state, 5 * length) == 0) {
        symbol_t insert = 1000 + trace_random(&state, 1000000);
        cr_assert_neq(learner_expected(other), insert);
        feed(other, insert);
        inserts++;
      }
      if (i >= LEARNER_REPEATS * length)
        wrong += learner_expected(other) != body[i % length];
      feed(other, body[i % length]);
    }
    cr_assert_eq(wrong, 0, "round %d: %u wrong beside %u inserts", round, wrong, inserts);
    cr_assert_eq(learner_body_length(other), length);
    learner_destroy(other);
  }
}

/* ---- putting off work ---- */

static void assert_same(const struct learner *a, const struct learner *b, size_t unit) {
  cr_assert_eq(learner_expected(a), learner_expected(b), "unit %zu", unit);
  cr_assert_eq(learner_is_firm(a), learner_is_firm(b), "unit %zu", unit);
  cr_assert_eq(learner_body_length(a), learner_body_length(b), "unit %zu", unit);
  cr_assert_eq(learner_is_between_iterations(a), learner_is_between_iterations(b), "unit %zu",
               unit);
}

static void assert_same_bodies(const struct learner *a, const struct learner *b) {
  for (uint32_t i = 0; i < learner_body_length(a); i++)
    cr_assert_eq(learner_body_symbol(a, i), learner_body_symbol(b, i));
}

/* One learner takes every step in full and catches up after each, one is fed by the fast path where
 * that is possible, one catches up at random. */
static void compare_paths(const struct trace *trace) {
  uint64_t state = 77;
  struct learner *eager = learner_create(), *fast = learner_create(), *mixed = learner_create();
  for (size_t i = 0; i < trace->nunits; i++) {
    const struct trace_unit *unit = &trace->units[i];
    learner_step(eager, unit->symbol, unit->coarse);
    learner_catch_up(eager);
    if (learner_expected(fast) == unit->symbol)
      learner_step_expected(fast);
    else
      learner_step(fast, unit->symbol, unit->coarse);
    if (learner_expected(mixed) == unit->symbol && trace_random(&state, 2))
      learner_step_expected(mixed);
    else
      learner_step(mixed, unit->symbol, unit->coarse);
    if (trace_random(&state, 100) == 0)
      learner_catch_up(mixed);
    assert_same(eager, fast, i);
    assert_same(eager, mixed, i);
  }
  assert_same_bodies(eager, fast);
  assert_same_bodies(eager, mixed);
  cr_assert(learner_is_valid(eager));
  cr_assert(learner_is_valid(fast));
  cr_assert(learner_is_valid(mixed));
  learner_destroy(eager);
  learner_destroy(fast);
  learner_destroy(mixed);
}

Test(learner_random, putting_work_off_decides_nothing) {
  for (size_t i = 0; i < trace_kind_count; i++) {
    struct trace trace = trace_generate(&trace_kinds[i]);
    compare_paths(&trace);
    trace_free(&trace);
  }
}

/* Loops of random length and contents, random numbers of times, with inserts, gaps and other
 * counts. */
static void random_phases(struct trace *trace, uint64_t *state) {
  uint32_t body[3][40], length[3];
  for (int i = 0; i < 3; i++) {
    length[i] = 1 + trace_random(state, 40);
    for (uint32_t j = 0; j < length[i]; j++)
      body[i][j] = trace_random(state, 6);
  }
  while (trace->nunits < 20000) {
    uint32_t which = trace_random(state, 3);
    for (uint32_t n = trace_random(state, 60) * length[which], j = 0; n > 0; n--) {
      uint32_t operation = 1 + body[which][j];
      j = j + 1 == length[which] ? 0 : j + 1;
      uint32_t chance = trace_random(state, 200);
      if (chance == 0)
        trace_add(trace, 1 + trace_random(state, 8), trace_random(state, 3));
      if (chance != 1)
        trace_add(trace, operation, chance == 2 ? 5 : 0);
    }
  }
}

Test(learner_random, putting_work_off_decides_nothing_in_random_streams) {
  uint64_t state = 1234;
  for (int round = 0; round < 30; round++) {
    struct trace trace = {.name = "random phases"};
    random_phases(&trace, &state);
    compare_paths(&trace);
    trace_free(&trace);
  }
}

/* ---- whatever comes ---- */

Test(learner_random, stays_valid_whatever_comes) {
  uint64_t state = 4321;
  for (int round = 0; round < 60; round++) {
    struct learner *other = learner_create();
    uint32_t letters = 1 + trace_random(&state, round % 3 ? 4 : 1000);
    for (uint32_t i = 0; i < 5000; i++) {
      symbol_t symbol = 1 + trace_random(&state, letters);
      if (trace_random(&state, 3) && learner_expected(other))
        symbol = learner_expected(other);
      learner_step(other, symbol, 1 + symbol % 3);
      cr_assert(learner_expected(other) != SYMBOL_NONE || !learner_is_firm(other));
      if (i % 500 == 0)
        cr_assert(learner_is_valid(other), "round %d, unit %u", round, i);
    }
    cr_assert(learner_is_valid(other));
    learner_destroy(other);
  }
}
