/* Branches of a function that are decided by the numbers which its code has set before: see
 * native_graph.h. */
#include "interpose/places/native/native_graph.h"

#include <stdlib.h>

#include "interpose/places/native/native_values.h"

struct deciding {
  const struct native_graph *graph;
  const struct native_code *code;
  const uint32_t *block_at;
  struct native_frame_use use;
};

static void values_forget(void *context, void *state) {
  (void)context;
  *(struct native_values *)state = (struct native_values){0};
}

static bool values_meet(void *context, void *state, const void *other) {
  (void)context;
  return native_values_meet(state, other);
}

/* The first instruction of a block. */
static bool begin_block(const struct deciding *deciding, uint32_t block,
                        struct native_cursor *cursor, bool *failed) {
  const struct native_code *code = deciding->code;
  *cursor = (struct native_cursor){.position = deciding->graph->blocks[block].position};
  while (cursor->position >= code->begins[cursor->part + 1])
    cursor->part++;
  cursor->at = code->parts[cursor->part].begin + (cursor->position - code->begins[cursor->part]);
  size_t room = (size_t)(code->parts[cursor->part].end - cursor->at);
  *failed = !code->decode(cursor->at, room, &cursor->is);
  return !*failed;
}

static uint32_t values_run(void *context, uint32_t block, void *state) {
  const struct deciding *deciding = context;
  const struct native_code *code = deciding->code;
  struct native_cursor cursor;
  bool failed, is_taken;
  for (bool more = begin_block(deciding, block, &cursor, &failed);
       more && deciding->block_at[cursor.position] == block;
       more = native_next(code, &cursor, &failed)) {
    if (cursor.is.kind == NATIVE_BRANCH &&
        native_values_decide(state, cursor.at, cursor.is.length, &is_taken)) {
      size_t to = is_taken ? native_target(code, &cursor) : cursor.position + cursor.is.length;
      if (to != NATIVE_OUTSIDE && (is_taken || !native_is_last(code, &cursor)))
        return deciding->block_at[to];
    }
    native_values_step(state, &deciding->use, cursor.at, cursor.is.length);
  }
  return FLOW_ANYWHERE;
}

static void look_at_frame(struct deciding *deciding) {
  struct native_cursor cursor;
  bool failed;
  for (bool more = native_first(deciding->code, &cursor, &failed); more;
       more = native_next(deciding->code, &cursor, &failed))
    native_values_look(&deciding->use, cursor.at, cursor.is.length);
}

void native_decide(struct native_graph *graph, const struct native_code *code,
                   const uint32_t *block_at) {
  struct deciding deciding = {.graph = graph, .code = code, .block_at = block_at};
  struct flow_machine machine = {&deciding, sizeof(struct native_values), values_forget,
                                 values_meet, values_run};
  struct flow_graph flow = {graph->blocks, graph->edges, graph->nblocks, graph->nedges, NULL};
  struct flow_edge *edges = malloc(((size_t)2 * graph->nedges + 1) * sizeof *edges);
  if (edges == NULL || code->decode != native_decode_x86_64) {
    free(edges);
    return;
  }
  look_at_frame(&deciding);
  look_at_frame(&deciding);
  graph->nedges = flow_decide(&flow, &machine, edges);
  free(graph->edges);
  graph->edges = edges;
}
