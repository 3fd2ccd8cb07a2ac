/* The analysis of control flow, rule by rule, on graphs written by hand: see flow_graphs.h for how.
 * Blocks have one site each, and its node is what is looked at. */
#include <criterion/criterion.h>
#include <errno.h>

#include "tests/unit/failing.h"
#include "tests/unit/flow_graphs.h"

enum { DEPTH = FLOW_DEPTH_MAX + 2 };

static struct graph_program program;
static struct flow *flow;

static void analyse(const char *text) {
  flow_free(flow);
  graph_read(&program, text);
  flow = flow_analyse(&program.graph);
  cr_assert_not_null(flow, "%s", text);
  const char *bad = graph_check(&program, flow);
  cr_assert_null(bad, "%s: %s", text, bad);
}

static uint32_t depth(uint32_t block) {
  struct place_node nodes[DEPTH];
  return flow_nodes(flow, block, 0, 0, 1, nodes, DEPTH) - 1;
}

static struct place_node node(uint32_t block, uint32_t at) {
  struct place_node nodes[DEPTH];
  cr_assert_gt(flow_nodes(flow, block, 0, 0, 1, nodes, DEPTH), at);
  return nodes[at];
}

/* The nodes of two blocks where these part. */
static bool is_followed(uint32_t a, uint32_t b) {
  uint32_t at = 0;
  while (at < depth(a) && at < depth(b) && node(a, at).id == node(b, at).id)
    at++;
  return node(a, at).order < node(b, at).order && node(b, at).since <= node(a, at).order;
}

static bool comes_through(uint32_t a, uint32_t b) {
  uint32_t at = 0;
  while (at < depth(a) && at < depth(b) && node(a, at).id == node(b, at).id)
    at++;
  return node(a, at).order < node(b, at).order && node(b, at).order <= node(a, at).until;
}

Test(flow, what_follows_a_guarded_loop_follows_the_loop) {
  analyse("0>1 0>2 1>1 1>2 2."); /* gcc's for: 0 is the guard */
  cr_assert_eq(depth(1), 1);
  cr_assert(is_followed(0, 2));
  cr_assert(is_followed(1, 2));
  cr_assert(comes_through(0, 2));
  cr_assert(comes_through(1, 2)); /* who skips it at 0 has come to its end */
}

Test(flow, a_loop_with_two_guards_is_gone_into_by_both) {
  analyse("0>1 0>2 1>3 1>5 2>3 2>5 3>4 4>3 4>5 5.");
  cr_assert_eq(depth(3), 1);
  cr_assert(comes_through(3, 5));
}

/* while (0: a && 1: b) 2; 3: compiled to if (0 && 1) do 2; while (4 && 5); 3. */
Test(flow, a_test_of_two_conditions_is_one) {
  analyse("0>1 0>3 1>2 1>3 1*0 2>4 4>5 4>3 5>2 5>3 5*0 3.");
  cr_assert_eq(depth(2), 1);
  cr_assert(comes_through(2, 3));
  cr_assert(is_followed(2, 3));
}

Test(flow, what_only_leads_on_is_passed_by) {
  analyse("0>1 0>4 1>2 1*0 2>2 2>3 3>5 3*0 4>5 4*0 5.");
  cr_assert(comes_through(2, 5));
  analyse("0>1 0>4 1>2 1*0 2>2 2>3 3>5 3*0 4>5 5."); /* 4 does something */
  cr_assert_not(comes_through(2, 5));
}

/* gcc saves the registers that a loop needs behind its guard, and so returns in two ways. */
Test(flow, blocks_that_only_return_are_one_way_out) {
  analyse("0>1 0>3 1>1 1>2 2*0 2. 3*0 3."); /* for (...) 1; */
  cr_assert_eq(node(1, 0).order, node(0, 0).order + 1);
  cr_assert(is_followed(0, 1), "its loop, gone into or not");
  analyse("0>1 0>3 1>1 1>2 2*0 2. 3."); /* 3 does something */
  cr_assert_not(is_followed(0, 1));
}

/* Who goes past the loop goes somewhere else than who leaves it. */
Test(flow, a_condition_with_another_way_is_no_guard) {
  analyse("0>1 0>3 1>1 1>2 2>3 3.");
  cr_assert_not(comes_through(1, 3));
  analyse("0>1 0>3 1>2 2>1 2>3 1>4 4>2 5>1 3>5 3>6 6."); /* 5 goes into it, too */
  cr_assert_not(comes_through(1, 3));
}

/* 2 leads where 0 and 3 do, but control comes to it behind them: 4 is no part of the loop of 3. */
Test(flow, a_guard_behind_the_loop_is_none) {
  analyse("0>3 0>4 3>3 3>4 4>2 2>3 2>4 2!5 5.");
  cr_assert_eq(depth(3), 1);
  cr_assert_neq(node(2, 0).id, node(3, 0).id);
}

static struct flow_values values[GRAPH_BLOCKS_MAX];

/* Blocks 0 and 2 have two calls each, of which the last is to a function. */
static uint32_t loops_of_last(const char *text, uint32_t asked_by_0, uint32_t asked_by_2,
                              struct place_node *of_0, struct place_node *of_2) {
  graph_read(&program, text);
  values[0].asks = asked_by_0;
  values[2].asks = asked_by_2;
  program.graph.values = values;
  flow_free(flow);
  flow = flow_analyse(&program.graph);
  cr_assert_not_null(flow);
  uint32_t n = flow_nodes(flow, 0, 1, 7, 1, of_0, DEPTH) - 1;
  cr_assert_eq(flow_nodes(flow, 2, 1, 27, 1, of_2, DEPTH) - 1, 1);
  cr_assert_eq(flow_nodes(flow, 0, 0, 3, 1, of_2 + DEPTH - 1, 1), 1); /* the first call stays */
  return n;
}

/* 0: x(); while (f()) { 1; 2: y(); } 3 */
Test(flow, a_call_that_is_the_condition_of_a_loop_is_in_it) {
  struct place_node of_0[DEPTH], of_2[DEPTH];
  const char *text = "0*2 2*2 0>1 0>3 1>2 2>1 2>3 3.";
  cr_assert_eq(loops_of_last(text, 5, 5, of_0, of_2), 1);
  cr_assert_eq(of_0[0].id, of_2[0].id);
  cr_assert_eq(of_0[1].id, of_2[1].id);
  cr_assert_lt(of_0[1].order, node(1, 1).order);
  cr_assert_lt(node(1, 1).order, node(2, 1).order);
  cr_assert_lt(node(0, 0).order, of_0[0].order);
  cr_assert_eq(loops_of_last(text, 5, 6, of_0, of_2), 0); /* two functions */
  cr_assert_eq(loops_of_last(text, 0, 0, of_0, of_2), 0); /* something else is tested */
}

/* 0: if (f()) return; for (;;) { 1: if (c) break; 2: if (f()) return; } 4 */
Test(flow, a_call_that_is_checked_in_a_loop_with_an_end_of_its_own_stays_where_it_is) {
  struct place_node of_0[DEPTH], of_2[DEPTH];
  cr_assert_eq(loops_of_last("0*2 2*2 0>1 0>3 1>2 1>4 2>1 2>3 3. 4.", 5, 5, of_0, of_2), 0);
}

/* Epochs 1 to 5, of a guarded loop 2 and what follows it, 4; 3 and 6 return from within it. */
Test(flow, what_follows_a_loop_follows_it_although_an_error_returns) {
  analyse("0>1 1>2 1>4 2>3 2>2 2>4 4>5 4>6 5>1 5>7 3. 6. 7.");
  cr_assert_eq(depth(2), 2);
  cr_assert(is_followed(2, 4));
  cr_assert(is_followed(1, 5));
}

/* ... but not if that leads to where the epochs' own end leads, or if they have none. */
Test(flow, what_may_be_left_by_a_break_is_not_followed) {
  analyse("0>1 1>2 1>4 2>3 2>2 2>4 4>5 5>1 5>7 3>7 7.");
  cr_assert_not(is_followed(2, 4));
  analyse("0>1 1>2 1>4 2>3 2>2 2>4 4>5 5>1 5>6 6>7 3>7 6*0 7."); /* 6 only leads on */
  cr_assert_not(is_followed(2, 4));
  analyse("0>1 1>2 1>4 2>3 2>2 2>4 4>1 3.");
  cr_assert_not(is_followed(2, 4));
}

static bool is_reached(uint32_t a, uint32_t b) {
  uint32_t at = 0;
  while (at < depth(a) && at < depth(b) && node(a, at).id == node(b, at).id)
    at++;
  return node(b, at).order >= node(a, at).reach_from && node(b, at).order <= node(a, at).reach_to;
}

Test(flow, two_branches_of_one_condition_do_not_reach_each_other_and_two_conditions_do) {
  analyse("0>1 0>2 1>3 2>3 3>4 3>5 4>5 5."); /* if 1 else 2; if 4; 5 */
  cr_assert_not(is_reached(1, 2));
  cr_assert(is_reached(1, 4) && is_reached(2, 4) && is_reached(1, 5) && is_reached(0, 4));
}

/* 0; if (1) 2; else { 3; if () 4; } 5: the ways behind 1 leave a gap each. */
Test(flow, what_is_reached_by_either_half_of_a_branch_is_reached) {
  analyse("0>1 1>2 1>3 2>5 3>4 3>5 4>5 5.");
  for (uint32_t to = 2; to <= 5; to++)
    cr_assert(is_reached(0, to) && is_reached(1, to), "%u", to);
  cr_assert_not(is_reached(2, 3) || is_reached(2, 4));
}

Test(flow, the_next_round_of_a_loop_is_not_reached) {
  analyse("0>1 1>2 1>3 2>3 3>1 3>4 4."); /* while: 1; if 2; 3 */
  cr_assert(is_reached(1, 2) && is_reached(2, 3) && is_reached(3, 4));
  cr_assert_not(is_reached(3, 2));
  cr_assert_not(is_reached(2, 1));
}

static bool is_always(uint32_t block) {
  return node(block, depth(block)).flags & PLACE_ALWAYS;
}

Test(flow, what_each_round_comes_to_that_does_not_end_in_the_head) {
  analyse("0>1 1>2 1>5 2>3 2>4 3>4 4>1 5."); /* while (1) { 2; if () 3; 4; } */
  cr_assert(is_always(2) && is_always(4));
  cr_assert_not(is_always(3), "in a branch");
  cr_assert_not(is_always(1), "the head, which a rank comes to once more");
  cr_assert(is_always(5) && is_always(0), "in no loop: each call of the function");
  analyse("0>1 1>2 1>5 2>3 2>5 3>4 4>1 5."); /* while (1) { 2; if () break; 3; 4; } */
  cr_assert(is_always(2));
  cr_assert_not(is_always(4));
}

Test(flow, each_round_comes_to_a_head_that_it_does_not_end_in) {
  analyse("0>1 1>2 2>1 2>3 3."); /* do { 1; 2; } while (); 3 */
  cr_assert(is_always(1) && is_always(2));
  analyse("0>1 1>1 1>2 2."); /* do 1; while (); 2: there is nothing else in a round */
  cr_assert(is_always(1));
  analyse("0>1 1>1 1>2 1>3 2>1 3."); /* 1, which ends a round, or the loop, or leads to 2 */
  cr_assert_not(is_always(1));
}

Test(flow, what_each_call_of_a_function_comes_to) {
  analyse("0>1 0>4 1>2 2>3 2>1 3>4 4."); /* if () { do 1; 2; while (); 3; } 4 */
  cr_assert(is_always(0) && is_always(4));
  cr_assert_not(is_always(3), "in a branch");
  analyse("0>1 0>3 1>2 2. 3."); /* if (0) { 1; 2; return; } 3 */
  cr_assert(is_always(0));
  cr_assert_not(is_always(1) || is_always(2) || is_always(3));
}

Test(flow, what_runs_only_when_the_loop_is_left_stands_behind_it) {
  analyse("0>1 1>2 2>3 2>4 3>1 4>5 1>5 5."); /* 4 before a break */
  cr_assert_eq(depth(2), 1);
  cr_assert_eq(depth(4), 0);
  cr_assert(is_followed(4, 5));
  cr_assert_not(is_followed(1, 2));
  cr_assert(comes_through(2, 3));
}

Test(flow, a_branch_back_to_the_head_is_no_second_loop) {
  analyse("0>1 1>2 2>1 2>3 3>1 3>4 4."); /* continue */
  cr_assert_eq(depth(3), 1);
  cr_assert_not(is_followed(2, 3));
}

Test(flow, a_return_between_is_no_since) {
  analyse("0>1 0>2 1>3 2. 3.");
  cr_assert_not(is_followed(0, 3));
  cr_assert(is_followed(1, 3));
}

Test(flow, a_call_that_does_not_return_is_left_aside) {
  analyse("0>1 0>2 2>3 3."); /* 1 aborts */
  cr_assert(is_followed(0, 2));
  cr_assert_gt(node(1, 0).order, node(3, 0).order);
  cr_assert_eq(node(1, 0).since, node(1, 0).order);
}

Test(flow, where_nothing_returns_every_end_is_one) {
  analyse("0>1 0>2 2>3");
  cr_assert_not(is_followed(0, 2));
  cr_assert(is_followed(2, 3));
}

Test(flow, an_endless_loop_is_an_end) {
  analyse("0>1 0>3 1>2 2>2 3>4 4.");
  cr_assert_not(is_followed(0, 4));
  cr_assert(is_followed(1, 2));
}

Test(flow, exceptions_are_left_aside_but_for_handlers) {
  analyse("0>1 0!3 1>2 1!3 2. 3>2");
  cr_assert(is_followed(0, 1));
  cr_assert(comes_through(0, 2));
  cr_assert(comes_through(0, 3));
  cr_assert(is_followed(3, 2));
  cr_assert_not(comes_through(1, 3));
}

Test(flow, a_loop_may_go_round_by_an_exception) {
  analyse("0>1 1!2 2>1 1>3 3.");
  cr_assert_eq(depth(1), 1);
  cr_assert_eq(depth(2), 1);
}

Test(flow, a_cycle_with_two_entries_is_no_loop_and_has_no_order) {
  analyse("0>1 0>2 1>2 2>1 1>3 3.");
  cr_assert_eq(depth(1), 0);
  cr_assert_eq(node(1, 0).flags & PLACE_ORDERED, 0);
  cr_assert_eq(node(1, 0).order, 0);
  cr_assert_eq(node(0, 0).flags & PLACE_ORDERED, PLACE_ORDERED);
}

/* gcc's for (...) { 2 } while (x) { 4 } 6, where 3 tests x if the first loop has had a round, and 5 if not, and in each round. */
Test(flow, a_loop_behind_another_has_one_head_though_its_test_is_made_twice) {
  analyse("0>1 0>5 1>2 2>2 2>3 3>4 3>6 4>5 5>4 5>6 6. 1*0 3*0 5*0");
  cr_assert_eq(depth(2), 1);
  cr_assert_eq(depth(4), 1);
  cr_assert_eq(depth(6), 0);
  cr_assert_neq(node(2, 0).id, node(4, 0).id);
  cr_assert(is_followed(2, 6));
  cr_assert(is_followed(4, 6));
  cr_assert(comes_through(0, 6));
  cr_assert_eq(node(4, 1).flags & PLACE_ALWAYS, PLACE_ALWAYS);
}

/* gcc's for (...) { for (; n > 0;) { 2 } 3 }: 0 is the guard, 1 and 4 test n. */
Test(flow, a_loop_that_begins_with_a_loop_has_one_head) {
  analyse("0>1 0>5 1>2 1>3 2>2 2>3 3>4 3>5 4>2 4>3 5. 1*0 4*0");
  cr_assert_eq(depth(3), 1);
  cr_assert_eq(depth(2), 2);
  cr_assert_eq(node(2, 0).id, node(3, 0).id);
  cr_assert_neq(node(2, 1).id, node(2, 0).id);
  cr_assert(is_followed(2, 3));
  cr_assert_eq(node(3, 1).flags & PLACE_ALWAYS, PLACE_ALWAYS);
  cr_assert(is_followed(0, 5));
  cr_assert(comes_through(0, 5)); /* who skips the loop has come to its end */
  analyse(
      "0>1 0>5 1>2 1>6 2>2 2>7 7>3 6>3 3>4 3>5 4>2 4>8 8>6 5. 1*0 4*0 6*0 7*0 8*0"); /* in between */
  cr_assert_eq(node(2, 0).id, node(3, 0).id);
  cr_assert(is_followed(2, 3));
  cr_assert(comes_through(0, 5));
}

/* gcc's for (2 rounds) for (...) { 2 } 3: 0 asks for the first round, else 4 does for the second. */
Test(flow, a_loop_whose_first_round_is_asked_for_in_front_of_it_has_one_head) {
  analyse("0>1 0>4 1>2 2>2 2>3 3>4 3>5 4>1 4>5 5. 1*0 3*0 4*0");
  cr_assert_eq(depth(2), 2);
  cr_assert_eq(node(2, 0).flags & PLACE_ORDERED, PLACE_ORDERED);
  analyse("0>1 1>2 1>3 2>4 3>4 4>5 4>6 5>2 5>3 6>1 6>7 7. 1*0"); /* 5 begins a round itself */
  cr_assert_eq(depth(5), 1);
}

Test(flow, loops_that_begin_with_loops_may_be_within_each_other) {
  analyse("0>1 0>2 1>3 2>4 3>5 4>5 5>3 5>4 5>7 7>1 7>2 7>6 6.");
  cr_assert_eq(depth(7), 1);
  cr_assert_eq(depth(3), 2);
  cr_assert_eq(node(3, 1).id, node(4, 1).id);
  cr_assert_neq(node(3, 1).id, node(3, 0).id);
  cr_assert(is_followed(3, 5));
  cr_assert(is_followed(5, 7));
  cr_assert(is_followed(4, 6));
}

Test(flow, sites_of_a_block_are_in_order) {
  analyse("0*3 0>1 1.");
  struct place_node first, last;
  cr_assert_eq(flow_nodes(flow, 0, 0, 4, 1, &first, 1), 1);
  cr_assert_eq(flow_nodes(flow, 0, 2, 8, 1, &last, 1), 1);
  cr_assert_eq(last.order, first.order + 2);
  cr_assert_leq(last.since, first.order);
  cr_assert_geq(first.until, last.order);
  cr_assert_neq(first.id, last.id);
}

Test(flow, more_nodes_than_room_are_counted_and_the_outermost_are_written) {
  analyse("0>1 1>2 2>2 2>1 1>3 3.");
  struct place_node one;
  cr_assert_eq(flow_nodes(flow, 2, 0, 0, 1, &one, 1), 3);
  cr_assert_eq(one.id, node(1, 0).id);
}

Test(flow, what_is_not_reached_has_no_nodes) {
  analyse("0. 1>0");
  struct place_node nodes;
  cr_assert_eq(flow_nodes(flow, 1, 0, 0, 1, &nodes, 1), 0);
  cr_assert_eq(flow_nodes(flow, 2, 0, 0, 1, &nodes, 1), 0);
}

/* ---- limits ---- */

static struct flow *of_many(uint32_t nblocks, uint16_t sites, uint32_t back) {
  static struct flow_block blocks[FLOW_BLOCKS_MAX];
  static struct flow_edge edges[2 * FLOW_BLOCKS_MAX];
  uint32_t nedges = 0;
  for (uint32_t i = 0; i < nblocks; i++) {
    blocks[i] = (struct flow_block){.position = i, .sites = sites, .returns = i + 1 == nblocks};
    if (i + 1 < nblocks)
      edges[nedges++] = (struct flow_edge){i, i + 1, false};
  }
  for (uint32_t i = 1; i <= back; i++) /* loops within each other */
    edges[nedges++] = (struct flow_edge){nblocks - 1 - i, i, false};
  return flow_analyse(&(struct flow_graph){blocks, edges, nblocks, nedges, NULL});
}

Test(flow, too_many_sites_have_no_order) {
  struct place_node node;
  struct flow *large = of_many(1000, 66, 0);
  cr_assert_eq(flow_nodes(large, 999, 65, 0, 1, &node, 1), 1);
  cr_assert_eq(node.flags & PLACE_ORDERED, 0);
  flow_free(large);
  large = of_many(1000, 65, 0);
  cr_assert_eq(flow_nodes(large, 999, 64, 0, 1, &node, 1), 1);
  cr_assert_eq(node.order, 65000);
  cr_assert_eq(node.since, 1);
  cr_assert_leq(flow_bytes(large), 1000 * 32);
  flow_free(large);
}

Test(flow, loops_may_be_so_deep) {
  struct flow *deep = of_many(1000, 1, FLOW_DEPTH_MAX);
  cr_assert_not_null(deep);
  struct place_node nodes[DEPTH];
  cr_assert_eq(flow_nodes(deep, 500, 0, 0, 1, nodes, DEPTH), FLOW_DEPTH_MAX + 1);
  flow_free(deep);
  cr_assert_null(of_many(1000, 1, FLOW_DEPTH_MAX + 1));
}

Test(flow, the_largest_graph_takes_no_longer_than_a_second, .timeout = 300) {
  struct flow *largest = of_many(FLOW_BLOCKS_MAX, 1, 0);
  struct place_node node;
  cr_assert_eq(flow_nodes(largest, FLOW_BLOCKS_MAX - 1, 0, 0, 1, &node, 1), 1);
  cr_assert_eq(node.since, 1);
  flow_free(largest);
}

Test(flow, without_memory_there_is_no_analysis) {
  graph_read(&program, "0>1 0>2 1>3 2>4 3>5 4>5 5>3 5>4 5>7 7>1 7>2 7>6 6>6 6>8 8."); /* two hubs */
  bool failed = true;
  for (int nth = 1; failed; nth++) {
    fail_call(CALL_ALLOCATION, nth, 1, ENOMEM);
    struct flow *made = flow_analyse(&program.graph);
    failed = call_has_failed(CALL_ALLOCATION);
    fail_call(CALL_ALLOCATION, 0, 0, 0);
    cr_assert(made == NULL || !failed || flow_bytes(made) > 0); /* to shrink may fail */
    flow_free(made);
    cr_assert_lt(nth, 300);
  }
}

Test(flow, a_wrong_edge_is_refused) {
  struct flow_block block = {0};
  struct flow_edge edge = {0, 1, false};
  cr_assert_null(flow_analyse(&(struct flow_graph){&block, &edge, 1, 1, NULL}));
  cr_assert_null(flow_analyse(&(struct flow_graph){&block, &edge, 0, 0, NULL}));
}

/* 0; for (...) { 1: next(); 2 } 3: what next() does at its end. */
Test(flow, what_leaves_a_loop_stands_where_the_loop_does) {
  struct place_node nodes[DEPTH];
  analyse("0>1 1>2 1>3 2>1 3.");
  cr_assert_eq(flow_nodes_leaving(flow, 1, 10, 1, nodes, DEPTH), 1);
  cr_assert_eq(nodes[0].flags, PLACE_ORDERED);
  cr_assert_eq(nodes[0].order, node(1, 0).order);
  cr_assert_neq(nodes[0].id, node(1, 0).id);
  cr_assert_gt(nodes[0].order, node(0, 0).order);
  cr_assert_lt(nodes[0].order, node(3, 0).order);
  cr_assert_eq(flow_nodes_leaving(flow, 3, 30, 1, nodes, DEPTH), 1, "it stands in no loop");
  cr_assert_eq(nodes[0].order, node(3, 0).order);
}

Test(flow, who_comes_to_no_return_never_returns) {
  analyse("0>1 0>2 1>3 1!4 2>5 3. 4."); /* 5 throws; 1 may, but that is caught */
  for (uint32_t block = 0; block <= 5; block++)
    cr_assert_eq(flow_never_returns(flow, block), block == 2 || block == 5, "%u", block);
  analyse("0>1 1>1");
  cr_assert_not(flow_never_returns(flow, 0), "it goes on for ever");
  analyse("0>1");
  cr_assert(flow_never_returns(flow, 0));
}
