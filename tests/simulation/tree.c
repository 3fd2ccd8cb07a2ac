/* Building programs (tree.h). */
#include "tests/simulation/tree.h"

#include <stdlib.h>
#include <string.h>

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

/* The block without them: its first node. */
static uint16_t without_point(struct tree *tree, uint16_t first, uint8_t point) {
  if (first == 0)
    return 0;
  struct node *node = &tree->nodes[first];
  node->next = without_point(tree, node->next, point);
  node->first = without_point(tree, node->first, point);
  node->otherwise = without_point(tree, node->otherwise, point);
  bool goes = false;
  switch ((enum node_kind)node->kind) {
  case NODE_UNIT:
    goes = node->point == point;
    node->point = goes ? 0 : node->point;
    break;
  case NODE_LOOP:
  case NODE_BRANCH:
  case NODE_CALL:
    goes = node->first == 0 && node->otherwise == 0;
    break;
  case NODE_BREAK:
  case NODE_CONTINUE:
    break;
  }
  return goes ? node->next : first;
}

void tree_remove_point(struct tree *tree, uint8_t point) {
  tree->nodes[0].first = without_point(tree, tree->nodes[0].first, point);
}

static bool block_has_branch(const struct tree *tree, uint16_t first, enum when when) {
  for (uint16_t at = first; at != 0; at = tree->nodes[at].next) {
    const struct node *node = &tree->nodes[at];
    if ((node->kind == NODE_BRANCH && node->what == when) ||
        block_has_branch(tree, node->first, when) || block_has_branch(tree, node->otherwise, when))
      return true;
  }
  return false;
}

bool tree_has_branch(const struct tree *tree, enum when when) {
  return block_has_branch(tree, tree->nodes[0].first, when);
}

/* Whether all ranks come to a unit here in each epoch, however little data they have. */
static bool block_marks_epochs(const struct tree *tree, uint16_t first) {
  for (uint16_t at = first; at != 0; at = tree->nodes[at].next) {
    const struct node *node = &tree->nodes[at];
    switch ((enum node_kind)node->kind) {
    case NODE_UNIT:
      return true;
    case NODE_LOOP:
      if (node->what == ROUNDS_FIXED && block_marks_epochs(tree, node->first))
        return true;
      break;
    case NODE_CALL:
      if (block_marks_epochs(tree, node->first))
        return true;
      break;
    case NODE_BRANCH:
      if (block_marks_epochs(tree, node->first) && block_marks_epochs(tree, node->otherwise))
        return true;
      break;
    case NODE_BREAK:
    case NODE_CONTINUE:
      break;
    }
  }
  return false;
}

static bool marks_epochs(const struct tree *tree, uint16_t first) {
  for (uint16_t at = first; at != 0; at = tree->nodes[at].next)
    if (tree->nodes[at].kind == NODE_LOOP && tree->nodes[at].what == ROUNDS_EPOCHS)
      return block_marks_epochs(tree, tree->nodes[at].first);
  return false;
}

bool tree_counts_own_steps(const struct tree *tree) {
  return tree_has_branch(tree, WHEN_STEPS) || tree_has_branch(tree, WHEN_UPDATES) ||
         (tree_has_branch(tree, WHEN_BATCHES) && !marks_epochs(tree, tree->nodes[0].first));
}

/* Of a unit: the innermost loop around it, and the blocks of branches in that, outermost first. */
struct condition {
  uint16_t loop, nblocks, blocks[TREE_DEPTH_MAX];
};

static struct condition under(struct condition around, uint16_t block) {
  around.blocks[around.nblocks++] = block;
  return around;
}

/* Whether each is under a condition that the other is not under. */
static bool have_their_own(const struct condition *a, const struct condition *b) {
  uint16_t same = 0;
  while (same < a->nblocks && same < b->nblocks && a->blocks[same] == b->blocks[same])
    same++;
  return same < a->nblocks && same < b->nblocks;
}

static void find_conditions(const struct tree *tree, uint16_t first, struct condition around,
                            struct condition *conditions) {
  for (uint16_t at = first; at != 0; at = tree->nodes[at].next) {
    const struct node *node = &tree->nodes[at];
    bool branch = node->kind == NODE_BRANCH;
    conditions[at] = around;
    find_conditions(tree, node->first,
                    branch                    ? under(around, node->first)
                    : node->kind == NODE_LOOP ? (struct condition){.loop = at}
                                              : around,
                    conditions);
    find_conditions(tree, node->otherwise, branch ? under(around, node->otherwise) : around,
                    conditions);
  }
}

static bool is_equal_slot(const struct slot *a, const struct slot *b) {
  return a->axis == b->axis && a->nmembers == b->nmembers &&
         memcmp(a->members, b->members, a->nmembers * sizeof(a->members[0])) == 0;
}

bool tree_has_twins(const struct tree *tree) {
  struct condition conditions[TREE_NODES_MAX] = {0};
  find_conditions(tree, tree->nodes[0].first, (struct condition){0}, conditions);
  for (uint16_t a = 1; a < tree->nnodes; a++)
    for (uint16_t b = 1; b < a; b++) {
      const struct node *x = &tree->nodes[a], *y = &tree->nodes[b];
      if (x->kind == NODE_UNIT && y->kind == NODE_UNIT && x->point != y->point &&
          conditions[a].loop == conditions[b].loop &&
          have_their_own(&conditions[a], &conditions[b]) && is_equal_slot(&x->slot, &y->slot))
        return true;
    }
  return false;
}

/* Whether something in the block that begins with a node is equal to a slot; NULL: to something in
 * the other block. */
static bool block_has(const struct tree *tree, uint16_t first, const struct slot *slot,
                      uint16_t other) {
  for (uint16_t at = first; at != 0; at = tree->nodes[at].next) {
    const struct node *node = &tree->nodes[at];
    bool equal = node->kind == NODE_UNIT && (slot == NULL ? block_has(tree, other, &node->slot, 0)
                                                          : is_equal_slot(&node->slot, slot));
    if (equal || block_has(tree, node->first, slot, other) ||
        block_has(tree, node->otherwise, slot, other))
      return true;
  }
  return false;
}

/* Around a block. */
struct around {
  bool loop;     /* of this function, or of one that calls it */
  bool above;    /* one of the latter */
  bool by_other; /* in this function's loop: a condition that is not on the rank */
};

static bool is_by_rank(const struct node *branch) {
  return branch->what == WHEN_RANK || branch->what == WHEN_NOT_RANK;
}

/* Whether something in the block that begins with a node, but in no loop in it, is under a
 * condition that is not on the rank. */
static bool varies_within(const struct tree *tree, uint16_t first, bool varies) {
  for (uint16_t at = first; at != 0; at = tree->nodes[at].next) {
    const struct node *node = &tree->nodes[at];
    bool inside = varies || (node->kind == NODE_BRANCH && !is_by_rank(node));
    if ((varies && node->kind == NODE_UNIT) ||
        (node->kind != NODE_LOOP && (varies_within(tree, node->first, inside) ||
                                     varies_within(tree, node->otherwise, inside))))
      return true;
  }
  return false;
}

/* Of what stands in two halves by rank it is seen that a rank stays in one, if all loops are of
 * this function, and all conditions are on the rank. */
static bool stays_apart(const struct tree *tree, const struct node *branch, struct around around) {
  return is_by_rank(branch) && !around.above && !around.by_other &&
         !varies_within(tree, branch->first, false) &&
         !varies_within(tree, branch->otherwise, false);
}

static bool block_has_halves(const struct tree *tree, uint16_t first, struct around around) {
  for (uint16_t at = first; at != 0; at = tree->nodes[at].next) {
    const struct node *node = &tree->nodes[at];
    bool branch = node->kind == NODE_BRANCH;
    struct around inside = around;
    if (node->kind == NODE_LOOP)
      inside = (struct around){.loop = true, .above = around.above};
    else if (node->kind == NODE_CALL)
      inside = (struct around){.loop = around.loop, .above = around.loop};
    inside.by_other |= branch && around.loop && !stays_apart(tree, node, around);
    if ((branch && around.loop && !stays_apart(tree, node, around) &&
         block_has(tree, node->first, NULL, node->otherwise)) ||
        block_has_halves(tree, node->first, inside) ||
        block_has_halves(tree, node->otherwise, inside))
      return true;
  }
  return false;
}

bool tree_has_halves(const struct tree *tree) {
  return block_has_halves(tree, tree->nodes[0].first, (struct around){0});
}

/* What all ranks come to first in a block, behind the loop of training, if that is in it: 0:
 * nothing. */
static uint16_t first_behind(const struct tree *tree, uint16_t first, bool *behind) {
  for (uint16_t at = first; at != 0; at = tree->nodes[at].next) {
    const struct node *node = &tree->nodes[at];
    uint16_t found = 0;
    if (node->kind == NODE_LOOP && node->what == ROUNDS_TRAINING)
      *behind = true;
    else if (*behind && (node->kind == NODE_UNIT || node->kind == NODE_LOOP))
      return at;
    else if (node->kind == NODE_CALL || (node->kind == NODE_LOOP && node->what == ROUNDS_EPOCHS) ||
             (node->kind == NODE_BRANCH && node->what == WHEN_HAS_DATA))
      found = first_behind(tree, node->first, behind);
    if (found != 0)
      return found;
  }
  return 0;
}

bool tree_goes_from_loop_to_loop(const struct tree *tree) {
  bool behind = false;
  uint16_t at = first_behind(tree, tree->nodes[0].first, &behind);
  return at != 0 && tree->nodes[at].kind == NODE_LOOP;
}
