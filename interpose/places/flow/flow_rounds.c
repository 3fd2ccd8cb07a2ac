/* Loops for code that is not analysed yet: see flow_rounds.h. */
#include "interpose/places/flow/flow_rounds.h"

#include <stdlib.h>
#include <string.h>

#include "interpose/places/flow/flow_private.h"

struct flow_rounds {
  struct flow_copy hubs;            /* the graph, with the hubs of flow_hubs.c behind its blocks */
  struct flow_work work;            /* of that */
  struct flow_lists ahead;          /* blocks behind a block, ways round a loop left out */
  struct flow_lists next, previous; /* of the graph itself */
  uint32_t nblocks;                 /* ... and its blocks; those behind them are hubs */
};

static bool make_ahead(struct flow_rounds *rounds) {
  struct flow_work *work = &rounds->work;
  uint32_t kept = 0;
  for (uint32_t i = 0; i < work->graph->nedges; i++)
    if (!flow_dominates(&work->dominators, work->arcs[i].to, work->arcs[i].from))
      work->kept[kept++] = work->arcs[i];
  return flow_lists_make(&rounds->ahead, work->graph->nblocks, work->kept, kept, false);
}

static bool make_lists(struct flow_rounds *rounds, const struct flow_graph *graph) {
  struct flow_arc *arcs = calloc((size_t)graph->nedges + 1, sizeof *arcs);
  for (uint32_t i = 0; arcs != NULL && i < graph->nedges; i++)
    arcs[i] = (struct flow_arc){graph->edges[i].from, graph->edges[i].to};
  bool made = arcs != NULL &&
              flow_lists_make(&rounds->next, graph->nblocks, arcs, graph->nedges, false) &&
              flow_lists_make(&rounds->previous, graph->nblocks, arcs, graph->nedges, true);
  free(arcs);
  return made;
}

struct flow_rounds *flow_rounds_make(const struct flow_graph *graph) {
  struct flow_rounds *rounds = calloc(1, sizeof *rounds);
  if (rounds == NULL)
    return NULL;
  rounds->nblocks = graph->nblocks;
  rounds->work.graph = &rounds->hubs.graph;
  if (flow_find_hubs(graph, &rounds->hubs) && flow_begin(&rounds->work) && make_ahead(rounds) &&
      make_lists(rounds, graph))
    return rounds;
  flow_rounds_free(rounds);
  return NULL;
}

void flow_rounds_free(struct flow_rounds *rounds) {
  if (rounds == NULL)
    return;
  flow_lists_drop(&rounds->previous);
  flow_lists_drop(&rounds->next);
  flow_lists_drop(&rounds->ahead);
  flow_end(&rounds->work);
  flow_copy_drop(&rounds->hubs);
  free(rounds);
}

uint32_t flow_rounds_order(const struct flow_rounds *rounds, uint32_t *order) {
  const struct flow_dominators *dominators = &rounds->work.dominators;
  uint32_t count = 0;
  for (uint32_t i = 0; i < dominators->nreached; i++)
    if (dominators->reverse_postorder[i] < rounds->nblocks)
      order[count++] = dominators->reverse_postorder[i];
  return count;
}

uint32_t flow_rounds_loop(const struct flow_rounds *rounds, uint32_t block) {
  return rounds->work.flow->items[block].around;
}

bool flow_rounds_around(const struct flow_rounds *rounds, uint32_t loop, uint32_t inner) {
  while (inner != loop && inner != FLOW_NONE)
    inner = rounds->work.flow->items[inner].around;
  return inner == loop && loop != FLOW_NONE;
}

uint32_t flow_rounds_within(const struct flow_rounds *rounds, uint32_t loop) {
  return rounds->work.flow->items[loop].around;
}

uint32_t flow_rounds_depth(const struct flow_rounds *rounds, uint32_t loop) {
  uint32_t depth = 0;
  while ((loop = rounds->work.flow->items[loop].around) != FLOW_NONE)
    depth++;
  return depth;
}

uint32_t flow_rounds_outermost(const struct flow_rounds *rounds, uint32_t block, uint32_t other) {
  uint32_t found = FLOW_NONE, with = flow_rounds_loop(rounds, other);
  for (uint32_t loop = flow_rounds_loop(rounds, block);
       loop != FLOW_NONE && !flow_rounds_around(rounds, loop, with);
       loop = rounds->work.flow->items[loop].around)
    found = loop;
  return found;
}

uint32_t flow_rounds_head(const struct flow_rounds *rounds, uint32_t loop) {
  return rounds->work.head[loop];
}

/* A hub's loop begins with the entries that it leads to. */
bool flow_rounds_begins(const struct flow_rounds *rounds, uint32_t loop, uint32_t block) {
  const struct flow_lists *next = &rounds->work.next;
  if (loop == FLOW_NONE || rounds->work.head[loop] == block)
    return loop != FLOW_NONE;
  uint32_t head = rounds->work.head[loop];
  for (uint32_t i = next->start[head]; head >= rounds->nblocks && i < next->start[head + 1]; i++)
    if (next->items[i] == block)
      return true;
  return false;
}

bool flow_rounds_leads_in(const struct flow_rounds *rounds, uint32_t loop, uint32_t block) {
  return flow_dominates(&rounds->work.dominators, rounds->work.head[loop], block);
}

/* Ways to a hub that begins the loop are those from which the hub is gone to. */
bool flow_rounds_goes_round(const struct flow_rounds *rounds, uint32_t loop, uint32_t from,
                            uint32_t to) {
  const struct flow_lists *next = &rounds->work.next;
  uint32_t head = rounds->work.head[loop];
  if (head < rounds->nblocks)
    return to == head;
  bool leads = false;
  for (uint32_t i = next->start[from]; i < next->start[from + 1]; i++)
    leads |= next->items[i] == head;
  return leads && flow_rounds_begins(rounds, loop, to);
}

bool flow_rounds_through(const struct flow_rounds *rounds, uint32_t by, uint32_t block) {
  return flow_dominates(&rounds->work.dominators, by, block);
}

bool flow_rounds_leads(struct flow_rounds *rounds, uint32_t from, uint32_t to) {
  struct flow_work *work = &rounds->work;
  memset(work->marked, 0, work->graph->nblocks * sizeof *work->marked);
  work->marked[from] = true;
  flow_reach(&rounds->ahead, work->graph->nblocks, work->marked, work->stack);
  return work->marked[to];
}

bool flow_rounds_is_counted(const struct flow_rounds *rounds, uint32_t loop, uint32_t block) {
  const struct flow_graph *graph = rounds->work.graph;
  uint64_t moves = 0;
  for (uint32_t i = 0; graph->values != NULL && i < graph->nblocks; i++)
    if (flow_rounds_around(rounds, loop, flow_rounds_loop(rounds, i)))
      moves |= graph->values[i].moves;
  return graph->values != NULL &&
         (graph->values[block].counts || (graph->values[block].tests & moves) != 0);
}

const struct flow_lists *flow_rounds_previous(const struct flow_rounds *rounds) {
  return &rounds->previous;
}

const struct flow_lists *flow_rounds_next(const struct flow_rounds *rounds) {
  return &rounds->next;
}
