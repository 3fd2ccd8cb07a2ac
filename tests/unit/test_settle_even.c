/* The winner rule as long as no rank has shadowed anything: the program may be even, and each rank
 * come to a collective in a way of its own. What shows each step is listed in claims.h. */
#include <criterion/criterion.h>

#include "core/transport/plane.h"
#include "tests/unit/claims.h"
#include "tests/unit/front.h"

static void program(void) {
  front_program();
  in_loop.nodes[2].since = 2; /* who has been in front comes to the loop */
  in_loop.nodes[2].until = 5; /* who is behind has come by it */
}

TestSuite(settle_even, .init = program);

static struct claimed at(const struct place *place, bool common) {
  return (struct claimed){.signature = C, .place = place, .common = common, .any = CLAIM_OWN_PLACE};
}

static void claim(struct claimed a, struct claimed b, bool even) {
  begin();
  a.hash = A;
  b.hash = B;
  a.even = b.even = even;
  add(a);
  add(b);
}

/* if (rank == 0) sum(); for (...) { if (rank != 0 && i == 0) sum(); ... } */
Test(settle_even, who_stands_in_front_may_have_come_by_what_others_come_to_in_the_loop) {
  in_loop.nodes[3].flags = PLACE_ORDERED;
  claim(at(&front, false), at(&in_loop, false), true);
  cr_assert(is_unanimous());
  claim(at(&front, false), at(&in_loop, false), false);
  cr_assert_not(is_unanimous(), "the program is uneven");
  in_loop.nodes[3].flags |= PLACE_ALWAYS;
  claim(at(&front, false), at(&in_loop, false), true);
  cr_assert_not(is_unanimous(), "who is in front comes to it, too");
}

/* The root sends from several points what others receive at one, which has the name of the first of
 * them. */
Test(settle_even, a_root_in_a_broadcast_sends_to_those_who_come_there_by_ways_of_their_own) {
  struct claimed sends = at(&behind, false), receives = at(&in_loop, false);
  behind.nodes[2].flags |= PLACE_ALWAYS;
  receives.any = 0;
  claim(sends, receives, true);
  cr_assert_not(is_unanimous());
  sends.by_root = true;
  claim(sends, receives, true);
  cr_assert_not(is_unanimous(), "all may come from the root's place");
  receives.by_ways = true;
  claim(sends, receives, true);
  cr_assert(is_unanimous());
  claim(sends, receives, false);
  cr_assert_not(is_unanimous(), "the program is uneven");
  sends.by_root = false;
  claim(sends, receives, true);
  cr_assert_not(is_unanimous(), "it is no broadcast, or others claim it, too");
  cr_assert(settle_may_be_one(&settle.units[0], &settle.units[1]), "but that is told");
}

/* if (...) sum(); for (...) step(); and step has it behind a condition, for its errors say. */
Test(settle_even, what_a_function_does_that_is_called_there_is_what_it_is_called_for) {
  in_loop.nodes[in_loop.nnodes++] = (struct place_node){.id = 20};
  in_loop.nodes[in_loop.nnodes++] = front_node(21, 1, 0);
  claim(at(&front, false), at(&in_loop, false), true);
  cr_assert_not(is_unanimous());
}

/* for (...) { ...; if (rank == 0 && i + 1 == n) sum(); } if (rank != 0) sum(); */
Test(settle_even, nor_need_who_is_behind_a_loop_have_been_at_what_some_rounds_come_to) {
  in_loop.nodes[3].flags = PLACE_ORDERED;
  claim(at(&in_loop, false), at(&behind, false), true);
  cr_assert(is_unanimous());
  claim(at(&in_loop, false), at(&behind, false), false);
  cr_assert_not(is_unanimous());
  in_loop.nodes[3].flags |= PLACE_ALWAYS;
  claim(at(&in_loop, false), at(&behind, false), true);
  cr_assert_not(is_unanimous(), "all rounds do");
  in_loop.nodes[3].flags = PLACE_ORDERED;
  behind.nodes[2].since = 3;
  claim(at(&in_loop, false), at(&behind, false), true);
  cr_assert_not(is_unanimous(), "who is in the loop comes to what is behind it");
}

/* if (rank == 0) sum(); for (i = rank == 0; ...) sum(); */
Test(settle_even, who_makes_the_first_round_in_front_of_the_loop_is_told) {
  claim(at(&front, false), at(&in_loop, false), true);
  cr_assert(is_guess());
  claim(at(&front, false), at(&in_loop, false), false);
  cr_assert_not(is_guess(), "the program is uneven");
  claim(at(&front, true), at(&in_loop, true), true);
  cr_assert_not(is_guess(), "all come to both");
  front.nodes[2].until = 3;
  claim(at(&front, false), at(&in_loop, false), true);
  cr_assert_not(is_guess(), "who is in the loop has been in front of it");
  struct claimed elsewhere = at(&in_loop, false);
  elsewhere.any = 0;
  claim(at(&front, false), elsewhere, true);
  cr_assert(is_guess(), "its rank may be in another loop");
}

/* for (i = 0; i + (rank == 0) < n; ...) sum(); if (rank == 0) sum(); */
Test(settle_even, who_makes_the_last_round_behind_the_loop_is_told) {
  claim(at(&in_loop, true), at(&behind, false), true);
  cr_assert_not(is_unanimous());
  cr_assert(is_guess());
  behind.nodes[2].flags |= 1u << PLACE_TURN_SHIFT;
  claim(at(&in_loop, true), at(&behind, false), true);
  cr_assert(is_guess(), "what the loop has counted may change it, too");
  behind.nodes[2].flags = PLACE_ORDERED | PLACE_ALWAYS;
  claim(at(&in_loop, true), at(&behind, false), true);
  cr_assert_not(is_guess(), "all come to it");
  claim(at(&in_loop, false), at(&behind, false), true);
  cr_assert_not(is_guess(), "and all come to the loop");
  in_loop.nodes[2].flags = PLACE_ORDERED | PLACE_LOOP;
  claim(at(&in_loop, false), at(&behind, false), true);
  cr_assert(is_guess(), "it may be what others do in a loop of their own");
}

Test(settle_even, who_is_behind_a_loop_without_a_round_has_not_been_in_it) {
  claim(at(&in_loop, false), at(&behind, false), true);
  cr_assert_not(is_unanimous());
  cr_assert(is_guess());
}
