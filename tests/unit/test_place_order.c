/* Two places by themselves (core/place/place.h): which of them goes first, what loops they share,
 * and which comes once in each round. */
#include <criterion/criterion.h>

#include "core/place/place.h"

enum { UNORDERED = 0 };

static struct place_node node(uint32_t id, uint16_t order, uint16_t flags) {
  return (struct place_node){.id = id,
                             .order = order,
                             .since = order,
                             .until = order,
                             .flags = order == UNORDERED ? flags : flags | PLACE_ORDERED};
}

/* f() { for (...) { ...; for (...) a(); ... } }: in the inner loop `loop`, if that is not 0. */
static struct place stand(uint32_t id, uint32_t loop, uint16_t loop_order, uint16_t order) {
  struct place place = {
      .id = id, .nnodes = 2, .nodes = {node(1000, 1, 0), node(1001, 5, PLACE_LOOP)}};
  if (loop != 0)
    place.nodes[place.nnodes++] = node(loop, loop_order, PLACE_LOOP);
  place.nodes[place.nnodes++] = node(2000 + id, order, 0);
  return place;
}

/* ---- which goes first ---- */

static void expect_first(const struct place *a, const struct place *b, const struct place *last) {
  cr_expect_gt(place_order(a, b, last), 0);
  cr_expect_lt(place_order(b, a, last), 0);
}

Test(place_order, what_comes_first_in_the_program_goes_first) {
  struct place a = stand(1, 0, 0, 7), b = stand(2, 0, 0, 8);
  expect_first(&a, &b, NULL);
}

Test(place_order, but_what_stands_in_a_loop_goes_before_it) {
  struct place a = stand(1, 0, 0, 7), b = stand(2, 20, 8, 9);
  expect_first(&b, &a, NULL);
}

Test(place_order, what_stands_in_front_of_a_loop_goes_first_where_both_come_next) {
  struct place a = stand(1, 0, 0, 7), b = stand(2, 20, 8, 9), last = stand(3, 0, 0, 6);
  expect_first(&a, &b, &last);
  last = stand(3, 0, 0, 12);
  expect_first(&a, &b, &last); /* both with the next round */
  last = stand(3, 20, 8, 10);
  expect_first(&b, &a, &last);
  last = stand(3, 0, 0, UNORDERED);
  expect_first(&b, &a, &last);
  a = stand(1, 0, 0, UNORDERED);
  last = stand(3, 0, 0, 6);
  expect_first(&b, &a, &last);
}

/* for (...) { f(); b(); }: one stands in f, as the last one, and nothing tells in which order. */
Test(place_order, within_a_call_who_may_have_gone_round_is_not_known) {
  struct place within = stand(1, 0, 0, 7), last = within, other = stand(2, 0, 0, 8);
  within.nodes[within.nnodes++] = node(3001, UNORDERED, 0);
  last.nodes[last.nnodes++] = node(3002, UNORDERED, 0);
  cr_expect(place_may_go_round(&within, &other, &last));
  cr_expect_not(place_may_go_round(&other, &within, &last));
  cr_expect_not(place_may_go_round(&within, &other, NULL));
  struct place before = stand(3, 0, 0, 6);
  cr_expect_not(place_may_go_round(&within, &before, &last), "it comes with the next round");
  last = stand(4, 0, 0, 6);
  cr_expect_not(place_may_go_round(&within, &other, &last), "neither has been in the call");
  struct place behind = {.nnodes = 2, .nodes = {node(1000, 1, 0), node(1002, 9, 0)}};
  last = within;
  last.nodes[3] = node(3002, UNORDERED, 0);
  cr_expect_not(place_may_go_round(&within, &behind, &last), "it stands behind the loop");
  within.nodes[1].flags = last.nodes[1].flags = behind.nodes[1].flags = PLACE_ORDERED;
  cr_expect_not(place_may_go_round(&within, &behind, &last), "there is no loop");
  struct place unseen = stand(5, 0, 0, UNORDERED);
  last = stand(4, 0, 0, 6);
  cr_expect_not(place_may_go_round(&unseen, &other, &last), "it is not known to be in the call");
}

/* if (...) a(); else for (...) b(); */
Test(place_order, of_two_branches_none_is_in_front) {
  struct place a = stand(1, 0, 0, 7), b = stand(2, 20, 8, 9), last = stand(3, 0, 0, 6);
  cr_expect_not(place_are_branches(&a, &b), "of no reach nothing is known");
  cr_expect(place_is_in_front(&a, &b));
  a.nodes[2].reach_from = b.nodes[2].reach_from = 10;
  a.nodes[2].reach_to = b.nodes[2].reach_to = 12;
  cr_expect(place_are_branches(&a, &b));
  cr_expect_not(place_is_in_front(&a, &b));
  expect_first(&b, &a, &last);
  a.nodes[2].reach_from = 8;
  cr_expect_not(place_are_branches(&a, &b));
  cr_expect(place_is_in_front(&a, &b));
  expect_first(&a, &b, &last);
  a.nodes[2].reach_from = 10;
  a.nodes[2].until = 12;
  cr_expect_not(place_are_branches(&a, &b), "what always comes through it is reached");
}

Test(place_order, and_what_comes_next_from_where_all_have_been_before_that) {
  struct place last = stand(3, 0, 0, 7), a = stand(1, 0, 0, 8), b = stand(2, 20, 6, 9);
  expect_first(&a, &b, &last);
  expect_first(&b, &a, NULL);
}

/* for (...) { a(); b(); }: a makes two collectives, and one rank stands at its second one. */
Test(place_order, at_the_same_place_again_before_what_each_round_comes_to_is_in_one_call) {
  struct place a = stand(1, 0, 0, 7), b = stand(2, 0, 0, 8), last = a;
  expect_first(&b, &a, &last); /* b may be left out: a comes with the next round */
  b.nodes[2].since = 7;
  expect_first(&a, &b, &last);
  expect_first(&a, &b, &b); /* both with the next round */
  last.id = 3;              /* another call */
  expect_first(&b, &a, &last);
  last = a;
  b.nodes[2].since = 8; /* b follows from behind a on */
  expect_first(&b, &a, &last);
}

Test(place_order, a_loop_at_the_same_place_may_have_ended) {
  struct place a = stand(1, 20, 6, 1), b = stand(2, 0, 0, 8), last = a;
  b.nodes[2].since = 6;
  expect_first(&a, &b, &last); /* as any loop goes before what stands in none */
  last = stand(3, 20, 6, 2);
  expect_first(&a, &b, &last);
}

Test(place_order, who_is_in_a_loop_comes_to_the_rest_of_it_next) {
  struct place a = stand(1, 20, 6, 1), b = stand(2, 30, 7, 1), last = stand(3, 30, 7, 2);
  expect_first(&b, &a, &last);
  expect_first(&a, &b, NULL);
}

/* for (epoch) { for (batch) average(); average(); } where average is { for (...) a(); last(); }:
 * all have been at the second one's last. */
Test(place_order, who_has_been_behind_a_loop_in_one_call_is_not_in_it) {
  struct place a = stand(1, 20, 6, 7), b = stand(2, 0, 0, 8), last = b;
  b.nodes[b.nnodes++] = (struct place_node){
      .id = 40, .order = 1, .since = 1, .until = 1, .flags = PLACE_LOOP | PLACE_ORDERED};
  b.nodes[b.nnodes++] =
      (struct place_node){.id = 41, .order = 2, .since = 2, .until = 2, .flags = PLACE_ORDERED};
  last.id = 3;
  last.nodes[last.nnodes++] =
      (struct place_node){.id = 42, .order = 3, .since = 3, .until = 3, .flags = PLACE_ORDERED};
  expect_first(&a, &b, &last);
  last = b;
  expect_first(&b, &a, &last);
}

Test(place_order, what_has_no_order_is_not_known) {
  struct place a = stand(1, 0, 0, UNORDERED), b = stand(2, 0, 0, 8);
  cr_expect_eq(place_order(&a, &b, NULL), 0);
  cr_expect_eq(place_order(&b, &a, NULL), 0);
}

Test(place_order, of_two_loops_without_an_order_the_one_where_all_have_been_goes_first) {
  struct place a = stand(1, 20, UNORDERED, 1), b = stand(2, 30, UNORDERED, 1);
  struct place last = stand(3, 30, UNORDERED, 2);
  cr_expect_eq(place_order(&a, &b, NULL), 0);
  expect_first(&b, &a, &last);
  last = stand(3, 20, UNORDERED, 2);
  expect_first(&a, &b, &last);
  last = stand(3, 40, UNORDERED, 2);
  cr_expect_eq(place_order(&a, &b, &last), 0, "in neither of them");
  last.nnodes = 2;
  cr_expect_eq(place_order(&a, &b, &last), 0);
  cr_expect_eq(place_order(&b, &a, &last), 0);
}

Test(place_order, of_other_code_nothing_is_known) {
  struct place a = stand(1, 0, 0, 7), b = stand(2, 0, 0, 8);
  b.nodes[0].id++;
  cr_expect_eq(place_order(&a, &b, NULL), 0);
  b = a;
  cr_expect_eq(place_order(&a, &b, NULL), 0, "the same place");
}

/* ---- loops around both ---- */

Test(place_order, a_loop_around_one_of_them_is_not_shared) {
  struct place a = stand(1, 20, 6, 1), b = stand(2, 0, 0, 7);
  cr_expect(place_shares_loop(&a, &b), "the outer one");
  a.nodes[1].flags = b.nodes[1].flags = PLACE_ORDERED;
  cr_expect_not(place_shares_loop(&a, &b));
  cr_expect_not(place_shares_loop(&b, &a));
}

Test(place_order, a_loop_further_out_is_shared) {
  struct place a = stand(1, 0, 0, 1), b = stand(2, 0, 0, 7);
  for (int i = 0; i < 2; i++) {
    struct place *place = i == 0 ? &a : &b;
    place->nodes[place->nnodes] = place->nodes[place->nnodes - 1];
    place->nodes[place->nnodes++ - 1] = node(50, 3, 0);
  }
  cr_expect(place_shares_loop(&a, &b));
}

Test(place_order, in_no_loop_a_rank_comes_to_a_place_once) {
  struct place a = stand(1, 0, 0, 7), b = stand(2, 20, 8, 9);
  cr_expect_not(place_comes_once(&a, &b), "a loop around both");
  a.nodes[1].flags = b.nodes[1].flags = PLACE_ORDERED;
  cr_expect(place_comes_once(&a, &b), "the loop is around one of them");
  a.nodes[1].flags = b.nodes[1].flags = PLACE_OPAQUE;
  cr_expect_not(place_comes_once(&a, &b), "what cannot be followed may go round");
  a.nodes[1].flags = b.nodes[1].flags = 0;
  cr_expect_not(place_comes_once(&a, &b));
  b.nodes[0].id++;
  cr_expect_not(place_comes_once(&a, &b), "other code");
}

Test(place_order, a_place_is_in_front_of_a_loop) {
  struct place a = stand(1, 0, 0, 7), b = stand(2, 20, 8, 9), behind = stand(3, 0, 0, 12);
  cr_expect(place_is_in_front(&a, &b));
  cr_expect_not(place_is_in_front(&b, &a));
  cr_expect_not(place_is_in_front(&behind, &b));
  cr_expect_not(place_is_in_front(&a, &behind), "in no loop");
  a = stand(1, 30, 6, 7);
  cr_expect_not(place_is_in_front(&a, &b), "in a loop itself");
}

Test(place_order, who_goes_on_in_a_loop_goes_past_what_stands_between) {
  struct place a = stand(1, 0, 0, 7), b = stand(2, 0, 0, 8), c = stand(3, 0, 0, 9);
  struct place inner = stand(4, 20, 8, 9);
  cr_expect(place_goes_past(&a, &c, &b), "within a round");
  cr_expect(place_goes_past(&a, &a, &b), "by going round");
  cr_expect(place_goes_past(&c, &b, &a));
  cr_expect_not(place_goes_past(&a, &b, &c));
  cr_expect_not(place_goes_past(&c, &a, &b), "it comes to that next");
  cr_expect(place_goes_past(&a, &c, &inner), "past a loop");
  cr_expect_not(place_goes_past(&inner, &inner, &b), "of the loop outside");
  a.nodes[1].flags = b.nodes[1].flags = c.nodes[1].flags = PLACE_ORDERED;
  cr_expect_not(place_goes_past(&a, &c, &b), "in no loop");
}

/* ---- once in each round ---- */

/* for (...) { ...; g(); } with the call in g, which goes on in `call`. */
static bool comes_once(struct place_node within, struct place_node call) {
  struct place place = {
      .id = 1, .nnodes = 3, .nodes = {node(1000, 1, 0), node(1001, 5, PLACE_LOOP)}};
  place.nodes[2] = within;
  place.nodes[place.nnodes++] = call;
  return place_is_of_each_epoch(&place);
}

Test(place_order, in_a_function_each_call_must_come_to_it_too) {
  struct place_node within = node(50, 8, PLACE_ALWAYS), call = node(60, 8, PLACE_ALWAYS),
                    function = node(70, UNORDERED, 0);
  cr_expect(comes_once(within, call));
  cr_expect(comes_once(function, call));
  call.flags &= (uint16_t)~PLACE_ALWAYS;
  cr_expect_not(comes_once(within, call), "the function may return before");
  cr_expect_not(comes_once(function, call));
  call.order = call.since = 1;
  cr_expect_not(comes_once(within, call), "the first thing in it, in a branch");
  call.order = 2;
  cr_expect_not(comes_once(within, call), "the second thing in that branch");
  call.flags |= PLACE_ALWAYS;
  cr_expect(comes_once(within, call));
  cr_expect_not(comes_once(node(50, 8, 0), call), "the function is called in a branch");
  within.flags |= PLACE_LOOP;
  cr_expect_not(comes_once(within, call), "a loop within");
}

Test(place_order, a_point_of_each_round_counts_those_of_the_innermost_loop_around_it) {
  struct place clock = stand(1, 0, 0, 8), other = stand(2, 0, 0, 7);
  clock.nodes[2].flags |= PLACE_ALWAYS;
  cr_expect_eq(place_counts_rounds(&clock, &other), 1u << 1);
  cr_expect_eq(place_counts_rounds(&clock, &other), place_loop_around(&clock, &other));
  clock.nodes[2].flags &= (uint16_t)~PLACE_ALWAYS;
  clock.nodes[2].since = 6;
  cr_expect_eq(place_counts_rounds(&clock, &other), 0, "a rank may skip it");
  clock.nodes[2].flags |= PLACE_ALWAYS;
  other.nodes[1].id++;
  cr_expect_eq(place_counts_rounds(&clock, &other), 0, "another loop");
  other = stand(2, 0, 0, 7);
  clock.nodes[3] = clock.nodes[2];
  clock.nodes[2] = node(55, 8, PLACE_LOOP);
  clock.nodes[3].order = clock.nodes[3].since = 9;
  clock.nnodes = 4;
  cr_expect_eq(place_counts_rounds(&clock, &other), 0,
               "it stands in a loop in which the other does not");
}

Test(place_order, what_always_follows_a_loop_ends_it) {
  struct place in_loop = {
      .nnodes = 3, .nodes = {node(10, UNORDERED, 0), node(20, 5, PLACE_LOOP), node(30, 6, 0)}};
  struct place behind = {.nnodes = 2, .nodes = {node(10, UNORDERED, 0), node(40, 9, 0)}};
  behind.nodes[1].since = 5;
  cr_expect(place_ends_loop(&behind, &in_loop));
  cr_expect_not(place_ends_loop(&in_loop, &behind));
  cr_expect_not(place_ends_loop(&in_loop, &in_loop));
  behind.nodes[1].since = 6;
  cr_expect_not(place_ends_loop(&behind, &in_loop), "a rank may skip it");
  behind.nodes[1].since = behind.nodes[1].order = 4;
  cr_expect_not(place_ends_loop(&behind, &in_loop), "it stands before the loop");
  behind.nodes[1] = node(40, 9, 0);
  behind.nodes[1].since = 5;
  behind.nodes[behind.nnodes++] = node(60, 1, 0);
  cr_expect_not(place_ends_loop(&behind, &in_loop), "the function called there may skip it");
  behind.nodes[2].flags |= PLACE_ALWAYS;
  cr_expect(place_ends_loop(&behind, &in_loop));
}

Test(place_order, the_loop_itself_must_be_seen) {
  struct place place = stand(1, 0, 0, 8);
  place.nodes[2].flags |= PLACE_ALWAYS;
  cr_expect(place_is_of_each_epoch(&place));
  place.nnodes = 2;
  cr_expect_not(place_is_of_each_epoch(&place), "what is called in it");
  place.nnodes = 3;
  place.nodes[1].flags = PLACE_LOOP;
  place.nodes[1].order = 5;
  cr_expect_not(place_is_of_each_epoch(&place), "where it begins");
}
