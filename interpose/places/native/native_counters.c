/* Counters of loops (native_counters.h). */
#include "interpose/places/native/native_counters.h"

#include <stdlib.h>
#include <string.h>

#include "interpose/places/flow/flow_rounds.h"

/* Of a function: a loop costs a look at all of it. */
enum { COUNTERS_MAX = 32, LOOPS_MAX = 128, ROOM_FIRST = 16 };

/* ---- what it says ---- */

static int64_t signed_of(uint64_t value, uint32_t bits) {
  return bits == 32 ? (int32_t)(uint32_t)value : (int64_t)value;
}

/* Rounds that are left, this one among them, of numbers as far apart. */
static struct place_round rounds_left(int64_t value, int64_t limit, int64_t step) {
  int64_t left;
  if (__builtin_sub_overflow(limit, value, &left) || left == INT64_MIN)
    return (struct place_round){0, 0};
  bool is_more =
      left % step != 0 && (left < 0) == (step < 0); /* a part of a step is a round, too */
  left = left / step + is_more;
  if (left < 0 || left >= PLACE_EPOCHS_MAX)
    return (struct place_round){0, 0};
  return (struct place_round){PLACE_EPOCHS_MAX - (uint32_t)left, PLACE_EPOCHS_MAX};
}

struct place_round native_counter_says(const struct native_counter *counter, uint64_t value,
                                       uint64_t limit, bool is_past) {
  int64_t step = counter->step, now = signed_of(value, counter->bits),
          end = signed_of(limit, counter->limit_bits);
  if (is_past && __builtin_sub_overflow(now, step, &now))
    return (struct place_round){0, 0};
  if (step == 0)
    return (struct place_round){now == end && !is_past ? 2 : 1, 2};
  if (step > 0 && now < 0) /* where it comes to 0, its numbers would begin anew */
    return (struct place_round){0, 0};
  if (step > 0 && end > 0 && now / step < PLACE_ROUND_MAX) {
    int64_t total = end / step + (end % step != 0);
    return (struct place_round){(uint32_t)(now / step) + 1,
                                total <= PLACE_ROUND_MAX ? (uint32_t)total : 0};
  }
  return rounds_left(now, end, step);
}

/* ---- what blocks do ---- */

static bool counting_is_variable(uint32_t i) {
  return i >= NATIVE_REGISTERS || (NATIVE_KEPT >> i & 1);
}

void native_counting_begin(struct native_counting *counting) {
  memset(counting->plus, 0, sizeof counting->plus);
}

void native_counting_step(struct native_counting *counting, const struct native_testing *testing,
                          uint32_t position) {
  for (uint32_t i = 0; i < NATIVE_REGISTERS + testing->nslots; i++) {
    const struct native_held *is = &testing->contents[i];
    if (is->like == i + 1 && is->plus != counting->plus[i]) {
      counting->plus[i] = is->plus;
      counting->positions[i] = position;
    }
  }
}

/* Makes room for one more thing of that size. */
static bool counting_grow(struct native_counting *counting, void **things, uint32_t count,
                          uint32_t *room, size_t size) {
  if (count < *room)
    return true;
  uint32_t more = *room == 0 ? ROOM_FIRST : 2 * *room;
  void *grown = reallocarray(*things, more, size);
  counting->failed |= grown == NULL;
  if (grown == NULL)
    return false;
  *things = grown;
  *room = more;
  return true;
}

static void add_change(struct native_counting *counting, struct native_change change) {
  void *changes = counting->changes;
  if (counting_grow(counting, &changes, counting->nchanges, &counting->changes_room,
                    sizeof change)) {
    counting->changes = changes;
    counting->changes[counting->nchanges++] = change;
  }
}

static void add_decision(struct native_counting *counting, struct native_decision decision) {
  void *decisions = counting->decisions;
  if (counting_grow(counting, &decisions, counting->ndecisions, &counting->decisions_room,
                    sizeof decision)) {
    counting->decisions = decisions;
    counting->decisions[counting->ndecisions++] = decision;
  }
}

void native_counting_end(struct native_counting *counting, const struct native_testing *testing,
                         uint32_t block) {
  for (uint32_t i = 0; i < NATIVE_REGISTERS + testing->nslots; i++) {
    const struct native_held *is = &testing->contents[i];
    if (!counting_is_variable(i) || (is->like == i + 1 && !is->is_moved))
      continue;
    add_change(counting,
               (struct native_change){.block = block,
                                      .variable = i,
                                      .position = counting->positions[i],
                                      .is_step = is->like == i + 1 && !is->varies && is->plus != 0,
                                      .is_number = is->is_number && !is->varies,
                                      .plus = is->plus,
                                      .memory = is->memory});
  }
  if (testing->decides.bits == 32 || testing->decides.bits == 64)
    add_decision(counting, (struct native_decision){block, testing->decides});
}

/* ---- what loops do ---- */

struct search {
  struct native_graph *graph;
  const struct native_counting *counting;
  const struct native_testing *testing;
  struct flow_rounds *rounds;
  uint8_t *ways; /* by block, in the loop: enum way */
  uint32_t loop;
  /* What the loop does to the variables. */
  struct use {
    uint32_t nchanges;
    const struct native_change *last;
    struct native_memory memory; /* that it reads it from; without bits: from none, or several */
    bool is_several;
  } uses[NATIVE_TESTED];
};

/* Where control goes from a block: out of the loop; to where it begins, or it is that block. */
enum way { WAY_LEAVES = 1, WAY_ROUND = 2 };

static bool is_within(const struct search *search, uint32_t block) {
  uint32_t loop = flow_rounds_loop(search->rounds, block);
  return loop == search->loop || flow_rounds_around(search->rounds, search->loop, loop);
}

static bool is_in_itself(const struct search *search, uint32_t block) {
  return flow_rounds_loop(search->rounds, block) == search->loop;
}

/* Whether each round goes through the block. */
static bool each_round_goes(const struct search *search, uint32_t block) {
  uint32_t head = flow_rounds_head(search->rounds, search->loop);
  const struct flow_lists *previous = flow_rounds_previous(search->rounds);
  for (uint32_t i = previous->start[head]; i < previous->start[head + 1]; i++)
    if (is_within(search, previous->items[i]) &&
        !flow_rounds_through(search->rounds, block, previous->items[i]))
      return false;
  return true;
}

static void look_at_edges(struct search *search) {
  uint32_t head = flow_rounds_head(search->rounds, search->loop);
  memset(search->ways, 0, search->graph->nblocks);
  for (uint32_t i = 0; i < search->graph->nedges; i++) {
    const struct flow_edge *edge = &search->graph->edges[i];
    if (edge->exceptional || !is_within(search, edge->from))
      continue;
    search->ways[edge->from] |= is_within(search, edge->to) ? 0 : WAY_LEAVES;
    search->ways[edge->from] |= edge->to == head ? WAY_ROUND : 0;
  }
  search->ways[head] |= WAY_ROUND;
}

static void look_at_changes(struct search *search) {
  memset(search->uses, 0, sizeof search->uses);
  for (uint32_t i = 0; i < search->counting->nchanges; i++) {
    const struct native_change *change = &search->counting->changes[i];
    struct use *use = &search->uses[change->variable];
    if (!is_within(search, change->block))
      continue;
    use->nchanges++;
    use->last = change;
    if (change->memory.bits == 0)
      continue;
    use->is_several |= use->memory.bits != 0 && !native_memory_is(use->memory, change->memory);
    use->memory = change->memory;
  }
  for (uint32_t i = 0; i < NATIVE_TESTED; i++)
    if (search->uses[i].is_several)
      search->uses[i].memory.bits = 0;
}

static bool native_stays(const struct search *search, uint32_t variable) {
  return search->uses[variable].nchanges == 0;
}

static struct native_variable variable_of(const struct search *search, uint32_t variable) {
  if (variable < NATIVE_REGISTERS)
    return (struct native_variable){.is_slot = false, .reg = (uint8_t)variable};
  uint32_t slot = variable - NATIVE_REGISTERS;
  return (struct native_variable){.is_slot = true,
                                  .reg = (uint8_t)search->testing->slots[slot].base,
                                  .at = search->testing->slots[slot].at};
}

static bool find_limit_in_memory(const struct search *search, struct native_memory memory,
                                 struct native_counter *counter) {
  counter->limit = NATIVE_LIMIT_MEMORY;
  counter->limit_bits = memory.bits;
  counter->number = memory.at;
  counter->has_base = memory.base != 0;
  if (memory.bits == 0 || !counter->has_base)
    return memory.bits != 0;
  counter->limit_in = variable_of(search, memory.base - 1);
  return native_stays(search, memory.base - 1);
}

/* A word that is always the same one's. */
static bool counters_is_static(const struct search *search, uint32_t variable) {
  return variable >= NATIVE_REGISTERS &&
         search->testing->slots[variable - NATIVE_REGISTERS].base == NATIVE_STATIC;
}

/* What the counter is compared with. False: it does not stay as it is, or is not known. */
static bool find_limit(const struct search *search, const struct native_held *of,
                       struct native_counter *counter) {
  bool is_variable = of->like != 0 && !of->varies;
  counter->number = of->plus;
  if (of->is_number && !of->varies) {
    counter->limit = NATIVE_LIMIT_NUMBER;
    return true;
  }
  if (is_variable &&
      (native_stays(search, of->like - 1) || counters_is_static(search, of->like - 1))) {
    counter->limit = NATIVE_LIMIT_VARIABLE;
    counter->limit_in = variable_of(search, of->like - 1);
    return true;
  }
  if (is_variable && !of->is_moved)
    return find_limit_in_memory(search, search->uses[of->like - 1].memory, counter);
  return of->like == 0 && !of->is_moved && find_limit_in_memory(search, of->memory, counter);
}

/* Whether control leaves the loop behind a block if what that compares is equal; otherwise if it is not. */
static bool leaves_if_equal(const struct search *search, const struct native_decision *decision) {
  bool jump_leaves = false;
  for (uint32_t i = 0; i < search->graph->nedges; i++) {
    const struct flow_edge *edge = &search->graph->edges[i];
    jump_leaves |= edge->from == decision->block && !edge->exceptional &&
                   edge->to != decision->block + 1 && !is_within(search, edge->to);
  }
  return (decision->of.jumps == JUMP_IF_EQUAL) == jump_leaves;
}

/* Of what each round sets to a number, unless it ends the loop before: whether the condition ends it with that number. */
static bool find_second(const struct search *search, const struct native_decision *decision,
                        const struct native_held *with, const struct native_change *change,
                        struct native_counter *counter) {
  bool equal = signed_of((uint64_t)change->plus, decision->of.bits) ==
               signed_of((uint64_t)with->plus, decision->of.bits);
  counter->limit = NATIVE_LIMIT_NUMBER;
  counter->number = change->plus;
  return with->is_number && !with->varies && decision->of.jumps != JUMP_OTHERWISE &&
         each_round_goes(search, decision->block) && leaves_if_equal(search, decision) == equal;
}

/* The counter that a condition compares, if it is one. */
static bool find_counter(const struct search *search, const struct native_decision *decision,
                         bool swapped, struct native_counter *counter) {
  const struct native_held *is = swapped ? &decision->of.b : &decision->of.a;
  if (is->like == 0 || is->varies)
    return false;
  uint32_t slot = is->like - 1 - NATIVE_REGISTERS;
  if (is->like > NATIVE_REGISTERS && (search->testing->taken >> slot & 1) != 0)
    return false; /* others may change it */
  const struct native_change *change = search->uses[is->like - 1].last;
  if (search->uses[is->like - 1].nchanges != 1 || !is_in_itself(search, change->block) ||
      !each_round_goes(search, change->block))
    return false;
  *counter = (struct native_counter){.variable = variable_of(search, is->like - 1),
                                     .bits = decision->of.bits,
                                     .limit_bits = decision->of.bits,
                                     .step = change->is_step ? change->plus : 0,
                                     .block = change->block,
                                     .position = change->position};
  const struct native_held *with = swapped ? &decision->of.a : &decision->of.b;
  if (change->is_number && is->plus == 0)
    return find_second(search, decision, with, change, counter);
  return change->is_step && find_limit(search, with, counter);
}

/* Where in a round the blocks stand. */
static uint8_t *find_sides(const struct search *search, uint32_t block) {
  uint8_t *sides = calloc(search->graph->nblocks, 1);
  const bool *led = flow_rounds_led(search->rounds, block);
  for (uint32_t i = 0; sides != NULL && i < search->graph->nblocks; i++) {
    if (!is_within(search, i))
      continue;
    if (i == block)
      sides[i] = NATIVE_SIDE_WITHIN;
    else if (!led[i])
      sides[i] = NATIVE_SIDE_BEFORE;
    else if (flow_rounds_through(search->rounds, block, i))
      sides[i] = NATIVE_SIDE_PAST;
  }
  return sides;
}

/* A condition that begins or ends each round counts more than one in between. */
static void count_loop(struct search *search) {
  struct native_graph *graph = search->graph;
  struct native_counter found, counter;
  bool has = false;
  look_at_edges(search);
  look_at_changes(search);
  for (uint32_t i = 0; i < search->counting->ndecisions; i++) {
    const struct native_decision *decision = &search->counting->decisions[i];
    bool goes_round = (search->ways[decision->block] & WAY_ROUND) != 0;
    if (!is_in_itself(search, decision->block) || !(search->ways[decision->block] & WAY_LEAVES) ||
        (has && !goes_round))
      continue;
    if (!find_counter(search, decision, false, &counter) &&
        !find_counter(search, decision, true, &counter))
      continue;
    found = counter;
    has = true;
    if (goes_round)
      break;
  }
  if (!has)
    return;
  found.depth = flow_rounds_depth(search->rounds, search->loop);
  found.begin = graph->blocks[found.block].position;
  found.sides = find_sides(search, found.block);
  if (found.sides != NULL)
    graph->counters[graph->ncounters++] = found;
}

static bool has_step(const struct native_counting *counting) {
  for (uint32_t i = 0; i < counting->nchanges; i++)
    if (counting->changes[i].is_step || counting->changes[i].is_number)
      return true;
  return false;
}

/* Each loop whose rounds a place can say once: where its head is met. */
static void count_loops(struct search *search) {
  uint32_t looked = 0;
  for (uint32_t block = 0; block < search->graph->nblocks && looked < LOOPS_MAX &&
                           search->graph->ncounters < COUNTERS_MAX;
       block++) {
    uint32_t loop = flow_rounds_loop(search->rounds, block);
    if (loop != FLOW_NONE && flow_rounds_head(search->rounds, loop) == block &&
        flow_rounds_depth(search->rounds, loop) < PLACE_LEVELS) {
      search->loop = loop;
      looked++;
      count_loop(search);
    }
  }
}

void native_counters_find(struct native_graph *graph, struct native_counting *counting,
                          const struct native_testing *testing) {
  struct flow_graph flow = {graph->blocks, graph->edges, graph->nblocks, graph->nedges, NULL};
  struct search search = {.graph = graph, .counting = counting, .testing = testing};
  if (!counting->failed && has_step(counting) &&
      (graph->counters = calloc(COUNTERS_MAX, sizeof *graph->counters)) != NULL &&
      (search.ways = calloc((size_t)graph->nblocks + 1, 1)) != NULL &&
      (search.rounds = flow_rounds_make(&flow)) != NULL)
    count_loops(&search);
  flow_rounds_free(search.rounds);
  free(search.ways);
  free(counting->changes);
  free(counting->decisions);
}
