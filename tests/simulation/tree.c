/* Building programs (tree.h). */
#include "tests/simulation/tree.h"

#include <stdlib.h>

void tree_begin(struct builder *builder, struct tree *tree) {
  *builder = (struct builder){.tree = tree};
  tree->nnodes = 1;
  tree->nodes[0] = (struct node){.kind = NODE_CALL, .what = FUNCTION_MAIN};
}

struct node *tree_add(struct builder *builder, enum node_kind kind, uint32_t what, uint32_t value) {
  struct tree *tree = builder->tree;
  if (tree->nnodes == TREE_NODES_MAX)
    abort();
  uint16_t at = tree->nnodes++;
  tree->nodes[at] =
      (struct node){.kind = (uint8_t)kind, .what = (uint8_t)what, .value = (uint16_t)value};
  struct node *open = &tree->nodes[builder->open[builder->depth].node];
  if (builder->open[builder->depth].last != 0)
    tree->nodes[builder->open[builder->depth].last].next = at;
  else
    *(builder->open[builder->depth].otherwise ? &open->otherwise : &open->first) = at;
  builder->open[builder->depth].last = at;
  return &tree->nodes[at];
}

void tree_open(struct builder *builder) {
  uint16_t node = builder->open[builder->depth].last;
  if (++builder->depth == TREE_DEPTH_MAX)
    abort();
  builder->open[builder->depth].node = node;
  builder->open[builder->depth].last = 0;
  builder->open[builder->depth].otherwise = false;
}

void tree_otherwise(struct builder *builder) {
  builder->open[builder->depth].last = 0;
  builder->open[builder->depth].otherwise = true;
}

void tree_close(struct builder *builder) {
  builder->depth--;
}
