/* Early ways out of loops, which since leaves aside (flow.h). Called by flow_analyse. */
#include "interpose/places/flow/flow_private.h"

/* Until orders are given: the outermost loop around a block, or FLOW_NONE. */
static uint32_t *early_outermost(struct flow_work *work) {
  const struct flow *flow = work->flow;
  uint32_t *outermost = work->end;
  for (uint32_t i = flow->nitems; i-- > 0;) { /* loops stand behind what is in them */
    uint32_t around = flow->items[i].around;
    outermost[i] = around != FLOW_NONE ? outermost[around] : i < flow->nblocks ? FLOW_NONE : i;
  }
  return outermost;
}

/* Whether an edge leads out of all loops around where it comes from. */
static bool early_is_way_out(const struct flow_work *work, const uint32_t *outermost,
                             const struct flow_edge *edge) {
  return flow_is_reached(work, edge->from) && !edge->exceptional &&
         outermost[edge->from] != FLOW_NONE && outermost[edge->to] != outermost[edge->from];
}

/* Marks the blocks in which an outermost loop decides whether it goes round: its head, and those
 * that lead to the head. */
static void early_mark_deciding(struct flow_work *work, const uint32_t *outermost, bool *deciding) {
  for (uint32_t loop = work->flow->nblocks; loop < work->flow->nitems; loop++)
    if (outermost[loop] == loop)
      deciding[work->head[loop]] = true;
  for (uint32_t i = 0; i < work->graph->nedges; i++) {
    const struct flow_edge *edge = &work->graph->edges[i];
    uint32_t loop = outermost[edge->from];
    if (loop != FLOW_NONE && edge->to == work->head[loop])
      deciding[edge->from] = true;
  }
}

/* Marks a block, and what follows it while nothing is done or decided. */
static void early_mark_behind(const struct flow_work *work, uint32_t block, bool *behind) {
  while (!behind[block]) {
    behind[block] = true;
    uint32_t next = work->next.start[block];
    if (work->graph->blocks[block].sites == 0 && work->next.start[block + 1] - next == 1)
      block = work->next.items[next];
  }
}

/* Whether control comes from a block to one of those that are marked, or to many blocks. */
static bool early_comes_to(const struct flow_work *work, uint32_t block, const bool *marked) {
  uint32_t blocks[FLOW_EARLY_MAX], count = 0;
  blocks[count++] = block;
  for (uint32_t at = 0; at < count; at++) {
    if (marked[blocks[at]])
      return true;
    for (uint32_t i = work->next.start[blocks[at]]; i < work->next.start[blocks[at] + 1]; i++) {
      uint32_t known = 0;
      while (known < count && blocks[known] != work->next.items[i])
        known++;
      if (known < count)
        continue;
      if (count == FLOW_EARLY_MAX)
        return true;
      blocks[count++] = work->next.items[i];
    }
  }
  return false;
}

/* Edges from which early ways out begin. False: no memory. */
static bool early_mark(struct flow_work *work) {
  const struct flow_graph *graph = work->graph;
  const uint32_t *outermost = early_outermost(work);
  bool *deciding = work->leaves, *behind = work->marked, *ends = work->late;
  early_mark_deciding(work, outermost, deciding);
  for (uint32_t i = 0; i < graph->nedges; i++) {
    const struct flow_edge *edge = &graph->edges[i];
    if (deciding[edge->from] && work->ordinary[edge->to] &&
        early_is_way_out(work, outermost, edge)) {
      early_mark_behind(work, edge->to, behind);
      ends[outermost[edge->from]] = true;
    }
  }
  for (uint32_t i = 0; i < graph->nedges; i++) {
    const struct flow_edge *edge = &graph->edges[i];
    work->early[i] = !deciding[edge->from] && early_is_way_out(work, outermost, edge) &&
                     ends[outermost[edge->from]] && !early_comes_to(work, edge->to, behind);
  }
  for (uint32_t i = 0; i < work->flow->nitems; i++)
    deciding[i] = false; /* as it was */
  /* What comes to an end keeps a way there. */
  bool found = flow_find_ordinary(work, work->marked);
  for (uint32_t i = 0; i < graph->nedges; i++)
    work->early[i] &= work->marked[graph->edges[i].from];
  return found;
}

/* Marks the blocks that control comes to by early ways out alone, but those from which it comes to
 * a site that it comes to otherwise, too: these cannot come last. False: no memory. */
static bool early_mark_late(struct flow_work *work) {
  const struct flow_graph *graph = work->graph;
  struct flow_lists next;
  uint32_t narcs = 0;
  for (uint32_t i = 0; i < graph->nedges; i++)
    if (!work->early[i])
      work->kept[narcs++] = work->arcs[i];
  if (!flow_lists_make(&next, graph->nblocks, work->kept, narcs, false))
    return false;
  for (uint32_t block = 0; block < graph->nblocks; block++)
    work->late[block] = block == 0;
  flow_reach(&next, graph->nblocks, work->late, work->stack);
  flow_lists_drop(&next);
  for (uint32_t block = 0; block < graph->nblocks; block++) {
    work->marked[block] = work->late[block] && graph->blocks[block].sites > 0;
    work->late[block] = !work->late[block];
  }
  flow_reach(&work->previous, graph->nblocks, work->marked, work->stack);
  for (uint32_t block = 0; block < graph->nblocks; block++)
    work->late[block] &= !work->marked[block];
  return true;
}

bool flow_find_early(struct flow_work *work) {
  bool found = early_mark(work) && early_mark_late(work);
  for (uint32_t block = 0; block < work->flow->nblocks; block++)
    work->marked[block] = false; /* as it was */
  return found;
}
