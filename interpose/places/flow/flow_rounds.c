/* Loops for code that is not analysed yet: see flow_rounds.h. */
#include "interpose/places/flow/flow_rounds.h"

#include <stdlib.h>
#include <string.h>

#include "interpose/places/flow/flow_private.h"

struct flow_rounds {
  struct flow_work work;
  struct flow_lists ahead; /* blocks behind a block, ways round a loop left out */
};

static bool make_ahead(struct flow_rounds *rounds) {
  struct flow_work *work = &rounds->work;
  uint32_t kept = 0;
  for (uint32_t i = 0; i < work->graph->nedges; i++)
    if (!flow_dominates(&work->dominators, work->arcs[i].to, work->arcs[i].from))
      work->kept[kept++] = work->arcs[i];
  return flow_lists_make(&rounds->ahead, work->graph->nblocks, work->kept, kept, false);
}

struct flow_rounds *flow_rounds_make(const struct flow_graph *graph) {
  struct flow_rounds *rounds = calloc(1, sizeof *rounds);
  if (rounds == NULL)
    return NULL;
  rounds->work.graph = graph;
  if (flow_begin(&rounds->work) && make_ahead(rounds))
    return rounds;
  flow_rounds_free(rounds);
  return NULL;
}

void flow_rounds_free(struct flow_rounds *rounds) {
  if (rounds == NULL)
    return;
  flow_lists_drop(&rounds->ahead);
  flow_end(&rounds->work);
  free(rounds);
}

uint32_t flow_rounds_loop(const struct flow_rounds *rounds, uint32_t block) {
  return rounds->work.flow->items[block].around;
}

bool flow_rounds_around(const struct flow_rounds *rounds, uint32_t loop, uint32_t inner) {
  while (inner != loop && inner != FLOW_NONE)
    inner = rounds->work.flow->items[inner].around;
  return inner == loop && loop != FLOW_NONE;
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

bool flow_rounds_begins(const struct flow_rounds *rounds, uint32_t loop, uint32_t block) {
  return loop != FLOW_NONE && rounds->work.head[loop] == block;
}

bool flow_rounds_leads_in(const struct flow_rounds *rounds, uint32_t loop, uint32_t block) {
  return flow_dominates(&rounds->work.dominators, rounds->work.head[loop], block);
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
  return graph->values != NULL && (graph->values[block].tests & moves) != 0;
}

const struct flow_lists *flow_rounds_previous(const struct flow_rounds *rounds) {
  return &rounds->work.previous;
}

const struct flow_lists *flow_rounds_next(const struct flow_rounds *rounds) {
  return &rounds->work.next;
}
