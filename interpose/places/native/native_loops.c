/* Natural loops of a graph's blocks: see native_loops.h. */
#include "interpose/places/native/native_loops.h"

#include <stdlib.h>

enum { DEPTHS_MAX = 32 }; /* loops around a block that are looked at */

/* Gives a loop to all blocks that come to its head from within. */
static void fill_loop(struct native_loops *loops, uint32_t head, uint32_t *stack) {
  const struct flow_dominators *tree = &loops->tree;
  const struct flow_lists *previous = &loops->previous;
  uint32_t count = 0;
  loops->above[head] = loops->around[head];
  for (uint32_t i = previous->start[head]; i < previous->start[head + 1]; i++)
    if (flow_dominates(tree, head, previous->items[i]))
      stack[count++] = previous->items[i];
  if (count == 0)
    return;
  loops->around[head] = head;
  while (count > 0) {
    uint32_t block = stack[--count];
    if (loops->around[block] == head)
      continue;
    loops->around[block] = head;
    for (uint32_t i = previous->start[block]; i < previous->start[block + 1]; i++)
      if (flow_dominates(tree, head, previous->items[i]) &&
          loops->around[previous->items[i]] != head)
        stack[count++] = previous->items[i];
  }
}

/* Outer loops come first, so that inner ones take their blocks from them. */
bool native_loops_make(struct native_loops *loops, const struct native_graph *graph) {
  size_t nblocks = graph->nblocks;
  struct flow_arc *arcs = calloc((size_t)graph->nedges + 1, sizeof *arcs);
  uint32_t *stack = malloc(((size_t)graph->nedges + 1) * sizeof *stack);
  *loops = (struct native_loops){.around = malloc((nblocks + 1) * sizeof *loops->around),
                                 .above = malloc((nblocks + 1) * sizeof *loops->above)};
  for (uint32_t i = 0; arcs != NULL && i < graph->nedges; i++)
    arcs[i] = (struct flow_arc){graph->edges[i].from, graph->edges[i].to};
  bool made = arcs != NULL && stack != NULL && loops->around != NULL && loops->above != NULL &&
              flow_dominators_make(&loops->tree, graph->nblocks, 0, arcs, graph->nedges) &&
              flow_lists_make(&loops->previous, graph->nblocks, arcs, graph->nedges, true);
  for (uint32_t block = 0; made && block < graph->nblocks; block++)
    loops->around[block] = loops->above[block] = FLOW_NONE;
  for (uint32_t i = 0; made && i < loops->tree.nreached; i++)
    fill_loop(loops, loops->tree.reverse_postorder[i], stack);
  uint32_t nahead = 0;
  for (uint32_t i = 0; made && i < graph->nedges; i++)
    if (!flow_dominates(&loops->tree, arcs[i].to, arcs[i].from))
      arcs[nahead++] = arcs[i];
  made = made && flow_lists_make(&loops->ahead, graph->nblocks, arcs, nahead, false);
  free(stack);
  free(arcs);
  return made;
}

bool native_loops_around(const struct native_loops *loops, uint32_t loop, uint32_t inner) {
  for (uint32_t depth = 0; depth < DEPTHS_MAX && inner != loop; depth++) {
    if (inner == FLOW_NONE)
      return false;
    inner = loops->above[inner];
  }
  return inner == loop;
}

void native_loops_drop(struct native_loops *loops) {
  flow_lists_drop(&loops->ahead);
  flow_lists_drop(&loops->previous);
  flow_dominators_drop(&loops->tree);
  free(loops->above);
  free(loops->around);
}
