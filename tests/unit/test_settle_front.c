/* The winner rule where one unit stands in front of a loop, and another one in it. What shows each step
 * is listed in claims.h. */
#include <criterion/criterion.h>

#include "tests/unit/claims.h"

static struct place_node node(uint32_t id, uint16_t order, uint16_t flags) {
  return (struct place_node){.id = id,
                             .order = order,
                             .since = order,
                             .until = order,
                             .flags = (uint16_t)(PLACE_ORDERED | flags)};
}

/* for (epoch) { if (...) front(); for (batch) in_loop(); if (...) behind(); } */
enum { MAIN = 9, EPOCHS, FRONT, BATCHES, IN_LOOP, BEHIND };
static struct place front, in_loop, behind;

static void program(void) {
  begin();
  front = (struct place){
      .id = FRONT,
      .nnodes = 3,
      .nodes = {{.id = MAIN}, node(EPOCHS, 1, PLACE_LOOP | PLACE_ALWAYS), node(FRONT, 2, 0)}};
  behind = in_loop = front;
  in_loop.id = IN_LOOP;
  in_loop.nodes[2] = node(BATCHES, 3, PLACE_LOOP | PLACE_ALWAYS);
  in_loop.nodes[in_loop.nnodes++] = node(IN_LOOP, 4, PLACE_ALWAYS);
  behind.id = BEHIND;
  behind.nodes[2] = node(BEHIND, 5, 0);
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
  start.nodes[2] = node(10, 3, 0);
  sum.nodes[2] = node(11, 4, 0);
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
