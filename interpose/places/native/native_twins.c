/* Calls that look as if a compiler had made several of one: see native_graph.h. */
#include "interpose/places/native/native_twins.h"

#include <stdlib.h>

enum {
  PAIRS_MAX = 256,    /* of loops that are remembered */
  WORK_MAX = 400000,  /* pairs of calls of one function that are compared */
  SEARCH_WORK = 2000, /* what a search from a block counts as */
};

enum kin {
  KIN_NONE,
  KIN_TWINS,    /* in two loops */
  KIN_BRANCHES, /* in two loops, and two branches */
  KIN_BEHIND,   /* in a loop, and behind it */
};

struct pair {
  uint32_t one, other; /* loops */
  enum kin kin;
};

struct search {
  const struct native_graph *graph;
  const struct native_calls *calls;
  struct flow_rounds *rounds;
  enum kin *found; /* by call: the least that it is to a twin of its */
  struct pair pairs[PAIRS_MAX];
  uint32_t npairs, work;
};

static uint32_t twins_block(const struct search *search, uint32_t call) {
  return search->calls->block_at[search->calls->all[call].position];
}

static uint32_t twins_loop(const struct search *search, uint32_t call) {
  return flow_rounds_loop(search->rounds, twins_block(search, call));
}

/* Whether both go to one function, and no argument is known to differ: it may take none. */
static bool is_alike(struct search *search, uint32_t one, uint32_t other) {
  const struct native_passed *passed = &search->calls->all[one].passed;
  search->work++;
  return passed->callee != 0 && native_passes_alike(passed, &search->calls->all[other].passed);
}

/* ---- two loops that do the same ---- */

static bool has_call_like(struct search *search, uint32_t loop, uint32_t call) {
  for (uint32_t i = 0; i < search->calls->count; i++)
    if (flow_rounds_around(search->rounds, loop, twins_loop(search, i)) &&
        is_alike(search, call, i))
      return true;
  return false;
}

/* Whether a loop makes all calls that the other one makes, and maybe more: what a compiler knows of
 * the rounds of one of them takes calls away. */
static bool does_all_of(struct search *search, uint32_t loop, uint32_t other) {
  for (uint32_t i = 0; i < search->calls->count; i++)
    if (flow_rounds_around(search->rounds, other, twins_loop(search, i)) &&
        !has_call_like(search, loop, i))
      return false;
  return true;
}

static enum kin kin_of_loops(struct search *search, uint32_t one, uint32_t other) {
  uint32_t first = flow_rounds_head(search->rounds, one),
           second = flow_rounds_head(search->rounds, other);
  if (!does_all_of(search, one, other) && !does_all_of(search, other, one))
    return KIN_NONE;
  search->work += 2 * SEARCH_WORK;
  return flow_rounds_leads(search->rounds, first, second) ||
                 flow_rounds_leads(search->rounds, second, first)
             ? KIN_TWINS
             : KIN_BRANCHES;
}

static enum kin kin_in_loops(struct search *search, uint32_t one, uint32_t other) {
  for (uint32_t i = 0; i < search->npairs; i++)
    if (search->pairs[i].one == one && search->pairs[i].other == other)
      return search->pairs[i].kin;
  enum kin kin = kin_of_loops(search, one, other);
  if (search->npairs < PAIRS_MAX)
    search->pairs[search->npairs++] = (struct pair){one, other, kin};
  return kin;
}

/* ---- a round behind its loop ---- */

uint32_t native_straight_from(const struct native_graph *graph, const struct flow_rounds *rounds,
                              uint32_t block, uint32_t passed[LEADING_MAX]) {
  const struct flow_lists *next = flow_rounds_next(rounds);
  uint32_t count = 0;
  passed[count++] = block;
  for (uint32_t at = 0; at < count; at++) {
    block = passed[at];
    for (uint32_t i = next->start[block];
         graph->blocks[block].sites == 0 && i < next->start[block + 1]; i++)
      if (count < LEADING_MAX)
        passed[count++] = next->items[i];
  }
  return count;
}

/* Whether control comes from a block to where the loop begins, and nothing is called on the way. */
static bool leads_straight(const struct search *search, uint32_t block, uint32_t loop) {
  uint32_t passed[LEADING_MAX];
  uint32_t count = native_straight_from(search->graph, search->rounds, block, passed);
  for (uint32_t i = 0; i < count; i++)
    if (flow_rounds_begins(search->rounds, loop, passed[i]))
      return true;
  return false;
}

/* Whether control either goes from a block into a loop, and so comes to a call, or past both. */
static bool guards_both(struct search *search, uint32_t block, uint32_t loop, uint32_t call) {
  const struct flow_lists *next = flow_rounds_next(search->rounds);
  uint32_t first = next->start[block], to = twins_block(search, call);
  if (next->start[block + 1] != first + 2 ||
      flow_rounds_loop(search->rounds, block) != twins_loop(search, call) ||
      !flow_rounds_through(search->rounds, block, to))
    return false;
  for (uint32_t way = 0; way < 2; way++) {
    if (!leads_straight(search, next->items[first + way], loop))
      continue;
    search->work += SEARCH_WORK;
    return !flow_rounds_leads(search->rounds, next->items[first + !way], to);
  }
  return false;
}

/* Whether the call may be the last round of a loop that another call stands in. */
static bool is_behind_its_loop(struct search *search, uint32_t call, uint32_t in_loop) {
  uint32_t outer = twins_loop(search, call), inner = twins_loop(search, in_loop);
  if (inner == FLOW_NONE || inner == outer ||
      flow_rounds_outermost(search->rounds, twins_block(search, in_loop),
                            twins_block(search, call)) != inner ||
      (outer != FLOW_NONE && !flow_rounds_around(search->rounds, outer, inner)))
    return false;
  search->work += SEARCH_WORK;
  if (!flow_rounds_leads(search->rounds, flow_rounds_head(search->rounds, inner),
                         twins_block(search, call)))
    return false;
  for (uint32_t block = 0; block < search->graph->nblocks && search->work < WORK_MAX; block++)
    if (guards_both(search, block, inner, call))
      return true;
  return false;
}

/* ---- all of them ---- */

static enum kin kin_of(struct search *search, uint32_t one, uint32_t other) {
  uint32_t a = twins_block(search, one), b = twins_block(search, other);
  uint32_t loop = flow_rounds_outermost(search->rounds, a, b),
           beside = flow_rounds_outermost(search->rounds, b, a);
  if (loop != FLOW_NONE && beside != FLOW_NONE)
    return kin_in_loops(search, loop, beside);
  return is_behind_its_loop(search, one, other) || is_behind_its_loop(search, other, one)
             ? KIN_BEHIND
             : KIN_NONE;
}

static void note_kin(enum kin *found, enum kin kin) {
  if (kin != KIN_NONE && (*found == KIN_NONE || kin < *found))
    *found = kin;
}

static void twins_note(struct native_graph *graph, const struct native_calls *calls,
                       const enum kin *found) {
  graph->twins = malloc(((size_t)calls->count + 1) * sizeof *graph->twins);
  for (uint32_t i = 0; i < calls->count && graph->twins != NULL; i++)
    if (found[i] != KIN_NONE)
      graph->twins[graph->ntwins++] =
          (struct native_twin){calls->all[i].next - 1, found[i] == KIN_BRANCHES};
}

void native_find_twins(struct native_graph *graph, const struct native_calls *calls,
                       struct flow_rounds *rounds) {
  struct search search = {.graph = graph, .calls = calls, .rounds = rounds};
  if (!calls->keep)
    return;
  search.found = calloc((size_t)calls->count + 1, sizeof *search.found);
  for (uint32_t i = 0; i < calls->count && search.found != NULL; i++)
    for (uint32_t j = i + 1; j < calls->count && search.work < WORK_MAX; j++) {
      enum kin kin = is_alike(&search, i, j) ? kin_of(&search, i, j) : KIN_NONE;
      note_kin(&search.found[i], kin);
      note_kin(&search.found[j], kin);
    }
  if (search.found != NULL && search.work < WORK_MAX)
    twins_note(graph, calls, search.found);
  free(search.found);
}
