/* Which conditions decide whether control comes to an item in a round, and whether they are the
 * same in all rounds: the turn, and PLACE_FIXED (core/place/place.h). Called by flow_analyse.
 *
 * A condition decides on an item if one of its ways always leads to the item, and another goes on
 * in the loop and may not: control dependence (Ferrante, Ottenstein and Warren, "The program
 * dependence graph and its use in optimization", 1987), found as in Cytron and others, "Efficiently
 * computing static single assignment form and the control dependence graph", 1991. What only
 * decides whether the loop is left, or goes round at once, decides on nothing in it. */
#include "interpose/places/flow/flow_private.h"

#include <stdlib.h>

#define STEPS_MAX ((uint32_t)1 << 20) /* items that are looked at */

/* What is known of the conditions that decide on an item. */
struct decided {
  uint32_t first;  /* of the item's ways that go on in the loop around it, one; FLOW_NONE */
  bool is_divided; /* there are more */
  bool depends;    /* some condition decides on the item */
  uint32_t turn; /* of the last of those that are known to change, or of what decides on them; 0 */
  bool varies;   /* one of them, or of those that decide on it, is not known to be fixed */
};

struct testing {
  const struct flow_work *work;
  struct flow_values *all; /* by loop: what is set in it and in what is in it */
  uint32_t *behind; /* by item: what it leads to in any case next; the exit for the last ones */
  struct decided *decided; /* by item */
  uint32_t steps;
  uint32_t turns; /* ways of conditions that change, so far */
};

/* ---- What loops set ---- */

static void add_to_loops(struct testing *testing) {
  const struct flow *flow = testing->work->flow;
  for (uint32_t block = 0; block < flow->nblocks; block++) {
    const struct flow_values *values = &testing->work->graph->values[block];
    uint32_t loop = flow->items[block].around;
    for (; flow->items[block].reached && loop != FLOW_NONE; loop = flow->items[loop].around) {
      testing->all[loop - flow->nblocks].sets |= values->sets;
      testing->all[loop - flow->nblocks].moves |= values->moves;
      testing->all[loop - flow->nblocks].reused |= values->reused;
    }
  }
}

/* ---- The tree of what comes behind ---- */

/* after: the dominators of items, backwards from the exit. What reaches no end leads to nothing. */
static void find_behind(struct testing *testing, const struct flow_dominators *after,
                        uint32_t *order) {
  uint32_t exit = testing->work->flow->nitems, depth = 0, *ways = order + after->nreached;
  for (uint32_t item = 0; item <= exit; item++)
    testing->behind[item] = exit;
  for (uint32_t i = 0; i < after->nreached; i++)
    order[after->first[after->reverse_postorder[i]]] = after->reverse_postorder[i];
  for (uint32_t i = 0; i < after->nreached; i++) {
    uint32_t item = order[i];
    while (depth > 0 && !flow_dominates(after, ways[depth - 1], item))
      depth--;
    testing->behind[item] = depth == 0 ? exit : ways[depth - 1];
    ways[depth++] = item;
  }
}

/* ---- Conditions ---- */

/* Whether a block decides in another way in other rounds of the loops around it, beginning with
 * this one: there is one (edge_between). */
enum rounds { ROUNDS_UNKNOWN, ROUNDS_CHANGE, ROUNDS_FIXED };

static enum rounds rounds_of(const struct testing *testing, uint32_t block, uint32_t loop) {
  const struct flow *flow = testing->work->flow;
  const struct flow_values *values = &testing->work->graph->values[block], *all;
  do {
    all = &testing->all[loop - flow->nblocks];
    if (values->tests & all->moves & ~all->reused)
      return ROUNDS_CHANGE;
    loop = flow->items[loop].around;
  } while (loop != FLOW_NONE);
  return values->tests_more || (values->tests & all->sets) ? ROUNDS_UNKNOWN : ROUNDS_FIXED;
}

/* The items of one loop that an edge leads from and to. False: there are none, or it goes round. */
static bool edge_between(const struct flow_work *work, const struct flow_edge *edge, uint32_t *from,
                         uint32_t *to) {
  const struct flow_item *items = work->flow->items;
  if (edge->exceptional || !items[edge->from].reached || !work->alive[edge->to])
    return false;
  uint32_t loop = flow_common_loop(work, items[edge->from].around, items[edge->to].around);
  *from = edge->from;
  *to = edge->to;
  if (loop == FLOW_NONE || *to == work->head[loop])
    return false;
  while (items[*from].around != loop)
    *from = items[*from].around;
  while (items[*to].around != loop)
    *to = items[*to].around;
  return *from != *to;
}

static void find_divided(struct testing *testing) {
  const struct flow_work *work = testing->work;
  uint32_t from, to;
  for (uint32_t item = 0; item < work->flow->nitems; item++)
    testing->decided[item].first = FLOW_NONE;
  for (uint32_t i = 0; i < work->graph->nedges; i++) {
    if (!edge_between(work, &work->graph->edges[i], &from, &to))
      continue;
    struct decided *decided = &testing->decided[from];
    decided->is_divided |= decided->first != FLOW_NONE && decided->first != to;
    decided->first = to;
  }
}

/* Of several conditions one turn stands for all: it does not matter which, as long as it is the
 * same for all that they decide on. */
static void add_condition(struct decided *decided, const struct decided *by) {
  decided->depends = true;
  decided->varies |= by->varies;
  if (by->turn > decided->turn)
    decided->turn = by->turn;
}

/* What an item decides on by one of its ways: a block that may go others, or a loop that is left in
 * several. Of a block whose other ways leave the loop around it, or go round, what decides on the
 * block decides. */
static void decide_by(struct testing *testing, uint32_t item, uint32_t to) {
  const struct flow *flow = testing->work->flow;
  struct decided by = testing->decided[item];
  if (by.is_divided) {
    enum rounds rounds =
        item >= flow->nblocks ? ROUNDS_UNKNOWN : rounds_of(testing, item, flow->items[item].around);
    by.depends = true;
    by.varies |= rounds != ROUNDS_FIXED;
    if (rounds == ROUNDS_CHANGE)
      by.turn = testing->turns++ % PLACE_TURNS_MAX + 1;
  }
  for (; by.depends && to != testing->behind[item] && to != flow->nitems;
       to = testing->behind[to]) {
    add_condition(&testing->decided[to], &by);
    testing->steps++;
  }
}

static void decide_by_all(struct testing *testing, uint32_t block) {
  const struct flow_work *work = testing->work;
  uint32_t from, to;
  for (uint32_t i = work->next.start[block]; i < work->next.start[block + 1]; i++) {
    struct flow_edge edge = {.from = block, .to = work->next.items[i]};
    if (edge_between(work, &edge, &from, &to))
      decide_by(testing, from, to);
  }
}

static void give_flags(struct testing *testing) {
  const struct flow_work *work = testing->work;
  bool found = testing->steps < STEPS_MAX;
  for (uint32_t item = 0; item < work->flow->nitems; item++) {
    const struct decided *decided = &testing->decided[item];
    work->flow->items[item].flags = 0;
    if (!found || !decided->depends)
      continue;
    work->flow->items[item].flags = (uint16_t)(decided->turn << PLACE_TURN_SHIFT);
    if (!decided->varies)
      work->flow->items[item].flags |= PLACE_FIXED;
  }
}

bool flow_find_tests(struct flow_work *work, const struct flow_dominators *after) {
  const struct flow *flow = work->flow;
  uint32_t nloops = flow->nitems - flow->nblocks;
  if (work->graph->values == NULL || nloops == 0)
    return true;
  struct testing testing = {.work = work,
                            .all = calloc(nloops, sizeof *testing.all),
                            .behind = malloc(((size_t)flow->nitems + 1) * sizeof *testing.behind),
                            .decided = calloc(flow->nitems, sizeof *testing.decided)};
  uint32_t *order = calloc(2 * ((size_t)flow->nitems + 1), sizeof *order);
  bool found =
      testing.all != NULL && testing.behind != NULL && testing.decided != NULL && order != NULL;
  if (found) {
    add_to_loops(&testing);
    find_behind(&testing, after, order);
    find_divided(&testing);
    /* What decides on a condition comes before it. */
    for (uint32_t rank = 0; rank < work->dominators.nreached && testing.steps < STEPS_MAX; rank++)
      decide_by_all(&testing, work->dominators.reverse_postorder[rank]);
    give_flags(&testing);
  }
  free(order);
  free(testing.decided);
  free(testing.behind);
  free(testing.all);
  return found;
}
