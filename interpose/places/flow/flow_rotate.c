/* Loops that a compiler has rotated are put back as they were: see flow_analyse in flow.h. Called
 * by it, before all other steps. */
#include "interpose/places/flow/flow_private.h"

#include <stdlib.h>
#include <string.h>

enum {
  TURNS_MAX = 16, /* so many conditions of one loop's test, each of which a turn finds */
  STEPS_MAX = 1 << 20,
};

#define OTHER_NONE FLOW_NONE       /* nothing leads there yet */
#define OTHER_MANY (FLOW_NONE - 1) /* what leads there is not one test */

/* Arrays are by block. */
struct rotation {
  struct flow_copy *made;
  uint32_t *first, *second;   /* its edges; FLOW_NONE: none */
  bool *many;                 /* there are more than those two */
  uint32_t *way;              /* where control comes to from it past what only leads on */
  struct flow_values *passed; /* what it does on that way; NULL: nothing is known */
  uint32_t *other;            /* of a head: the other way of all tests that lead to it */
  uint32_t *guards;           /* how many of these stand in front of its loop */
  uint32_t *latches;          /* ... and in it */
  uint32_t *tests;            /* of a head: its new test; FLOW_NONE: it is no such head */
  uint32_t *stack;
  uint32_t end; /* the block that stands for all that only return; FLOW_NONE: there is none */
  bool *marked;
  bool *is_head;    /* of a loop */
  uint32_t nblocks; /* before a turn adds some */
  struct flow_arc *arcs;
  struct flow_dominators dominators;
  uint32_t steps;
};

static bool rotate_allocate(struct rotation *rotation, const struct flow_graph *graph) {
  size_t n = (size_t)2 * graph->nblocks, nedges = (size_t)graph->nedges + 1;
  if (graph->values != NULL)
    rotation->passed = calloc(n, sizeof *rotation->passed);
  rotation->arcs = calloc(nedges, sizeof *rotation->arcs);
  rotation->first = calloc(8 * n + nedges, sizeof *rotation->first);
  rotation->many = calloc(3 * n, sizeof *rotation->many);
  if (rotation->arcs == NULL || rotation->first == NULL || rotation->many == NULL ||
      (graph->values != NULL && rotation->passed == NULL))
    return false;
  rotation->second = rotation->first + n;
  rotation->way = rotation->second + n;
  rotation->other = rotation->way + n;
  rotation->guards = rotation->other + n;
  rotation->latches = rotation->guards + n;
  rotation->tests = rotation->latches + n;
  rotation->stack = rotation->tests + n; /* and as many words as there are edges */
  rotation->marked = rotation->many + n;
  rotation->is_head = rotation->marked + n;
  return true;
}

static void rotate_take_arcs(struct rotation *rotation) {
  const struct flow_graph *graph = &rotation->made->graph;
  for (uint32_t i = 0; i < graph->nedges; i++)
    rotation->arcs[i] = (struct flow_arc){graph->edges[i].from, graph->edges[i].to};
}

/* ---- Where tests lead ---- */

static void rotate_find_edges(struct rotation *rotation) {
  const struct flow_graph *graph = &rotation->made->graph;
  for (uint32_t block = 0; block < graph->nblocks; block++) {
    rotation->first[block] = rotation->second[block] = FLOW_NONE;
    rotation->many[block] = false;
  }
  for (uint32_t i = 0; i < graph->nedges; i++) {
    uint32_t from = graph->edges[i].from;
    if (rotation->first[from] == FLOW_NONE)
      rotation->first[from] = i;
    else if (rotation->second[from] == FLOW_NONE)
      rotation->second[from] = i;
    else
      rotation->many[from] = true;
  }
}

static void rotate_find_heads(struct rotation *rotation) {
  const struct flow_graph *graph = &rotation->made->graph;
  for (uint32_t block = 0; block < graph->nblocks; block++)
    rotation->is_head[block] = false;
  for (uint32_t i = 0; i < graph->nedges; i++)
    if (flow_dominates(&rotation->dominators, graph->edges[i].to, graph->edges[i].from))
      rotation->is_head[graph->edges[i].to] = true;
}

/* What a loop begins with stays, even if it does nothing. */
static bool rotate_does_nothing(const struct rotation *rotation, uint32_t block) {
  const struct flow_block *is = &rotation->made->blocks[block];
  return is->sites == 0 && !is->returns && !rotation->is_head[block] && !rotation->many[block] &&
         rotation->first[block] != FLOW_NONE;
}

static bool rotate_only_returns(const struct rotation *rotation, uint32_t block) {
  const struct flow_block *is = &rotation->made->blocks[block];
  return is->sites == 0 && is->returns && rotation->first[block] == FLOW_NONE;
}

/* Where all of a block's ways come to; the block itself, if they part. A function may return at
 * several blocks that do nothing else: a compiler makes such a one for a guard, where the registers
 * that the loop needs are not saved yet. */
static uint32_t rotate_way_of(const struct rotation *rotation, uint32_t block) {
  const struct flow_edge *edges = rotation->made->edges;
  uint32_t first = rotation->first[block], second = rotation->second[block];
  if (rotate_only_returns(rotation, block))
    return rotation->end;
  if (!rotate_does_nothing(rotation, block) || edges[first].exceptional)
    return block;
  uint32_t way = rotation->way[edges[first].to];
  if (second != FLOW_NONE && (edges[second].exceptional || rotation->way[edges[second].to] != way))
    return block;
  return way;
}

static bool rotate_leads_on(const struct rotation *rotation, uint32_t block) {
  return rotation->way[block] != block;
}

static void rotate_do_as(struct flow_values *values, const struct flow_values *as) {
  values->sets |= as->sets;
  values->moves |= as->moves;
  values->reused |= as->reused;
}

static void rotate_pass(struct rotation *rotation, uint32_t block) {
  const struct flow_edge *edges = rotation->made->edges;
  uint32_t first = rotation->first[block], second = rotation->second[block];
  rotation->passed[block] = rotation->made->values[block];
  if (first != FLOW_NONE)
    rotate_do_as(&rotation->passed[block], &rotation->passed[edges[first].to]);
  if (second != FLOW_NONE)
    rotate_do_as(&rotation->passed[block], &rotation->passed[edges[second].to]);
}

/* From the last blocks on. Ways back to what is no loop's head end there. */
static void rotate_find_ways(struct rotation *rotation) {
  const struct flow_dominators *tree = &rotation->dominators;
  rotation->end = FLOW_NONE;
  for (uint32_t block = 0; block < rotation->made->graph.nblocks; block++) {
    rotation->way[block] = block;
    if (rotation->passed != NULL)
      rotation->passed[block] = (struct flow_values){0};
    if (rotation->end == FLOW_NONE && tree->rank[block] != FLOW_NONE &&
        rotate_only_returns(rotation, block))
      rotation->end = block;
  }
  for (uint32_t rank = tree->nreached; rank-- > 0;) {
    uint32_t block = tree->reverse_postorder[rank];
    rotation->way[block] = rotate_way_of(rotation, block);
    if (rotation->passed != NULL && rotate_leads_on(rotation, block))
      rotate_pass(rotation, block);
  }
}

/* Whether a block does nothing behind its sites but to decide between two ways. */
static bool rotate_is_test(const struct rotation *rotation, uint32_t block, uint32_t ways[2]) {
  const struct flow_edge *edges = rotation->made->edges;
  uint32_t first = rotation->first[block], second = rotation->second[block];
  if (second == FLOW_NONE || rotation->many[block] || edges[first].exceptional ||
      edges[second].exceptional || rotation->made->blocks[block].returns)
    return false;
  ways[0] = rotation->way[edges[first].to];
  ways[1] = rotation->way[edges[second].to];
  return ways[0] != ways[1];
}

static bool rotate_is_test_of(const struct rotation *rotation, uint32_t block, uint32_t head) {
  uint32_t ways[2];
  return rotation->dominators.rank[block] != FLOW_NONE && rotate_is_test(rotation, block, ways) &&
         (ways[0] == head || ways[1] == head);
}

/* ---- Heads of rotated loops ---- */

static bool rotate_counts_numbers(const struct rotation *rotation, uint32_t block) {
  const struct flow_values *values = rotation->made->graph.values;
  return values != NULL && values[block].counts_numbers;
}

static void rotate_note_edge(struct rotation *rotation, const struct flow_edge *edge) {
  uint32_t to = rotation->way[edge->to], ways[2], other = OTHER_MANY;
  if (rotate_is_test(rotation, edge->from, ways)) {
    bool inside = flow_dominates(&rotation->dominators, to, edge->from);
    (inside ? rotation->latches : rotation->guards)[to]++;
    if (!inside || !rotate_counts_numbers(rotation, edge->from))
      other = ways[ways[0] == to];
  }
  if (rotation->other[to] == OTHER_NONE)
    rotation->other[to] = other;
  else if (rotation->other[to] != other)
    rotation->other[to] = OTHER_MANY;
}

static void rotate_note_edges(struct rotation *rotation) {
  const struct flow_graph *graph = &rotation->made->graph;
  for (uint32_t block = 0; block < graph->nblocks; block++) {
    rotation->other[block] = OTHER_NONE;
    rotation->guards[block] = rotation->latches[block] = 0;
  }
  if (rotate_leads_on(rotation, 0))
    rotation->other[rotation->way[0]] = OTHER_MANY; /* the function begins there */
  for (uint32_t i = 0; i < graph->nedges; i++) {
    const struct flow_edge *edge = &graph->edges[i];
    if (rotation->dominators.rank[edge->from] != FLOW_NONE &&
        !rotate_leads_on(rotation, edge->from))
      rotate_note_edge(rotation, edge);
  }
}

/* Whether control comes to each guard of a loop before it comes to any other of its tests. If it
 * did not, a loop around the guard would become one with the guard's. */
static bool rotate_guards_come_first(struct rotation *rotation, uint32_t head) {
  const struct flow_graph *graph = &rotation->made->graph;
  struct flow_lists next;
  uint32_t narcs = 0;
  rotation->steps += rotation->nblocks + graph->nedges;
  if (rotation->steps > STEPS_MAX)
    return false;
  for (uint32_t block = 0; block < rotation->nblocks; block++)
    rotation->marked[block] = block == 0;
  for (uint32_t i = 0; i < graph->nedges; i++)
    if (!rotate_is_test_of(rotation, graph->edges[i].from, head))
      rotation->arcs[narcs++] = (struct flow_arc){graph->edges[i].from, graph->edges[i].to};
  if (!flow_lists_make(&next, rotation->nblocks, rotation->arcs, narcs, false))
    return false;
  flow_reach(&next, rotation->nblocks, rotation->marked, rotation->stack);
  flow_lists_drop(&next);
  for (uint32_t block = 0; block < rotation->nblocks; block++)
    if (!rotation->marked[block] && rotate_is_test_of(rotation, block, head) &&
        !flow_dominates(&rotation->dominators, head, block))
      return false;
  return true;
}

static bool rotate_is_head(struct rotation *rotation, uint32_t block) {
  return rotation->other[block] < OTHER_MANY && rotation->latches[block] > 0 &&
         rotation->guards[block] > 0 &&
         (rotation->guards[block] == 1 || rotate_guards_come_first(rotation, block));
}

/* ---- One test for all ---- */

/* What a test does on its way somewhere is done by `to` from here on. */
static void rotate_keep_values(struct rotation *rotation, uint32_t from, uint32_t to) {
  if (rotation->passed != NULL)
    rotate_do_as(&rotation->made->values[to], &rotation->passed[from]);
}

/* The head of the rotated loop that a block is a test of, of those that have a new test; FLOW_NONE:
 * of none. */
static uint32_t rotate_head_of(const struct rotation *rotation, uint32_t block) {
  uint32_t ways[2];
  if (rotation->dominators.rank[block] == FLOW_NONE || !rotate_is_test(rotation, block, ways))
    return FLOW_NONE;
  for (uint32_t i = 0; i < 2; i++)
    if (rotation->tests[ways[i]] != FLOW_NONE)
      return ways[i];
  return FLOW_NONE;
}

/* Adds a block for each rotated loop, which decides for all its tests. Returns whether there are
 * any.
 */
static bool rotate_add_tests(struct rotation *rotation) {
  struct flow_copy *made = rotation->made;
  uint32_t before = made->graph.nblocks;
  for (uint32_t block = 0; block < before; block++) {
    uint32_t test = made->graph.nblocks;
    rotation->tests[block] = FLOW_NONE;
    if (test == FLOW_BLOCKS_MAX || !rotate_is_head(rotation, block))
      continue;
    rotation->tests[block] = test;
    made->blocks[test] = (struct flow_block){.position = made->blocks[block].position};
    if (made->values != NULL)
      made->values[test] = (struct flow_values){.tests_more = true};
    made->graph.nblocks++;
  }
  return made->graph.nblocks > before;
}

/* Notes what a test asks: another one may ask something else. */
static void rotate_note_asked(struct rotation *rotation, uint32_t test, uint32_t block) {
  struct flow_copy *made = rotation->made;
  uint16_t sites = made->blocks[block].sites;
  if (made->values == NULL)
    return;
  uint32_t asks = sites > 0 && sites < UINT16_MAX ? made->values[block].asks : 0;
  if (!rotation->marked[test])
    made->values[test].asks = asks;
  else if (made->values[test].asks != asks)
    made->values[test].asks = 0;
  rotation->marked[test] = true;
}

/* Whether nothing but its tests ends a loop. What is checked in each round for an error is no test
 * of one. */
static bool rotate_ends_by_tests(struct rotation *rotation, uint32_t head,
                                 const struct flow_lists *previous) {
  const struct flow_graph *graph = &rotation->made->graph;
  bool *body = rotation->marked;
  uint32_t depth = 0;
  rotation->steps += rotation->nblocks + graph->nedges;
  if (rotation->steps > STEPS_MAX)
    return false;
  for (uint32_t block = 0; block < rotation->nblocks; block++) {
    body[block] = block == head;
    if (block != head && rotate_head_of(rotation, block) == head &&
        flow_dominates(&rotation->dominators, head, block))
      rotation->stack[depth++] = block;
  }
  while (depth > 0) {
    uint32_t block = rotation->stack[--depth];
    if (body[block] || rotation->dominators.rank[block] == FLOW_NONE)
      continue;
    body[block] = true;
    for (uint32_t i = previous->start[block]; i < previous->start[block + 1]; i++)
      rotation->stack[depth++] = previous->items[i];
  }
  for (uint32_t i = 0; i < graph->nedges; i++) {
    const struct flow_edge *edge = &graph->edges[i];
    if (body[edge->from] && !body[edge->to] && !edge->exceptional &&
        rotate_head_of(rotation, edge->from) != head)
      return false;
  }
  return true;
}

/* Lets each new test ask what all those ask for which it decides. False: no memory. */
static bool rotate_find_asked(struct rotation *rotation) {
  struct flow_copy *made = rotation->made;
  struct flow_lists previous;
  if (made->values == NULL)
    return true;
  rotate_take_arcs(rotation);
  if (!flow_lists_make(&previous, rotation->nblocks, rotation->arcs, made->graph.nedges, true))
    return false;
  for (uint32_t head = 0; head < rotation->nblocks; head++) {
    uint32_t test = rotation->tests[head];
    if (test == FLOW_NONE || made->values[test].asks == 0)
      continue;
    if (rotate_ends_by_tests(rotation, head, &previous))
      made->blocks[test].sites = 1;
    else
      made->values[test].asks = 0;
  }
  flow_lists_drop(&previous);
  return true;
}

/* From here on guards and latches are not counted: one guard is named, and latches counts the new
 * test's edges. */
static void rotate_find_guards(struct rotation *rotation) {
  uint32_t nblocks = rotation->nblocks;
  for (uint32_t block = 0; block < rotation->made->graph.nblocks; block++) {
    rotation->guards[block] = FLOW_NONE;
    rotation->latches[block] = 0;
    rotation->marked[block] = false;
  }
  for (uint32_t block = 0; block < nblocks; block++) {
    uint32_t head = rotate_head_of(rotation, block);
    if (head == FLOW_NONE)
      continue;
    rotate_note_asked(rotation, rotation->tests[head], block);
    if (!flow_dominates(&rotation->dominators, head, block))
      rotation->guards[head] = block;
  }
}

/* Lets a test lead to the new one. An edge that is left over leads on from there, or goes. */
static void rotate_lead_there(struct rotation *rotation, uint32_t block, uint32_t head) {
  struct flow_copy *made = rotation->made;
  struct flow_edge *to_head = &made->edges[rotation->first[block]];
  struct flow_edge *to_other = &made->edges[rotation->second[block]];
  uint32_t test = rotation->tests[head], guard = rotation->guards[head];
  bool inside = flow_dominates(&rotation->dominators, head, block);
  if (rotation->way[to_head->to] != head) {
    struct flow_edge *edge = to_head;
    to_head = to_other;
    to_other = edge;
  }
  rotate_keep_values(rotation, to_head->to, inside ? block : guard);
  rotate_keep_values(rotation, to_other->to, guard);
  to_head->to = test;
  uint32_t edges = rotation->latches[head]++;
  *to_other = (struct flow_edge){.from = edges < 2 ? test : FLOW_NONE,
                                 .to = edges == 0 ? head : rotation->other[head]};
  if (made->blocks[test].sites > 0) {
    made->blocks[block].sites--;
    made->asked[block] = test;
  }
}

/* ---- All of it ---- */

/* What there is flow_unrotate drops: NOLINTBEGIN(clang-analyzer-unix.Malloc) */

/* One turn: *more: it has found something. False: no memory. */
static bool rotate_turn(struct rotation *rotation, bool *more) {
  const struct flow_graph *graph = &rotation->made->graph;
  rotation->nblocks = graph->nblocks;
  rotate_take_arcs(rotation);
  if (!flow_dominators_make(&rotation->dominators, rotation->nblocks, 0, rotation->arcs,
                            graph->nedges))
    return false;
  rotate_find_edges(rotation);
  rotate_find_heads(rotation);
  rotate_find_ways(rotation);
  rotate_note_edges(rotation);
  *more = rotate_add_tests(rotation);
  if (*more)
    rotate_find_guards(rotation);
  bool done = !*more || rotate_find_asked(rotation);
  for (uint32_t block = 0; done && *more && block < rotation->nblocks; block++) {
    uint32_t head = rotate_head_of(rotation, block);
    if (head != FLOW_NONE)
      rotate_lead_there(rotation, block, head);
  }
  flow_copy_tidy(rotation->made);
  flow_dominators_drop(&rotation->dominators);
  return done;
}

/* NOLINTEND(clang-analyzer-unix.Malloc) */

bool flow_unrotate(const struct flow_graph *graph, struct flow_copy *made) {
  struct rotation rotation = {.made = made};
  size_t nblocks = (size_t)2 * graph->nblocks; /* a new test stands for two at least */
  if (!flow_copy_make(made, graph, nblocks, graph->nedges))
    return false;
  bool more = true, done = rotate_allocate(&rotation, graph);
  for (int turn = 0; done && more && turn < TURNS_MAX; turn++)
    done = rotate_turn(&rotation, &more);
  free(rotation.passed);
  free(rotation.first);
  free(rotation.many);
  free(rotation.arcs);
  if (!done)
    flow_copy_drop(made);
  return done;
}
