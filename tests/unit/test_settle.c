/* The winner rule, one level at a time: each test makes only the levels below differ the other way
 * round. */
#include <criterion/criterion.h>

#include "core/settle.h"

enum { A = 1, B = 2, LEAVE = 0 };

Test(settle, any_unit_goes_before_leave) {
  struct claim claims[] = {{.hash = LEAVE, .recent = 9}, {.hash = LEAVE, .recent = 9}, {.hash = A}};
  cr_assert_eq(settle_winner(claims, 3), 2);
}

Test(settle, who_has_done_more_since_all_met_is_still_in_the_loop) {
  struct claim claims[] = {{.hash = A, .recent = 3, .expected = true, .seen = true, .bytes = 9},
                           {.hash = B, .recent = 4}};
  cr_assert_eq(settle_winner(claims, 2), 1);
}

Test(settle, the_most_recent_claimant_of_a_unit_counts) {
  struct claim claims[] = {
      {.hash = A, .recent = 1}, {.hash = B, .recent = 4}, {.hash = A, .recent = 5}};
  cr_assert_eq(claims[settle_winner(claims, 3)].hash, A);
}

Test(settle, then_what_the_learner_expects) {
  struct claim claims[] = {{.hash = A, .seen = true, .bytes = 9}, {.hash = B, .expected = true}};
  cr_assert_eq(settle_winner(claims, 2), 1);
}

Test(settle, then_a_unit_seen_before) {
  struct claim claims[] = {{.hash = A, .bytes = 9}, {.hash = B, .seen = true}};
  cr_assert_eq(settle_winner(claims, 2), 1);
}

Test(settle, then_the_larger_unit) {
  struct claim claims[] = {
      {.hash = A, .bytes = 4}, {.hash = A, .bytes = 4}, {.hash = B, .bytes = 400}};
  cr_assert_eq(settle_winner(claims, 3), 2);
}

Test(settle, then_the_most_claimants) {
  struct claim claims[] = {{.hash = A}, {.hash = B}, {.hash = B}};
  cr_assert_eq(settle_winner(claims, 3), 1);
}

Test(settle, then_the_lowest_rank) {
  struct claim claims[] = {{.hash = B}, {.hash = A}};
  cr_assert_eq(settle_winner(claims, 2), 0);
}

Test(settle, unanimity) {
  struct claim claims[] = {{.hash = A}, {.hash = A, .recent = 3}, {.hash = B}};
  cr_assert(settle_is_unanimous(claims, 2));
  cr_assert_not(settle_is_unanimous(claims, 3));
}

Test(settle, what_came_first_the_time_before_goes_before_expectation) {
  struct claim claims[] = {{.hash = A, .order = 3, .expected = true, .seen = true},
                           {.hash = B, .order = 0}};
  cr_assert_eq(settle_winner(claims, 2), 1);
}

Test(settle, a_guess_is_known_as_one) {
  uint32_t loser = 99;
  struct claim tie[] = {{.hash = A, .bytes = 9}, {.hash = B}, {.hash = LEAVE}};
  cr_assert(settle_is_guess(tie, 3, 0, &loser));
  cr_assert_eq(loser, 1);
  struct claim clear[] = {{.hash = A, .recent = 1}, {.hash = B}, {.hash = LEAVE, .recent = 1}};
  cr_assert_not(settle_is_guess(clear, 3, 0, &loser));
}
