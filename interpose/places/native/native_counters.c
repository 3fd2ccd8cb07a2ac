/* Counters of loops (native_counters.h). */
#include "interpose/places/native/native_counters.h"

#include <stdlib.h>
#include <string.h>

#include "interpose/places/native/native_words.h"

/* Of a function: a loop costs a look at all of it. */
enum { COUNTERS_MAX = 4096, LOOPS_MAX = 128, ROOM_FIRST = 16 };

/* ---- what it says ---- */

static int64_t signed_of(uint64_t value, uint32_t bits) {
  return bits == 8    ? (int8_t)(uint8_t)value
         : bits == 16 ? (int16_t)(uint16_t)value
         : bits == 32 ? (int32_t)(uint32_t)value
                      : (int64_t)value;
}

/* Rounds that are left, of numbers as far apart. */
static struct place_round rounds_left(int64_t value, int64_t limit, int64_t step) {
  int64_t left;
  if (__builtin_sub_overflow(limit, value, &left) || left == INT64_MIN)
    return (struct place_round){0, 0};
  bool is_more =
      left % step != 0 && (left < 0) == (step < 0); /* a part of a step is a round, too */
  return place_round_left(left / step + is_more);
}

struct place_round native_counter_says(const struct native_counter *counter, uint64_t value,
                                       uint64_t limit) {
  int64_t step = counter->step, now = signed_of(value, counter->bits),
          end = signed_of(limit, counter->limit_bits);
  if (__builtin_sub_overflow(now, counter->plus, &now))
    return (struct place_round){0, 0};
  if (step == 0)
    return (struct place_round){now == end && !counter->is_first ? 2 : 1, 2};
  if (step > 0 && now < 0) /* where it comes to 0, its numbers would begin anew */
    return (struct place_round){0, 0};
  if (step > 0 && end > 0 && now / step < PLACE_ROUND_MAX) {
    int64_t total = end / step + (end % step != 0);
    return (struct place_round){(uint32_t)(now / step) + 1,
                                total <= PLACE_ROUND_MAX ? (uint32_t)total : 0};
  }
  return rounds_left(now, end, step);
}

/* ---- what loops do ---- */

struct search {
  struct native_graph *graph;
  const struct native_testing *testing;
  struct native_words words;
  uint8_t *ways; /* by block, in the loop: enum way */
  uint32_t room; /* of the graph's counters */
};

/* Where control goes from a block: out of the loop; to where it begins, or it is that block. */
enum way { WAY_LEAVES = 1, WAY_ROUND = 2 };

/* What a condition compares, in terms of the round's begin: a counter with its limit. */
struct compared {
  const struct native_decision *decision;
  struct native_word counter, limit;
  int64_t step; /* 0: it is the limit in the second of two rounds */
};

static bool is_in_itself(const struct search *search, uint32_t block) {
  return flow_rounds_loop(search->words.rounds, block) == search->words.loop;
}

/* Whether each round goes through the block. */
static bool each_round_goes(const struct search *search, uint32_t block) {
  const struct native_words *words = &search->words;
  for (uint32_t i = 0; i < search->graph->nedges; i++) {
    const struct flow_edge *edge = &search->graph->edges[i];
    if (words->within[edge->from] &&
        flow_rounds_goes_round(words->rounds, words->loop, edge->from, edge->to) &&
        !flow_rounds_through(words->rounds, block, edge->from))
      return false;
  }
  return true;
}

static void look_at_edges(struct search *search) {
  const struct native_words *words = &search->words;
  memset(search->ways, 0, search->graph->nblocks);
  for (uint32_t i = 0; i < search->graph->nedges; i++) {
    const struct flow_edge *edge = &search->graph->edges[i];
    if (edge->exceptional || !words->within[edge->from])
      continue;
    bool leaves = !words->within[edge->to];
    search->ways[edge->from] |= leaves ? WAY_LEAVES : 0;
    if (!leaves && flow_rounds_goes_round(words->rounds, words->loop, edge->from, edge->to)) {
      search->ways[edge->from] |= WAY_ROUND;
      search->ways[edge->to] |= WAY_ROUND;
    }
  }
}

/* Others may change it. */
static bool is_taken(const struct search *search, uint32_t variable) {
  return variable >= NATIVE_REGISTERS &&
         (search->testing->taken >> (variable - NATIVE_REGISTERS) & 1) != 0;
}

/* Each round leaves it as it is. */
static bool counters_stay(const struct search *search, uint32_t variable) {
  const struct native_word *round = &search->words.round[variable];
  return round->kind == NATIVE_WORD_VARIABLE && round->of == variable && round->plus == 0;
}

static struct native_variable variable_of(const struct search *search, uint32_t variable) {
  if (variable < NATIVE_REGISTERS)
    return (struct native_variable){.is_slot = false, .reg = (uint8_t)variable};
  uint32_t slot = variable - NATIVE_REGISTERS;
  return (struct native_variable){.is_slot = true,
                                  .reg = (uint8_t)search->testing->slots[slot].base,
                                  .at = search->testing->slots[slot].at};
}

/* What the counter is compared with stays as it is, and is known. What each round reads anew from
 * one word of memory is that. */
static bool find_limit(const struct search *search, struct native_word *limit) {
  if (limit->kind == NATIVE_WORD_VARIABLE && limit->plus == 0 &&
      search->words.round[limit->of].kind == NATIVE_WORD_MEMORY)
    *limit = search->words.round[limit->of];
  bool is_led_to =
      limit->kind == NATIVE_WORD_VARIABLE || (limit->kind == NATIVE_WORD_MEMORY && limit->has_base);
  return limit->kind != NATIVE_WORD_UNKNOWN && (!is_led_to || counters_stay(search, limit->of));
}

/* Whether control leaves the loop behind a block if what that compares is equal; otherwise if it is
 * not. */
static bool leaves_if_equal(const struct search *search, const struct native_decision *decision) {
  bool jump_leaves = false;
  for (uint32_t i = 0; i < search->graph->nedges; i++) {
    const struct flow_edge *edge = &search->graph->edges[i];
    jump_leaves |= edge->from == decision->block && !edge->exceptional &&
                   edge->to != decision->block + 1 && !search->words.within[edge->to];
  }
  return (decision->jumps == JUMP_IF_EQUAL) == jump_leaves;
}

/* Whether a condition that each round comes to, and that compares the counter with a number, ends
 * the loop in the second one at the latest: where each round sets the counter to a number, with
 * that; where it adds to the counter, with all numbers but one. */
static bool find_second(const struct search *search, struct compared *compared) {
  const struct native_decision *decision = compared->decision;
  struct native_word round = search->words.round[compared->counter.of];
  if (compared->limit.kind != NATIVE_WORD_NUMBER || decision->jumps == JUMP_OTHERWISE ||
      !each_round_goes(search, decision->block))
    return false;
  int64_t number, next;
  if (__builtin_sub_overflow(compared->limit.plus, compared->counter.plus, &number) ||
      __builtin_add_overflow(number, round.plus, &next))
    return false;
  bool is_set = round.kind == NATIVE_WORD_NUMBER;
  if (decision->is_bit && (!is_set || (uint64_t)round.plus > 1 || compared->counter.plus != 0))
    return false;
  bool equal = is_set && signed_of((uint64_t)round.plus, decision->bits) ==
                             signed_of((uint64_t)number, decision->bits);
  if (leaves_if_equal(search, decision) != equal)
    return false;
  compared->step = 0;
  compared->limit.plus = is_set ? round.plus : next;
  return true;
}

/* Whether a condition compares a counter. */
static bool find_counter(const struct search *search, const struct native_decision *decision,
                         bool swapped, struct compared *found) {
  *found = (struct compared){decision, decision->a, decision->b, 0};
  if (swapped)
    *found = (struct compared){decision, decision->b, decision->a, 0};
  found->counter = native_words_of(&search->words, decision->block, found->counter);
  found->limit = native_words_of(&search->words, decision->block, found->limit);
  if (found->counter.kind != NATIVE_WORD_VARIABLE || is_taken(search, found->counter.of))
    return false;
  struct native_word round = search->words.round[found->counter.of];
  if (round.width < found->counter.width)
    found->counter.width = round.width;
  bool is_step =
      round.kind == NATIVE_WORD_VARIABLE && round.of == found->counter.of && round.plus != 0;
  found->step = round.plus;
  return ((is_step || round.kind == NATIVE_WORD_NUMBER) && find_second(search, found)) ||
         (is_step && !decision->is_bit && find_limit(search, &found->limit));
}

/* Whether a condition may end the loop, and compares a counter of that. */
static bool is_counted(const struct search *search, const struct native_decision *decision,
                       struct compared *compared) {
  return is_in_itself(search, decision->block) && (search->ways[decision->block] & WAY_LEAVES) &&
         (find_counter(search, decision, false, compared) ||
          find_counter(search, decision, true, compared));
}

/* A condition that begins or ends each round counts more than one in between. */
static bool find_compared(const struct search *search, struct compared *found) {
  const struct native_counting *counting = search->words.counting;
  struct compared compared;
  bool has = false;
  for (uint32_t i = 0; i < counting->ndecisions; i++) {
    const struct native_decision *decision = &counting->decisions[i];
    bool goes_round = (search->ways[decision->block] & WAY_ROUND) != 0;
    if ((has && !goes_round) || !is_counted(search, decision, &compared))
      continue;
    *found = compared;
    has = true;
    if (goes_round)
      break;
  }
  return has;
}

/* ---- where it lies ---- */

/* Whether a variable can be read while a call is made. */
static bool is_readable(const struct search *search, const struct native_site *site,
                        uint32_t variable) {
  if (variable < NATIVE_REGISTERS)
    return (NATIVE_KEPT >> variable & 1) != 0;
  uint32_t slot = variable - NATIVE_REGISTERS;
  bool is_below =
      search->testing->slots[slot].base == RSP &&
      (site->depth == NATIVE_DEPTH_UNKNOWN || search->testing->slots[slot].at < -site->depth);
  return !is_below;
}

/* A variable that holds while a call is made what another one held where the round began, and a
 * number: itself, if it does. there: what variables hold then. */
static bool find_holder(const struct search *search, const struct native_site *site,
                        const struct native_word *there, struct native_word of,
                        struct native_variable *holder, int64_t *plus) {
  for (uint32_t i = 0; i <= search->words.nvariables; i++) {
    uint32_t variable = i == 0 ? of.of : i - 1;
    const struct native_word *holds = &there[variable];
    if (holds->kind != NATIVE_WORD_VARIABLE || holds->of != of.of || holds->width < of.width ||
        !is_readable(search, site, variable) || (i > 0 && is_taken(search, variable)))
      continue;
    *holder = variable_of(search, variable);
    *plus = holds->plus;
    return true;
  }
  return false;
}

static bool find_limit_at(const struct search *search, const struct native_site *site,
                          const struct native_word *there, struct native_word limit,
                          struct native_counter *counter) {
  int64_t plus = 0;
  counter->limit = limit.kind == NATIVE_WORD_NUMBER     ? NATIVE_LIMIT_NUMBER
                   : limit.kind == NATIVE_WORD_VARIABLE ? NATIVE_LIMIT_VARIABLE
                                                        : NATIVE_LIMIT_MEMORY;
  counter->number = limit.plus;
  counter->has_base = limit.has_base;
  if (limit.kind == NATIVE_WORD_NUMBER || (limit.kind == NATIVE_WORD_MEMORY && !limit.has_base))
    return true;
  if (limit.kind == NATIVE_WORD_MEMORY)
    limit.width = 64;
  return find_holder(search, site, there, limit, &counter->limit_in, &plus) &&
         !__builtin_sub_overflow(limit.plus, plus, &counter->number);
}

static void add_counter(struct search *search, struct native_counter counter) {
  struct native_graph *graph = search->graph;
  if (graph->ncounters == search->room) {
    uint32_t more = search->room == 0 ? ROOM_FIRST : 2 * search->room;
    struct native_counter *grown =
        more > COUNTERS_MAX ? NULL : reallocarray(graph->counters, more, sizeof *grown);
    if (grown == NULL)
      return;
    graph->counters = grown;
    search->room = more;
  }
  graph->counters[graph->ncounters++] = counter;
}

/* What a call in the loop can tell of its rounds. What comes behind the condition of a loop of two
 * rounds, and is not left by that, is in the first one. */
static void count_site(struct search *search, const struct compared *compared,
                       const struct native_site *site) {
  const struct native_words *words = &search->words;
  struct native_word there[NATIVE_TESTED];
  struct native_counter counter = {.position = site->position,
                                   .depth = flow_rounds_depth(words->rounds, words->loop),
                                   .step = compared->step,
                                   .limit_bits = compared->decision->bits};
  struct native_word of = compared->counter;
  if (of.width > compared->decision->bits)
    of.width = compared->decision->bits;
  if (counter.limit_bits > compared->limit.width)
    counter.limit_bits = compared->limit.width;
  counter.bits = of.width;
  if (!native_words_at(words, site, there))
    return;
  bool has = find_holder(search, site, there, of, &counter.variable, &counter.plus);
  counter.is_first = !has && counter.step == 0 &&
                     flow_rounds_through(words->rounds, compared->decision->block, site->block) &&
                     is_readable(search, site, of.of);
  if (counter.is_first)
    counter.variable = variable_of(search, of.of);
  if ((has || counter.is_first) && find_limit_at(search, site, there, compared->limit, &counter))
    add_counter(search, counter);
}

/* Whether the loop is gone into with a number in the variable, wherever that is done. */
static bool begins_with_number(const struct search *search, uint32_t variable) {
  const struct native_words *words = &search->words;
  for (uint32_t i = 0; i < search->graph->nedges; i++) {
    const struct flow_edge *edge = &search->graph->edges[i];
    if (words->rank[edge->from] == 0 || words->within[edge->from] || !words->within[edge->to])
      continue;
    struct native_changes changes = words->counting->blocks[edge->from];
    bool is_number = false;
    for (uint32_t k = changes.first; k < changes.first + changes.count; k++)
      is_number |= words->counting->changes[k].variable == variable &&
                   words->counting->changes[k].to.kind == NATIVE_WORD_NUMBER;
    if (!is_number)
      return false;
  }
  return true;
}

static void note_numbers(struct search *search, const struct compared *compared) {
  uint32_t block = compared->decision->block;
  search->graph->values[block].counts_numbers = compared->limit.kind == NATIVE_WORD_NUMBER &&
                                                (search->ways[block] & WAY_ROUND) != 0 &&
                                                begins_with_number(search, compared->counter.of);
}

static void note_counted(struct search *search) {
  const struct native_counting *counting = search->words.counting;
  struct compared compared;
  for (uint32_t i = 0; i < counting->ndecisions; i++)
    if (is_counted(search, &counting->decisions[i], &compared))
      search->graph->values[counting->decisions[i].block].counts = true;
}

static void count_loop(struct search *search, uint32_t loop) {
  const struct native_counting *counting = search->words.counting;
  struct compared compared;
  if (!native_words_find(&search->words, loop) || !search->words.has_round)
    return;
  look_at_edges(search);
  note_counted(search);
  if (!find_compared(search, &compared))
    return;
  note_numbers(search, &compared);
  if (flow_rounds_depth(search->words.rounds, loop) >= PLACE_LEVELS)
    return;
  for (uint32_t i = 0; i < counting->nsites; i++)
    if (search->words.within[counting->sites[i].block])
      count_site(search, &compared, &counting->sites[i]);
}

/* Each loop whose rounds a place can say once: by the first block of it alone. */
static void count_loops(struct search *search) {
  struct flow_rounds *rounds = search->words.rounds;
  uint32_t loops[LOOPS_MAX], nloops = 0;
  for (uint32_t block = 0; block < search->graph->nblocks; block++)
    for (uint32_t loop = flow_rounds_loop(rounds, block); loop != FLOW_NONE;
         loop = flow_rounds_within(rounds, loop)) {
      uint32_t i = 0;
      while (i < nloops && loops[i] != loop)
        i++;
      if (i < nloops)
        break; /* and so all around it */
      if (search->graph->blocks[block].sites == 0)
        continue;
      if (nloops == LOOPS_MAX)
        return;
      loops[nloops++] = loop;
      count_loop(search, loop);
    }
}

void native_counters_find(struct native_graph *graph, struct flow_rounds *rounds,
                          const struct native_counting *counting,
                          const struct native_testing *testing) {
  struct search search = {.graph = graph, .testing = testing};
  search.ways = calloc((size_t)graph->nblocks + 1, 1);
  if (native_words_make(&search.words, graph, rounds, counting, testing) && search.ways != NULL)
    count_loops(&search);
  native_words_drop(&search.words);
  free(search.ways);
}
