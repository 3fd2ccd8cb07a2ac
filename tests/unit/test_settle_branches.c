/* Two branches of one condition in a loop, with collectives that look alike: ranks may take them by
 * their own data, or one of them is the end of the loop. What shows each step is listed in
 * claims.h. */
#include <criterion/criterion.h>

#include "core/transport/plane.h"
#include "tests/unit/claims.h"

static struct place then, otherwise;

/* for (...) if (...) then(); else otherwise(); */
static struct place way(uint32_t id) {
  struct place_node function = {.id = 9}, loop = {.id = 8, .order = 1, .flags = PLACE_LOOP};
  struct place_node call = {.id = id, .order = (uint16_t)id, .since = (uint16_t)id};
  call.until = (uint16_t)id;
  call.reach_from = 1; /* nothing */
  loop.flags |= PLACE_ORDERED;
  call.flags = PLACE_ORDERED;
  return (struct place){.id = id, .nnodes = 3, .nodes = {function, loop, call}};
}

static void branches(void) {
  begin();
  then = way(2);
  otherwise = way(3);
}

TestSuite(settle_branches, .init = branches);

static void claim_both(bool all_have_been_at_one, bool all_have_been_at_the_other) {
  begin();
  add((struct claimed){.hash = A,
                       .signature = C,
                       .place = &then,
                       .common = all_have_been_at_one,
                       .any = CLAIM_OWN_PLACE});
  add((struct claimed){.hash = B,
                       .signature = C,
                       .place = &otherwise,
                       .common = all_have_been_at_the_other,
                       .any = CLAIM_OWN_PLACE});
}

Test(settle_branches, to_take_one_for_the_other_is_a_guess) {
  for (uint32_t common = 0; common <= 3; common++) {
    claim_both((common & 1) != 0, (common & 2) != 0);
    cr_assert(is_unanimous());
    cr_assert(is_guess());
  }
}

/* for (...) { if (...) then(); if (...) otherwise(); } */
static void be_two_conditions(void) {
  then.nodes[2].reach_from = then.nodes[2].reach_to = otherwise.nodes[2].order;
}

Test(settle_branches,
     two_conditions_to_which_all_have_come_are_two_units_once_a_rank_has_shadowed) {
  be_two_conditions();
  claim_both(true, true);
  cr_assert_not(is_unanimous());
  cr_assert_eq(winner()->hash, A, "it comes first in the round");
  settle.units[0].even = settle.units[1].even = true;
  cr_assert(is_unanimous(), "each rank may have one of them in this round");
  claim_both(true, false);
  cr_assert(is_unanimous());
}

/* try { then(); } catch { otherwise(); } */
Test(settle_branches, but_not_where_one_may_stand_in_a_handler_for_the_other) {
  be_two_conditions();
  otherwise.nodes[2].flags |= PLACE_CAUGHT;
  claim_both(true, true);
  cr_assert(is_unanimous());
  then.nodes[2].flags |= PLACE_CAUGHT;
  claim_both(true, true);
  cr_assert_not(is_unanimous(), "both are in a handler");
}

Test(settle_branches, but_not_where_there_is_no_loop_to_end) {
  then.nodes[1].flags = otherwise.nodes[1].flags = PLACE_ORDERED;
  claim_both(true, true);
  cr_assert(is_unanimous());
  cr_assert_not(is_guess());
}

/* A thread of the program's trains, and another one does what comes after. */
Test(settle_branches, what_threads_that_begin_in_different_functions_do_is_a_guess) {
  otherwise.nodes[0].id = 10;
  claim_both(false, false);
  cr_assert(is_unanimous());
  cr_assert(is_guess());
  otherwise.nodes[0].id = then.nodes[0].id;
  otherwise.nnodes = 0; /* nothing is known of it: it is told of once, elsewhere */
  claim_both(false, false);
  cr_assert_not(is_guess());
}

/* if (rank == root) broadcast(); else broadcast(); */
Test(settle_branches, nor_where_one_is_the_roots_unless_all_have_been_there) {
  for (uint32_t i = 0; i <= 1; i++) {
    claim_both(false, false);
    settle.units[i].by_root = true;
    cr_assert_not(is_guess());
    settle.units[1 - i].common = true;
    cr_assert(is_guess());
  }
}

static void condition(uint16_t flags) {
  then.nodes[2].flags |= flags;
  otherwise.nodes[2].flags |= flags;
}

/* for (...) { if (i < n) broadcast(); else broadcast(); i++; } */
Test(settle_branches, unless_the_condition_is_known_to_change) {
  condition(
      1u << PLACE_TURN_SHIFT); /* behind the same half of it: something else tells them apart */
  claim_both(false, false);
  settle.units[0].by_root = true;
  cr_assert_not(is_guess());
  then.nodes[2].flags ^= 3u << PLACE_TURN_SHIFT;
  cr_assert(is_guess());
}

/* for (...) if (rank == 0) sum(); else sum(); */
Test(settle_branches, nor_where_each_rank_stays_in_its_branch_unless_all_have_been_there) {
  condition(PLACE_FIXED);
  claim_both(false, false);
  cr_assert(is_unanimous());
  cr_assert_not(is_guess());
  for (uint32_t common = 1; common <= 3; common++) {
    claim_both((common & 1) != 0, (common & 2) != 0);
    cr_assert(is_guess());
  }
  otherwise.nodes[2].flags = PLACE_ORDERED;
  claim_both(false, false);
  cr_assert(is_guess());
}

/* for (...) step(rank); and in step: for (...) if (rank == 0) sum(); else sum(); */
Test(settle_branches, what_a_function_is_given_may_be_something_else_the_next_time) {
  struct place *const both[] = {&then, &otherwise};
  condition(PLACE_FIXED);
  for (uint32_t i = 0; i < 2; i++) {
    struct place *place = both[i];
    place->nodes[5] = place->nodes[2];
    place->nodes[4] = place->nodes[1];
    place->nodes[4].id = 18;
    place->nodes[2] = (struct place_node){.id = 20, .order = 5, .flags = PLACE_ORDERED};
    place->nodes[3] = (struct place_node){.id = 19};
    place->nnodes = 6;
  }
  claim_both(false, false);
  cr_assert(is_guess());
  then.nodes[1].flags = otherwise.nodes[1].flags = PLACE_ORDERED; /* called once */
  claim_both(false, false);
  cr_assert_not(is_guess());
}

/* for (...) { if (i % 4 == 0) then(); if (i % 3 == 0) otherwise(); i++; }: nobody has been at
 * either. */
Test(settle_branches, two_conditions_that_change_are_told_at_once) {
  then.nodes[2].reach_from = then.nodes[2].reach_to = 3;
  claim_both(false, false);
  cr_assert(is_unanimous());
  cr_assert_not(is_guess());
  condition(1u << PLACE_TURN_SHIFT);
  cr_assert_not(is_guess());
  then.nodes[2].flags ^= 3u << PLACE_TURN_SHIFT;
  cr_assert(is_guess());
  then.nodes[1].flags = otherwise.nodes[1].flags = PLACE_ORDERED; /* no loop in which they do */
  cr_assert_not(is_guess());
}

/* The same in a function: for (...) if (rank == 0) train(); else train(); */
static void in_one_function(void) {
  struct place *const both[] = {&then, &otherwise};
  condition(PLACE_FIXED);
  for (uint32_t i = 0; i < 2; i++) {
    struct place *place = both[i];
    place->nodes[3] = (struct place_node){.id = 19};
    place->nodes[4] = (struct place_node){.id = 18, .order = 1, .flags = PLACE_LOOP};
    place->nodes[5] = (struct place_node){.id = 21, .order = 2, .flags = PLACE_ORDERED};
    place->nodes[5].since = place->nodes[5].until = 2;
    place->nodes[5].reach_from = place->nodes[5].reach_to = 3;
    place->nnodes = 6;
  }
}

Test(settle_branches, who_goes_into_one_function_from_a_branch_each_may_be_at_two_points_of_it) {
  in_one_function();
  claim_both(false, false);
  cr_assert(is_unanimous());
  cr_assert_not(is_guess(), "they are at one point");
  otherwise.nodes[5].id = 22;
  otherwise.nodes[5].order = otherwise.nodes[5].since = otherwise.nodes[5].until = 3;
  cr_assert_not(is_guess(), "two ways to one point, as far as is known");
  otherwise.nodes[5].flags |= 1u << PLACE_TURN_SHIFT;
  cr_assert(is_guess());
  otherwise.nodes[5].flags = PLACE_ORDERED;
  otherwise.nodes[5].since = 1;
  cr_assert(is_guess(), "all come to both");
  otherwise.nodes[3].id = 20;
  otherwise.nodes[4].id = 17;
  cr_assert_not(is_guess(), "it is another function");
}

/* One of them in a loop of its own: if (rank == 0) train(); else for (...) train(); */
Test(settle_branches, also_where_one_goes_there_by_more_steps_than_the_other) {
  in_one_function();
  for (uint32_t i = 7; i > 3; i--)
    otherwise.nodes[i] = otherwise.nodes[i - 1];
  otherwise.nodes[2].flags |= PLACE_LOOP;
  otherwise.nodes[3] = (struct place_node){.id = 23, .order = 4, .flags = PLACE_ORDERED};
  otherwise.nnodes = 7;
  claim_both(false, false);
  cr_assert(is_unanimous());
  cr_assert_not(is_guess());
  otherwise.nodes[6].id = 22;
  otherwise.nodes[6].order = 3;
  otherwise.nodes[6].since = 1;
  cr_assert(is_guess());
}

/* for (...) if (...) for (...) then(); else otherwise(); */
Test(settle_branches, of_a_loop_in_a_branch_it_is_a_guess_unless_the_condition_stays) {
  then.nodes[2].flags |= PLACE_LOOP;
  then.nodes[then.nnodes++] = (struct place_node){.id = 7, .order = 1};
  claim_both(false, false);
  cr_assert(is_unanimous());
  cr_assert(is_guess());
  condition(PLACE_FIXED);
  claim_both(false, false);
  cr_assert(is_unanimous());
  cr_assert_not(is_guess());
  then.nodes[2].flags |= 1u << PLACE_TURN_SHIFT;
  otherwise.nodes[2].flags |= 1u << PLACE_TURN_SHIFT;
  claim_both(false, false);
  cr_assert_not(is_guess());
  otherwise.nodes[2].flags ^= 3u << PLACE_TURN_SHIFT;
  claim_both(false, false);
  cr_assert(is_unanimous());
  cr_assert(is_guess());
  otherwise.nodes[2].flags |= PLACE_LOOP;
  otherwise.nodes[otherwise.nnodes++] = (struct place_node){.id = 6, .order = 1};
  claim_both(false, false);
  cr_assert(is_guess());
  then.nodes[1].flags = otherwise.nodes[1].flags = PLACE_ORDERED;
  claim_both(false, false);
  cr_assert_not(is_guess());
}

/* if (rank == 0) for (...) { if (i % 2) a(); if (i % 3) b(); } else for (...) { ... the same ... }:
 * each rank stands behind a condition of its own loop. */
Test(settle_branches,
     of_points_behind_conditions_of_two_loops_it_is_told_unless_they_are_the_same_one) {
  struct place *const both[] = {&then, &otherwise};
  condition(PLACE_LOOP | PLACE_FIXED);
  for (uint32_t i = 0; i < 2; i++) {
    struct place_node *loop = &both[i]->nodes[2], *call = &both[i]->nodes[both[i]->nnodes++];
    loop->order = loop->since = loop->until = (uint16_t)(2 + 10 * i);
    *call = (struct place_node){.id = 30 + i, .flags = PLACE_ORDERED | 1u << PLACE_TURN_SHIFT};
    call->order = call->since = call->until = (uint16_t)(loop->order + 1);
    call->reach_from = 1;
  }
  claim_both(false, false);
  cr_assert(is_unanimous());
  cr_assert_not(is_guess(), "the first point of each");
  otherwise.nodes[3].order++;
  cr_assert(is_unanimous());
  cr_assert(is_guess(), "the first of one, and the second of the other");
  otherwise.nodes[3].flags = PLACE_ORDERED;
  cr_assert_not(is_guess(), "who goes round comes to it in any case");
}

/* for (...) { if (...) for (...) then(); else for (...) otherwise(); after(); }: ranks are in both
 * loops, and where all have been last has its name from the other one. */
Test(settle_branches, who_is_in_a_loop_goes_first_whichever_branch_has_given_its_name) {
  struct place after = way(4);
  struct place *const loops[] = {&then, &otherwise};
  for (uint32_t i = 0; i < 2; i++) {
    struct place_node *loop = &loops[i]->nodes[2];
    loop->flags |= PLACE_LOOP;
    loop->reach_from = loop->reach_to = 4;
    loops[i]->nodes[3] = (struct place_node){.id = 20 + i, .order = 1, .flags = PLACE_ORDERED};
    loops[i]->nnodes = 4;
  }
  add((struct claimed){.hash = A, .signature = A, .place = &then, .any = CLAIM_OWN_PLACE});
  add((struct claimed){.hash = B, .signature = B, .place = &after, .any = CLAIM_OWN_PLACE});
  settle.last = &otherwise;
  cr_assert_eq(winner()->hash, A);
}

/* for (...) if (...) f(); else f(); with a loop in f. */
static void call_function_with_loop(struct place *place) {
  place->nodes[3] = (struct place_node){.id = 30, .flags = PLACE_ORDERED};
  place->nodes[4] = (struct place_node){.id = 31, .order = 1, .flags = PLACE_ORDERED | PLACE_LOOP};
  place->nodes[5] = (struct place_node){.id = 32, .order = 2, .flags = PLACE_ORDERED};
  place->nnodes = 6;
}

Test(settle_branches, a_collective_of_a_function_that_both_call_is_one) {
  call_function_with_loop(&then);
  call_function_with_loop(&otherwise);
  claim_both(true, true);
  cr_assert(is_unanimous());
  cr_assert(is_guess());
  otherwise.nodes[5].id = 33;
  claim_both(true, true);
  cr_assert_not(is_unanimous(), "another collective of it");
}

Test(settle_branches, not_of_one_that_is_called_in_a_loop_of_one_branch_or_once_more) {
  call_function_with_loop(&then);
  call_function_with_loop(&otherwise);
  otherwise.nodes[2].flags |= PLACE_LOOP;
  claim_both(true, true);
  cr_assert_not(is_unanimous());
  otherwise = way(3);
  call_function_with_loop(&otherwise);
  otherwise.nodes[2].reach_from = 1;
  otherwise.nodes[2].reach_to = 9;
  then.nodes[2].reach_to = 9;
  claim_both(true, true);
  cr_assert_not(is_unanimous(), "one thread comes to both");
}

Test(settle_branches, of_two_loops_in_them_which_goes_first_is_a_guess) {
  then.nodes[2].flags |= PLACE_LOOP;
  otherwise.nodes[2].flags |= PLACE_LOOP;
  then.nodes[then.nnodes++] = (struct place_node){.id = 7, .order = 1, .flags = PLACE_ORDERED};
  otherwise.nodes[otherwise.nnodes++] =
      (struct place_node){.id = 6, .order = 1, .flags = PLACE_ORDERED};
  claim_both(true, true);
  cr_assert_not(is_unanimous());
  cr_assert(is_guess());
}
