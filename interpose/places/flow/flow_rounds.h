/* Loops of a graph, and which blocks lead to which in a round of them: for who looks at code before
 * it is analysed (flow.h), as native_copies.c and native_twins.c do. Loops are named by numbers of
 * their own. */
#ifndef NCCL_JOIN_INTERPOSE_FLOW_ROUNDS_H
#define NCCL_JOIN_INTERPOSE_FLOW_ROUNDS_H

#include "interpose/places/flow/flow.h"
#include "interpose/places/flow/flow_arcs.h"

struct flow_rounds;

/* graph must stay. NULL: it is beyond the limits of flow.h, or no memory. */
struct flow_rounds *flow_rounds_make(const struct flow_graph *graph);
void flow_rounds_free(struct flow_rounds *rounds); /* NULL is allowed */

/* The graph's blocks that control comes to, such as come before others first, but for ways round
 * loops: at most as many as it has blocks. Returns how many. */
uint32_t flow_rounds_order(const struct flow_rounds *rounds, uint32_t *order);

/* The innermost loop around a block; FLOW_NONE: none. */
uint32_t flow_rounds_loop(const struct flow_rounds *rounds, uint32_t block);

/* Whether a loop is the other one, or around that. FLOW_NONE is around none, and in none. */
bool flow_rounds_around(const struct flow_rounds *rounds, uint32_t loop, uint32_t inner);

/* The innermost loop around a loop; FLOW_NONE: none. */
uint32_t flow_rounds_within(const struct flow_rounds *rounds, uint32_t loop);

/* How many loops are around a loop. */
uint32_t flow_rounds_depth(const struct flow_rounds *rounds, uint32_t loop);

/* The outermost loop around a block that is not around the other; FLOW_NONE: none. */
uint32_t flow_rounds_outermost(const struct flow_rounds *rounds, uint32_t block, uint32_t other);

/* The block that a loop begins with, or a hub (flow_analyse in flow.h), which is none of the
 * graph's. */
uint32_t flow_rounds_head(const struct flow_rounds *rounds, uint32_t loop);

/* Whether a loop begins with the block, that of a hub with any of its entries; and whether every
 * way to the block goes through where the loop begins. */
bool flow_rounds_begins(const struct flow_rounds *rounds, uint32_t loop, uint32_t block);
bool flow_rounds_leads_in(const struct flow_rounds *rounds, uint32_t loop, uint32_t block);

/* Whether control that goes from one block of the loop to another begins a round with that. */
bool flow_rounds_goes_round(const struct flow_rounds *rounds, uint32_t loop, uint32_t from,
                            uint32_t to);

/* Whether every way to the block goes through another one. */
bool flow_rounds_through(const struct flow_rounds *rounds, uint32_t by, uint32_t block);

/* Whether control comes from one block to another in a round of the loops around both; a block
 * leads to itself. One thread at a time. */
bool flow_rounds_leads(struct flow_rounds *rounds, uint32_t from, uint32_t to);

/* Whether where control goes behind a block hangs on what a loop counts, or sets to numbers, as far
 * as the graph's values tell. */
bool flow_rounds_is_counted(const struct flow_rounds *rounds, uint32_t loop, uint32_t block);

/* Blocks that lead to a block at once, and those that it leads to. Of the rounds. */
const struct flow_lists *flow_rounds_previous(const struct flow_rounds *rounds);
const struct flow_lists *flow_rounds_next(const struct flow_rounds *rounds);

#endif
