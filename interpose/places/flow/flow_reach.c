/* reach_from and reach_to: what control can come to from an item before the loop around it goes
 * round. Called by flow_analyse.
 *
 * Of all that can be reached one span of orders is kept. Spans are put together from behind, in the
 * order of the items: of spans that do not touch, the longest stays. */
#include "interpose/places/flow/flow_private.h"

#include <stdlib.h>

struct span {
  uint32_t from, to; /* from > to: nothing */
};

static const struct span nothing = {1, 0};

static uint32_t flow_length(struct span span) {
  return span.from > span.to ? 0 : span.to - span.from + 1;
}

static struct span flow_join(struct span a, struct span b) {
  if (flow_length(a) == 0 || flow_length(b) == 0 || a.from > b.to + 1 || b.from > a.to + 1)
    return flow_length(a) >= flow_length(b) ? a : b;
  return (struct span){a.from < b.from ? a.from : b.from, a.to > b.to ? a.to : b.to};
}

static struct span flow_behind(const struct flow_item *item) {
  return (struct span){item->reach_from, item->reach_to};
}

/* Whoever comes to an item comes to its sites, unless it has none, and to what is behind it. */
static struct span from_item_on(const struct flow_work *work, uint32_t item) {
  const struct flow_item *is = &work->flow->items[item];
  if (work->sites[item] == 0)
    return flow_behind(is);
  return flow_join((struct span){is->order, work->end[item]}, flow_behind(is));
}

/* Arcs between the items of one loop, or of the body. */
static uint32_t forward_arcs(struct flow_work *work) {
  const struct flow_item *items = work->flow->items;
  struct flow_arc *arc = work->kept;
  for (uint32_t i = 0; i < work->graph->nedges; i++) {
    const struct flow_edge *edge = &work->graph->edges[i];
    if (!items[edge->from].reached)
      continue;
    uint32_t loop = flow_common_loop(work, items[edge->from].around, items[edge->to].around);
    uint32_t from = edge->from, to = edge->to;
    if (loop != FLOW_NONE && to == work->head[loop])
      continue;
    while (items[from].around != loop)
      from = items[from].around;
    while (items[to].around != loop)
      to = items[to].around;
    if (from != to)
      *arc++ = (struct flow_arc){from, to};
  }
  return (uint32_t)(arc - work->kept);
}

static void reach_in(struct flow_work *work, const struct flow_lists *next, uint32_t first) {
  uint32_t count = 0;
  for (uint32_t item = first; item != FLOW_NONE; item = work->sibling[item])
    work->stack[count++] = item;
  while (count > 0) {
    uint32_t item = work->stack[--count];
    struct span span = nothing;
    for (uint32_t i = next->start[item]; i < next->start[item + 1]; i++)
      span = flow_join(span, from_item_on(work, next->items[i]));
    work->flow->items[item].reach_from = (uint16_t)span.from;
    work->flow->items[item].reach_to = (uint16_t)span.to;
  }
}

bool flow_find_reach(struct flow_work *work) {
  const struct flow *flow = work->flow;
  struct flow_lists next;
  uint32_t narcs = forward_arcs(work);
  for (uint32_t item = 0; item < flow->nitems; item++)
    work->flow->items[item].reach_from = nothing.from;
  if (!flow_lists_make(&next, flow->nitems, work->kept, narcs, false))
    return false;
  for (uint32_t loop = flow->nblocks; loop < flow->nitems; loop++)
    reach_in(work, &next, work->child[loop]);
  reach_in(work, &next, work->child[flow->nitems]);
  flow_lists_drop(&next);
  return true;
}
