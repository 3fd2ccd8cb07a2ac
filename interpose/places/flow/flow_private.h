/* What the steps of flow.h's analysis share. Blocks and loops are numbered as one: the blocks
 * first, then the loops, inner ones before those around them. The function's body is FLOW_NONE
 * where the loop around something is named. */
#ifndef NCCL_JOIN_INTERPOSE_FLOW_PRIVATE_H
#define NCCL_JOIN_INTERPOSE_FLOW_PRIVATE_H

#include "interpose/places/flow/flow.h"
#include "interpose/places/flow/flow_arcs.h"

/* A block or a loop. One without sites is no node of a place, and has no order. */
struct flow_item {
  uint32_t around;   /* the innermost loop around it */
  uint32_t position; /* of the block, or of the loop's head */
  uint16_t order;    /* of the loop, or of the block's first site */
  uint16_t since;
  uint16_t until;
  uint16_t reach_from, reach_to;
  uint16_t flags;  /* PLACE_FIXED, PLACE_ALWAYS, PLACE_CAUGHT, and the turn */
  uint16_t nsites; /* of a block that has given its last site away: those that it has kept */
  uint16_t asked;  /* ... and the block of flow_rotate.c that has it; 0: it has kept all */
  bool reached : 1;
  bool ordered : 1;
  /* Of a block: from behind it the function may come back to its caller, or goes on for ever. */
  bool returns : 1;
};

struct flow {
  uint32_t nblocks;
  uint32_t nitems; /* blocks and loops */
  struct flow_item *items;
};

/* Only while the analysis is made. Arrays have an element for each item unless something else is
 * said. */
struct flow_work {
  const struct flow_graph *graph;
  struct flow *flow;
  struct flow_dominators dominators; /* of the blocks */
  struct flow_lists next;            /* blocks behind a block */
  struct flow_lists previous;
  struct flow_arc *arcs; /* the graph's edges */
  struct flow_arc *kept; /* those that a step keeps; room for all, and one for each item */
  uint32_t *head;        /* of a loop; of a block itself */
  uint32_t *depth;       /* of a loop: loops around it and itself */
  uint32_t *sites;       /* inside */
  uint32_t *child;   /* the first in a loop, in order; of the function's body, behind the items */
  uint32_t *sibling; /* the next in the loop around it */
  uint32_t *end;     /* the last order inside */
  uint32_t *stack;   /* three words for each edge and each item */
  bool *ordinary;    /* blocks from which a return is reached without an exception */
  bool *alive;       /* ... or with one */
  bool *endless;     /* loops that only an exception leaves */
  bool *leaves;      /* items with an arc to the exit: see flow_span.c */
  bool *marked;      /* blocks, for one step */
  bool *late;        /* blocks that come after all others that come to an end: flow_early.c */
  bool *early;       /* edges: flow_early.c */
};

/* flow_copy.c: a graph that a step changes, and more of a block. Where no step has, graph is the
 * one that it was made of, and the arrays are NULL. */
struct flow_copy {
  struct flow_graph graph; /* of the arrays below */
  struct flow_block *blocks;
  struct flow_edge *edges;
  struct flow_values *values;
  uint32_t *asked; /* by block: the test that has its last site; FLOW_NONE: it has all of its own */
};
/* With room for so many blocks and edges. False: no memory; then there is nothing to drop. */
bool flow_copy_make(struct flow_copy *made, const struct flow_graph *graph, size_t nblocks,
                    size_t nedges);
void flow_copy_drop(struct flow_copy *made);
/* Takes away the edges that come from FLOW_NONE. */
void flow_copy_tidy(struct flow_copy *made);

/* flow_hubs.c: a graph in which control enters each cycle at one block (flow_analyse in flow.h):
 * its hubs are behind the blocks of the other graph. False: no memory; then there is nothing to
 * drop. */
bool flow_find_hubs(const struct flow_graph *graph, struct flow_copy *made);

/* flow_rotate.c: a graph in which loops that a compiler has rotated are as they were (flow_analyse
 * in flow.h). Its blocks are those of the other graph, and behind them the tests of such loops.
 * False: no memory; then there is nothing to drop. */
bool flow_unrotate(const struct flow_graph *graph, struct flow_copy *made);

/* flow.c: begins the analysis of work->graph, and finds its loops. False: the graph is beyond the
 * limits of flow.h, or no memory. */
bool flow_begin(struct flow_work *work);
void flow_end(struct flow_work *work);

/* flow_loops.c: loops, depths, sites; what stands in irreducible cycles is not ordered. False:
 * loops too deep. */
bool flow_find_loops(struct flow_work *work);
/* The innermost loop that both loops are in, or are. */
uint32_t flow_common_loop(const struct flow_work *work, uint32_t a, uint32_t b);

/* flow_early.c: marks early ways out (flow_analyse in flow.h), and late blocks. False: no memory.
 */
bool flow_find_early(struct flow_work *work);

/* flow_order.c: children, siblings, orders. */
bool flow_find_alive(struct flow_work *work);
/* After flow_find_alive: marks blocks from which a return is reached without an exception and
 * without an early way out, and takes the mark from the others. False: no memory. */
bool flow_find_ordinary(struct flow_work *work, bool *marked);
/* Flags of what control comes to by exceptions alone. False: no memory. */
bool flow_find_caught(struct flow_work *work);
/* Whether an edge goes round a loop without end. */
bool flow_goes_on_forever(const struct flow_work *work, struct flow_arc edge);
void flow_give_orders(struct flow_work *work);

/* flow_reach.c */
bool flow_find_reach(struct flow_work *work);

/* flow_tests.c: flags. after: the dominators of flow_span.c's reversed graph. False: no memory. */
bool flow_find_tests(struct flow_work *work, const struct flow_dominators *after);

/* flow_span.c */
bool flow_find_since(struct flow_work *work);
bool flow_find_until(struct flow_work *work);

static inline bool flow_is_reached(const struct flow_work *work, uint32_t block) {
  return work->flow->items[block].reached;
}

static inline uint32_t flow_depth(const struct flow_work *work, uint32_t loop) {
  return loop == FLOW_NONE ? 0 : work->depth[loop];
}

/* Where child has a loop's first item. */
static inline uint32_t flow_list_of(const struct flow_work *work, uint32_t loop) {
  return loop == FLOW_NONE ? work->flow->nitems : loop;
}

#endif
