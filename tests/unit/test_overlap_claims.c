/* Claims of two ranks in two teams: which goes before the other, one criterion at a time. Each test
 * makes the criteria below differ the other way round. */
#include <criterion/criterion.h>

#include "core/overlap/overlap.h"

static struct overlap_claim first, second;
static bool guess;

static struct place_node node(uint32_t id, uint16_t order, uint16_t flags) {
  return (struct place_node){.id = id, .order = order, .flags = PLACE_ORDERED | flags};
}

/* Two calls of one function, one after the other. What comes later is large, and of rank 1. */
static void start(void) {
  first = (struct overlap_claim){.bytes = 1, .identity = 2};
  second = (struct overlap_claim){.bytes = 9, .identity = 1};
  first.place = (struct place){.id = 1, .nnodes = 2, .nodes = {node(9, 0, 0), node(1, 1, 0)}};
  second.place = (struct place){.id = 2, .nnodes = 2, .nodes = {node(9, 0, 0), node(2, 2, 0)}};
}

TestSuite(overlap_claims, .init = start);

/* The call becomes a loop with the call in it. */
static void put_in_loop(struct place *place) {
  place->nodes[1].flags |= PLACE_LOOP;
  place->nodes[place->nnodes++] = node(3, 3, 0);
}

/* Of two claims exactly one goes before. */
static void expect_before(const struct overlap_claim *a, const struct overlap_claim *b,
                          bool is_guess) {
  cr_expect(overlap_goes_before(a, b, &guess));
  cr_expect_eq(guess, is_guess);
  cr_expect_not(overlap_goes_before(b, a, &guess));
  cr_expect_eq(guess, is_guess);
}

Test(overlap_claims, whoever_leaves_goes_last) {
  first.leave = true;
  put_in_loop(&first.place);
  expect_before(&second, &first, false);
}

Test(overlap_claims, then_what_stands_in_a_loop_goes_first) {
  put_in_loop(&second.place);
  first.predicted = true;
  expect_before(&second, &first, false);
}

Test(overlap_claims, then_what_its_rank_predicts) {
  second.predicted = true;
  first.recent = 9;
  expect_before(&second, &first, false);
}

Test(overlap_claims, then_who_has_issued_more_since_they_were_together) {
  second.recent = 9;
  first.expected = true;
  expect_before(&second, &first, false);
}

Test(overlap_claims, then_what_its_team_expects) {
  second.expected = true;
  first.seen = true;
  expect_before(&second, &first, false);
}

Test(overlap_claims, then_what_its_team_has_seen) {
  second.seen = true;
  expect_before(&second, &first, false);
}

Test(overlap_claims, then_as_a_guess_what_comes_first_in_the_program) {
  expect_before(&first, &second, true);
}

Test(overlap_claims, then_the_larger_unit) {
  first.place.nnodes = second.place.nnodes = 0;
  first.identity = 0;
  expect_before(&second, &first, true);
}

Test(overlap_claims, then_the_lower_number) {
  first.place.nnodes = second.place.nnodes = 0;
  first.bytes = second.bytes;
  expect_before(&second, &first, true);
}

Test(overlap_claims, of_two_that_leave_none_is_a_guess) {
  first.leave = second.leave = true;
  expect_before(&first, &second, false);
}

Test(overlap_claims, the_order_of_claims_is_strict) {
  struct overlap_claim claims[64];
  uint32_t n = 0;
  for (uint32_t bits = 0; bits < 32; bits++, n++)
    claims[n] = (struct overlap_claim){.predicted = bits & 1,
                                       .expected = bits & 2,
                                       .seen = bits & 4,
                                       .recent = bits >> 3 & 1,
                                       .bytes = bits >> 4 & 1,
                                       .identity = bits};
  for (uint32_t i = 0; i < n; i++)
    for (uint32_t k = 0; k < n; k++) {
      if (i != k)
        cr_assert_neq(overlap_goes_before(&claims[i], &claims[k], &guess),
                      overlap_goes_before(&claims[k], &claims[i], &guess));
      for (uint32_t m = 0; m < n; m++)
        if (overlap_goes_before(&claims[i], &claims[k], &guess) &&
            overlap_goes_before(&claims[k], &claims[m], &guess))
          cr_assert(overlap_goes_before(&claims[i], &claims[m], &guess));
    }
}
