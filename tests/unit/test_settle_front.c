/* The winner rule where one unit stands in front of a loop, and another one in it. What shows each
 * step is listed in claims.h. */
#include <criterion/criterion.h>

#include "tests/unit/claims.h"
#include "tests/unit/front.h"

static void program(void) {
  begin();
  front_program();
}

TestSuite(settle_front, .init = program);

Test(settle_front, what_stands_in_front_of_a_loop_goes_first_where_neither_has_been_issued) {
  for (uint32_t seen = 0; seen <= 3; seen++) {
    begin();
    add((struct claimed){.hash = A, .place = &front, .seen = seen & 1});
    add((struct claimed){.hash = B, .place = &in_loop, .seen = (seen & 2) != 0});
    cr_assert_eq(winner()->hash, seen == 0 ? A : B);
    cr_assert_eq(is_guess(), seen != 0, "their ranks may be in two epochs");
  }
}

/* for (epoch) { if (...) front(); else behind(); } */
Test(settle_front, of_two_branches_who_goes_first_is_a_guess) {
  add((struct claimed){.hash = A, .place = &front, .seen = true});
  add((struct claimed){.hash = B, .place = &behind, .seen = true});
  cr_assert_not(is_guess(), "nothing is known of what they reach");
  front.nodes[2].reach_from = behind.nodes[2].reach_from = 6;
  cr_assert(is_guess());
  front.nodes[2].reach_from = front.nodes[2].reach_to = 5;
  cr_assert_not(is_guess());
}

Test(settle_front, in_front_of_a_loop_is_known_where_rounds_are_counted) {
  settle.last = &behind;
  add((struct claimed){.hash = A, .place = &front, .seen = true});
  add((struct claimed){.hash = B, .place = &in_loop, .seen = true});
  cr_assert_eq(winner()->hash, A);
  cr_assert(is_guess());
  settle.units[0].clocks = settle.units[1].clocks = place_loop_around(&front, &in_loop);
  cr_assert_not(is_guess());
  settle.units[0].clocks = 0;
  cr_assert(is_guess());
  settle.last = &in_loop;
  front.nodes[2].flags |= PLACE_ALWAYS;
  cr_assert_eq(winner()->hash, B);
  cr_assert_not(is_guess(), "who is in the loop has been there");
}

/* for (epoch) { if (...) { sum_alone(); } else { start(); sum(); } ... } */
Test(settle_front, of_two_branches_the_one_that_leads_to_what_looks_like_the_other_goes_first) {
  struct place start = front, sum = front;
  start.id = 10;
  sum.id = 11;
  start.nodes[2] = front_node(10, 3, 0);
  sum.nodes[2] = front_node(11, 4, 0);
  front.nodes[2].reach_from = front.nodes[2].reach_to = 9;
  start.nodes[2].reach_from = sum.nodes[2].reach_from = 4;
  start.nodes[2].reach_to = sum.nodes[2].reach_to = 9;
  add((struct claimed){.hash = A, .place = &front, .seen = true, .last_real = 1});
  add((struct claimed){.hash = B, .place = &start, .seen = true});
  cr_assert_eq(winner()->hash, A, "by their order");
  struct claimed *alone = &settle.units[settle.units[0].hash == A ? 0 : 1];
  alone->in_branch = &sum;
  cr_assert_eq(winner()->hash, B);
  cr_assert(is_guess(), "nobody knows whether its ranks come to it in this epoch");
  start.nodes[2].reach_from = start.nodes[2].reach_to = 9;
  cr_assert_eq(winner()->hash, A, "the ranks at B do not come to what looks like A");
}
