/* Loops and ways of a round in code that is not analysed yet, on a graph written by hand: see
 * flow_graphs.h for how. */
#include <criterion/criterion.h>
#include <errno.h>

#include "interpose/places/flow/flow_rounds.h"
#include "tests/unit/failing.h"
#include "tests/unit/flow_graphs.h"

static struct graph_program program;
static struct flow_rounds *rounds;

/* A loop at 1 of 1 to 5, in which a loop at 2 of 2 and 3 stands; 4 and 5 are two branches. */
static void start(void) {
  graph_read(&program, "0>1 1>2 2>3 3>2 3>4 3>5 4>1 5>1 1>6 6.");
  rounds = flow_rounds_make(&program.graph);
  cr_assert_not_null(rounds);
}

static void stop(void) {
  flow_rounds_free(rounds);
}

TestSuite(flow_rounds, .init = start, .fini = stop);

Test(flow_rounds, each_block_is_in_its_innermost_loop) {
  uint32_t outer = flow_rounds_loop(rounds, 1), inner = flow_rounds_loop(rounds, 2);
  cr_assert_neq(outer, inner);
  cr_assert_eq(flow_rounds_loop(rounds, 3), inner);
  cr_assert_eq(flow_rounds_loop(rounds, 4), outer);
  cr_assert_eq(flow_rounds_loop(rounds, 0), FLOW_NONE);
  cr_assert_eq(flow_rounds_loop(rounds, 6), FLOW_NONE);
}

Test(flow_rounds, a_loop_is_around_itself_and_what_is_in_it) {
  uint32_t outer = flow_rounds_loop(rounds, 1), inner = flow_rounds_loop(rounds, 2);
  cr_assert(flow_rounds_around(rounds, outer, inner));
  cr_assert(flow_rounds_around(rounds, inner, inner));
  cr_assert_not(flow_rounds_around(rounds, inner, outer));
  cr_assert_not(flow_rounds_around(rounds, FLOW_NONE, inner));
  cr_assert_not(flow_rounds_around(rounds, outer, FLOW_NONE));
}

Test(flow_rounds, a_loop_begins_with_one_block_that_leads_to_all_behind_it) {
  uint32_t inner = flow_rounds_loop(rounds, 2);
  cr_assert(flow_rounds_begins(rounds, inner, 2));
  cr_assert_not(flow_rounds_begins(rounds, inner, 3));
  cr_assert_not(flow_rounds_begins(rounds, FLOW_NONE, 0));
  cr_assert(flow_rounds_leads_in(rounds, inner, 4));
  cr_assert_not(flow_rounds_leads_in(rounds, inner, 6), "the loop around it may be passed by");
}

Test(flow_rounds, a_block_leads_to_what_comes_in_the_same_round) {
  cr_assert(flow_rounds_leads(rounds, 2, 4));
  cr_assert(flow_rounds_leads(rounds, 4, 4));
  cr_assert_not(flow_rounds_leads(rounds, 3, 2), "round the inner loop");
  cr_assert_not(flow_rounds_leads(rounds, 4, 5), "round the outer one");
  cr_assert_not(flow_rounds_leads(rounds, 4, 6), "and then out of it");
  cr_assert(flow_rounds_leads(rounds, 1, 6));
}

Test(flow_rounds, without_memory_there_are_none) {
  struct flow_rounds *made = NULL;
  int nth = 0;
  for (; made == NULL; nth++) {
    fail_call(CALL_ALLOCATION, nth + 1, 1, ENOMEM);
    made = flow_rounds_make(&program.graph);
    cr_assert_eq(made == NULL, call_has_failed(CALL_ALLOCATION));
  }
  fail_call(CALL_ALLOCATION, 0, 0, 0);
  flow_rounds_free(made);
  cr_assert_gt(nth, 3);
}

/* 1 and 4 decide whether a round begins with 2 or 3 (flow_analyse in flow.h). */
Test(flow_rounds, a_loop_with_two_entries_begins_with_both) {
  flow_rounds_free(rounds);
  graph_read(&program, "0>1 0>5 1>2 1>3 2>2 2>3 3>4 3>5 4>2 4>3 5.");
  rounds = flow_rounds_make(&program.graph);
  cr_assert_not_null(rounds);
  uint32_t loop = flow_rounds_loop(rounds, 3), inner = flow_rounds_loop(rounds, 2);
  cr_assert_neq(loop, FLOW_NONE);
  cr_assert_neq(inner, loop);
  cr_assert(flow_rounds_around(rounds, loop, inner));
  cr_assert(flow_rounds_begins(rounds, loop, 2));
  cr_assert(flow_rounds_begins(rounds, loop, 3));
  cr_assert_not(flow_rounds_begins(rounds, loop, 4));
  cr_assert_geq(flow_rounds_head(rounds, loop), program.graph.nblocks);
  cr_assert(flow_rounds_leads(rounds, 2, 3));
  cr_assert_not(flow_rounds_leads(rounds, 4, 2), "round the loop");
  const struct flow_lists *next = flow_rounds_next(rounds),
                          *previous = flow_rounds_previous(rounds);
  cr_assert_eq(next->items[next->start[4]], 2, "hubs are in no list");
  cr_assert_eq(previous->start[4] - previous->start[3], 3);
}
