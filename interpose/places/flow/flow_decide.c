/* Branches that are decided by what the code has done before (flow.h, flow_decide).
 *
 * First what is known before each block: what is known behind all blocks that lead there, by the
 * branches that may be taken (Wegman and Zadeck, "Constant propagation with conditional branches",
 * 1991). Then each edge is followed through blocks without calls, as far as it is known where
 * control goes. Only edges that leave a loop are changed: they make no new way into any.
 */
#include "interpose/places/flow/flow_private.h"

#include <stdlib.h>
#include <string.h>

#define STATES_MAX ((size_t)16 << 20) /* bytes */
#define STEPS_MAX 16u                 /* blocks that an edge is followed through */
#define WAYS_MAX 8u                   /* ... on so many ways at once */
#define EXITS_MAX 4u                  /* ... to so many blocks */

struct deciding {
  struct flow_work work;
  const struct flow_machine *machine;
  char *before;  /* states, by block */
  char *state;   /* one more */
  char *here;    /* another */
  char *nothing; /* one in which nothing is known */
  char *ahead;   /* WAYS_MAX states */
  bool *known;   /* blocks that control may come to: there is a state */
  bool *waiting; /* blocks whose state has changed */
};

static void *state_of(const struct deciding *deciding, uint32_t block) {
  return deciding->before + (size_t)block * deciding->machine->size;
}

static void copy_state(const struct deciding *deciding, void *to, const void *from) {
  memcpy(to, from, deciding->machine->size);
}

static uint32_t run_block(const struct deciding *deciding, uint32_t block, void *state) {
  return deciding->machine->run(deciding->machine->context, block, state);
}

/* ---- What is known before each block ---- */

/* Control may come to a block with what is known in a state. */
static void come_to(struct deciding *deciding, uint32_t block, const void *state) {
  void *before = state_of(deciding, block);
  bool is_new = !deciding->known[block];
  if (is_new)
    copy_state(deciding, before, state);
  deciding->known[block] = true;
  if (is_new || deciding->machine->meet(deciding->machine->context, before, state))
    deciding->waiting[block] = true;
}

/* The edges of a block, as numbers. */
struct edges_of {
  uint32_t *start, *items;
};

static bool list_edges(const struct flow_graph *graph, struct edges_of *edges) {
  edges->start = calloc((size_t)graph->nblocks + 2, sizeof *edges->start);
  edges->items = calloc((size_t)graph->nedges + 1, sizeof *edges->items);
  if (edges->start == NULL || edges->items == NULL)
    return false;
  for (uint32_t i = 0; i < graph->nedges; i++)
    edges->start[graph->edges[i].from + 2]++;
  for (uint32_t block = 0; block < graph->nblocks; block++)
    edges->start[block + 2] += edges->start[block + 1];
  for (uint32_t i = 0; i < graph->nedges; i++)
    edges->items[edges->start[graph->edges[i].from + 1]++] = i;
  return true;
}

static bool leads_to(const struct deciding *deciding, uint32_t block, uint32_t to) {
  const struct flow_lists *next = &deciding->work.next;
  for (uint32_t i = next->start[block]; i < next->start[block + 1]; i++)
    if (next->items[i] == to)
      return true;
  return false;
}

/* Where control goes behind a block: to one that an edge leads to, or FLOW_ANYWHERE. */
static uint32_t run_to_edge(const struct deciding *deciding, uint32_t block, void *state) {
  uint32_t to = run_block(deciding, block, state);
  return to != FLOW_ANYWHERE && leads_to(deciding, block, to) ? to : FLOW_ANYWHERE;
}

static void leave_block(struct deciding *deciding, const struct edges_of *edges, uint32_t block) {
  const struct flow_graph *graph = deciding->work.graph;
  copy_state(deciding, deciding->state, state_of(deciding, block));
  uint32_t to = run_to_edge(deciding, block, deciding->state);
  for (uint32_t i = edges->start[block]; i < edges->start[block + 1]; i++) {
    const struct flow_edge *edge = &graph->edges[edges->items[i]];
    if (edge->exceptional)
      come_to(deciding, edge->to, deciding->nothing);
    else if (to == FLOW_ANYWHERE || to == edge->to)
      come_to(deciding, edge->to, deciding->state);
  }
}

/* In the order in which control comes to blocks, until nothing changes: each value of a state is
 * forgotten once at most. */
static void find_states(struct deciding *deciding, const struct edges_of *edges) {
  const struct flow_dominators *tree = &deciding->work.dominators;
  come_to(deciding, 0, deciding->nothing);
  for (bool changed = true; changed;) {
    changed = false;
    for (uint32_t rank = 0; rank < tree->nreached; rank++) {
      uint32_t block = tree->reverse_postorder[rank];
      if (!deciding->waiting[block])
        continue;
      deciding->waiting[block] = false;
      changed = true;
      leave_block(deciding, edges, block);
    }
  }
}

/* ---- Following edges ---- */

static bool is_in(const struct flow_work *work, uint32_t block, uint32_t loop) {
  return flow_common_loop(work, work->flow->items[block].around, loop) == loop;
}

/* The first blocks outside of a loop, on all ways that control may go along an edge. */
struct exits {
  uint32_t blocks[EXITS_MAX];
  uint32_t count;
};

static bool add_exit(struct exits *exits, uint32_t block) {
  for (uint32_t i = 0; i < exits->count; i++)
    if (exits->blocks[i] == block)
      return true;
  if (exits->count == EXITS_MAX)
    return false;
  exits->blocks[exits->count++] = block;
  return true;
}

/* Ways that are still to be followed: what control comes to next, and what is known there. */
struct ways {
  uint32_t blocks[WAYS_MAX];
  uint32_t count;
};

static bool add_way(const struct deciding *deciding, struct ways *ways, uint32_t block,
                    const void *state) {
  if (ways->count == WAYS_MAX)
    return false;
  copy_state(deciding, deciding->ahead + ways->count * deciding->machine->size, state);
  ways->blocks[ways->count++] = block;
  return true;
}

static bool add_ways(const struct deciding *deciding, const struct edges_of *edges,
                     struct ways *ways, uint32_t block, void *state) {
  const struct flow_graph *graph = deciding->work.graph;
  uint32_t to = run_to_edge(deciding, block, state);
  for (uint32_t i = edges->start[block]; i < edges->start[block + 1]; i++) {
    const struct flow_edge *edge = &graph->edges[edges->items[i]];
    bool taken = to == FLOW_ANYWHERE || to == edge->to;
    if (edge->exceptional || (taken && !add_way(deciding, ways, edge->to, state)))
      return false;
  }
  return true;
}

/* Whether control, once it goes along an edge, leaves a loop before it comes to a call in it.
 * state: behind the edge's block; kept. */
static bool always_leaves(const struct deciding *deciding, const struct edges_of *edges,
                          uint32_t first, uint32_t loop, const void *state, struct exits *exits) {
  struct ways ways = {.count = 0};
  uint32_t steps = 0;
  exits->count = 0;
  (void)add_way(deciding, &ways, first, state);
  while (ways.count > 0) {
    uint32_t block = ways.blocks[--ways.count];
    if (!is_in(&deciding->work, block, loop)) {
      if (!add_exit(exits, block))
        return false;
      continue;
    }
    if (deciding->work.sites[block] != 0 || steps++ == STEPS_MAX)
      return false;
    copy_state(deciding, deciding->here, deciding->ahead + ways.count * deciding->machine->size);
    if (!add_ways(deciding, edges, &ways, block, deciding->here))
      return false;
  }
  return true;
}

/* Whether an edge leaves a loop around its block; the outermost one counts. */
static bool find_exits(const struct deciding *deciding, const struct edges_of *edges,
                       struct flow_edge edge, const void *state, struct exits *exits) {
  const struct flow_item *items = deciding->work.flow->items;
  struct exits found;
  exits->count = 0;
  for (uint32_t loop = items[edge.from].around; loop != FLOW_NONE; loop = items[loop].around) {
    if (!always_leaves(deciding, edges, edge.to, loop, state, &found))
      break;
    *exits = found;
  }
  return exits->count != 0;
}

/* Of edges in no loop nothing is to be known. */
static uint32_t follow_edges(struct deciding *deciding, const struct edges_of *of,
                             struct flow_edge *edges) {
  const struct flow_graph *graph = deciding->work.graph;
  uint32_t nedges = 0, extra = graph->nedges;
  for (uint32_t i = 0; i < graph->nedges; i++) {
    struct flow_edge edge = graph->edges[i];
    struct exits exits = {.count = 0};
    bool in_loop = deciding->work.flow->items[edge.from].around != FLOW_NONE;
    if (in_loop && deciding->known[edge.from] && !edge.exceptional) {
      copy_state(deciding, deciding->state, state_of(deciding, edge.from));
      uint32_t to = run_to_edge(deciding, edge.from, deciding->state);
      if (to != FLOW_ANYWHERE && to != edge.to)
        continue; /* never taken */
      if (!find_exits(deciding, of, edge, deciding->state, &exits) || exits.count > extra)
        exits.count = 0;
    }
    if (exits.count == 0)
      edges[nedges++] = edge;
    extra -= exits.count;
    for (uint32_t exit = 0; exit < exits.count; exit++)
      edges[nedges++] = (struct flow_edge){.from = edge.from, .to = exits.blocks[exit]};
  }
  return nedges;
}

/* ---- Both ---- */

static bool has_loops(const struct flow_work *work) {
  return work->flow->nitems > work->flow->nblocks;
}

static bool make_states(struct deciding *deciding) {
  size_t n = deciding->work.graph->nblocks, size = deciding->machine->size;
  if (size > STATES_MAX / (n + 3 + WAYS_MAX))
    return false;
  deciding->before = malloc((n + 3 + WAYS_MAX) * size);
  deciding->known = calloc(2 * n, sizeof *deciding->known);
  if (deciding->before == NULL || deciding->known == NULL)
    return false;
  deciding->state = deciding->before + n * size;
  deciding->here = deciding->state + size;
  deciding->nothing = deciding->here + size;
  deciding->ahead = deciding->nothing + size;
  deciding->waiting = deciding->known + n;
  deciding->machine->forget(deciding->machine->context, deciding->nothing);
  return true;
}

uint32_t flow_decide(const struct flow_graph *graph, const struct flow_machine *machine,
                     struct flow_edge *edges) {
  struct deciding deciding = {.work = {.graph = graph}, .machine = machine};
  struct edges_of of = {NULL, NULL};
  uint32_t nedges = graph->nedges;
  if (nedges != 0)
    memcpy(edges, graph->edges, nedges * sizeof *edges);
  if (flow_begin(&deciding.work) && has_loops(&deciding.work) && make_states(&deciding) &&
      list_edges(graph, &of)) {
    find_states(&deciding, &of);
    nedges = follow_edges(&deciding, &of, edges);
  }
  free(of.start);
  free(of.items);
  free(deciding.before);
  free(deciding.known);
  flow_end(&deciding.work);
  return nedges;
}
