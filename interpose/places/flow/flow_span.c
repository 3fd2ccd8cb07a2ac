/* since and until, for each loop's own items (and those of the function's body). Called by
 * flow_analyse.
 *
 * since: a loop's items, with the loops inside it as one node each, are a graph whose one exit
 * stands for going round, leaving and returning. Of all loops that is one graph, since no arc leads
 * from one's items to another's; post-dominance is dominance in it, backwards from the exit.
 *
 * until: dominance within a loop is dominance in the function. */
#include "interpose/places/flow/flow_private.h"

/* ---- Which edges count ---- */

/* An exception counts only where no ordinary way leads on. Early ways out do not count, nor do ways
 * that come to no end. */
static bool counts_for_since(const struct flow_work *work, uint32_t i) {
  const struct flow_edge *edge = &work->graph->edges[i];
  if (!flow_is_reached(work, edge->from) || work->early[i])
    return false;
  if (work->ordinary[edge->from])
    return !edge->exceptional &&
           (work->ordinary[edge->to] || flow_goes_on_forever(work, work->arcs[i]));
  return work->alive[edge->from] && work->alive[edge->to];
}

/* An exception counts only where no ordinary way leads to. ordinary: blocks reached without one. */
static bool counts_for_until(const bool *ordinary, const struct flow_edge *edge) {
  if (ordinary[edge->to])
    return !edge->exceptional && ordinary[edge->from];
  return true;
}

/* ---- The graph of since ---- */

/* From item all loops around it are left, but not the one named. Returns the item of that one
 * which block is in. From here on leaves says which items have an arc to the exit. */
static uint32_t flow_leave(struct flow_work *work, uint32_t item, uint32_t up_to) {
  const struct flow_item *items = work->flow->items;
  while (items[item].around != up_to) {
    work->leaves[item] = true;
    item = items[item].around;
  }
  return item;
}

static struct flow_arc *add_edge(struct flow_work *work, struct flow_arc *arc,
                                 const struct flow_edge *edge) {
  const struct flow_item *items = work->flow->items;
  uint32_t loop = flow_common_loop(work, items[edge->from].around, items[edge->to].around);
  uint32_t from = flow_leave(work, edge->from, loop);
  if (loop != FLOW_NONE && edge->to == work->head[loop]) {
    work->leaves[from] = true;
    return arc;
  }
  uint32_t to = edge->to;
  while (items[to].around != loop)
    to = items[to].around;
  if (from != to)
    *arc++ = (struct flow_arc){to, from};
  return arc;
}

/* The graph backwards, from its exit, which stands behind the items. */
static uint32_t reversed_graph(struct flow_work *work) {
  const struct flow *flow = work->flow;
  struct flow_arc *arc = work->kept;
  for (uint32_t loop = flow->nblocks; loop < flow->nitems; loop++)
    if (work->endless[loop])
      work->leaves[flow_leave(work, loop, FLOW_NONE)] = true;
  for (uint32_t block = 0; block < flow->nblocks; block++) {
    const struct flow_block *is = &work->graph->blocks[block];
    bool ends = is->returns || work->next.start[block] == work->next.start[block + 1];
    if (flow_is_reached(work, block) && ends && work->alive[block])
      work->leaves[flow_leave(work, block, FLOW_NONE)] = true;
  }
  for (uint32_t i = 0; i < work->graph->nedges; i++)
    if (counts_for_since(work, i))
      arc = add_edge(work, arc, &work->graph->edges[i]);
  for (uint32_t item = 0; item < flow->nitems; item++)
    if (work->leaves[item])
      *arc++ = (struct flow_arc){flow->nitems, item};
  return (uint32_t)(arc - work->kept);
}

/* ---- Runs ---- */

/* An item and the farthest order that it is tied to, items between included. */
struct run {
  uint32_t item;
  uint16_t reach;
};

/* Joins to item's run all runs next to it whose items are below it in the tree: so are their runs.
 */
static uint16_t join_runs(const struct flow_dominators *tree, struct run *runs, uint32_t *nruns,
                          struct run run, const uint32_t *block_of) {
  uint32_t by = block_of == NULL ? run.item : block_of[run.item];
  while (*nruns > 0) {
    struct run before = runs[*nruns - 1];
    if (!flow_dominates(tree, by, block_of == NULL ? before.item : block_of[before.item]))
      break;
    run.reach = before.reach;
    (*nruns)--;
  }
  runs[(*nruns)++] = run;
  return run.reach;
}

static struct run *runs_of(struct flow_work *work) {
  _Static_assert(sizeof(struct run) == 2 * sizeof(uint32_t), "two words of the stack each");
  return (struct run *)(void *)work->stack;
}

static void since_in(struct flow_work *work, const struct flow_dominators *tree, uint32_t first) {
  uint32_t nruns = 0;
  for (uint32_t item = first; item != FLOW_NONE; item = work->sibling[item]) {
    if (work->sites[item] == 0)
      continue;
    struct flow_item *of = &work->flow->items[item];
    of->since = join_runs(tree, runs_of(work), &nruns, (struct run){item, of->order}, NULL);
  }
}

/* The item of a loop that a block is, or is in; FLOW_NONE: it is in none. */
static uint32_t item_in_loop(const struct flow_work *work, uint32_t loop, uint32_t block) {
  const struct flow_item *items = work->flow->items;
  uint32_t item = block;
  while (item != FLOW_NONE && items[item].around != loop)
    item = items[item].around;
  return item;
}

/* Edges from the heads of loops, listed by loop, in the stack: the first one's number, and behind
 * them each one's next. */
struct head_edges {
  uint32_t *first, *next;
};

static struct head_edges edges_of_heads(struct flow_work *work) {
  const struct flow_graph *graph = work->graph;
  struct head_edges edges = {work->stack, work->stack + work->flow->nitems};
  for (uint32_t loop = work->flow->nblocks; loop < work->flow->nitems; loop++)
    edges.first[loop] = FLOW_NONE;
  for (uint32_t i = 0; i < graph->nedges; i++) {
    uint32_t loop = work->flow->items[graph->edges[i].from].around;
    if (loop == FLOW_NONE || work->head[loop] != graph->edges[i].from || !counts_for_since(work, i))
      continue;
    edges.next[i] = edges.first[loop];
    edges.first[loop] = i;
  }
  return edges;
}

/* Whether a round may end in the loop's head, where others do not. */
static bool is_left_by_its_head(const struct flow_work *work, const struct head_edges *edges,
                                uint32_t loop) {
  bool leaves = work->graph->blocks[work->head[loop]].returns, goes_on = false;
  for (uint32_t i = edges->first[loop]; i != FLOW_NONE; i = edges->next[i]) {
    uint32_t next = item_in_loop(work, loop, work->graph->edges[i].to);
    leaves |= next == FLOW_NONE;
    goes_on |= next != FLOW_NONE && next != work->head[loop];
  }
  return leaves && goes_on;
}

/* Whether an item of a loop follows on every way from the head that does not leave the loop at
 * once. The head does itself, if no way does, or if there is nothing else. */
static bool is_of_each_round(const struct flow_work *work, const struct flow_dominators *tree,
                             const struct head_edges *edges, uint32_t loop, uint32_t item) {
  if (item == work->head[loop])
    return !is_left_by_its_head(work, edges, loop);
  bool is_one = false;
  for (uint32_t i = edges->first[loop]; i != FLOW_NONE; i = edges->next[i]) {
    uint32_t to = work->graph->edges[i].to;
    uint32_t next = to == work->head[loop] ? FLOW_NONE : item_in_loop(work, loop, to);
    if (next != FLOW_NONE && next != item && !flow_dominates(tree, item, next))
      return false;
    is_one |= next != FLOW_NONE;
  }
  return is_one;
}

/* Whether an item of the function's body follows on every way from its beginning. */
static bool is_of_each_call(const struct flow_work *work, const struct flow_dominators *tree,
                            uint32_t item) {
  uint32_t begin = item_in_loop(work, FLOW_NONE, 0);
  return item == begin || flow_dominates(tree, item, begin);
}

static void flag_always(struct flow_work *work, const struct flow_dominators *tree) {
  struct head_edges edges = edges_of_heads(work);
  struct flow_item *items = work->flow->items;
  for (uint32_t loop = work->flow->nblocks; loop < work->flow->nitems; loop++)
    for (uint32_t item = work->child[loop]; item != FLOW_NONE; item = work->sibling[item])
      if (work->sites[item] > 0 && is_of_each_round(work, tree, &edges, loop, item))
        items[item].flags |= PLACE_ALWAYS;
  for (uint32_t item = work->child[work->flow->nitems]; item != FLOW_NONE;
       item = work->sibling[item])
    if (work->sites[item] > 0 && is_of_each_call(work, tree, item))
      items[item].flags |= PLACE_ALWAYS;
}

static void until_in(struct flow_work *work, const struct flow_dominators *tree, uint32_t first) {
  uint32_t count = 0;
  uint32_t nruns = 0;
  uint32_t *items = work->stack + (size_t)2 * work->flow->nitems; /* behind the runs */
  for (uint32_t item = first; item != FLOW_NONE; item = work->sibling[item])
    if (work->sites[item] > 0)
      items[count++] = item;
  while (count > 0) {
    uint32_t item = items[--count];
    struct run run = {item, (uint16_t)work->end[item]};
    work->flow->items[item].until = join_runs(tree, runs_of(work), &nruns, run, work->head);
  }
}

/* ---- The two steps ---- */

static void in_each_loop(struct flow_work *work, const struct flow_dominators *tree,
                         void (*find)(struct flow_work *, const struct flow_dominators *,
                                      uint32_t)) {
  for (uint32_t loop = work->flow->nblocks; loop < work->flow->nitems; loop++)
    find(work, tree, work->child[loop]);
  find(work, tree, work->child[work->flow->nitems]);
}

bool flow_find_since(struct flow_work *work) {
  uint32_t exit = work->flow->nitems;
  struct flow_dominators tree;
  uint32_t narcs = reversed_graph(work);
  if (!flow_dominators_make(&tree, exit + 1, exit, work->kept, narcs))
    return false;
  in_each_loop(work, &tree, since_in);
  bool found = flow_find_tests(work, &tree);
  if (found)
    flag_always(work, &tree);
  flow_dominators_drop(&tree);
  return found;
}

bool flow_find_until(struct flow_work *work) {
  const struct flow_graph *graph = work->graph;
  struct flow_lists next;
  uint32_t narcs = 0;
  for (uint32_t i = 0; i < graph->nedges; i++)
    if (!graph->edges[i].exceptional)
      work->kept[narcs++] = work->arcs[i];
  if (!flow_lists_make(&next, graph->nblocks, work->kept, narcs, false))
    return false;
  work->marked[0] = true;
  flow_reach(&next, graph->nblocks, work->marked, work->stack);
  flow_lists_drop(&next);

  struct flow_dominators tree;
  narcs = 0;
  for (uint32_t i = 0; i < graph->nedges; i++)
    if (counts_for_until(work->marked, &graph->edges[i]))
      work->kept[narcs++] = work->arcs[i];
  if (!flow_dominators_make(&tree, graph->nblocks, 0, work->kept, narcs))
    return false;
  in_each_loop(work, &tree, until_in);
  flow_dominators_drop(&tree);
  return true;
}
