/* Which conditions change from round to round of a loop, and which are fixed
 * (interpose/places/flow/flow_tests.c), on graphs written by hand (flow_graphs.h). Blocks have one
 * call each. */
#include <criterion/criterion.h>
#include <string.h>

#include "tests/unit/flow_graphs.h"

enum { DEPTH = FLOW_DEPTH_MAX + 2, X = 1, Y = 2 };
enum { CHANGES = 1u << PLACE_TURN_SHIFT }; /* a turn, whichever */

static struct graph_program program;
static struct flow_values values[GRAPH_BLOCKS_MAX];
static struct flow *flow;

static void begin(void) {
  memset(values, 0, sizeof values);
  for (uint32_t block = 0; block < GRAPH_BLOCKS_MAX; block++)
    values[block].tests_more = true;
}

static void tests(uint32_t block, uint64_t variables) {
  values[block].tests = variables;
  values[block].tests_more = false;
}

static void moves(uint32_t block, uint64_t variables) {
  values[block].sets |= variables;
  values[block].moves |= variables;
}

static void analyse(const char *text) {
  flow_free(flow);
  graph_read(&program, text);
  program.graph.values = values;
  flow = flow_analyse(&program.graph);
  cr_assert_not_null(flow, "%s", text);
}

/* Of the loop that is so far in, or of the call. */
static uint16_t flags_at(uint32_t block, uint32_t at) {
  struct place_node nodes[DEPTH];
  cr_assert_gt(flow_nodes(flow, block, 0, 0, 1, nodes, DEPTH), at);
  return nodes[at].flags;
}

static uint16_t condition_at(uint32_t block, uint32_t at) {
  uint16_t flags = flags_at(block, at);
  return flags >> PLACE_TURN_SHIFT != 0 ? CHANGES : flags & PLACE_FIXED;
}

static uint32_t last_of(uint32_t block) {
  struct place_node nodes[DEPTH];
  return flow_nodes(flow, block, 0, 0, 1, nodes, DEPTH) - 1;
}

static uint16_t condition(uint32_t block) {
  return condition_at(block, last_of(block));
}

static uint32_t turn(uint32_t block) {
  return flags_at(block, last_of(block)) >> PLACE_TURN_SHIFT;
}

TestSuite(flow_tests, .init = begin);

/* 0; 1: while () if (2) 3; else 4; 5. */
#define TWO_BRANCHES "0>1 1>2 1>5 2>3 2>4 3>1 4>1 5."

Test(flow_tests, a_condition_of_what_the_loop_counts_changes) {
  tests(2, X);
  moves(4, X);
  analyse(TWO_BRANCHES);
  cr_assert_eq(condition(3), CHANGES);
  cr_assert_eq(condition(4), CHANGES);
  cr_assert_neq(turn(3), turn(4));
  cr_assert_eq(condition(2), 0);
  cr_assert_eq(condition(5), 0);
}

Test(flow_tests, a_condition_of_what_no_loop_sets_is_fixed) {
  tests(2, X);
  moves(0, X);
  moves(4, Y);
  analyse(TWO_BRANCHES);
  cr_assert_eq(condition(3), PLACE_FIXED);
  cr_assert_eq(condition(4), PLACE_FIXED);
}

Test(flow_tests, of_what_is_set_somehow_nothing_is_known) {
  tests(2, X);
  values[3].sets = X;
  analyse(TWO_BRANCHES);
  cr_assert_eq(condition(3), 0);
  cr_assert_eq(condition(4), 0);
}

Test(flow_tests, what_else_is_tested_may_change) {
  tests(2, X);
  values[2].tests_more = true;
  analyse(TWO_BRANCHES);
  cr_assert_eq(condition(3), 0);
}

/* The test of the loop itself is one of staying in it. */
Test(flow_tests, whether_the_loop_goes_on_decides_on_nothing_in_it) {
  tests(1, X);
  moves(2, X);
  analyse("0>1 1>2 1>3 2>1 3.");
  cr_assert_eq(condition(2), 0);
}

Test(flow_tests, without_a_loop_nothing_changes) {
  tests(0, X);
  moves(0, X);
  analyse("0>1 0>2 1>3 2>3 3.");
  cr_assert_eq(condition(1), 0);
  cr_assert_eq(condition(2), 0);
}

/* 1: for () { 2: for () if (3) 4; else 5; 6 } */
Test(flow_tests, what_any_loop_around_sets_changes) {
  tests(3, X);
  moves(6, X);
  analyse("0>1 1>2 1>7 2>3 2>6 3>4 3>5 4>2 5>2 6>1 7.");
  cr_assert_eq(condition(4), CHANGES);
  cr_assert_eq(condition(5), CHANGES);
}

/* 1: for () if (2) 3: for () 4; else 5; */
Test(flow_tests, a_loop_stands_in_a_branch_as_a_call_does) {
  tests(2, X);
  moves(4, X);
  analyse("0>1 1>2 1>6 2>3 2>5 3>4 3>1 4>3 5>1 6.");
  cr_assert_eq(condition_at(4, 1), CHANGES);
  cr_assert_eq(condition(5), CHANGES);
  cr_assert_eq(condition(4), 0);
}

/* 1: for () if (2) { if (3) 4; else 5; } else 6; */
Test(flow_tests, all_conditions_are_to_be_fixed_and_the_innermost_that_changes_counts) {
  tests(2, X);
  tests(3, Y);
  moves(6, X);
  analyse("0>1 1>2 1>7 2>3 2>6 3>4 3>5 4>1 5>1 6>1 7.");
  cr_assert_eq(condition(4), CHANGES);
  cr_assert_eq(turn(4), turn(5));
  cr_assert_eq(condition(6), CHANGES);
  cr_assert_neq(turn(4), turn(6));
  moves(6, Y);
  analyse("0>1 1>2 1>7 2>3 2>6 3>4 3>5 4>1 5>1 6>1 7.");
  cr_assert_neq(turn(4), turn(5));
  tests(2, 0);
  values[6] = (struct flow_values){0};
  analyse("0>1 1>2 1>7 2>3 2>6 3>4 3>5 4>1 5>1 6>1 7.");
  cr_assert_eq(condition(4), PLACE_FIXED);
}

/* 1: for () { if (2) 3; 4; } */
Test(flow_tests, what_comes_on_all_ways_is_behind_no_condition) {
  tests(2, X);
  moves(4, X);
  analyse("0>1 1>2 1>5 2>3 2>4 3>4 4>1 5.");
  cr_assert_eq(condition(3), CHANGES);
  cr_assert_eq(condition(4), 0);
}

/* 1: for () { for (2) if (3) goto 5; 4; 5; } */
Test(flow_tests, what_a_loop_before_decides_is_not_known) {
  tests(3, X);
  tests(1, X);
  analyse("0>1 1>2 1>6 2>3 2>4 3>2 3>5 4>5 5>1 6.");
  cr_assert_eq(condition(4), 0);
}

/* 1: for () { if (2 || 3) 4; 5; } */
Test(flow_tests, all_conditions_that_lead_to_a_call_decide_on_it) {
  tests(2, X);
  tests(3, Y);
  moves(5, Y);
  analyse("0>1 1>2 1>6 2>4 2>3 3>4 3>5 4>5 5>1 6.");
  cr_assert_eq(condition(4), CHANGES);
  values[5].moves = 0;
  analyse("0>1 1>2 1>6 2>4 2>3 3>4 3>5 4>5 5>1 6.");
  cr_assert_eq(condition(4), 0);
  values[5].sets = 0;
  analyse("0>1 1>2 1>6 2>4 2>3 3>4 3>5 4>5 5>1 6.");
  cr_assert_eq(condition(4), PLACE_FIXED);
}

/* 1: for () if (2) 3; else { if (4) break; 5; } 6. */
Test(flow_tests, what_leaves_the_loop_decides_on_nothing_that_stays_in_it) {
  tests(2, X);
  moves(3, X);
  analyse("0>1 1>2 1>6 2>3 2>4 3>1 4>5 4>6 5>1 6.");
  cr_assert_eq(condition(5), CHANGES);
  cr_assert_eq(condition(4), CHANGES);
}

/* 1: for () { if (2 || 3) { 4; if (5) 6; else 7; } 8; }: of two conditions that change one stands
 * for both. */
Test(flow_tests, what_comes_by_the_same_ways_has_the_same_turn) {
  tests(2, X);
  tests(3, X);
  tests(5, Y);
  moves(8, X);
  analyse("0>1 1>2 1>9 2>3 2>4 3>4 3>8 4>5 5>6 5>7 6>8 7>8 8>1 9.");
  cr_assert_neq(turn(4), 0);
  cr_assert_eq(turn(4), turn(6));
  cr_assert_eq(turn(4), turn(7));
  cr_assert_eq(turn(8), 0);
}

/* A register may hold one variable here and another there. */
Test(flow_tests, of_what_is_used_again_for_something_else_nothing_is_known) {
  tests(2, X);
  moves(4, X);
  values[3].sets = values[3].reused = X;
  analyse(TWO_BRANCHES);
  cr_assert_eq(condition(3), 0);
}
