/* What comes to an end, and the order. Called by flow_analyse. */
#include "interpose/places/flow/flow_private.h"

/* ---- What can reach a return ---- */

/* The loops around block that are inside of the one named are left. */
static void are_left(struct flow_work *work, uint32_t block, uint32_t up_to) {
  for (uint32_t loop = work->flow->items[block].around; loop != up_to;
       loop = work->flow->items[loop].around)
    work->endless[loop] = false;
}

/* Marks loops that are not left, unless by an exception. */
static void mark_endless(struct flow_work *work) {
  const struct flow_item *items = work->flow->items;
  for (uint32_t loop = work->flow->nblocks; loop < work->flow->nitems; loop++)
    work->endless[loop] = true;
  for (uint32_t i = 0; i < work->graph->nedges; i++) {
    const struct flow_edge *edge = &work->graph->edges[i];
    if (items[edge->from].reached && !edge->exceptional)
      are_left(work, edge->from,
               flow_common_loop(work, items[edge->from].around, items[edge->to].around));
  }
  for (uint32_t block = 0; block < work->flow->nblocks; block++)
    if (items[block].reached && work->graph->blocks[block].returns)
      are_left(work, block, FLOW_NONE);
}

bool flow_goes_on_forever(const struct flow_work *work, struct flow_arc edge) {
  uint32_t loop = work->flow->items[edge.to].around;
  return loop != FLOW_NONE && work->head[loop] == edge.to && work->endless[loop] &&
         flow_dominates(&work->dominators, edge.to, edge.from);
}

/* Marks blocks from which a return is reached, or what goes round a loop without end. */
static bool reach_ends(struct flow_work *work, bool *marked, bool with_exceptions, bool any_end) {
  const struct flow *flow = work->flow;
  uint32_t narcs = 0;
  for (uint32_t block = 0; block < flow->nblocks; block++)
    marked[block] = work->graph->blocks[block].returns ||
                    (any_end && work->next.start[block] == work->next.start[block + 1]);
  for (uint32_t i = 0; i < work->graph->nedges; i++) {
    if (work->early[i] || (work->graph->edges[i].exceptional && !with_exceptions))
      continue;
    work->kept[narcs++] = work->arcs[i];
    if (flow_goes_on_forever(work, work->arcs[i]))
      marked[work->arcs[i].from] = true;
  }
  struct flow_lists previous;
  if (!flow_lists_make(&previous, flow->nblocks, work->kept, narcs, true))
    return false;
  flow_reach(&previous, flow->nblocks, marked, work->stack);
  flow_lists_drop(&previous);
  return true;
}

bool flow_find_alive(struct flow_work *work) {
  mark_endless(work);
  bool any_end = false;
  if (!reach_ends(work, work->alive, true, any_end))
    return false;
  for (uint32_t block = 0; block < work->flow->nblocks; block++)
    work->flow->items[block].returns = work->alive[block];
  any_end = !work->alive[0];
  return (!any_end || reach_ends(work, work->alive, true, any_end)) &&
         reach_ends(work, work->ordinary, false, any_end);
}

bool flow_find_ordinary(struct flow_work *work, bool *marked) {
  return reach_ends(work, marked, false, !work->flow->items[0].returns);
}

bool flow_find_caught(struct flow_work *work) {
  struct flow_item *items = work->flow->items;
  struct flow_lists next;
  uint32_t narcs = 0;
  for (uint32_t i = 0; i < work->graph->nedges; i++)
    if (!work->graph->edges[i].exceptional)
      work->kept[narcs++] = work->arcs[i];
  if (!flow_lists_make(&next, work->flow->nblocks, work->kept, narcs, false))
    return false;
  for (uint32_t block = 0; block < work->flow->nblocks; block++)
    work->marked[block] = block == 0;
  flow_reach(&next, work->flow->nblocks, work->marked, work->stack);
  flow_lists_drop(&next);
  for (uint32_t item = 0; item < work->flow->nitems; item++)
    if (!work->marked[work->head[item]])
      items[item].flags |= PLACE_CAUGHT;
  return true;
}

/* ---- Order ---- */

static void put_first(struct flow_work *work, uint32_t item) {
  uint32_t list = flow_list_of(work, work->flow->items[item].around);
  work->sibling[item] = work->child[list];
  work->child[list] = item;
}

/* A loop is entered at its head alone, so ranks of heads order loops and blocks among themselves.
 */
static void list_children(struct flow_work *work) {
  const struct flow *flow = work->flow;
  work->child[flow->nitems] = FLOW_NONE;
  for (uint32_t loop = flow->nblocks; loop < flow->nitems; loop++)
    work->child[loop] = FLOW_NONE;
  for (int turn = 0; turn <= 2; turn++) { /* from the last ones on */
    for (uint32_t rank = work->dominators.nreached; rank-- > 0;) {
      uint32_t block = work->dominators.reverse_postorder[rank];
      if (turn != (!work->alive[block] ? 0 : work->late[block] ? 1 : 2))
        continue;
      put_first(work, block);
      uint32_t loop = flow->items[block].around;
      if (loop != FLOW_NONE && work->head[loop] == block)
        put_first(work, loop);
    }
  }
}

static void give_order(struct flow_work *work, uint32_t item, uint32_t order, uint32_t last) {
  work->flow->items[item].order = (uint16_t)order;
  work->end[item] = last;
}

void flow_give_orders(struct flow_work *work) {
  const struct flow *flow = work->flow;
  uint32_t last = 0;
  uint32_t loop = FLOW_NONE;
  list_children(work);
  uint32_t item = work->child[flow->nitems];
  for (;;) {
    if (item == FLOW_NONE) {
      if (loop == FLOW_NONE)
        break;
      work->end[loop] = last;
      item = work->sibling[loop];
      loop = flow->items[loop].around;
    } else if (work->sites[item] > 0 && item >= flow->nblocks) {
      last++;
      give_order(work, item, last, last);
      loop = item;
      item = work->child[item];
    } else {
      if (work->sites[item] > 0)
        give_order(work, item, last + 1, last + work->sites[item]);
      last += item < flow->nblocks ? work->sites[item] : 0;
      item = work->sibling[item];
    }
  }
  for (uint32_t i = 0; i < flow->nitems && last > UINT16_MAX; i++)
    work->flow->items[i].ordered = false;
}
