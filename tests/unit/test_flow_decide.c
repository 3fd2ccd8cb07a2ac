/* Branches that are decided by what the code has set before (interpose/places/flow/flow_decide.c),
 * on graphs written by hand (flow_graphs.h), of code that has one variable. Blocks have one call
 * each unless something else is said. */
#include <criterion/criterion.h>
#include <string.h>

#include "tests/unit/flow_graphs.h"

enum { DEPTH = FLOW_DEPTH_MAX + 2, UNKNOWN = -1 };

static struct graph_program program;
static struct flow *flow;

/* What blocks do: set the variable; or go to one block if it is 0, and to another otherwise. */
static struct {
  bool sets, tests, forgets;
  int value;
  uint32_t if_zero, otherwise;
} code[GRAPH_BLOCKS_MAX];

static void forget(void *context, void *state) {
  (void)context;
  *(int *)state = UNKNOWN;
}

static bool meet(void *context, void *state, const void *other) {
  (void)context;
  int before = *(int *)state;
  if (before != *(const int *)other)
    *(int *)state = UNKNOWN;
  return *(int *)state != before;
}

static uint32_t run(void *context, uint32_t block, void *state) {
  (void)context;
  int *value = state;
  if (code[block].forgets)
    *value = UNKNOWN;
  if (code[block].sets)
    *value = code[block].value;
  if (!code[block].tests || *value == UNKNOWN)
    return FLOW_ANYWHERE;
  return *value == 0 ? code[block].if_zero : code[block].otherwise;
}

static void begin(void) {
  memset(code, 0, sizeof code);
}

static void sets(uint32_t block, int value) {
  code[block].sets = true;
  code[block].value = value;
}

static void tests(uint32_t block, uint32_t if_zero, uint32_t otherwise) {
  code[block].tests = true;
  code[block].if_zero = if_zero;
  code[block].otherwise = otherwise;
}

static void decide(const char *text) {
  static struct flow_edge edges[2 * GRAPH_EDGES_MAX];
  struct flow_machine machine = {NULL, sizeof(int), forget, meet, run};
  flow_free(flow);
  graph_read(&program, text);
  struct flow_graph decided = program.graph;
  decided.nedges = flow_decide(&program.graph, &machine, edges);
  decided.edges = edges;
  flow = flow_analyse(&decided);
  cr_assert_not_null(flow, "%s", text);
}

static uint32_t depth(uint32_t block) {
  struct place_node nodes[DEPTH];
  return flow_nodes(flow, block, 0, 0, 1, nodes, DEPTH) - 1;
}

TestSuite(flow_decide, .init = begin);

/* 0: done = 0; 1: while (!done) 2: if () 3; else { 4; done = 1; } 5. */
#define UNTIL_DONE "0>1 1>2 1>5 2>3 2>4 3>1 4>1 5. 1*0 2*0"

static void until_done(void) {
  sets(0, 0);
  tests(1, 2, 5);
  sets(4, 1);
}

Test(flow_decide, a_branch_that_ends_the_loop_is_not_in_it) {
  until_done();
  decide(UNTIL_DONE);
  cr_assert_eq(depth(3), 1);
  cr_assert_eq(depth(4), 0);
  cr_assert_eq(depth(5), 0);
}

Test(flow_decide, nor_is_it_if_it_does_more_before_it_comes_back) {
  until_done();
  decide("0>1 1>2 1>5 2>3 2>4 3>1 4>6 4>7 6>7 7>1 5. 1*0 2*0"); /* ... if () 6; 7 */
  cr_assert_eq(depth(3), 1);
  cr_assert_eq(depth(6), 0);
  cr_assert_eq(depth(7), 0);
}

Test(flow_decide, it_is_in_the_loop_if_it_may_set_something_else) {
  until_done();
  sets(4, 0);
  decide(UNTIL_DONE);
  cr_assert_eq(depth(4), 1);
  begin();
  until_done();
  code[6].forgets = true; /* what is called there may set it */
  decide("0>1 1>2 1>5 2>3 2>4 3>1 4>6 6>1 5. 1*0 2*0");
  cr_assert_eq(depth(4), 1);
}

Test(flow_decide, it_is_in_the_loop_if_a_call_comes_before_the_loop_is_left) {
  until_done();
  decide("0>1 1>2 1>5 2>3 2>4 3>1 4>1 5. 2*0"); /* while (1, !done) */
  cr_assert_eq(depth(4), 1);
}

/* for (...; i < n && !done; ...): whichever ends it. */
Test(flow_decide, a_loop_may_be_left_in_several_ways) {
  sets(0, 0);
  tests(6, 2, 7);
  sets(4, 1);
  decide("0>1 1>6 1>5 6>2 6>7 7>5 2>3 2>4 3>1 4>1 5. 1*0 2*0 6*0 7*0");
  cr_assert_eq(depth(3), 1);
  cr_assert_eq(depth(4), 0);
}

/* for (...) { 1: while (!done) ...; 5 }: the loop around it goes on. */
Test(flow_decide, the_loop_around_a_loop_that_is_left_goes_on) {
  until_done();
  decide("0>1 1>2 1>5 2>3 2>4 3>1 4>1 5>0 5>6 6. 1*0 2*0");
  cr_assert_eq(depth(3), 2);
  cr_assert_eq(depth(4), 1);
  cr_assert_eq(depth(5), 1);
}

/* ... { done = 1; } 5: if (done) break: both loops are left. */
Test(flow_decide, two_loops_may_be_left_at_once) {
  sets(0, 0);
  tests(5, 1, 6);
  sets(4, 1);
  tests(1, 2, 5);
  decide("0>1 1>2 1>5 2>3 2>4 3>1 4>1 5>1 5>6 6. 1*0 2*0 5*0");
  cr_assert_eq(depth(4), 0);
}

/* An exception may come from anywhere. */
Test(flow_decide, of_an_exception_nothing_is_known) {
  until_done();
  decide("0>1 1>2 1>5 2>3 2>4 3>1 4>6 4!1 6>5 5. 1*0 2*0 6*0");
  cr_assert_eq(depth(4), 1);
}

/* while (1) { 1: if (done) 2; else { 3; done = 1; } }: nobody leaves. */
Test(flow_decide, what_stays_in_the_loop_is_left_as_it_is) {
  sets(0, 0);
  tests(1, 3, 2);
  sets(3, 1);
  decide("0>1 1>2 1>3 2>1 3>1 1*0 2*3");
  cr_assert_eq(depth(2), 1);
  cr_assert_eq(depth(3), 1);
}

/* UBSan knows it: an array of no edges may be NULL. */
Test(flow_decide, code_of_one_block_has_no_edges) {
  static const struct flow_block block;
  struct flow_machine machine = {NULL, sizeof(int), forget, meet, run};
  struct flow_edge edges[1];
  struct flow_graph graph = {.blocks = &block, .nblocks = 1};
  cr_assert_eq(flow_decide(&graph, &machine, edges), 0);
}

/* ---- random programs ---- */

static uint64_t state;

static uint32_t any(uint32_t below) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(state >> 33) % below;
}

/* The edges of a block, exceptional ones last. */
static uint32_t edges_of(uint32_t block, uint32_t *to, uint32_t *nordinary) {
  uint32_t n = 0;
  for (int exceptional = 0; exceptional <= 1; exceptional++) {
    for (uint32_t i = 0; i < program.graph.nedges; i++)
      if (program.edges[i].from == block && program.edges[i].exceptional == (exceptional == 1))
        to[n++] = program.edges[i].to;
    *nordinary = exceptional == 0 ? n : *nordinary;
  }
  return n;
}

static void write_code(void) {
  uint32_t to[GRAPH_EDGES_MAX], nordinary;
  begin();
  for (uint32_t block = 0; block < program.graph.nblocks; block++) {
    (void)edges_of(block, to, &nordinary);
    program.blocks[block].sites = (uint16_t)any(2);
    code[block].forgets = any(6) == 0;
    if (any(3) == 0)
      sets(block, (int)any(2));
    if (nordinary == 2 && any(2) == 0)
      tests(block, to[0], to[1]);
  }
}

/* The heads of the loops around a block, as bits. *reached: control comes to it. */
static uint64_t loops_around(const struct flow *of, uint32_t block, bool *reached) {
  struct place_node nodes[DEPTH];
  uint32_t n = flow_nodes(of, block, 0, 0, 1, nodes, DEPTH);
  uint64_t heads = 0;
  *reached = n > 0;
  for (uint32_t i = 0; i + 1 < n; i++)
    for (uint32_t head = 0; head < program.graph.nblocks; head++)
      if (nodes[i].id == flow_id(~1u, program.blocks[head].position))
        heads |= UINT64_C(1) << head;
  return heads;
}

/* Runs the program for a while; ways may pass by blocks without calls. Returns how often it has
 * been in a block that is said to stand outside of a loop: then it has not gone round in that loop
 * afterwards. */
static uint32_t run_for_a_while(const uint64_t *before, const uint64_t *after,
                                const bool *reached) {
  uint32_t at = 0, left = 0, to[GRAPH_EDGES_MAX], nordinary;
  uint64_t outside = 0; /* of the loops that control has not left so far */
  int value = (int)any(2);
  for (uint32_t step = 0; step < 300; step++) {
    cr_assert(reached[at] || program.blocks[at].sites == 0, "block %u is reached: %s", at,
              graph_text(&program));
    outside &= before[at];
    cr_assert(program.blocks[at].sites == 0 || (outside & after[at]) == 0, "block %u: %s", at,
              graph_text(&program));
    uint64_t left_here = program.blocks[at].sites == 0 ? 0 : before[at] & ~after[at];
    outside |= left_here;
    left += left_here != 0;
    value = code[at].sets ? code[at].value : code[at].forgets ? (int)any(2) : value;
    uint32_t next = value == 0 ? code[at].if_zero : code[at].otherwise;
    uint32_t n = edges_of(at, to, &nordinary);
    if (n == 0)
      return left;
    bool throws = nordinary == 0 || (n > nordinary && any(8) == 0);
    at = throws ? to[nordinary + any(n - nordinary)] : code[at].tests ? next : to[any(nordinary)];
  }
  return left;
}

Test(flow_decide, in_random_programs_who_is_outside_of_a_loop_does_not_go_round_in_it) {
  static struct flow_edge edges[2 * GRAPH_EDGES_MAX];
  static uint64_t before[GRAPH_BLOCKS_MAX], after[GRAPH_BLOCKS_MAX];
  struct flow_machine machine = {NULL, sizeof(int), forget, meet, run};
  uint32_t left = 0;
  for (uint64_t round = 1; round <= 4000; round++) {
    bool reached[GRAPH_BLOCKS_MAX], any_way;
    state = round;
    graph_random_program(&program, &state);
    write_code();
    struct flow *was = flow_analyse(&program.graph);
    struct flow_graph decided = program.graph;
    decided.nedges = flow_decide(&program.graph, &machine, edges);
    decided.edges = edges;
    flow_free(flow);
    flow = flow_analyse(&decided);
    cr_assert(was != NULL && flow != NULL);
    for (uint32_t block = 0; block < program.graph.nblocks; block++) {
      before[block] = loops_around(was, block, &any_way);
      after[block] = loops_around(flow, block, &reached[block]);
    }
    flow_free(was);
    for (uint32_t i = 0; i < 20; i++)
      left += run_for_a_while(before, after, reached);
  }
  cr_assert_gt(left, 1000);
}
