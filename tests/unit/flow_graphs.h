/* Control-flow graphs for the tests of interpose/places/flow/flow.h: written by hand, or of random
 * structured programs; and what an analysis must say of one, found from the definitions alone. */
#ifndef NCCL_JOIN_TESTS_FLOW_GRAPHS_H
#define NCCL_JOIN_TESTS_FLOW_GRAPHS_H

#include "interpose/places/flow/flow.h"

#define GRAPH_BLOCKS_MAX 64u
#define GRAPH_WRITTEN_MAX 48u /* of random ones; the others are for tests of rotated loops */
#define GRAPH_ANY_MAX 32u     /* ... and for hubs */
#define GRAPH_EDGES_MAX 512u

struct graph_program {
  struct flow_block blocks[GRAPH_BLOCKS_MAX];
  struct flow_edge edges[GRAPH_EDGES_MAX];
  struct flow_graph graph;
  bool structured; /* then: the source's loops around a block, as bits of their heads */
  uint64_t source_loops[GRAPH_BLOCKS_MAX];
};

/* "0>1 1>2 2!3 2. 1*3": an edge, one of an exception, block 2 returns, block 1 has 3 sites. Blocks
 * have one site each unless something else is said, and ten times their number as position. */
void graph_read(struct graph_program *program, const char *text);

/* As it would be read. */
const char *graph_text(const struct graph_program *program);

/* if, if-else, while, do-while, do-while behind a guard, endless loops, switch, break and continue
 * of any loop around, return, abort, try and throw. */
void graph_random_program(struct graph_program *program, uint64_t *state);

/* Any edges between up to GRAPH_ANY_MAX blocks. */
void graph_random_edges(struct graph_program *program, uint64_t *state);

/* NULL, or what is wrong with an analysis. */
const char *graph_check(const struct graph_program *program, const struct flow *flow);

#endif
