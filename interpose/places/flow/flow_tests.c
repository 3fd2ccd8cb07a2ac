/* Which conditions decide whether control comes to an item in a round, and whether they are the same
 * in all rounds: PLACE_CHANGES and PLACE_FIXED (core/place/place.h). Called by flow_analyse.
 *
 * A condition decides on an item if control comes through it to the item, and may go on in the loop
 * without the item. Such blocks are found up the tree of dominators (Ferrante, Ottenstein and
 * Warren, "The program dependence graph and its use in optimization", 1987). */
#include "interpose/places/flow/flow_private.h"

#include <stdlib.h>

#define CONDITIONS_MAX 64u /* blocks that are looked at for one item */

struct testing {
  const struct flow_work *work;
  const struct flow_dominators *after; /* of items, backwards */
  struct flow_values *all;             /* by loop: what is set in it and in what is in it */
  uint32_t *above;                     /* by block: the one that dominates it next; FLOW_NONE */
};

/* ---- What loops set ---- */

static void add_to_loops(struct testing *testing) {
  const struct flow *flow = testing->work->flow;
  for (uint32_t block = 0; block < flow->nblocks; block++) {
    const struct flow_values *values = &testing->work->graph->values[block];
    uint32_t loop = flow->items[block].around;
    for (; flow->items[block].reached && loop != FLOW_NONE; loop = flow->items[loop].around) {
      testing->all[loop - flow->nblocks].sets |= values->sets;
      testing->all[loop - flow->nblocks].moves |= values->moves;
    }
  }
}

/* ---- The tree of dominators ---- */

static void find_above(struct testing *testing, uint32_t *order) {
  const struct flow_dominators *tree = &testing->work->dominators;
  uint32_t depth = 0, *ways = order + tree->nreached;
  for (uint32_t i = 0; i < tree->nreached; i++)
    order[tree->first[tree->reverse_postorder[i]]] = tree->reverse_postorder[i];
  for (uint32_t i = 0; i < tree->nreached; i++) {
    uint32_t block = order[i];
    while (depth > 0 && !flow_dominates(tree, ways[depth - 1], block))
      depth--;
    testing->above[block] = depth == 0 ? FLOW_NONE : ways[depth - 1];
    ways[depth++] = block;
  }
}

/* ---- Conditions ---- */

/* Whether control may go two ways behind a block and stay in this round of a loop. */
static bool divides(const struct flow_work *work, uint32_t block, uint32_t loop) {
  const struct flow_lists *next = &work->next;
  uint32_t first = FLOW_NONE;
  for (uint32_t i = next->start[block]; i < next->start[block + 1]; i++) {
    uint32_t to = next->items[i];
    if (to == work->head[loop] ||
        flow_common_loop(work, work->flow->items[to].around, loop) != loop)
      continue;
    if (first != FLOW_NONE && to != first)
      return true;
    first = to;
  }
  return false;
}

static uint32_t outermost_loop(const struct flow *flow, uint32_t loop) {
  while (flow->items[loop].around != FLOW_NONE)
    loop = flow->items[loop].around;
  return loop;
}

/* The flags of what a block decides on, in the loops around it. */
static uint16_t flags_of(const struct testing *testing, uint32_t block, uint32_t loop) {
  const struct flow *flow = testing->work->flow;
  const struct flow_values *values = &testing->work->graph->values[block],
                           *all = &testing->all[outermost_loop(flow, loop) - flow->nblocks];
  if (values->tests & all->moves)
    return PLACE_CHANGES;
  return values->tests_more || (values->tests & all->sets) ? 0 : PLACE_FIXED;
}

static void find_flags(struct testing *testing, uint32_t item) {
  const struct flow_work *work = testing->work;
  struct flow_item *of = &work->flow->items[item];
  uint32_t at = testing->above[work->head[item]], seen = 0;
  bool is_last = true, fixed = true;
  of->flags = 0;
  for (; at != FLOW_NONE; at = testing->above[at]) {
    uint32_t inside = at;
    if (flow_common_loop(work, work->flow->items[at].around, of->around) != of->around)
      break; /* before the loop */
    if (seen++ == CONDITIONS_MAX) {
      fixed = false;
      break;
    }
    while (work->flow->items[inside].around != of->around)
      inside = work->flow->items[inside].around;
    if (flow_dominates(testing->after, item, inside) ||
        (inside == at && !divides(work, at, of->around)))
      continue;
    uint16_t flags = inside == at ? flags_of(testing, at, of->around) : 0;
    if (is_last)
      of->flags |= flags & PLACE_CHANGES;
    is_last = false;
    fixed &= (flags & PLACE_FIXED) != 0;
  }
  if (fixed && !is_last)
    of->flags |= PLACE_FIXED;
}

bool flow_find_tests(struct flow_work *work, const struct flow_dominators *after) {
  const struct flow *flow = work->flow;
  uint32_t nloops = flow->nitems - flow->nblocks;
  if (work->graph->values == NULL || nloops == 0)
    return true;
  struct testing testing = {.work = work,
                            .after = after,
                            .all = calloc(nloops, sizeof *testing.all),
                            .above = malloc((size_t)flow->nblocks * sizeof *testing.above)};
  uint32_t *order = malloc(2 * (size_t)flow->nblocks * sizeof *order);
  bool found = testing.all != NULL && testing.above != NULL && order != NULL;
  if (found) {
    add_to_loops(&testing);
    find_above(&testing, order);
    for (uint32_t item = 0; item < flow->nitems; item++)
      if (flow->items[work->head[item]].reached && flow->items[item].around != FLOW_NONE &&
          work->sites[item] != 0)
        find_flags(&testing, item);
  }
  free(order);
  free(testing.above);
  free(testing.all);
  return found;
}
