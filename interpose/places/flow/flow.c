/* The analysis of one function's control flow, and the nodes it gives: see flow.h. Its steps, in
 * this order, are in flow_hubs.c, flow_rotate.c, flow_loops.c, flow_early.c, flow_order.c,
 * flow_span.c, flow_tests.c and flow_reach.c. */
#include "interpose/places/flow/flow_private.h"

#include <stdlib.h>

/* ---- Memory ---- */

enum { WORD_ARRAYS = 6, BOOL_ARRAYS = 6 };

static bool flow_allocate(struct flow_work *work) {
  size_t nitems =
      (size_t)2 * work->graph->nblocks + 1; /* at most a loop for each block; the body */
  size_t nedges = work->graph->nedges;
  struct flow *flow = calloc(1, sizeof *flow);
  work->flow = flow;
  if (flow == NULL)
    return false;
  flow->items = calloc(nitems, sizeof *flow->items);
  work->arcs = calloc(2 * nedges + nitems, sizeof *work->arcs);
  work->head = calloc(WORD_ARRAYS * nitems + 3 * (nedges + nitems), sizeof(uint32_t));
  work->ordinary = calloc(BOOL_ARRAYS * nitems + nedges, sizeof(bool));
  if (flow->items == NULL || work->arcs == NULL || work->head == NULL || work->ordinary == NULL)
    return false;
  work->kept = work->arcs + nedges;
  work->depth = work->head + nitems;
  work->sites = work->depth + nitems;
  work->child = work->sites + nitems;
  work->sibling = work->child + nitems;
  work->end = work->sibling + nitems;
  work->stack = work->end + nitems;
  work->alive = work->ordinary + nitems;
  work->endless = work->alive + nitems;
  work->leaves = work->endless + nitems;
  work->marked = work->leaves + nitems;
  work->late = work->marked + nitems;
  work->early = work->late + nitems;
  return true;
}

static void flow_drop(struct flow_work *work) {
  flow_dominators_drop(&work->dominators);
  flow_lists_drop(&work->next);
  flow_lists_drop(&work->previous);
  free(work->arcs);
  free(work->head);
  free(work->ordinary);
}

void flow_free(struct flow *flow) {
  if (flow == NULL)
    return;
  free(flow->items);
  free(flow);
}

void flow_end(struct flow_work *work) {
  flow_drop(work);
  flow_free(work->flow);
}

size_t flow_bytes(const struct flow *flow) {
  return sizeof *flow + flow->nitems * sizeof *flow->items;
}

/* ---- Analysis ---- */

static bool is_valid(const struct flow_graph *graph) {
  if (graph->nblocks == 0 || graph->nblocks > FLOW_BLOCKS_MAX || graph->nedges > FLOW_EDGES_MAX)
    return false;
  for (uint32_t i = 0; i < graph->nedges; i++)
    if (graph->edges[i].from >= graph->nblocks || graph->edges[i].to >= graph->nblocks)
      return false;
  return true;
}

static bool take_graph(struct flow_work *work) {
  const struct flow_graph *graph = work->graph;
  uint32_t n = graph->nblocks;
  for (uint32_t i = 0; i < graph->nedges; i++)
    work->arcs[i] = (struct flow_arc){graph->edges[i].from, graph->edges[i].to};
  /* Whoever has begun the work drops it, and frees the flow:
   * NOLINTBEGIN(clang-analyzer-unix.Malloc) */
  if (!flow_lists_make(&work->next, n, work->arcs, graph->nedges, false) ||
      !flow_lists_make(&work->previous, n, work->arcs, graph->nedges, true) ||
      !flow_dominators_make(&work->dominators, n, 0, work->arcs, graph->nedges))
    return false;
  /* NOLINTEND(clang-analyzer-unix.Malloc) */
  work->flow->nblocks = n;
  work->flow->nitems = n;
  for (uint32_t block = 0; block < n; block++) {
    work->head[block] = block;
    work->flow->items[block] =
        (struct flow_item){.around = FLOW_NONE,
                           .position = graph->blocks[block].position,
                           .reached = work->dominators.rank[block] != FLOW_NONE};
  }
  return true;
}

bool flow_begin(struct flow_work *work) {
  return is_valid(work->graph) && flow_allocate(work) && take_graph(work) && flow_find_loops(work);
}

static bool flow_analyse_work(struct flow_work *work) {
  if (!flow_begin(work) || !flow_find_alive(work))
    return false;
  if (!flow_find_early(work))
    return false;
  flow_give_orders(work);
  return flow_find_since(work) && flow_find_until(work) && flow_find_reach(work) &&
         flow_find_caught(work);
}

/* Where there is no memory for less, the larger one stays. */
static void flow_shrink(struct flow *flow) {
  struct flow_item *items = realloc(flow->items, flow->nitems * sizeof *items);
  if (items != NULL)
    flow->items = items;
}

static void note_asked(struct flow *flow, const struct flow_copy *as) {
  for (uint32_t block = 0; block < flow->nblocks; block++) {
    if (as->asked[block] != FLOW_NONE)
      flow->items[block].asked = (uint16_t)as->asked[block];
    flow->items[block].nsites = as->blocks[block].sites;
  }
}

struct flow *flow_analyse(const struct flow_graph *graph) {
  struct flow_copy hubs, as;
  if (!is_valid(graph) || !flow_find_hubs(graph, &hubs))
    return NULL;
  bool unrotated = flow_unrotate(&hubs.graph, &as);
  flow_copy_drop(&hubs);
  if (!unrotated)
    return NULL;
  struct flow_work work = {.graph = &as.graph};
  bool done = flow_analyse_work(&work);
  if (done)
    note_asked(work.flow, &as);
  flow_copy_drop(&as);
  flow_drop(&work);
  if (!done) {
    flow_free(work.flow);
    return NULL;
  }
  flow_shrink(work.flow);
  return work.flow;
}

/* ---- Nodes ---- */

/* Bijective in each of its steps, so positions of one function have ids of their own (but for 0).
 */
uint32_t flow_id(uint32_t function_id, uint32_t position) {
  uint32_t id = function_id ^ (position * 0x9E3779B1u); /* 2^32 over the golden ratio */
  id = (id ^ id >> 16) * 0x85EBCA6Bu;                   /* the finalizer of MurmurHash3 */
  id = (id ^ id >> 13) * 0xC2B2AE35u;
  id ^= id >> 16;
  return id != 0 ? id : 1;
}

static struct place_node node_of(const struct flow_item *item, uint32_t id, uint16_t flags) {
  struct place_node node = {.id = id, .flags = flags, .reach_from = 1};
  if (item->ordered) {
    node.flags |= PLACE_ORDERED | item->flags;
    node.order = item->order;
    node.since = item->since;
    node.until = item->until;
    node.reach_from = item->reach_from;
    node.reach_to = item->reach_to;
  }
  return node;
}

/* The loops around something, outermost first; from: the innermost of them. Returns how many. */
static uint32_t loops_from(const struct flow *flow, uint32_t from, uint32_t function_id,
                           struct place_node *nodes, uint32_t room) {
  uint32_t depth = 0, loop = from;
  for (; loop != FLOW_NONE; loop = flow->items[loop].around)
    depth++;
  loop = from;
  for (uint32_t at = depth; at-- > 0; loop = flow->items[loop].around) {
    const struct flow_item *item = &flow->items[loop];
    if (at < room)
      nodes[at] = node_of(item, flow_id(~function_id, item->position), PLACE_LOOP);
  }
  return depth;
}

uint32_t flow_nodes(const struct flow *flow, uint32_t block, uint32_t site, uint32_t position,
                    uint32_t function_id, struct place_node *nodes, uint32_t room) {
  if (block >= flow->nblocks || !flow->items[block].reached)
    return 0;
  /* One test of a loop has one id, wherever the compiler has put it. */
  while (flow->items[block].asked != 0 && site >= flow->items[block].nsites) {
    site -= flow->items[block].nsites;
    block = flow->items[block].asked;
    position = flow->items[block].position;
  }
  uint32_t depth = loops_from(flow, flow->items[block].around, function_id, nodes, room);
  if (depth < room) {
    nodes[depth] = node_of(&flow->items[block], flow_id(function_id, position), 0);
    if (nodes[depth].flags & PLACE_ORDERED)
      nodes[depth].order += (uint16_t)site;
  }
  return depth + 1;
}

/* Of the loop itself nothing comes before it, and what always follows it follows the call, too;
 * that is left aside. The loop may end without the call. */
uint32_t flow_nodes_leaving(const struct flow *flow, uint32_t block, uint32_t position,
                            uint32_t function_id, struct place_node *nodes, uint32_t room) {
  if (block >= flow->nblocks || !flow->items[block].reached ||
      flow->items[block].around == FLOW_NONE)
    return flow_nodes(flow, block, 0, position, function_id, nodes, room);
  const struct flow_item *left = &flow->items[flow->items[block].around];
  uint32_t depth = loops_from(flow, left->around, function_id, nodes, room);
  if (depth < room) {
    nodes[depth] = node_of(left, flow_id(function_id, position), 0);
    nodes[depth].since = nodes[depth].until = nodes[depth].order;
    nodes[depth].flags &= (uint16_t)~PLACE_ALWAYS;
  }
  return depth + 1;
}

bool flow_never_returns(const struct flow *flow, uint32_t block) {
  return block < flow->nblocks && flow->items[block].reached && !flow->items[block].returns;
}
