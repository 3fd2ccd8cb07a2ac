/* Cycles that control enters at several blocks get one head, a hub, if they decide themselves between
 * these: see flow_analyse in flow.h. Called by it, before all other steps.
 *
 * In each turn edges to a block that all ways to their beginning go through are left out. The
 * strongly connected components of what is left are such cycles (found as by Kosaraju and Sharir,
 * 1981): each has two entries at least. */
#include "interpose/places/flow/flow_private.h"

#include <stdlib.h>

enum {
  TURNS_MAX = 16, /* so many such cycles within each other */
  STEPS_MAX = 16, /* so many blocks that only lead on */
};

/* Of one turn. Arrays are by block, if nothing else is said. A cycle is named by one of its blocks.
 */
struct hubs {
  const struct flow_graph *graph;
  struct flow_dominators dominators;
  struct flow_arc *forward; /* edges but those that are left out */
  uint32_t nforward;
  uint32_t *cycle;      /* FLOW_NONE: it is in none */
  uint32_t *first;      /* of a cycle: its first block */
  uint32_t *next;       /* the next one of the same cycle */
  uint32_t *edges_to;   /* the first edge that leads to it */
  uint32_t *edges_next; /* by edge: the next one that leads to the same block */
  uint32_t *way;        /* its only edge, if it does nothing but lead on; FLOW_NONE */
  uint32_t *from;       /* where its only edge comes from; FLOW_NONE: there are more */
  uint32_t *entry;      /* one that control goes to behind it, in its cycle; FLOW_NONE */
  uint32_t *to_hub;     /* its edge to the hub that is made; FLOW_NONE */
  uint32_t *ahead[2];   /* its edges, if it has two, and both are ordinary; FLOW_NONE */
  uint32_t *stack;
  bool *is_entry;
  bool *is_head;   /* of a loop */
  bool *decides;   /* it decides between entries of its cycle, which it goes back to */
  bool *is_tested; /* of a cycle: some block of it does */
};

enum { WORD_ARRAYS = 12, BOOL_ARRAYS = 4 };

static bool hubs_allocate(struct hubs *hubs) {
  size_t n = hubs->graph->nblocks, nedges = (size_t)hubs->graph->nedges + 1;
  hubs->forward = calloc(nedges, sizeof *hubs->forward);
  hubs->cycle = calloc(WORD_ARRAYS * n + nedges, sizeof *hubs->cycle);
  hubs->is_entry = calloc(BOOL_ARRAYS * n, sizeof *hubs->is_entry);
  if (hubs->forward == NULL || hubs->cycle == NULL || hubs->is_entry == NULL)
    return false;
  uint32_t **arrays[] = {&hubs->first,    &hubs->next,     &hubs->edges_to,  &hubs->way,
                         &hubs->from,     &hubs->entry,    &hubs->to_hub,    &hubs->stack,
                         &hubs->ahead[0], &hubs->ahead[1], &hubs->edges_next};
  for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
    *arrays[i] = hubs->cycle + (i + 1) * n;
  hubs->decides = hubs->is_entry + n;
  hubs->is_tested = hubs->decides + n;
  hubs->is_head = hubs->is_tested + n;
  return true;
}

static void hubs_drop(struct hubs *hubs) {
  flow_dominators_drop(&hubs->dominators);
  free(hubs->forward);
  free(hubs->cycle);
  free(hubs->is_entry);
}

/* ---- Cycles ---- */

/* Whether there are any. */
static bool hubs_find_forward(struct hubs *hubs) {
  const struct flow_dominators *tree = &hubs->dominators;
  bool found = false;
  for (uint32_t i = 0; i < hubs->graph->nedges; i++) {
    uint32_t from = hubs->graph->edges[i].from, to = hubs->graph->edges[i].to;
    bool goes_round = flow_dominates(tree, to, from);
    hubs->is_head[to] |= goes_round;
    if (goes_round || tree->rank[from] == FLOW_NONE)
      continue;
    hubs->forward[hubs->nforward++] = (struct flow_arc){from, to};
    found |= tree->rank[from] > tree->rank[to];
  }
  return found;
}

/* All that reaches block and is in no cycle yet is in one with it. */
static void hubs_collect(struct hubs *hubs, const struct flow_lists *previous, uint32_t block) {
  uint32_t depth = 0;
  hubs->cycle[block] = block;
  hubs->stack[depth++] = block;
  while (depth > 0) {
    uint32_t to = hubs->stack[--depth];
    for (uint32_t i = previous->start[to]; i < previous->start[to + 1]; i++) {
      uint32_t from = previous->items[i];
      if (hubs->cycle[from] != FLOW_NONE)
        continue;
      hubs->cycle[from] = block;
      hubs->stack[depth++] = from;
    }
  }
}

/* False: no memory. Whoever has begun the turn drops what there is. */
static bool hubs_find_cycles(struct hubs *hubs) {
  uint32_t n = hubs->graph->nblocks;
  struct flow_lists previous;
  struct flow_dominators forward; /* for its order */
  if (!flow_lists_make(&previous, n, hubs->forward, hubs->nforward, true))
    return false;
  bool made = flow_dominators_make(&forward, n, 0, hubs->forward, hubs->nforward);
  for (uint32_t block = 0; block < n; block++)
    hubs->cycle[block] = FLOW_NONE;
  for (uint32_t i = 0; made && i < forward.nreached; i++)
    if (hubs->cycle[forward.reverse_postorder[i]] == FLOW_NONE)
      hubs_collect(hubs, &previous, forward.reverse_postorder[i]);
  flow_dominators_drop(&forward);
  flow_lists_drop(&previous);
  return made;
}

static void hubs_list_cycles(struct hubs *hubs) {
  for (uint32_t block = 0; block < hubs->graph->nblocks; block++)
    hubs->first[block] = FLOW_NONE;
  for (uint32_t block = hubs->graph->nblocks; block-- > 0;) {
    uint32_t cycle = hubs->cycle[block];
    if (cycle == FLOW_NONE)
      continue;
    hubs->next[block] = hubs->first[cycle];
    hubs->first[cycle] = block;
  }
  for (uint32_t block = 0; block < hubs->graph->nblocks; block++)
    if (hubs->first[block] == block && hubs->next[block] == FLOW_NONE)
      hubs->cycle[block] = FLOW_NONE; /* alone */
}

/* ---- Entries, and what decides between them ---- */

static bool hubs_is_reached(const struct hubs *hubs, uint32_t block) {
  return hubs->dominators.rank[block] != FLOW_NONE;
}

static void hubs_find_entries(struct hubs *hubs) {
  const struct flow_graph *graph = hubs->graph;
  for (uint32_t block = 0; block < graph->nblocks; block++)
    hubs->edges_to[block] = FLOW_NONE;
  for (uint32_t i = 0; i < graph->nedges; i++) {
    uint32_t from = graph->edges[i].from, to = graph->edges[i].to;
    if (!hubs_is_reached(hubs, from))
      continue;
    hubs->edges_next[i] = hubs->edges_to[to];
    hubs->edges_to[to] = i;
    hubs->is_entry[to] |= hubs->cycle[to] != FLOW_NONE && hubs->cycle[from] != hubs->cycle[to];
  }
}

static void hubs_find_ways(struct hubs *hubs) {
  const struct flow_graph *graph = hubs->graph;
  uint32_t *count = hubs->stack;
  for (uint32_t block = 0; block < graph->nblocks; block++) {
    count[block] = 0;
    hubs->way[block] = FLOW_NONE;
    uint32_t to = hubs->edges_to[block];
    hubs->from[block] = to == FLOW_NONE || hubs->edges_next[to] != FLOW_NONE || block == 0
                            ? FLOW_NONE
                            : graph->edges[to].from;
  }
  for (uint32_t i = 0; i < graph->nedges; i++) {
    uint32_t from = graph->edges[i].from;
    bool leads_on = count[from]++ == 0 && !graph->edges[i].exceptional &&
                    graph->blocks[from].sites == 0 && !graph->blocks[from].returns;
    hubs->way[from] = leads_on ? i : FLOW_NONE;
  }
}

/* Whether control comes to a block from one other alone, and all that it does is to lead on. */
static bool hubs_is_between(const struct hubs *hubs, uint32_t block) {
  return !hubs->is_entry[block] && hubs->way[block] != FLOW_NONE && hubs->from[block] != FLOW_NONE;
}

/* Whether what an entry leads on to stands no farther on in the function than a block. */
static bool hubs_leads_back(const struct hubs *hubs, uint32_t block, uint32_t entry) {
  const struct flow_graph *graph = hubs->graph;
  for (int i = 0; i < STEPS_MAX && hubs->way[entry] != FLOW_NONE; i++)
    entry = graph->edges[hubs->way[entry]].to;
  return graph->blocks[entry].position <= graph->blocks[block].position;
}

static void hubs_find_tests(struct hubs *hubs) {
  const struct flow_graph *graph = hubs->graph;
  for (uint32_t block = 0; block < graph->nblocks; block++)
    hubs->entry[block] = FLOW_NONE;
  for (uint32_t i = 0; i < graph->nedges; i++) {
    uint32_t from = graph->edges[i].from, to = graph->edges[i].to;
    if (hubs->cycle[from] == FLOW_NONE || graph->edges[i].exceptional)
      continue;
    while (to != from && hubs_is_between(hubs, to))
      to = graph->edges[hubs->way[to]].to;
    if (hubs->cycle[to] != hubs->cycle[from] || !hubs->is_entry[to] ||
        !hubs_leads_back(hubs, from, to))
      continue;
    if (hubs->entry[from] == FLOW_NONE)
      hubs->entry[from] = to;
    hubs->decides[from] |= hubs->entry[from] != to;
    hubs->is_tested[hubs->cycle[from]] |= hubs->decides[from];
  }
}

/* ---- Tests that a compiler has made two of ---- */

/* From behind what is no block with two ordinary edges nothing is ahead. */
static void hubs_find_ahead(struct hubs *hubs) {
  const struct flow_graph *graph = hubs->graph;
  uint32_t *count = hubs->stack;
  for (uint32_t block = 0; block < graph->nblocks; block++)
    count[block] = 0;
  for (uint32_t i = 0; i < graph->nedges; i++) {
    uint32_t from = graph->edges[i].from;
    bool is_more = graph->edges[i].exceptional || count[from] == 2;
    count[from] = is_more ? 3 : count[from] + 1;
    if (count[from] <= 2)
      hubs->ahead[count[from] - 1][from] = i;
  }
  for (uint32_t block = 0; block < graph->nblocks; block++)
    if (count[block] != 2 || graph->blocks[block].returns || !hubs_is_reached(hubs, block))
      hubs->ahead[0][block] = FLOW_NONE;
}

/* Where an edge leads past what only leads on. */
static uint32_t hubs_end_of(const struct hubs *hubs, uint32_t edge) {
  uint32_t to = hubs->graph->edges[edge].to;
  for (int i = 0; i < STEPS_MAX && hubs_is_between(hubs, to); i++)
    to = hubs->graph->edges[hubs->way[to]].to;
  return to;
}

/* Where the two ways of a block that decides lead. False: it is none such. */
static bool hubs_find_ends(const struct hubs *hubs, uint32_t block, uint32_t ends[2]) {
  if (hubs->ahead[0][block] == FLOW_NONE)
    return false;
  for (int way = 0; way < 2; way++)
    ends[way] = hubs_end_of(hubs, hubs->ahead[way][block]);
  return true;
}

static bool hubs_is_entry_of(const struct hubs *hubs, uint32_t block, uint32_t cycle) {
  return hubs->is_entry[block] && hubs->cycle[block] == cycle;
}

/* Of an entry of a cycle that does nothing but to decide whether the cycle goes on: the entry that it goes on
 * with. FLOW_NONE: it is none such. */
static uint32_t hubs_tested_entry(const struct hubs *hubs, uint32_t block) {
  uint32_t ends[2], cycle = hubs->cycle[block];
  if (!hubs->is_entry[block] || hubs->graph->blocks[block].sites != 0 ||
      !hubs_find_ends(hubs, block, ends) ||
      hubs_is_entry_of(hubs, ends[0], cycle) == hubs_is_entry_of(hubs, ends[1], cycle))
    return FLOW_NONE;
  return ends[hubs_is_entry_of(hubs, ends[1], cycle)];
}

/* Where control comes from to what only leads on to an edge's end. */
static uint32_t hubs_begin_of(const struct hubs *hubs, uint32_t edge) {
  uint32_t from = hubs->graph->edges[edge].from;
  for (int i = 0; i < STEPS_MAX && hubs_is_between(hubs, from); i++)
    from = hubs->from[from];
  return from;
}

static bool hubs_are_two(const uint32_t ends[2], uint32_t one, uint32_t other) {
  return (ends[0] == one && ends[1] == other) || (ends[0] == other && ends[1] == one);
}

/* Whether what stands in front of a cycle decides between the same two as the cycle's test; or, of the first round, as
 * the test does of each other, between what it goes on with and the test. */
static bool hubs_decides_as(const struct hubs *hubs, uint32_t block, uint32_t test,
                            uint32_t entry) {
  uint32_t ends[2], ends_of_test[2];
  return hubs->cycle[block] != hubs->cycle[test] && hubs_find_ends(hubs, block, ends) &&
         hubs_find_ends(hubs, test, ends_of_test) &&
         (hubs_are_two(ends, ends_of_test[0], ends_of_test[1]) || hubs_are_two(ends, entry, test));
}

static void hubs_share(struct hubs *hubs, struct flow_copy *made, uint32_t block, uint32_t test) {
  made->edges[hubs->ahead[0][block]].to = test;
  made->edges[hubs->ahead[1][block]].from = FLOW_NONE;
  hubs->ahead[0][block] = FLOW_NONE;
}

/* Whether a loop begins with a block that does nothing but to decide between two entries of a cycle in the loop. */
static bool hubs_begins_loop(const struct hubs *hubs, uint32_t block, uint32_t ends[2]) {
  if (!hubs->is_head[block] || hubs->graph->blocks[block].sites != 0 ||
      !hubs_find_ends(hubs, block, ends))
    return false;
  uint32_t cycle = hubs->cycle[ends[0]];
  return ends[0] != ends[1] && cycle != FLOW_NONE && cycle != hubs->cycle[block] &&
         hubs->is_entry[ends[0]] && hubs_is_entry_of(hubs, ends[1], cycle);
}

/* Lets what decides in a cycle as the begin of the loop around it does lead to that, of which a compiler has made a copy
 * where it knows something of the round. Whether there is any. */
static bool hubs_share_begins(struct hubs *hubs, struct flow_copy *made) {
  bool shared = false;
  for (uint32_t head = 0; head < hubs->graph->nblocks; head++) {
    uint32_t ends[2], others[2];
    if (!hubs_begins_loop(hubs, head, ends))
      continue;
    for (uint32_t i = hubs->edges_to[ends[0]]; i != FLOW_NONE; i = hubs->edges_next[i]) {
      uint32_t block = hubs_begin_of(hubs, i);
      if (hubs->cycle[block] != hubs->cycle[ends[0]] || !hubs_find_ends(hubs, block, others) ||
          !hubs_are_two(others, ends[0], ends[1]))
        continue;
      hubs_share(hubs, made, block, head);
      shared = true;
    }
  }
  return shared;
}

/* Lets all that decides as a cycle's test does lead to the test: of `while (x) ...` behind something else a compiler
 * makes a test of its own (gcc -O2), so that control enters the cycle behind the test, too. Whether there is any. */
static bool hubs_share_tests(struct hubs *hubs, struct flow_copy *made) {
  bool shared = false;
  for (uint32_t test = 0; test < hubs->graph->nblocks; test++) {
    uint32_t entry = hubs_tested_entry(hubs, test);
    if (entry == FLOW_NONE)
      continue;
    for (uint32_t i = hubs->edges_to[entry]; i != FLOW_NONE; i = hubs->edges_next[i]) {
      uint32_t block = hubs_begin_of(hubs, i);
      if (!hubs_decides_as(hubs, block, test, entry))
        continue;
      hubs_share(hubs, made, block, test);
      shared = true;
    }
  }
  return shared;
}

/* ---- Hubs ---- */

/* Whether an edge to an entry of a cycle goes to its hub. */
static bool hubs_goes_round(const struct hubs *hubs, const struct flow_edge *edge) {
  uint32_t cycle = hubs->cycle[edge->to], from = edge->from;
  if (hubs->cycle[from] != cycle)
    return true;
  while (!hubs->decides[from] && hubs_is_between(hubs, from))
    from = hubs->from[from];
  return hubs->decides[from];
}

/* One edge from a block to a hub is enough: an ordinary one, if there is any. */
static void hubs_lead_to(struct hubs *hubs, struct flow_copy *made, uint32_t edge, uint32_t hub) {
  struct flow_edge *at = &made->edges[edge];
  uint32_t *other = &hubs->to_hub[at->from];
  if (*other == FLOW_NONE || made->edges[*other].to != hub) {
    *other = edge;
    at->to = hub;
    return;
  }
  made->edges[*other].exceptional &= at->exceptional;
  at->from = FLOW_NONE;
}

static void hubs_lead_on(struct hubs *hubs, struct flow_copy *made, uint32_t entry, uint32_t hub) {
  bool exceptional = true;
  for (uint32_t i = hubs->edges_to[entry]; i != FLOW_NONE; i = hubs->edges_next[i]) {
    const struct flow_edge *edge = &hubs->graph->edges[i];
    if (!hubs_goes_round(hubs, edge))
      continue;
    exceptional &= edge->exceptional;
    hubs_lead_to(hubs, made, i, hub);
  }
  made->edges[made->graph.nedges++] = (struct flow_edge){hub, entry, exceptional};
}

static void hubs_add(struct hubs *hubs, struct flow_copy *made, uint32_t cycle, uint32_t number) {
  uint32_t hub = made->graph.nblocks++;
  made->blocks[hub] = (struct flow_block){.position = UINT32_MAX - number};
  if (made->values != NULL)
    made->values[hub] = (struct flow_values){.tests_more = true};
  for (uint32_t block = hubs->first[cycle]; block != FLOW_NONE; block = hubs->next[block])
    if (hubs->is_entry[block])
      hubs_lead_on(hubs, made, block, hub);
}

/* Adds hubs to a graph, of which nwritten blocks are not hubs. *more: there are any. False: no memory.
 */
static bool hubs_make(struct hubs *hubs, struct flow_copy *made, uint32_t nwritten, bool *more) {
  uint32_t before = hubs->graph->nblocks;
  size_t nedges = hubs->graph->nedges; /* at most as many from hubs as to them */
  if (!hubs_find_cycles(hubs) ||
      !flow_copy_make(made, hubs->graph, (size_t)before + before / 2, 2 * nedges))
    return false;
  hubs_list_cycles(hubs);
  hubs_find_entries(hubs);
  hubs_find_ways(hubs);
  hubs_find_ahead(hubs);
  *more = hubs_share_begins(hubs, made) || hubs_share_tests(hubs, made);
  if (*more) {
    flow_copy_tidy(made);
    return true;
  }
  hubs_find_tests(hubs);
  for (uint32_t block = 0; block < before; block++)
    hubs->to_hub[block] = FLOW_NONE;
  for (uint32_t block = 0; block < before; block++) {
    uint32_t cycle = hubs->cycle[block];
    if (cycle != FLOW_NONE && hubs->first[cycle] == block && hubs->is_tested[cycle])
      hubs_add(hubs, made, cycle, made->graph.nblocks - nwritten);
  }
  flow_copy_tidy(made);
  *more = made->graph.nblocks > before;
  return true;
}

/* *more: made is the graph with hubs. False: no memory. */
static bool hubs_turn(const struct flow_graph *graph, struct flow_copy *made, uint32_t nwritten,
                      bool *more) {
  struct hubs hubs = {.graph = graph};
  *made = (struct flow_copy){0};
  bool done = hubs_allocate(&hubs);
  for (uint32_t i = 0; done && i < graph->nedges; i++)
    hubs.forward[i] = (struct flow_arc){graph->edges[i].from, graph->edges[i].to};
  done = done &&
         flow_dominators_make(&hubs.dominators, graph->nblocks, 0, hubs.forward, graph->nedges);
  *more = done && hubs_find_forward(&hubs);
  if (*more)
    done = hubs_make(&hubs, made, nwritten, more);
  hubs_drop(&hubs);
  if (!done || !*more)
    flow_copy_drop(made);
  return done;
}

/* Whether a graph stays within the limits, whatever its hubs are. */
static bool hubs_have_room(const struct flow_graph *graph) {
  return graph->nblocks > 0 && graph->nblocks + graph->nblocks / 2 <= FLOW_BLOCKS_MAX &&
         2 * graph->nedges <= FLOW_EDGES_MAX;
}

bool flow_find_hubs(const struct flow_graph *graph, struct flow_copy *made) {
  *made = (struct flow_copy){.graph = *graph};
  bool more = true, done = true;
  for (int turn = 0; done && more && turn < TURNS_MAX && hubs_have_room(&made->graph); turn++) {
    struct flow_copy next;
    done = hubs_turn(&made->graph, &next, graph->nblocks, &more);
    if (done && !more)
      break;
    flow_copy_drop(made);
    *made = next;
  }
  return done;
}
