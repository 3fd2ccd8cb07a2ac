/* Branches of a function that are decided by what its code has stored in variables before, and by
 * which variables the others are: see python_graph.h. */
#include "interpose/places/python/python_graph.h"

#include <stdlib.h>

#include "interpose/places/python/python_instructions.h"
#include "interpose/places/python/python_values.h"

struct deciding {
  const struct python_layout *layout;
  const struct python_code *code;
  const struct python_instructions *instructions;
  const uint32_t *block_of;
  const struct python_graph *graph;
};

/* Returns the block that control goes to, or FLOW_ANYWHERE. */
static uint32_t step_block(const struct deciding *deciding, uint32_t block,
                           struct python_values *values) {
  const struct python_instruction *all = deciding->instructions->all;
  uint32_t i = deciding->graph->firsts[block];
  if (i > 0 && all[i - 1].opcode == OPCODE_FOR_ITER && all[i - 1].next == i)
    python_values_iterate(values);
  for (; i < deciding->instructions->n && deciding->block_of[i] == block; i++) {
    int jumps = python_values_step(values, deciding->layout->minor, deciding->code, &all[i]);
    uint32_t to = jumps == 1 ? all[i].target : all[i].next;
    if (jumps >= 0 && !all[i].swallows && to != PYTHON_NOWHERE)
      return deciding->block_of[to];
  }
  return FLOW_ANYWHERE;
}

/* ---- a machine for flow_decide ---- */

static void known_forget(void *context, void *state) {
  (void)context;
  *(struct python_known *)state = (struct python_known){0};
}

static bool known_meet(void *context, void *state, const void *other) {
  (void)context;
  struct python_known *known = state;
  const struct python_known *also = other;
  bool less = false;
  for (uint32_t i = 0; i < PYTHON_LOCALS; i++) {
    struct python_constant *is = &known->locals[i];
    if (is->kind == PYTHON_ANYTHING ||
        (is->kind == also->locals[i].kind && is->number == also->locals[i].number))
      continue;
    *is = (struct python_constant){PYTHON_ANYTHING, 0};
    less = true;
  }
  return less;
}

static uint32_t known_run(void *context, uint32_t block, void *state) {
  struct python_known *known = state;
  struct python_values values;
  python_values_begin(&values, known);
  uint32_t to = step_block(context, block, &values);
  for (uint32_t i = 0; i < PYTHON_LOCALS; i++)
    known->locals[i] = values.locals[i].is;
  return to;
}

/* ---- blocks that can be passed over ---- */

/* Whether collectives may be called there. What only compares numbers that are known calls nothing;
 * of others it is not known where control goes. */
static bool may_call(const struct python_instruction *instruction) {
  switch (instruction->effect) {
  case EFFECT_COMPARE:
  case EFFECT_NOT:
  case EFFECT_TRUTH:
  case EFFECT_BINARY:
  case EFFECT_ADD:
  case EFFECT_SUBTRACT:
    return false;
  default:
    return python_instruction_is_loud(instruction);
  }
}

/* The graph's blocks, of which those that may call have sites; NULL: no memory. */
static struct flow_block *calling_blocks(const struct deciding *deciding) {
  const struct python_graph *graph = deciding->graph;
  struct flow_block *blocks = malloc(graph->flow.nblocks * sizeof(*blocks));
  if (blocks == NULL)
    return NULL;
  for (uint32_t block = 0; block < graph->flow.nblocks; block++) {
    blocks[block] = graph->flow.blocks[block];
    blocks[block].sites = 0;
  }
  for (uint32_t i = 0; i < deciding->instructions->n; i++)
    if (may_call(&deciding->instructions->all[i]))
      blocks[deciding->block_of[i]].sites = 1;
  return blocks;
}

/* ---- all of it ---- */

void python_decide(const struct python_layout *layout, const struct python_code *code,
                   const struct python_instructions *instructions, const uint32_t *block_of,
                   struct python_graph *graph) {
  struct deciding deciding = {layout, code, instructions, block_of, graph};
  struct flow_machine machine = {&deciding, sizeof(struct python_known), known_forget, known_meet,
                                 known_run};
  struct flow_edge *edges = malloc(((size_t)2 * graph->flow.nedges + 1) * sizeof(*edges));
  struct flow_values *values = calloc(graph->flow.nblocks, sizeof(*values));
  struct flow_graph calling = graph->flow;
  struct flow_block *blocks = calling_blocks(&deciding);
  calling.blocks = blocks;
  if (edges == NULL || values == NULL || blocks == NULL) {
    free(edges);
    free(values);
    free(blocks);
    return;
  }
  graph->flow.nedges = flow_decide(&calling, &machine, edges);
  free(blocks);
  free((void *)graph->flow.edges);
  graph->flow.edges = edges;
  for (uint32_t block = 0; block < graph->flow.nblocks; block++) {
    struct python_values after;
    python_values_begin(&after, NULL);
    (void)step_block(&deciding, block, &after);
    values[block] = after.flow;
  }
  graph->flow.values = values;
}
