/* What the parts of place.h share: where the ways to two places part, and what is known of the two
 * nodes there. */
#ifndef NCCL_JOIN_CORE_PLACE_PRIVATE_H
#define NCCL_JOIN_CORE_PLACE_PRIVATE_H

#include "core/place/place.h"

/* Where the ways part: the number of nodes that are common; false if none is, or one way is the
 * beginning of the other. */
bool place_part(const struct place *a, const struct place *b, uint32_t *at);

/* Whether it is known how two places stand to each other, and where they part. */
bool place_compare(const struct place *a, const struct place *b, uint32_t *at);

/* Whether a node of the place has one of the flags, from a node on. */
bool place_has(const struct place *place, uint32_t from, uint32_t flags);

/* Of two nodes that follow the same nodes: whether their order is known, and whether they are two
 * branches of one condition. */
bool place_nodes_are_ordered(const struct place_node *a, const struct place_node *b);
bool place_nodes_are_branches(const struct place_node *x, const struct place_node *y);

/* One more than the innermost loop around both, as a node of either; 0: there is none. */
uint32_t place_common_loop(const struct place *a, const struct place *b);

#endif
