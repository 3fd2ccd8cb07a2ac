/* What flow.h promises, found from the definitions alone, with sets of blocks as bits: what
 * flow_check.c compares an analysis with. */
#ifndef NCCL_JOIN_TESTS_UNIT_FLOW_TRUTH_H
#define NCCL_JOIN_TESTS_UNIT_FLOW_TRUTH_H

#include "tests/unit/flow_graphs.h"

enum { ORDERS_MAX = 4 * GRAPH_BLOCKS_MAX };

typedef uint64_t blocks_t;
#define BIT(block) (UINT64_C(1) << (block))
#define NO_BLOCK GRAPH_BLOCKS_MAX

/* A block's sites, or a loop: then block is its head. */
struct thing {
  bool known;
  bool is_loop;
  uint32_t block;
};

struct truth {
  const struct graph_program *program;
  const struct flow *flow;
  uint32_t n;
  blocks_t next[GRAPH_BLOCKS_MAX];
  blocks_t ordinary_next[GRAPH_BLOCKS_MAX];
  blocks_t until_next[GRAPH_BLOCKS_MAX]; /* what counts for until, for since */
  blocks_t since_next[GRAPH_BLOCKS_MAX];
  blocks_t reached;
  blocks_t alive;
  blocks_t ends;
  blocks_t ordinary;                 /* what comes to an end without an exception */
  blocks_t tangled;                  /* in cycles that are no loops */
  blocks_t body[GRAPH_BLOCKS_MAX];   /* by head; 0: no loop */
  uint32_t around[GRAPH_BLOCKS_MAX]; /* head of the innermost loop */
  struct place_node of_block[GRAPH_BLOCKS_MAX];
  struct place_node of_loop[GRAPH_BLOCKS_MAX];
  struct thing by_order[ORDERS_MAX];
  uint32_t norders;
};

/* What is reached from some blocks, these included, through allowed ones alone. */
blocks_t truth_closure(const blocks_t *next, blocks_t from, blocks_t allowed);

/* The head of the loop around a loop, or NO_BLOCK. */
uint32_t truth_outside(const struct truth *truth, uint32_t head);

/* The blocks from which one of the ends is reached. */
blocks_t truth_that_reach(const struct truth *truth, const blocks_t *next, blocks_t ends);

/* Takes from since_next the early ways out of loops. forever: blocks that go round a loop without
 * end. reached, body, around, ends, ordinary and ordinary_next are known. */
void truth_leave_early_aside(struct truth *truth, blocks_t forever);

/* The program with hubs of cycles with several entries behind its blocks, without sites. */
void truth_add_hubs(const struct graph_program *program, struct graph_program *as);

/* The program with rotated loops as they were: their tests are its last blocks, without sites. */
void truth_unrotate(const struct graph_program *program, struct graph_program *as);

#endif
