/* Natural loops of a graph's blocks, and who leads to whom. For native_copies.c, which looks at code
 * that is analysed later (flow.h). */
#ifndef NCCL_JOIN_INTERPOSE_NATIVE_LOOPS_H
#define NCCL_JOIN_INTERPOSE_NATIVE_LOOPS_H

#include "interpose/places/flow/flow_arcs.h"
#include "interpose/places/native/native_graph.h"

struct native_loops {
  uint32_t *around; /* by block: the innermost loop around it, by its head; FLOW_NONE: none */
  uint32_t *above;  /* by head: the loop around that loop */
  struct flow_dominators tree;
  struct flow_lists ahead; /* blocks behind a block, ways round a loop left out */
  struct flow_lists previous;
};

/* False: no memory. native_loops_drop is to be called in either case. */
bool native_loops_make(struct native_loops *loops, const struct native_graph *graph);
void native_loops_drop(struct native_loops *loops);

/* Whether a loop is the other one, or around that. FLOW_NONE is around none, and in none. */
bool native_loops_around(const struct native_loops *loops, uint32_t loop, uint32_t inner);

#endif
