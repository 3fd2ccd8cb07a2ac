/* From instructions to blocks and edges (python_graph.h). */
#include "interpose/places/python/python_graph.h"

#include "interpose/places/python/python_instructions.h"
#include "interpose/places/python/python_code.h"

#include <stdlib.h>

struct building {
  unsigned minor;
  const struct python_code *code;
  const struct python_instruction *all;
  uint32_t n;
  uint32_t *block_of; /* by instruction; while leaders are marked: 1 for a leader */
  struct python_graph *graph;
  struct flow_block *blocks;
  struct flow_edge *edges;
  uint32_t nblocks, nedges;
};

/* ---- blocks -----------------------------------------------------------------------------------
 */

static bool ends_block(const struct python_instruction *instruction) {
  return instruction->target != PYTHON_NOWHERE || !instruction->goes_on ||
         (instruction->handler != PYTHON_NOWHERE && python_instruction_is_loud(instruction));
}

static void mark_leaders(const struct building *building) {
  for (uint32_t i = 0; i < building->n; i++) {
    const struct python_instruction *instruction = &building->all[i];
    bool is_other_range = i > 0 && instruction->handler != building->all[i - 1].handler;
    if (i == 0 || is_other_range || ends_block(&building->all[i - 1]))
      building->block_of[i] = 1;
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
  }
}

/* ---- edges ------------------------------------------------------------------------------------
 */

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
    if (instruction->goes_on && i + 1 < building->n)
      add_edge(building, i, i + 1, false);
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

/* Marks the blocks that control comes to by the first nedges edges. Each round follows at least one
 * edge more; nearly all lead ahead, so there are few. */
static void mark_reached(const struct building *building, uint32_t nedges, bool *reached) {
  reached[0] = true;
  for (bool changed = true; changed;) {
    changed = false;
    for (uint32_t i = 0; i < nedges; i++) {
      const struct flow_edge *edge = &building->edges[i];
      if (reached[edge->from] && !reached[edge->to])
        reached[edge->to] = changed = true;
    }
  }
}

/* Whether a line that surely runs has the same number: then the instruction is the end of a `with`
 * around the one that swallows, and no code of its own. */
static bool is_on_sure_line(const struct building *building, const bool *sure,
                            uint32_t instruction) {
  uint32_t line = python_line(building->minor, building->code, building->all[instruction].unit);
  for (uint32_t i = 0; i < building->n; i++)
    if (sure[building->block_of[i]] && python_instruction_is_loud(&building->all[i]) &&
        python_line(building->minor, building->code, building->all[i].unit) == line)
      return true;
  return false;
}

/* Whether there is code of the program that only runs if an exception has been swallowed. */
static bool needs_swallowing(const struct building *building, uint32_t nsure) {
  bool *sure = calloc((size_t)building->nblocks * 2, sizeof(*sure)), needed = false;
  if (sure == NULL)
    return false;
  bool *all = sure + building->nblocks;
  mark_reached(building, nsure, sure);
  mark_reached(building, building->nedges, all);
  for (uint32_t i = 0; i < building->n && !needed; i++) {
    uint32_t block = building->block_of[i];
    needed = all[block] && !sure[block] && python_instruction_is_loud(&building->all[i]) &&
             !is_on_sure_line(building, sure, i);
  }
  free(sure);
  return needed;
}

/* ---- all of it --------------------------------------------------------------------------------
 */

static bool python_build(struct building *building, struct python_graph *graph) {
  size_t n = building->n;
  building->block_of = calloc(n, sizeof(*building->block_of));
  graph->units = malloc(n * sizeof(*graph->units));
  graph->firsts = malloc(n * sizeof(*graph->firsts));
  building->blocks = malloc(n * sizeof(*building->blocks));
  building->edges = malloc(3 * n * sizeof(*building->edges));
  graph->flow.blocks = building->blocks;
  graph->flow.edges = building->edges;
  if (building->block_of == NULL || graph->units == NULL || graph->firsts == NULL ||
      building->blocks == NULL || building->edges == NULL)
    return false;
  mark_leaders(building);
  make_blocks(building);
  uint32_t nsure;
  make_edges(building, &nsure);
  bool with_all = nsure < building->nedges && needs_swallowing(building, nsure);
  graph->flow.nblocks = building->nblocks;
  graph->flow.nedges = with_all ? building->nedges : nsure;
  graph->ninstructions = building->n;
  return true;
}

bool python_graph_make(const struct python_layout *layout, const struct python_code *code,
                       struct python_graph *graph) {
  *graph = (struct python_graph){.units = NULL};
  struct python_instructions instructions;
  bool made = python_instructions_read(layout, code, &instructions);
  if (made) {
    struct building building = {.minor = layout->minor,
                                .code = code,
                                .all = instructions.all,
                                .n = instructions.n,
                                .graph = graph};
    made = python_build(&building, graph);
    free(building.block_of);
  }
  free(instructions.all);
  return made;
}

void python_graph_free(struct python_graph *graph) {
  free((void *)graph->flow.blocks);
  free((void *)graph->flow.edges);
  free(graph->units);
  free(graph->firsts);
}
