/* Loops of a graph, and which blocks lead to which in a round of them: for who looks at code before
 * it is analysed (flow.h), as native_copies.c does. Loops are named by numbers of their own. */
#ifndef NCCL_JOIN_INTERPOSE_FLOW_ROUNDS_H
#define NCCL_JOIN_INTERPOSE_FLOW_ROUNDS_H

#include "interpose/places/flow/flow.h"
#include "interpose/places/flow/flow_arcs.h"

struct flow_rounds;

/* graph must stay. NULL: it is beyond the limits of flow.h, or no memory. */
struct flow_rounds *flow_rounds_make(const struct flow_graph *graph);
void flow_rounds_free(struct flow_rounds *rounds); /* NULL is allowed */

/* The innermost loop around a block; FLOW_NONE: none. */
uint32_t flow_rounds_loop(const struct flow_rounds *rounds, uint32_t block);

/* Whether a loop is the other one, or around that. FLOW_NONE is around none, and in none. */
bool flow_rounds_around(const struct flow_rounds *rounds, uint32_t loop, uint32_t inner);

/* Whether a loop begins with the block; and whether every way to the block goes through where the
 * loop begins. */
bool flow_rounds_begins(const struct flow_rounds *rounds, uint32_t loop, uint32_t block);
bool flow_rounds_leads_in(const struct flow_rounds *rounds, uint32_t loop, uint32_t block);

/* Whether control comes from one block to another in a round of the loops around both; a block
 * leads to itself. One thread at a time. */
bool flow_rounds_leads(struct flow_rounds *rounds, uint32_t from, uint32_t to);

/* Blocks that lead to a block at once. Of the rounds. */
const struct flow_lists *flow_rounds_previous(const struct flow_rounds *rounds);

#endif
