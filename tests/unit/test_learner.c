/* The learner: each behaviour on a small stream, firmness against a naive search, and what it finds
 * in the streams of training programs. Random streams are in test_learner_random.c.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "core/predict/learner.h"
#include "core/predict/learner_lags.h"
#include "tests/unit/traces.h"

static void feed(struct learner *learner, symbol_t symbol) {
  learner_step(learner, symbol, symbol);
}

/* Feeds a word of letters; a capital and its small letter are the same operation with other counts.
 */
static void feed_word(struct learner *learner, const char *word, int times) {
  while (times-- > 0)
    for (const char *at = word; *at; at++)
      learner_step(learner, (symbol_t)*at, (uint32_t)*at & ~0x20u);
}

static void feed_letter(struct learner *learner, char letter) {
  learner_step(learner, (symbol_t)letter, (uint32_t)letter & ~0x20u);
}

/* Feeds a word and counts its units that were not expected. */
static int misses(struct learner *learner, const char *word, int times) {
  int missed = 0;
  while (times-- > 0)
    for (const char *at = word; *at; at++) {
      missed += learner_expected(learner) != (symbol_t)*at;
      learner_step(learner, (symbol_t)*at, (uint32_t)*at & ~0x20u);
    }
  return missed;
}

static struct learner *learner;
static void setup(void) {
  learner = learner_create();
  cr_assert(learner);
}
static void teardown(void) {
  cr_expect(learner_is_valid(learner));
  learner_destroy(learner);
}
TestSuite(learner, .init = setup, .fini = teardown);

Test(learner, believes_nothing_at_first) {
  cr_expect_eq(learner_expected(learner), SYMBOL_NONE);
  cr_expect_not(learner_is_firm(learner));
  cr_expect_eq(learner_body_length(learner), 0);
  cr_expect(learner_is_between_iterations(learner));
}

Test(learner, believes_a_body_after_three_repeats_and_not_before) {
  feed_word(learner, "pqabcd", 1);
  for (int i = 4; i < 12; i++) {
    cr_expect_eq(learner_expected(learner), SYMBOL_NONE, "unit %d", i);
    feed_letter(learner, "abcd"[i % 4]);
  }
  cr_expect_eq(learner_body_length(learner), 4);
  cr_expect_eq(learner_expected(learner), (symbol_t)'a');
}

Test(learner, believes_a_single_unit_after_three) {
  feed_word(learner, "a", 2);
  cr_expect_eq(learner_expected(learner), SYMBOL_NONE);
  feed_word(learner, "a", 1);
  cr_expect_eq(learner_expected(learner), (symbol_t)'a');
}

Test(learner, position_0_is_where_the_repeats_began) {
  feed_word(learner, "xyz", 1);
  feed_word(learner, "abcde", 3);
  for (uint32_t i = 0; i < 5; i++)
    cr_expect_eq(learner_body_symbol(learner, i), (symbol_t) "abcde"[i]);
  for (int i = 0; i < 10; i++) {
    cr_expect_eq(learner_is_between_iterations(learner), i % 5 == 0);
    feed_letter(learner, "abcde"[i % 5]);
  }
}

Test(learner, a_longer_body_takes_over_three_equal_buckets_and_a_fourth) {
  feed_word(learner, "aaab", 3);
  cr_expect_eq(learner_body_length(learner), 4);
  cr_expect_eq(misses(learner, "aaab", 100), 0);
}

Test(learner, a_longer_body_of_the_same_operation_takes_over) {
  feed_word(learner, "aaaA", 3);
  cr_expect_eq(learner_body_length(learner), 4);
  cr_expect_eq(misses(learner, "aaaA", 100), 0);
}

Test(learner, an_insert_costs_one_miss_and_leaves_the_cursor) {
  feed_word(learner, "abcd", 5);
  cr_expect_eq(misses(learner, "abxcd", 1), 1);
  cr_expect_eq(misses(learner, "abcd", 3), 0);
  cr_expect_eq(learner_body_length(learner), 4);
}

Test(learner, an_insert_is_never_expected) {
  feed_word(learner, "abcdefgh", 5);
  for (int i = 1; i < 40; i++) {
    feed_word(learner, "abcdefgh", i % 7 + 1);
    cr_expect_neq(learner_expected(learner), (symbol_t)'x');
    feed_word(learner, i % 2 ? "x" : "xyz", 1);
    cr_expect_eq(learner_expected(learner), (symbol_t)'a');
  }
}

Test(learner, an_insert_of_the_same_operation_leaves_the_cursor) {
  feed_word(learner, "abaca", 5);
  cr_expect_eq(misses(learner, "abAaca", 1), 1);
  cr_expect_eq(misses(learner, "abaca", 3), 0);
}

Test(learner, the_program_may_stand_between_iterations_where_inserts_have_been) {
  feed_word(learner, "abcd", 5);
  feed_word(learner, "ab", 1);
  cr_expect_not(learner_is_between_iterations(learner));
  feed_word(learner, "x", 1);
  cr_expect(learner_is_between_iterations(learner));
  feed_word(learner, "cdab", 1);
  cr_expect(learner_is_between_iterations(learner));
  feed_word(learner, "c", 1);
  cr_expect_not(learner_is_between_iterations(learner));
}

Test(learner, a_unit_left_out_costs_two_misses) {
  feed_word(learner, "abcdefgh", 5);
  cr_expect_eq(misses(learner, "abdefgh", 1), 2);
  cr_expect_eq(misses(learner, "abcdefgh", 3), 0);
}

Test(learner, a_unit_with_another_count_is_expected_with_its_last_count) {
  feed_word(learner, "abcdef", 5);
  cr_expect_leq(misses(learner, "abCdef", 1), 2);
  cr_expect_eq(misses(learner, "abCdef", 3), 0);
  cr_expect_eq(misses(learner, "abcdef", 1), 1, "from now on only the new count is a surprise");
  cr_expect_eq(learner_body_length(learner), 6);
}

Test(learner, a_varying_unit_may_be_dropped) {
  feed_word(learner, "abcdefabCdefabCdefabcdefabcdefabcdefabCdef", 1);
  cr_assert_eq(learner_body_length(learner), 6);
  cr_expect_eq(misses(learner, "abdef", 1), 1);
  cr_expect_leq(misses(learner, "abcdef", 1), 1);
}

Test(learner, a_new_phase_is_learnt) {
  feed_word(learner, "abcdefghij", 100);
  feed_word(learner, "uvw", 8);
  cr_expect_eq(learner_body_length(learner), 3);
  cr_expect_eq(misses(learner, "uvw", 100), 0);
}

Test(learner, a_new_phase_of_the_same_operation_is_learnt) {
  feed_word(learner, "aAaAAaaAAA", 100);
  feed_word(learner, "AAAaaaa", 8);
  cr_expect_eq(misses(learner, "AAAaaaa", 100), 0);
}

Test(learner, an_earlier_phase_is_resumed_after_two_units) {
  feed_word(learner, "abcdefghij", 100);
  feed_word(learner, "uvw", 20);
  cr_expect_eq(learner_body_length(learner), 3);
  cr_expect_eq(misses(learner, "abcdefghij", 10), 2);
  cr_expect_eq(misses(learner, "uvw", 10), 2);
  feed_word(learner, "abcde", 1);
  cr_expect_eq(misses(learner, "uvw", 10), 2, "left in the middle of its body");
  cr_expect_eq(misses(learner, "fghijabcde", 10), 2, "goes on where it was left");
}

Test(learner, a_count_may_change_soon_after_an_insert) {
  feed_word(learner, "abcdefghij", 5);
  feed_word(learner, "abcdexfghij", 1);
  cr_expect_leq(misses(learner, "abCdefghij", 1), 2);
  cr_expect_eq(misses(learner, "abCdefghij", 3), 0);
}

/* The place of 100 varies; once it had the count that comes after it. That was no gap. */
Test(learner, a_count_like_the_next_one_is_still_a_count) {
  static const uint32_t body[] = {1, 100, 5, 2, 3, 4, 6, 7};
  for (uint32_t round = 0; round < 12; round++)
    for (int i = 0; i < 8; i++)
      learner_step(learner, i == 1 ? 100 + round : body[i], i == 1 || i == 2 ? 9 : body[i] + 20);
  cr_assert_eq(learner_body_length(learner), 8);
  static const uint32_t again[] = {1, 5, 5, 2, 3, 2, 4, 6, 7, 1};
  for (int i = 0; i < 10; i++) {
    bool expected = learner_expected(learner) == again[i];
    cr_expect_eq(expected, i != 1 && i != 5, "unit %d", i);
    learner_step(learner, again[i], i == 1 || i == 2 ? 9 : again[i] + 20);
  }
}

Test(learner, a_new_phase_after_a_long_body_is_learnt_soon) {
  for (uint32_t i = 0; i < 6000; i++)
    feed(learner, 1000 + i % 1500);
  feed_word(learner, "uvw", 8);
  cr_expect_eq(learner_body_length(learner), 3);
  feed(learner, 1000);
  feed(learner, 1001);
  cr_expect_eq(learner_body_length(learner), 1500);
  cr_expect_eq(learner_expected(learner), 1002);
}

Test(learner, the_oldest_of_five_phases_is_still_known) {
  static const char *const phase[] = {"abcd", "efgh", "ijkl", "mnop", "qrst"};
  for (int i = 0; i < 5; i++)
    feed_word(learner, phase[i], 20);
  cr_expect_eq(misses(learner, phase[0], 20), 2);
  cr_expect_eq(misses(learner, phase[4], 20), 2);
}

/* The third round ends long after the last surprise, while units go the short way. */
Test(learner, a_longer_body_takes_over_when_it_is_due) {
  feed_word(learner, "a", 50);
  for (int round = 0; round < 2; round++) {
    feed_word(learner, "v", 1);
    feed_word(learner, "a", 200);
  }
  feed_word(learner, "v", 1);
  feed_word(learner, "a", 149);
  cr_expect_eq(learner_body_length(learner), 1);
  feed_word(learner, "a", 1);
  cr_expect_eq(learner_body_length(learner), 201);
}

Test(learner, a_body_is_given_up_when_nothing_matches) {
  uint64_t state = 1;
  feed_word(learner, "abcd", 10);
  for (uint32_t i = 0; i < 200; i++)
    feed(learner, 1000 + 200 * trace_random(&state, 1000) + i);
  cr_expect_eq(learner_expected(learner), SYMBOL_NONE);
  feed_word(learner, "abcd", 3);
  cr_expect_eq(learner_expected(learner), (symbol_t)'a');
}

/* ---- firmness ---- */

Test(learner, the_end_of_a_long_run_is_not_firm) {
  for (int round = 0; round < 3; round++) {
    feed_word(learner, "a", 500);
    feed_word(learner, "v", 1);
  }
  cr_assert_eq(learner_body_length(learner), 501);
  for (int i = 0; i < 501; i++) {
    cr_expect_eq(learner_is_firm(learner), i != 500, "unit %d", i);
    feed(learner, learner_expected(learner));
  }
}

Test(learner, the_end_of_a_short_run_is_firm) {
  feed_word(learner, "aaaaaaaab", 4);
  for (int i = 0; i < 9; i++) {
    cr_expect(learner_is_firm(learner));
    feed(learner, learner_expected(learner));
  }
}

Test(learner, an_op_after_fifty_iterations_is_not_firm) {
  for (int round = 0; round < 3; round++) {
    feed_word(learner, "abcdefghij", 50);
    feed_word(learner, "v", 1);
  }
  cr_assert_eq(learner_body_length(learner), 501);
  for (int i = 0; i < 501; i++) {
    cr_expect_eq(learner_is_firm(learner), i != 500, "unit %d", i);
    feed(learner, learner_expected(learner));
  }
}

/* By the definition: a run of length >= LEARNER_RUN_MIN and of four periods ends before this place.
 */
static bool naive_run_ends(const symbol_t *body, uint32_t length, uint32_t place) {
  for (uint32_t period = 1; 3 * period < length; period++) {
    uint32_t repeats = 0;
    if (body[place] == body[(place + length - period) % length])
      continue;
    for (uint32_t i = 1; i < length; i++, repeats++)
      if (body[(place + length - i) % length] != body[(place + 2 * length - i - period) % length])
        break;
    if (repeats >= 3 * period && repeats + period >= LEARNER_RUN_MIN)
      return true;
  }
  return false;
}

/* A body of nested repeats, as long as fits. */
static uint32_t nested_body(uint64_t *state, symbol_t *body, uint32_t most) {
  uint32_t length = 0;
  while (length < most / 2) {
    uint32_t period = 1 + trace_random(state, trace_random(state, 2) ? 6 : 40),
             times = 1 + trace_random(state, period > 12 ? 6 : 40);
    uint32_t from = length > period && trace_random(state, 2) ? length - period : length;
    if (from == length)
      for (uint32_t i = 0; i < period && length < most; i++)
        body[length++] = 1 + trace_random(state, 3);
    for (uint32_t i = 0; i < period * times && length < most; i++, length++)
      body[length] = body[length - period];
    if (trace_random(state, 2) && length < most)
      body[length++] = 10 + trace_random(state, 3);
  }
  return length;
}

Test(learner, firmness_is_what_a_naive_search_finds) {
  uint64_t state = 17;
  int ends = 0;
  for (int round = 0; round < 300; round++) {
    symbol_t body[800];
    uint32_t length = nested_body(&state, body, 800);
    struct learner *other = learner_create();
    for (uint32_t i = 0; i < 4 * length; i++)
      feed(other, body[i % length]);
    if (learner_body_length(other) == length) {
      for (uint32_t i = 0; i < length; i++) {
        bool naive = naive_run_ends(body, length, i);
        ends += naive;
        cr_assert_eq(learner_expected(other), body[i]);
        cr_assert_eq(learner_is_firm(other), !naive, "round %d, place %u of %u", round, i, length);
        feed(other, body[i]);
      }
    }
    learner_destroy(other);
  }
  cr_expect_gt(ends, 100, "the test tests something");
}

/* ---- traces ---- */

struct outcome {
  uint32_t body;
  size_t body_since, missed, missed_coarse, half;
};

static struct outcome run_trace(const struct trace *trace) {
  struct outcome outcome = {.half = trace->nunits - trace->nunits / 2};
  struct learner *other = learner_create();
  symbol_t expected_coarse = 0;
  for (size_t i = 0; i < trace->nunits; i++) {
    const struct trace_unit *unit = &trace->units[i];
    symbol_t expected = learner_expected(other);
    expected_coarse = expected >> 20;
    if (i >= trace->nunits / 2) {
      outcome.missed += expected != unit->symbol;
      outcome.missed_coarse += expected_coarse != unit->coarse;
    }
    learner_step(other, unit->symbol, unit->coarse);
    if (learner_body_length(other) != outcome.body) {
      outcome.body = learner_body_length(other);
      outcome.body_since = i + 1;
    }
  }
  cr_expect(learner_is_valid(other), "%s", trace->name);
  learner_destroy(other);
  return outcome;
}

Test(learner, finds_the_bodies_of_training_programs) {
  for (size_t i = 0; i < trace_kind_count; i++) {
    const struct trace_kind *kind = &trace_kinds[i];
    struct trace trace = trace_generate(kind);
    struct outcome outcome = run_trace(&trace);
    if (kind->body)
      cr_expect_eq(outcome.body, kind->body, "%s: body %u", kind->name, outcome.body);
    if (kind->locked_at)
      cr_expect_leq(outcome.body_since, kind->locked_at, "%s: at %zu", kind->name,
                    outcome.body_since);
    cr_expect_leq(10000 * outcome.missed, kind->misses * outcome.half, "%s: %zu of %zu missed",
                  kind->name, outcome.missed, outcome.half);
    if (i < TRACES_OF_THE_SURVEY)
      cr_expect_eq(outcome.missed_coarse, 0, "%s", kind->name);
    trace_free(&trace);
  }
}

/* Three iterations with a log line's unit after the third make one body: each iteration's end is
 * one. */
Test(learner, iterations_inside_a_body_end_too) {
  static const symbol_t body[] = {7, 8, 7, 8, 7, 8, 9};
  static const bool between[] = {true, false, true, false, true, false, false};
  for (int i = 0; i < 20 * 7; i++)
    learner_step(learner, body[i % 7], body[i % 7]);
  cr_assert_eq(learner_body_length(learner), 7);
  for (int i = 0; i < 7; i++) {
    cr_assert_eq(learner_is_between_iterations(learner), between[i], "before unit %d", i);
    learner_step(learner, body[i], body[i]);
  }
}

/* Neither now and then nor ever: what is not expected ends that. */
Test(learner, what_is_steady_is_left_alone) {
  feed_word(learner, "abcd", 1024);
  cr_expect_geq(learner_calm(learner), UINT64_MAX / 2);
  feed_word(learner, "x", 1);
  cr_expect_eq(learner_calm(learner), 0);
  feed_word(learner, "xyz", 12);
  cr_expect_eq(learner_body_length(learner), 3);
  feed_word(learner, "xyz", 1024);
  cr_expect_geq(learner_calm(learner), UINT64_MAX / 2);
}

/* Of a body that is kept nothing is lost when another takes its place. */
Test(learner, the_longest_body_that_is_kept_is_left_as_soon_as_a_short_one) {
  const uint32_t lengths[] = {20, 2048};
  int missed[2];
  for (int i = 0; i < 2; i++) {
    struct learner *of = learner_create();
    for (uint32_t at = 0; at < 3 * lengths[i]; at++)
      feed(of, 100 + at % lengths[i]);
    cr_assert_eq(learner_body_length(of), lengths[i]);
    missed[i] = misses(of, "z", 100);
    learner_destroy(of);
  }
  cr_expect_lt(missed[0], 30, "%d", missed[0]);
  cr_expect_eq(missed[1], missed[0], "%d", missed[1]);
}

/* ---- periods ---- */

static void append(struct lags *lags, const char *word) {
  for (; *word != '\0'; word++) {
    lags_append(lags, (struct event){(symbol_t)*word, (uint32_t)*word & ~0x20u});
    lags_check(lags);
    (void)lags_look(lags);
  }
}

Test(learner, what_is_foreign_to_a_period_makes_what_varied_in_it_forgotten) {
  struct lags *lags = calloc(1, sizeof(*lags));
  const struct lag *of = NULL;
  append(lags, "abababaB");
  for (int i = 0; i < LAGS_HYPOTHESES; i++)
    if (lags->lag[i].lag == 2)
      of = &lags->lag[i];
  cr_assert_not_null(of);
  cr_expect_eq(lag_trouble(of, lags->position), 3);
  append(lags, "z");
  cr_expect_eq(of->lag, 2);
  cr_expect_eq(lag_trouble(of, lags->position), 0);
  free(lags);
}
