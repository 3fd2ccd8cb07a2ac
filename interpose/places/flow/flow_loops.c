/* Natural loops, and what lies in cycles that are none. Called by flow_analyse. */
#include "interpose/places/flow/flow_private.h"

#include <string.h>

/* The outermost loop found so far around loop. up holds shorter ways. */
static uint32_t flow_outermost(const struct flow_item *items, uint32_t *up, uint32_t loop) {
  while (items[loop].around != FLOW_NONE) {
    if (up[loop] == FLOW_NONE)
      up[loop] = items[loop].around;
    if (up[up[loop]] != FLOW_NONE)
      up[loop] = up[up[loop]];
    loop = up[loop];
  }
  return loop;
}

static uint32_t push_previous(const struct flow_work *work, uint32_t block, uint32_t depth) {
  for (uint32_t i = work->previous.start[block]; i < work->previous.start[block + 1]; i++)
    if (flow_is_reached(work, work->previous.items[i]))
      work->stack[depth++] = work->previous.items[i];
  return depth;
}

/* Pushes the blocks from which control goes back to head. */
static uint32_t push_latches(const struct flow_work *work, uint32_t head) {
  uint32_t depth = 0;
  for (uint32_t i = work->previous.start[head]; i < work->previous.start[head + 1]; i++)
    if (flow_dominates(&work->dominators, head, work->previous.items[i]))
      work->stack[depth++] = work->previous.items[i];
  return depth;
}

/* All that reaches what is on the stack without head. Inner loops are there already: one step. */
static void collect_body(struct flow_work *work, uint32_t loop, uint32_t depth) {
  struct flow_item *items = work->flow->items;
  uint32_t *up = work->child; /* not in use yet */
  while (depth > 0) {
    uint32_t block = work->stack[--depth];
    if (items[block].around == FLOW_NONE) {
      items[block].around = loop;
      depth = push_previous(work, block, depth);
      continue;
    }
    uint32_t inner = flow_outermost(items, up, items[block].around);
    if (inner == loop)
      continue;
    items[inner].around = loop;
    depth = push_previous(work, work->head[inner], depth);
  }
}

/* Inner heads have a higher rank than those of the loops around them. */
static void find_bodies(struct flow_work *work) {
  struct flow *flow = work->flow;
  for (uint32_t rank = work->dominators.nreached; rank-- > 0;) {
    uint32_t head = work->dominators.reverse_postorder[rank];
    uint32_t depth = push_latches(work, head);
    if (depth == 0)
      continue;
    uint32_t loop = flow->nitems++;
    flow->items[loop] = (struct flow_item){.around = FLOW_NONE,
                                           .position = flow->items[head].position,
                                           .reached = true,
                                           .ordered = true};
    work->head[loop] = head;
    work->child[loop] = FLOW_NONE;
    flow->items[head].around = loop; /* in no loop yet: only a head of lower rank dominates it */
    collect_body(work, loop, depth);
  }
}

static bool find_depths(struct flow_work *work) {
  const struct flow *flow = work->flow;
  for (uint32_t loop = flow->nitems; loop-- > flow->nblocks;) {
    work->depth[loop] = flow_depth(work, flow->items[loop].around) + 1;
    if (work->depth[loop] > FLOW_DEPTH_MAX)
      return false;
  }
  return true;
}

uint32_t flow_common_loop(const struct flow_work *work, uint32_t a, uint32_t b) {
  while (a != b) {
    if (flow_depth(work, a) > flow_depth(work, b))
      a = work->flow->items[a].around;
    else
      b = work->flow->items[b].around;
  }
  return a;
}

static void count_sites(struct flow_work *work) {
  const struct flow *flow = work->flow;
  for (uint32_t i = 0; i < flow->nitems; i++) {
    if (i < flow->nblocks)
      work->sites[i] = flow->items[i].reached ? work->graph->blocks[i].sites : 0;
    if (flow->items[i].around != FLOW_NONE)
      work->sites[flow->items[i].around] += work->sites[i];
  }
}

/* Every cycle that is no natural loop has an edge to a lower rank whose target does not dominate
 * its source, and the cycle's blocks have ranks between the two. */
static void find_irreducible(struct flow_work *work) {
  const struct flow_dominators *tree = &work->dominators;
  uint32_t *covered = work->stack; /* changes of how many such edges lie over a rank */
  memset(covered, 0, ((size_t)tree->nreached + 1) * sizeof *covered);
  for (uint32_t i = 0; i < work->graph->nedges; i++) {
    struct flow_arc arc = work->arcs[i];
    if (!flow_is_reached(work, arc.from) || tree->rank[arc.from] < tree->rank[arc.to] ||
        flow_dominates(tree, arc.to, arc.from))
      continue;
    covered[tree->rank[arc.to]]++;
    covered[tree->rank[arc.from] + 1]--;
  }
  uint32_t over = 0;
  for (uint32_t rank = 0; rank < tree->nreached; rank++) {
    over += covered[rank];
    work->flow->items[tree->reverse_postorder[rank]].ordered = over == 0;
  }
  for (uint32_t loop = work->flow->nblocks; loop < work->flow->nitems; loop++)
    work->flow->items[loop].ordered = work->flow->items[work->head[loop]].ordered;
}

bool flow_find_loops(struct flow_work *work) {
  find_bodies(work);
  if (!find_depths(work))
    return false;
  count_sites(work);
  find_irreducible(work);
  return true;
}
