/* reach_from and reach_to: what control can come to from an item before the loop around it goes
 * round. Called by flow_analyse.
 *
 * What can be reached is some spans of orders, put together from behind, in the order of the items:
 * the two halves of a branch stand between what comes before and after it. An item keeps the
 * longest span; more than SPANS_MAX apart are not followed. What comes to no end, and what only
 * early ways out lead to, is in none: it stands behind all else, and checks of errors would make
 * one span of it that is longer than those of the program's own way. */
#include "interpose/places/flow/flow_private.h"

#include <stdlib.h>

#define SPANS_MAX 4u

struct span {
  uint32_t from, to;
};

/* No two of them touch. */
struct flow_spans {
  uint32_t nspans;
  struct span spans[SPANS_MAX];
};

static uint32_t flow_length(struct span span) {
  return span.to - span.from + 1;
}

static uint32_t flow_shortest(const struct flow_spans *reach) {
  uint32_t shortest = 0;
  for (uint32_t i = 1; i < reach->nspans; i++)
    if (flow_length(reach->spans[i]) < flow_length(reach->spans[shortest]))
      shortest = i;
  return shortest;
}

static void flow_add_span(struct flow_spans *reach, struct span span) {
  uint32_t kept = 0;
  for (uint32_t i = 0; i < reach->nspans; i++) {
    struct span old = reach->spans[i];
    if (old.from > span.to + 1 || span.from > old.to + 1) {
      reach->spans[kept++] = old;
      continue;
    }
    span.from = span.from < old.from ? span.from : old.from;
    span.to = span.to > old.to ? span.to : old.to;
  }
  reach->nspans = kept;
  uint32_t at = kept < SPANS_MAX ? reach->nspans++ : flow_shortest(reach);
  if (kept < SPANS_MAX || flow_length(span) > flow_length(reach->spans[at]))
    reach->spans[at] = span;
}

/* Whoever comes to an item comes to its sites, unless it has none, and to what is behind it. */
static void flow_add_item(const struct flow_work *work, struct flow_spans *reach,
                          const struct flow_spans *behind, uint32_t item) {
  uint32_t block = work->head[item];
  if (work->sites[item] != 0 && work->alive[block] && !work->late[block])
    flow_add_span(reach, (struct span){work->flow->items[item].order, work->end[item]});
  for (uint32_t i = 0; i < behind->nspans; i++)
    flow_add_span(reach, behind->spans[i]);
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

static void flow_keep_longest(struct flow_item *item, const struct flow_spans *reach) {
  uint32_t longest = 0;
  for (uint32_t i = 1; i < reach->nspans; i++)
    if (flow_length(reach->spans[i]) > flow_length(reach->spans[longest]))
      longest = i;
  item->reach_from = (uint16_t)(reach->nspans == 0 ? 1 : reach->spans[longest].from);
  item->reach_to = (uint16_t)(reach->nspans == 0 ? 0 : reach->spans[longest].to);
}

static void reach_in(struct flow_work *work, const struct flow_lists *next,
                     struct flow_spans *reaches, uint32_t first) {
  uint32_t count = 0;
  for (uint32_t item = first; item != FLOW_NONE; item = work->sibling[item])
    work->stack[count++] = item;
  while (count > 0) {
    uint32_t item = work->stack[--count];
    for (uint32_t i = next->start[item]; i < next->start[item + 1]; i++)
      flow_add_item(work, &reaches[item], &reaches[next->items[i]], next->items[i]);
    flow_keep_longest(&work->flow->items[item], &reaches[item]);
  }
}

bool flow_find_reach(struct flow_work *work) {
  const struct flow *flow = work->flow;
  struct flow_lists next;
  uint32_t narcs = forward_arcs(work);
  for (uint32_t item = 0; item < flow->nitems; item++)
    work->flow->items[item].reach_from = 1; /* to 0: nothing */
  struct flow_spans *reaches = calloc((size_t)flow->nitems + 1, sizeof(*reaches));
  bool made = reaches != NULL && flow_lists_make(&next, flow->nitems, work->kept, narcs, false);
  for (uint32_t loop = flow->nblocks; made && loop < flow->nitems; loop++)
    reach_in(work, &next, reaches, work->child[loop]);
  if (made) {
    reach_in(work, &next, reaches, work->child[flow->nitems]);
    flow_lists_drop(&next);
  }
  free(reaches);
  return made;
}
