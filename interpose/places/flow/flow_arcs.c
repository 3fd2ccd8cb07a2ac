/* Lists of neighbours, reachability and dominators: see flow_arcs.h.
 *
 * Nodes of the dominator computation are named by their number in depth-first preorder, as in
 * Lengauer and Tarjan, "A fast algorithm for finding dominators in a flowgraph", 1979. */
#include "interpose/places/flow/flow_arcs.h"

#include <stdlib.h>

static void free_words(uint32_t **words) {
  free(*words);
  *words = NULL;
}

void flow_lists_drop(struct flow_lists *lists) {
  free_words(&lists->start);
  free_words(&lists->items);
}

bool flow_lists_make(struct flow_lists *lists, uint32_t n, const struct flow_arc *arcs,
                     uint32_t narcs, bool backwards) {
  lists->start = calloc((size_t)n + 2, sizeof *lists->start);
  lists->items = calloc((size_t)narcs + 1, sizeof *lists->items);
  if (lists->start == NULL || lists->items == NULL) {
    flow_lists_drop(lists);
    return false;
  }
  /* Counted one place further on, so that placing the items moves each start to where it belongs.
   */
  for (uint32_t i = 0; i < narcs; i++)
    lists->start[(backwards ? arcs[i].to : arcs[i].from) + 2]++;
  for (uint32_t node = 0; node < n; node++)
    lists->start[node + 2] += lists->start[node + 1];
  for (uint32_t i = 0; i < narcs; i++) {
    uint32_t *place = &lists->start[(backwards ? arcs[i].to : arcs[i].from) + 1];
    lists->items[(*place)++] = backwards ? arcs[i].from : arcs[i].to;
  }
  return true;
}

void flow_reach(const struct flow_lists *next, uint32_t n, bool *marked, uint32_t *stack) {
  uint32_t depth = 0;
  for (uint32_t node = 0; node < n; node++)
    if (marked[node])
      stack[depth++] = node;
  while (depth > 0) {
    uint32_t node = stack[--depth];
    for (uint32_t i = next->start[node]; i < next->start[node + 1]; i++) {
      if (!marked[next->items[i]]) {
        marked[next->items[i]] = true;
        stack[depth++] = next->items[i];
      }
    }
  }
}

/* ---- Dominators ---- */

/* Everything but vertex and number is by number in preorder. */
struct search {
  struct flow_lists next;
  struct flow_lists previous;
  uint32_t count;
  uint32_t *number; /* of a node; FLOW_NONE: not reached */
  uint32_t *vertex; /* the node with a number */
  uint32_t *parent; /* in the depth-first tree */
  uint32_t *semi;
  uint32_t *label;
  uint32_t *ancestor;
  uint32_t *idom;
  uint32_t *bucket; /* first of those whose semidominator this is, and the next of the same */
  uint32_t *bucket_next;
  uint32_t *stack;
  uint32_t *words; /* all of the above */
};

enum { SEARCH_ARRAYS = 10 };

static void search_drop(struct search *search) {
  flow_lists_drop(&search->next);
  flow_lists_drop(&search->previous);
  free_words(&search->words);
}

static bool search_make(struct search *search, uint32_t n, const struct flow_arc *arcs,
                        uint32_t narcs) {
  *search = (struct search){.words = malloc(((size_t)n + 1) * SEARCH_ARRAYS * sizeof(uint32_t))};
  if (search->words == NULL || !flow_lists_make(&search->next, n, arcs, narcs, false) ||
      !flow_lists_make(&search->previous, n, arcs, narcs, true)) {
    search_drop(search);
    return false;
  }
  uint32_t **arrays[SEARCH_ARRAYS] = {
      &search->number,   &search->vertex, &search->parent, &search->semi,        &search->label,
      &search->ancestor, &search->idom,   &search->bucket, &search->bucket_next, &search->stack};
  for (uint32_t i = 0; i < SEARCH_ARRAYS; i++)
    *arrays[i] = search->words + (size_t)i * (n + 1);
  for (uint32_t node = 0; node < n; node++)
    search->number[node] = FLOW_NONE;
  return true;
}

static void search_enter(struct search *search, uint32_t node, uint32_t parent) {
  uint32_t number = search->count++;
  search->number[node] = number;
  search->vertex[number] = node;
  search->parent[number] = parent;
  search->semi[number] = number;
  search->label[number] = number;
  search->ancestor[number] = FLOW_NONE;
  search->bucket[number] = FLOW_NONE;
  search->idom[number] = 0;
}

/* Numbers what root reaches, and puts it into tree's reverse postorder. */
static void search_run(struct search *search, struct flow_dominators *tree, uint32_t root) {
  uint32_t *cursor = search->bucket_next; /* not in use yet */
  uint32_t depth = 0;
  uint32_t finished = 0;
  search_enter(search, root, 0);
  search->stack[depth++] = root;
  cursor[root] = search->next.start[root];
  while (depth > 0) {
    uint32_t node = search->stack[depth - 1];
    if (cursor[node] == search->next.start[node + 1]) {
      tree->reverse_postorder[finished++] = node;
      depth--;
      continue;
    }
    uint32_t to = search->next.items[cursor[node]++];
    if (search->number[to] != FLOW_NONE)
      continue;
    search_enter(search, to, search->number[node]);
    search->stack[depth++] = to;
    cursor[to] = search->next.start[to];
  }
  for (uint32_t low = 0, high = finished - 1; low < high; low++, high--) {
    uint32_t node = tree->reverse_postorder[low];
    tree->reverse_postorder[low] = tree->reverse_postorder[high];
    tree->reverse_postorder[high] = node;
  }
}

/* The number with the least semidominator on the way from number to the root of its linked tree. */
static uint32_t search_least(struct search *search, uint32_t number) {
  uint32_t *ancestor = search->ancestor;
  uint32_t *label = search->label;
  if (ancestor[number] == FLOW_NONE)
    return label[number];
  uint32_t depth = 0;
  for (uint32_t at = number; ancestor[ancestor[at]] != FLOW_NONE; at = ancestor[at])
    search->stack[depth++] = at;
  while (depth > 0) {
    uint32_t at = search->stack[--depth];
    uint32_t above = ancestor[at];
    if (search->semi[label[above]] < search->semi[label[at]])
      label[at] = label[above];
    ancestor[at] = ancestor[above];
  }
  return label[number];
}

static void search_dominators(struct search *search) {
  for (uint32_t at = search->count - 1; at > 0; at--) {
    uint32_t node = search->vertex[at];
    for (uint32_t i = search->previous.start[node]; i < search->previous.start[node + 1]; i++) {
      uint32_t from = search->number[search->previous.items[i]];
      if (from == FLOW_NONE)
        continue;
      uint32_t semi = search->semi[search_least(search, from)];
      if (semi < search->semi[at])
        search->semi[at] = semi;
    }
    search->bucket_next[at] = search->bucket[search->semi[at]];
    search->bucket[search->semi[at]] = at;
    uint32_t parent = search->parent[at];
    search->ancestor[at] = parent;
    for (uint32_t in = search->bucket[parent]; in != FLOW_NONE; in = search->bucket_next[in]) {
      uint32_t least = search_least(search, in);
      search->idom[in] = search->semi[least] < search->semi[in] ? least : parent;
    }
    search->bucket[parent] = FLOW_NONE;
  }
  for (uint32_t at = 1; at < search->count; at++)
    if (search->idom[at] != search->semi[at])
      search->idom[at] = search->idom[search->idom[at]];
}

/* Numbers the tree so that what a node dominates is one range. A dominator has a lower number in
 * preorder than what it dominates. */
static void number_tree(struct search *search, struct flow_dominators *tree) {
  uint32_t *size = search->label;
  uint32_t *free_from = search->semi;
  for (uint32_t at = 0; at < search->count; at++)
    size[at] = 1;
  for (uint32_t at = search->count - 1; at > 0; at--)
    size[search->idom[at]] += size[at];
  for (uint32_t at = 0; at < search->count; at++) {
    uint32_t first = 0;
    if (at > 0) {
      first = free_from[search->idom[at]];
      free_from[search->idom[at]] += size[at];
    }
    free_from[at] = first + 1;
    tree->first[search->vertex[at]] = first;
    tree->last[search->vertex[at]] = first + size[at] - 1;
  }
}

bool flow_dominators_make(struct flow_dominators *tree, uint32_t n, uint32_t root,
                          const struct flow_arc *arcs, uint32_t narcs) {
  struct search search;
  *tree = (struct flow_dominators){.reverse_postorder = calloc((size_t)n * 4, sizeof(uint32_t))};
  if (tree->reverse_postorder == NULL)
    return false;
  tree->rank = tree->reverse_postorder + n;
  tree->first = tree->rank + n;
  tree->last = tree->first + n;
  if (!search_make(&search, n, arcs, narcs)) {
    flow_dominators_drop(tree);
    return false;
  }
  search_run(&search, tree, root);
  search_dominators(&search);
  number_tree(&search, tree);
  tree->nreached = search.count;
  for (uint32_t node = 0; node < n; node++)
    tree->rank[node] = FLOW_NONE;
  for (uint32_t i = 0; i < tree->nreached; i++)
    tree->rank[tree->reverse_postorder[i]] = i;
  search_drop(&search);
  return true;
}

void flow_dominators_drop(struct flow_dominators *tree) {
  free_words(&tree->reverse_postorder);
}

bool flow_dominates(const struct flow_dominators *tree, uint32_t by, uint32_t node) {
  if (tree->rank[by] == FLOW_NONE || tree->rank[node] == FLOW_NONE)
    return false;
  return tree->first[by] <= tree->first[node] && tree->first[node] <= tree->last[by];
}
