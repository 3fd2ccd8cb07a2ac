/* The winner rule, one level at a time: each test makes only the levels below differ the other way
 * round. */
#include <criterion/criterion.h>

#include "core/settle.h"

enum { A = 1, B = 2, LEAVE = 0 };

Test(settle, any_unit_goes_before_leave) {
  struct claim claims[] = {{.hash = LEAVE, .recent = 9}, {.hash = LEAVE, .recent = 9}, {.hash = A}};
  cr_assert_eq(settle_winner(claims, 3), 2);
}

Test(settle, any_unit_goes_before_a_mark_and_any_mark_before_leave) {
  struct claim claims[] = {{.hash = LEAVE, .recent = 9},
                           {.hash = B, .mark = 3, .recent = 8, .expected = true, .seen = true},
                           {.hash = B, .mark = 3, .recent = 8, .expected = true, .seen = true},
                           {.hash = A}};
  uint32_t loser;
  cr_assert_eq(settle_winner(claims, 4), 3);
  cr_assert_not(settle_is_guess(claims, 4, 3, &loser));
  cr_assert_eq(settle_winner(claims, 3), 1);
}

Test(settle, of_marks_the_higher_goes_first) {
  struct claim claims[] = {{.hash = A, .mark = 1, .recent = 9, .seen = true},
                           {.hash = B, .mark = 2}};
  cr_assert_eq(settle_winner(claims, 2), 1);
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

/* Rank 2 has shadowed A whenever it came; the others do both: they will come to B after A. */
Test(settle, a_unit_that_the_others_skip_goes_before_what_came_first) {
  enum { A_BIT = 1, B_BIT = 2 };
  struct claim claims[] = {{.hash = A, .order = 3, .unit = A_BIT, .issued = A_BIT | B_BIT},
                           {.hash = A, .order = 3, .unit = A_BIT, .issued = A_BIT | B_BIT},
                           {.hash = B, .unit = B_BIT, .issued = B_BIT, .skipped = A_BIT}};
  uint32_t loser;
  cr_assert_eq(settle_winner(claims, 3), 0);
  cr_assert_not(settle_is_guess(claims, 3, 0, &loser));
  claims[2].skipped = 0;
  cr_assert_eq(settle_winner(claims, 3), 2, "it may only not have come to A yet");
  claims[2].skipped = A_BIT;
  claims[1].issued = A_BIT;
  cr_assert_eq(settle_winner(claims, 3), 2, "rank 1 may never come to B");
  claims[2].recent = 1;
  claims[1].issued = A_BIT | B_BIT;
  cr_assert_eq(settle_winner(claims, 3), 2, "rank 2 is still in its loop");
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
  /* The unit that has come more often may be that of the loop, although the other came sooner. */
  struct claim unlikely[] = {{.hash = A, .times = 2}, {.hash = B, .order = 1, .times = 12}};
  cr_assert(settle_is_guess(unlikely, 2, 0, &loser));
  cr_assert_eq(loser, 1);
  struct claim likely[] = {{.hash = A, .times = 12}, {.hash = B, .order = 1, .times = 2}};
  cr_assert_not(settle_is_guess(likely, 2, 0, &loser));
  struct claim clear[] = {{.hash = A, .recent = 1}, {.hash = B}, {.hash = LEAVE, .recent = 1}};
  cr_assert_not(settle_is_guess(clear, 3, 0, &loser));
}
