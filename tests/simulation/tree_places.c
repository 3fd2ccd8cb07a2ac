/* Places of a program's collectives, from its tree (tree.h, core/place/place.h).
 *
 * Orders are given in the order of the source, which is topological. Within a block, all that comes
 * after a statement has come through it; and all that comes before it goes on to it, but for what
 * stands before a `break` or `continue` in between.
 */
#include "tests/simulation/tree.h"

#include <string.h>

struct numbered {
  uint16_t order, since, until;
  uint16_t reach_from, reach_to, end; /* end: the last order inside */
  bool always;                        /* PLACE_ALWAYS */
};

/* Whether control may go from a statement to the end of the surrounding loop, or out of it. */
static bool may_leave(const struct tree *tree, uint16_t at) {
  const struct node *node = &tree->nodes[at];
  if (node->kind == NODE_BREAK || node->kind == NODE_CONTINUE)
    return true;
  if (node->kind != NODE_BRANCH)
    return false;
  for (uint16_t child = node->first; child != 0; child = tree->nodes[child].next)
    if (may_leave(tree, child))
      return true;
  for (uint16_t child = node->otherwise; child != 0; child = tree->nodes[child].next)
    if (may_leave(tree, child))
      return true;
  return false;
}

/* Numbers the block that begins with a node, and returns the next order. always: whoever begins a
 * round of the loop around it, or the function, comes to the block. */
static uint16_t number_block(const struct tree *tree, uint16_t first, uint16_t order, bool always,
                             struct numbered *numbers) {
  uint16_t since = order;
  for (uint16_t at = first; at != 0; at = tree->nodes[at].next) {
    const struct node *node = &tree->nodes[at];
    if (node->kind == NODE_UNIT || node->kind == NODE_CALL || node->kind == NODE_LOOP)
      numbers[at] =
          (struct numbered){.order = order, .since = since, .end = order, .always = always};
    if (node->kind == NODE_UNIT || node->kind == NODE_CALL || node->kind == NODE_LOOP)
      order++;
    if (node->kind == NODE_CALL)
      number_block(tree, node->first, 1, true, numbers);
    if (node->kind == NODE_LOOP || node->kind == NODE_BRANCH)
      order = number_block(tree, node->first, order, node->kind == NODE_LOOP, numbers);
    if (node->kind == NODE_LOOP)
      numbers[at].end = (uint16_t)(order - 1);
    if (node->kind == NODE_BRANCH)
      order = number_block(tree, node->otherwise, order, false, numbers);
    if (may_leave(tree, at)) {
      since = order;
      always = false;
    }
  }
  for (uint16_t at = first; at != 0; at = tree->nodes[at].next)
    numbers[at].until = (uint16_t)(order - 1);
  return order;
}

/* What control can come to: orders in a row, up and apart. from > to: nothing. */
struct span {
  uint16_t from, to;
};

#define SPANS_MAX 8

struct reach {
  uint32_t nspans;
  struct span spans[SPANS_MAX];
};

static void add_span(struct reach *reach, struct span span) {
  struct reach before = *reach;
  reach->nspans = 0;
  for (uint32_t i = 0; i < before.nspans; i++) {
    struct span old = before.spans[i];
    if (old.from > span.to + 1 || span.from > old.to + 1) {
      reach->spans[reach->nspans++] = old;
      continue;
    }
    span.from = span.from < old.from ? span.from : old.from;
    span.to = span.to > old.to ? span.to : old.to;
  }
  if (reach->nspans < SPANS_MAX)
    reach->spans[reach->nspans++] = span;
}

/* A node tells of one span: the longest. */
static struct span longest(const struct reach *reach) {
  struct span best = {1, 0};
  for (uint32_t i = 0; i < reach->nspans; i++)
    if (best.from > best.to || reach->spans[i].to - reach->spans[i].from > best.to - best.from)
      best = reach->spans[i];
  return best;
}

/* What can be come to from the beginning of the block that begins with a node. behind: from its
 * end. */
static struct reach reach_block(const struct tree *tree, uint16_t at, struct reach behind,
                                struct numbered *numbers) {
  static const struct reach nothing = {0};
  if (at == 0)
    return behind;
  const struct node *node = &tree->nodes[at];
  if (node->kind == NODE_BREAK || node->kind == NODE_CONTINUE)
    return nothing;
  struct reach rest = reach_block(tree, node->next, behind, numbers);
  if (node->kind == NODE_BRANCH) {
    struct reach either = reach_block(tree, node->first, rest, numbers);
    struct reach or = reach_block(tree, node->otherwise, rest, numbers);
    for (uint32_t i = 0; i < or.nspans; i++)
      add_span(&either, or.spans[i]);
    return either;
  }
  if (node->kind != NODE_UNIT)
    (void)reach_block(tree, node->first, nothing, numbers);
  struct span span = longest(&rest);
  numbers[at].reach_from = span.from;
  numbers[at].reach_to = span.to;
  add_span(&rest, (struct span){numbers[at].order, numbers[at].end});
  return rest;
}

static uint32_t hash(uint32_t seed, uint32_t value) {
  uint32_t x = (seed * UINT32_C(0x85ebca6b) + value) * UINT32_C(0x9e3779b1);
  x ^= x >> 15;
  return x != 0 ? x : 1;
}

struct walk {
  const struct tree *tree;
  enum sight sight;
  const struct numbered *numbers;
  struct place *places;
};

/* What is known of the conditions around a statement in the innermost loop around it, as far as
 * that is one of the same function. */
struct conditions {
  bool in_loop, depends, varies;
  uint32_t turn; /* core/place/place.h */
};

static uint16_t flags_of(struct conditions conditions) {
  bool fixed = conditions.depends && !conditions.varies;
  return (uint16_t)(conditions.turn << PLACE_TURN_SHIFT | (fixed ? PLACE_FIXED : 0));
}

/* A program tells its ranks apart by a variable of its own, and counts its batches and epochs;
 * where data come from cannot be seen. */
static struct conditions under(struct conditions around, const struct tree *tree, uint16_t at,
                               bool otherwise) {
  const struct node *branch = &tree->nodes[at];
  bool fixed = branch->what == WHEN_RANK || branch->what == WHEN_NOT_RANK;
  bool by_data = branch->what == WHEN_LOCAL || branch->what == WHEN_AGREED;
  if (!around.in_loop)
    return around;
  if (!fixed && !by_data)
    around.turn = 2u * at + otherwise;
  around.varies |= !fixed;
  around.depends = true;
  return around;
}

static void step_into(const struct walk *walk, struct place *way, uint16_t at,
                      enum function function, struct conditions conditions) {
  struct numbered number = walk->numbers[at];
  struct place_node node = {
      .id = hash(function + 1, number.order),
      .flags = walk->tree->nodes[at].kind == NODE_LOOP ? PLACE_LOOP : 0,
  };
  if (walk->sight != SIGHT_UNORDERED) {
    node.flags |= PLACE_ORDERED | flags_of(conditions) | (number.always ? PLACE_ALWAYS : 0);
    node.order = number.order;
    node.since = number.since;
    node.until = number.until;
    node.reach_from = number.reach_from;
    node.reach_to = number.reach_to;
  }
  way->id = hash(way->id, node.id);
  if (way->nnodes < PLACE_NODES_MAX)
    way->nodes[way->nnodes++] = node;
}

/* A wrapper that hides its callers: one call in it, the same for all of them. */
static struct place wrapper(void) {
  struct place place = {
      .id = hash(FUNCTION_WRAPPER, 1), .nnodes = 2, .nodes = {{.id = FUNCTION_WRAPPER + 1}}};
  place.nodes[1] = (struct place_node){.id = hash(FUNCTION_WRAPPER + 1, 1),
                                       .order = 1,
                                       .since = 1,
                                       .until = 1,
                                       .flags = PLACE_ORDERED | PLACE_ALWAYS};
  return place;
}

static void place_block(const struct walk *walk, uint16_t first, const struct place *way,
                        enum function function, struct conditions conditions) {
  static const struct conditions none = {0}, in_loop = {.in_loop = true};
  for (uint16_t at = first; at != 0; at = walk->tree->nodes[at].next) {
    const struct node *node = &walk->tree->nodes[at];
    struct place further = *way;
    switch ((enum node_kind)node->kind) {
    case NODE_UNIT:
      step_into(walk, &further, at, function, conditions);
      if (node->wrapped)
        further = wrapper();
      walk->places[at] = further;
      break;
    case NODE_LOOP:
      step_into(walk, &further, at, function, conditions);
      place_block(walk, node->first, &further, function, in_loop);
      break;
    case NODE_BRANCH:
      place_block(walk, node->first, way, function, under(conditions, walk->tree, at, false));
      place_block(walk, node->otherwise, way, function, under(conditions, walk->tree, at, true));
      break;
    case NODE_CALL:
      step_into(walk, &further, at, function, conditions);
      place_block(walk, node->first, &further, (enum function)node->what, none);
      break;
    case NODE_BREAK:
    case NODE_CONTINUE:
      break;
    }
  }
}

void tree_places(const struct tree *tree, enum sight sight, struct place places[TREE_NODES_MAX]) {
  struct numbered numbers[TREE_NODES_MAX];
  memset(numbers, 0, sizeof(numbers[0]) * tree->nnodes);
  memset(places, 0, sizeof(places[0]) * tree->nnodes);
  if (sight == SIGHT_HIDDEN)
    return;
  number_block(tree, tree->nodes[0].first, 1, true, numbers);
  (void)reach_block(tree, tree->nodes[0].first, (struct reach){0}, numbers);
  const struct walk walk = {tree, sight, numbers, places};
  const struct place root = {.nnodes = 1, .nodes = {{.id = FUNCTION_MAIN + 1}}};
  place_block(&walk, tree->nodes[0].first, &root, FUNCTION_MAIN, (struct conditions){0});
}
