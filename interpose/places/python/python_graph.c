/* From instructions to blocks and edges (python_graph.h). */
#include "interpose/places/python/python_graph.h"

#include "interpose/places/flow/flow_arcs.h"
#include "interpose/places/python/python_instructions.h"
#include "interpose/places/python/python_code.h"

#include <stdlib.h>
#include <string.h>

struct building {
  const struct python_instruction *all;
  uint32_t n;
  uint32_t *block_of; /* by instruction; while leaders are marked: 1 for a leader */
  struct python_graph *graph;
  struct flow_block *blocks;
  struct flow_edge *edges;
  uint32_t nblocks, nedges;
};

/* ---- blocks ---- */

static bool ends_block(const struct building *building, uint32_t i) {
  const struct python_instruction *instruction = &building->all[i];
  return instruction->target != PYTHON_NOWHERE || instruction->next != i + 1 ||
         (instruction->handler != PYTHON_NOWHERE && python_instruction_is_loud(instruction));
}

static void mark_leaders(const struct building *building) {
  for (uint32_t i = 0; i < building->n; i++) {
    const struct python_instruction *instruction = &building->all[i];
    bool is_other_range = i > 0 && instruction->handler != building->all[i - 1].handler;
    if (i == 0 || is_other_range || ends_block(building, i - 1))
      building->block_of[i] = 1;
    if (instruction->next != PYTHON_NOWHERE && instruction->next != i + 1)
      building->block_of[instruction->next] = 1;
    if (instruction->target != PYTHON_NOWHERE)
      building->block_of[instruction->target] = 1;
    if (instruction->handler != PYTHON_NOWHERE)
      building->block_of[instruction->handler] = 1;
  }
}

static void make_blocks(struct building *building) {
  for (uint32_t i = 0; i < building->n; i++) {
    struct flow_block *last = &building->blocks[building->nblocks];
    if (building->block_of[i] == 1) {
      building->graph->firsts[building->nblocks] = i;
      building->blocks[building->nblocks++] =
          (struct flow_block){.position = building->all[i].unit};
    } else {
      last--;
    }
    building->block_of[i] = building->nblocks - 1;
    last->sites += last->sites < UINT16_MAX;
    last->returns = building->all[i].opcode == OPCODE_RETURN;
    building->graph->units[i] = building->all[i].unit;
    building->graph->same[i] = building->all[i].same;
    if (building->all[i].opcode == OPCODE_FOR_ITER)
      building->graph->fors[building->graph->nfors++] =
          (struct python_for){building->all[i].unit, building->all[building->all[i].target].unit};
  }
}

/* ---- edges ---- */

static void add_edge(struct building *building, uint32_t from, uint32_t to, bool exceptional) {
  building->edges[building->nedges++] = (struct flow_edge){
      .from = building->block_of[from], .to = building->block_of[to], .exceptional = exceptional};
}

static bool is_last_of_block(const struct building *building, uint32_t i) {
  return i + 1 == building->n || building->block_of[i] != building->block_of[i + 1];
}

/* An `async for` ends by an exception: that is its ordinary way out. */
static bool is_exceptional(const struct building *building, const struct python_instruction *from) {
  return building->all[from->handler].opcode != OPCODE_END_ASYNC_FOR;
}

/* What swallows comes last, at *nsure. At most three edges an instruction. */
static void make_edges(struct building *building, uint32_t *nsure) {
  for (uint32_t i = 0; i < building->n; i++) {
    const struct python_instruction *instruction = &building->all[i];
    if (!is_last_of_block(building, i))
      continue;
    if (instruction->next != PYTHON_NOWHERE)
      add_edge(building, i, instruction->next, false);
    if (instruction->target != PYTHON_NOWHERE && !instruction->swallows)
      add_edge(building, i, instruction->target, false);
    if (instruction->handler != PYTHON_NOWHERE && python_instruction_is_loud(instruction))
      add_edge(building, i, instruction->handler, is_exceptional(building, instruction));
  }
  *nsure = building->nedges;
  for (uint32_t i = 0; i < building->n; i++)
    if (building->all[i].swallows && building->all[i].target != PYTHON_NOWHERE)
      add_edge(building, i, building->all[i].target, false);
}

/* ---- a `with` that swallows ---- */

struct swallowing {
  const struct building *building;
  uint32_t nsure;         /* of the edges, those that count */
  struct flow_lists next; /* of blocks, by these */
  bool *sure;             /* blocks that control comes to by these */
  bool *has_own;          /* blocks with code of their own */
  uint32_t *seen;         /* by block: for which edge it has been looked at */
  uint32_t *work;         /* blocks that are still to be followed; lines */
};

static int by_number(const void *one, const void *other) {
  uint32_t a = *(const uint32_t *)one, b = *(const uint32_t *)other;
  return a < b ? -1 : a > b;
}

/* Code on a line that surely runs is the end of a `with` around the one that swallows. */
static void find_own(struct swallowing *swallowing) {
  const struct building *building = swallowing->building;
  uint32_t *lines = swallowing->work, nlines = 0;
  for (uint32_t i = 0; i < building->n; i++)
    if (swallowing->sure[building->block_of[i]] && python_instruction_is_loud(&building->all[i]))
      lines[nlines++] = building->all[i].line;
  qsort(lines, nlines, sizeof(*lines), by_number);
  memset(swallowing->has_own, 0, building->nblocks * sizeof(*swallowing->has_own));
  for (uint32_t i = 0; i < building->n; i++)
    if (python_instruction_is_loud(&building->all[i]) &&
        bsearch(&building->all[i].line, lines, nlines, sizeof(*lines), by_number) == NULL)
      swallowing->has_own[building->block_of[i]] = true;
}

/* Whether the edge leads to code of the program that would not run otherwise. */
static bool leads_to_own(struct swallowing *swallowing, uint32_t edge) {
  uint32_t nwork = 0;
  swallowing->work[nwork++] = swallowing->building->edges[edge].to;
  while (nwork > 0) {
    uint32_t block = swallowing->work[--nwork];
    if (swallowing->sure[block] || swallowing->seen[block] == edge)
      continue;
    if (swallowing->has_own[block])
      return true;
    swallowing->seen[block] = edge;
    for (uint32_t i = swallowing->next.start[block]; i < swallowing->next.start[block + 1]; i++)
      if (swallowing->seen[swallowing->next.items[i]] != edge)
        swallowing->work[nwork++] = swallowing->next.items[i];
  }
  return false;
}

/* Lets edges count that have to. *changed: whether there were any. False: no memory. */
static bool add_swallowing(struct swallowing *swallowing, bool *changed) {
  const struct building *building = swallowing->building;
  struct flow_arc *arcs = malloc((building->nedges + 1) * sizeof(*arcs));
  for (uint32_t i = 0; arcs != NULL && i < swallowing->nsure; i++)
    arcs[i] = (struct flow_arc){building->edges[i].from, building->edges[i].to};
  bool made = arcs != NULL &&
              flow_lists_make(&swallowing->next, building->nblocks, arcs, swallowing->nsure, false);
  free(arcs);
  if (!made)
    return false;
  *changed = false;
  swallowing->sure[0] = true;
  flow_reach(&swallowing->next, building->nblocks, swallowing->sure, swallowing->work);
  find_own(swallowing);
  memset(swallowing->seen, 0xff, building->nblocks * sizeof(*swallowing->seen));
  uint32_t nsure = swallowing->nsure;
  for (uint32_t i = nsure; i < building->nedges; i++) {
    struct flow_edge edge = building->edges[i];
    if (!swallowing->sure[edge.from] || !leads_to_own(swallowing, i))
      continue;
    building->edges[i] = building->edges[nsure];
    building->edges[nsure++] = edge;
    *changed = true;
  }
  swallowing->nsure = nsure;
  flow_lists_drop(&swallowing->next);
  return true;
}

/* Of the edges from nsure on, which are taken where a `with` swallows, those come first without
 * which there would be code that never runs; nsure counts them then. False: no memory. */
static bool choose_swallowing(const struct building *building, uint32_t *nsure) {
  if (building->nblocks == 0)
    return true;
  size_t n = building->nblocks, nwork = building->n + building->nedges + 1;
  struct swallowing swallowing = {.building = building,
                                  .nsure = *nsure,
                                  .sure = calloc(n, sizeof(*swallowing.sure)),
                                  .has_own = malloc(n * sizeof(*swallowing.has_own)),
                                  .seen = malloc(n * sizeof(*swallowing.seen)),
                                  .work = malloc(nwork * sizeof(*swallowing.work))};
  bool made = swallowing.sure != NULL && swallowing.has_own != NULL && swallowing.seen != NULL &&
              swallowing.work != NULL;
  for (bool changed = true; made && changed && swallowing.nsure < building->nedges;)
    made = add_swallowing(&swallowing, &changed);
  *nsure = swallowing.nsure;
  free(swallowing.sure);
  free(swallowing.has_own);
  free(swallowing.seen);
  free(swallowing.work);
  return made;
}

/* ---- all of it ---- */

static bool python_build(struct building *building, struct python_graph *graph) {
  size_t n = building->n;
  building->block_of = calloc(n, sizeof(*building->block_of));
  graph->units = malloc(n * sizeof(*graph->units));
  graph->same = malloc(n * sizeof(*graph->same));
  graph->firsts = malloc(n * sizeof(*graph->firsts));
  graph->fors = malloc(n * sizeof(*graph->fors));
  building->blocks = calloc(n, sizeof(*building->blocks));
  building->edges = malloc(3 * n * sizeof(*building->edges));
  graph->flow.blocks = building->blocks;
  graph->flow.edges = building->edges;
  if (building->block_of == NULL || graph->units == NULL || graph->same == NULL ||
      graph->firsts == NULL || graph->fors == NULL || building->blocks == NULL ||
      building->edges == NULL)
    return false;
  mark_leaders(building);
  make_blocks(building);
  uint32_t nsure;
  make_edges(building, &nsure);
  if (!choose_swallowing(building, &nsure))
    return false;
  graph->flow.nblocks = building->nblocks;
  graph->flow.nedges = nsure;
  graph->ninstructions = building->n;
  return true;
}

bool python_graph_make(const struct python_layout *layout, const struct python_code *code,
                       struct python_graph *graph) {
  *graph = (struct python_graph){.units = NULL};
  struct python_instructions instructions;
  bool made = python_instructions_read(layout, code, &instructions);
  if (made) {
    struct building building = {.all = instructions.all, .n = instructions.n, .graph = graph};
    made = python_build(&building, graph);
    if (made)
      python_decide(layout, code, &instructions, building.block_of, graph);
    free(building.block_of);
  }
  free(instructions.all);
  return made;
}

void python_graph_free(struct python_graph *graph) {
  free((void *)graph->flow.blocks);
  free((void *)graph->flow.edges);
  free((void *)graph->flow.values);
  free(graph->units);
  free(graph->same);
  free(graph->firsts);
  free(graph->fors);
}
