/* Directed graphs as lists of arcs: who reaches whom, and through whom. For flow.h's analysis. */
#ifndef NCCL_JOIN_INTERPOSE_FLOW_ARCS_H
#define NCCL_JOIN_INTERPOSE_FLOW_ARCS_H

#include <stdbool.h>
#include <stdint.h>

#define FLOW_NONE UINT32_MAX

struct flow_arc {
  uint32_t from;
  uint32_t to;
};

/* The neighbours of node n are items[start[n]] to items[start[n + 1] - 1], in the arcs' order. */
struct flow_lists {
  uint32_t *start;
  uint32_t *items;
};

/* False: no memory. Arcs name nodes below n. backwards: lists of the nodes that an arc comes from.
 */
bool flow_lists_make(struct flow_lists *lists, uint32_t n, const struct flow_arc *arcs,
                     uint32_t narcs, bool backwards);
void flow_lists_drop(struct flow_lists *lists);

/* Marks everything that is reached from what is marked already. stack has room for n nodes. */
void flow_reach(const struct flow_lists *next, uint32_t n, bool *marked, uint32_t *stack);

/* The dominator tree of what root reaches. */
struct flow_dominators {
  uint32_t nreached;
  uint32_t *reverse_postorder; /* nreached nodes: before its successors, back edges aside */
  uint32_t *rank;              /* of a node in it; FLOW_NONE: not reached */
  uint32_t *first;             /* the nodes that n dominates are numbered first[n] .. last[n] */
  uint32_t *last;
};

/* By Lengauer and Tarjan, with path compression: O(m log n). False: no memory. */
bool flow_dominators_make(struct flow_dominators *tree, uint32_t n, uint32_t root,
                          const struct flow_arc *arcs, uint32_t narcs);
void flow_dominators_drop(struct flow_dominators *tree);

/* Whether every way from the root to node goes through by; false if either is not reached. */
bool flow_dominates(const struct flow_dominators *tree, uint32_t by, uint32_t node);

#endif
