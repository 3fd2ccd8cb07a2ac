/* Graphs that steps of the analysis change: see flow_private.h. */
#include <stdlib.h>
#include <string.h>

#include "interpose/places/flow/flow_private.h"

bool flow_copy_make(struct flow_copy *made, const struct flow_graph *graph, size_t nblocks,
                    size_t nedges) {
  bool has_values = graph->values != NULL;
  *made =
      (struct flow_copy){.blocks = calloc(nblocks + 1, sizeof *made->blocks),
                         .edges = calloc(nedges + 1, sizeof *made->edges),
                         .values = has_values ? calloc(nblocks + 1, sizeof *made->values) : NULL,
                         .asked = malloc((nblocks + 1) * sizeof *made->asked)};
  if (made->blocks == NULL || made->edges == NULL || made->asked == NULL ||
      (has_values && made->values == NULL)) {
    flow_copy_drop(made);
    return false;
  }
  memcpy(made->blocks, graph->blocks, graph->nblocks * sizeof *made->blocks);
  if (graph->nedges > 0)
    memcpy(made->edges, graph->edges, graph->nedges * sizeof *made->edges);
  if (has_values)
    memcpy(made->values, graph->values, graph->nblocks * sizeof *made->values);
  for (size_t block = 0; block < nblocks; block++)
    made->asked[block] = FLOW_NONE;
  made->graph =
      (struct flow_graph){made->blocks, made->edges, graph->nblocks, graph->nedges, made->values};
  return true;
}

void flow_copy_drop(struct flow_copy *made) {
  free(made->blocks);
  free(made->edges);
  free(made->values);
  free(made->asked);
  *made = (struct flow_copy){0};
}

void flow_copy_tidy(struct flow_copy *made) {
  uint32_t kept = 0;
  for (uint32_t i = 0; i < made->graph.nedges; i++)
    if (made->edges[i].from != FLOW_NONE)
      made->edges[kept++] = made->edges[i];
  made->graph.nedges = kept;
}
