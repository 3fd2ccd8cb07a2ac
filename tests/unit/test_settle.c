/* The winner rule, one level at a time: each test makes only the levels below differ the other way
 * round. And the summary that it decides by. What shows each step is listed in claims.h. */
#include <criterion/criterion.h>
#include <string.h>

#include "core/transport/plane.h"
#include "tests/unit/claims.h"

TestSuite(settle, .init = begin);

Test(settle, any_unit_goes_before_leave) {
  add((struct claimed){.hash = LEAVE, .last_real = 9});
  add((struct claimed){.hash = LEAVE, .last_real = 9});
  add((struct claimed){.hash = A});
  cr_assert_eq(winner()->hash, A);
}

Test(settle, any_unit_goes_before_a_mark_and_any_mark_before_leave) {
  add((struct claimed){.hash = LEAVE, .last_real = 9});
  add((struct claimed){.hash = B, .mark = 3, .last_real = 8});
  cr_assert_eq(winner()->hash, B);
  add((struct claimed){.hash = A});
  cr_assert_eq(winner()->hash, A);
  cr_assert_not(is_guess());
  begin();
  add((struct claimed){.hash = LEAVE, .last_real = 9});
  add((struct claimed){.hash = B, .mark = 1});
  cr_assert_eq(winner()->hash, B, "also the lowest of them");
}

Test(settle, of_marks_the_higher_goes_first) {
  add((struct claimed){.hash = A, .mark = 1, .last_real = 9});
  add((struct claimed){.hash = B, .mark = 2});
  cr_assert_eq(winner()->hash, B);
}

Test(settle, without_places_who_has_issued_last_is_still_in_the_loop) {
  add((struct claimed){.hash = A, .last_real = 3, .expected = true, .bytes = 9});
  add((struct claimed){.hash = B, .last_real = 4});
  add((struct claimed){.hash = A, .last_real = 2, .expected = true, .bytes = 9});
  cr_assert_eq(winner()->hash, B);
  cr_assert_not(is_guess());
}

Test(settle, the_most_recent_claimant_of_a_unit_counts) {
  add((struct claimed){.hash = A, .last_real = 1});
  add((struct claimed){.hash = B, .last_real = 4});
  add((struct claimed){.hash = A, .last_real = 5});
  cr_assert_eq(winner()->hash, A);
}

Test(settle, then_what_the_learner_expects) {
  add((struct claimed){.hash = A, .seen = true, .bytes = 9});
  add((struct claimed){.hash = B, .expected = true});
  cr_assert_eq(winner()->hash, B);
  cr_assert(is_guess());
}

Test(settle, then_a_unit_seen_before) {
  add((struct claimed){.hash = A, .any = CLAIM_PREDICTED, .bytes = 9});
  add((struct claimed){.hash = B, .seen = true});
  cr_assert_eq(winner()->hash, B);
}

Test(settle, then_what_its_rank_predicts) {
  add((struct claimed){.hash = A, .bytes = 9});
  add((struct claimed){.hash = B, .any = CLAIM_PREDICTED});
  cr_assert_eq(winner()->hash, B);
}

Test(settle, then_the_larger_unit) {
  add((struct claimed){.hash = A, .bytes = 4});
  add((struct claimed){.hash = A, .bytes = 4});
  add((struct claimed){.hash = B, .bytes = 400});
  cr_assert_eq(winner()->hash, B);
}

Test(settle, then_the_most_claimants) {
  add((struct claimed){.hash = A});
  add((struct claimed){.hash = B});
  add((struct claimed){.hash = B});
  cr_assert_eq(winner()->hash, B);
}

Test(settle, then_the_lowest_rank) {
  add((struct claimed){.hash = B});
  add((struct claimed){.hash = A});
  cr_assert_eq(winner()->hash, B);
}

Test(settle, a_yield_wants_nothing) {
  add((struct claimed){.hash = LEAVE, .kinds = CLAIM_YIELD, .any = CLAIM_YIELD});
  add((struct claimed){.hash = LEAVE});
  cr_assert_eq(winner()->kinds, 0);
  cr_assert_not(is_unanimous());
}

Test(settle, unanimity) {
  add((struct claimed){.hash = A});
  add((struct claimed){.hash = A, .last_real = 3});
  cr_assert(is_unanimous());
  add((struct claimed){.hash = B});
  cr_assert_not(is_unanimous());
}

/* ---- the summary ---- */

Test(settle, what_any_rank_says_is_in_the_summary) {
  add((struct claimed){.hash = A, .any = 1});
  add((struct claimed){.hash = B, .any = 2});
  add((struct claimed){.hash = A, .any = 4});
  cr_assert_eq(settle.any, 7);
}

Test(settle, where_claimants_stand_the_lowest_says_whoever_is_added_first) {
  settle_add(&settle, &(struct claimed){.hash = A, .place_id = 5, .claimants = 1, .rank = 3});
  settle_add(&settle, &(struct claimed){.hash = A, .place_id = 5, .claimants = 1, .rank = 2});
  cr_assert_not(settle.units[0].elsewhere);
  settle_add(&settle, &(struct claimed){.hash = A, .place_id = 6, .claimants = 1, .rank = 1});
  cr_assert_eq(settle.units[0].place_id, 6);
  cr_assert(settle.units[0].elsewhere);
}

Test(settle, summaries_add_up_in_any_order) {
  struct claimed claims[] = {
      {.hash = A, .rank = 3, .text = 30, .claimants = 1, .any = 1, .all = 1, .last_real = 5},
      {.hash = A, .rank = 1, .text = 10, .claimants = 2, .any = 3, .all = 2, .last_real = 9},
      {.hash = B, .rank = 2, .text = 20, .claimants = 1}};
  struct settle other = {.nunits = 0};
  for (int i = 0; i < 3; i++) {
    settle_add(&settle, &claims[i]);
    settle_add(&other, &claims[2 - i]);
  }
  cr_assert_eq(settle.nunits, 2);
  cr_assert_neq(other.units[0].set, other.units[1].set);
  for (uint32_t i = 0; i < settle.nunits; i++) /* each numbers its sets as it likes */
    other.units[i].set = settle.units[i].set;
  cr_assert_eq(memcmp(&settle, &other, sizeof settle), 0);
  const struct claimed *a = &settle.units[settle.units[0].hash == A ? 0 : 1];
  cr_assert_eq(a->claimants, 3);
  cr_assert_eq(a->rank, 1);
  cr_assert_eq(a->text, 10);
  cr_assert_eq(a->any, 3);
  cr_assert_eq(a->all, 0);
  cr_assert_eq(a->last_real, 9);
  cr_assert_eq(settle.nranks, 4);
}

Test(settle, more_units_than_there_is_room_for_are_left_out_alike) {
  struct settle other = {.nunits = 0};
  for (uint64_t i = 0; i < 40; i++) {
    add((struct claimed){.hash = 1 + i * 7 % 40});
    settle_add(&other, &(struct claimed){.hash = 1 + i, .claimants = 1});
  }
  cr_assert_eq(settle.nunits, SETTLE_UNITS_MAX);
  uint32_t sets = 0;
  for (uint32_t i = 0; i < SETTLE_UNITS_MAX; i++) {
    cr_assert_eq(settle.units[i].hash, other.units[i].hash);
    sets |= 1u << settle.units[i].set;
  }
  cr_assert_eq(sets, (1u << SETTLE_UNITS_MAX) - 1, "a set for each");
}

Test(settle, who_adds_to_a_summary_hears_which_thing_it_is) {
  struct claimed a = {.hash = A, .claimants = 1}, b = {.hash = B, .claimants = 1};
  cr_assert_eq(settle_add(&settle, &a)->claimants, 1);
  cr_assert_eq(settle_add(&settle, &b)->hash, B);
  const struct claimed *again = settle_add(&settle, &a);
  cr_assert(again->hash == A && again->claimants == 2);
  for (uint64_t i = 0; i < SETTLE_UNITS_MAX; i++)
    settle_add(&settle, &(struct claimed){.hash = 1000 + i, .claimants = 1});
  cr_assert_null(settle_add(&settle, &(struct claimed){.hash = 9999, .claimants = 1}));
}

Test(settle, units_stay_in_a_summary_where_marks_leave_no_room) {
  for (uint64_t i = 0; i < SETTLE_UNITS_MAX; i++)
    add((struct claimed){.hash = 1 + i, .mark = 1});
  add((struct claimed){.hash = 99});
  add((struct claimed){.hash = LEAVE});
  cr_assert_eq(winner()->hash, 99);
}

Test(settle, who_is_left_out_of_a_summary_has_not_agreed) {
  for (uint64_t i = 0; i < SETTLE_UNITS_MAX; i++)
    add((struct claimed){.hash = 1 + i, .signature = A});
  cr_assert(is_unanimous());
  add((struct claimed){.hash = 99, .signature = B});
  cr_assert_eq(settle.nunits, SETTLE_UNITS_MAX);
  cr_assert_not(is_unanimous());
}
