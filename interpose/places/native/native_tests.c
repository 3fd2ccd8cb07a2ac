/* What the conditions of a function's code test, and what its blocks set, as far as it is held in
 * registers that calls keep and in the function's own frame: see native_graph.h. Of x86-64's code.
 *
 * The compiler may keep several variables in one register. So one that a loop sets to anything but
 * a number, or what it was and a number, may be another one there.
 *
 * What calls do not keep is followed from a block into those behind it. */
#include "interpose/places/native/native_contents.h"
#include "interpose/places/flow/flow_rounds.h"
#include "interpose/places/native/native_counters.h"
#include "interpose/places/native/native_words.h"

#include <stdlib.h>
#include <string.h>

enum { RETURN_ADDRESS = 8 }; /* bytes, where a function begins */

static bool is_variable(uint32_t i) {
  return i >= NATIVE_REGISTERS || (NATIVE_KEPT >> i & 1);
}

static void begin_block(struct native_testing *testing, uint32_t block) {
  const struct native_held *entry =
      testing->entries == NULL ? NULL : testing->entries + (size_t)block * NATIVE_REGISTERS;
  for (uint32_t i = 0; i < NATIVE_REGISTERS; i++)
    testing->contents[i] = is_variable(i) || testing->counting != NULL || i == RSP
                               ? native_as_before(i)
                           : entry != NULL ? entry[i]
                                           : native_anything;
  for (uint32_t i = 0; i < testing->nslots; i++)
    testing->contents[NATIVE_REGISTERS + i] = native_slot_before(testing, i);
  testing->flags = native_anything;
  testing->compared.bits = testing->decides.bits = 0;
  testing->ntruths = 0;
  testing->has_depth = testing->depths != NULL && testing->depths[block] != NATIVE_DEPTH_UNKNOWN;
  testing->pushed = testing->has_depth ? testing->depths[block] : 0;
  testing->loses_stack = testing->forgets = testing->calls = false;
  testing->values = (struct flow_values){.tests_more = true};
}

static void end_block(struct native_testing *testing, uint32_t block) {
  struct flow_values *values = &testing->values;
  testing->grows[block] = testing->loses_stack ? NATIVE_DEPTH_UNKNOWN : testing->pushed;
  for (uint32_t i = 0; i < NATIVE_REGISTERS; i++)
    testing->exits[(size_t)block * NATIVE_REGISTERS + i] = testing->contents[i];
  if (testing->counting != NULL)
    native_counting_end(testing->counting, testing, block);
  for (uint32_t i = 0; i < NATIVE_REGISTERS + testing->nslots; i++) {
    const struct native_held *is = &testing->contents[i];
    uint64_t bit = UINT64_C(1) << i;
    if (!is_variable(i) || (is->like == i + 1 && !is->is_moved))
      continue;
    values->sets |= bit;
    *(is->is_number || is->like == i + 1 ? &values->moves : &values->reused) |= bit;
  }
  /* Others may know where the frame lies. */
  if (testing->calls && testing->use.is_taken)
    values->sets |= ~((UINT64_C(1) << NATIVE_REGISTERS) - 1);
}
/* ---- all of it ---- */

/* values: by block; NULL: they are not asked for. False: the code cannot be read. */
static bool find_all(struct native_testing *testing, const struct native_code *code,
                     const uint32_t *block_at, struct flow_values *values) {
  struct native_cursor cursor;
  uint32_t block = FLOW_ANYWHERE, next;
  bool failed, more = native_first(code, &cursor, &failed);
  for (; more; block = next) {
    next = block_at[cursor.position];
    if (testing->depths == NULL) /* the first time */
      native_values_look(&testing->use, cursor.at, cursor.is.length);
    if (next != block)
      begin_block(testing, next);
    if (cursor.is.kind == NATIVE_CALL) {
      testing->called =
          cursor.is.has_target ? (uint32_t)((uintptr_t)cursor.at + (uintptr_t)cursor.is.target) : 0;
      if (testing->counting != NULL)
        native_counting_call(testing->counting, testing, next,
                             (uint32_t)(cursor.position + cursor.is.length - 1));
    }
    native_contents_step(testing, cursor.at, cursor.is.length);
    more = native_next(code, &cursor, &failed);
    if (more && block_at[cursor.position] == next)
      continue;
    end_block(testing, next);
    if (values != NULL)
      values[next] = testing->values;
  }
  return !failed;
}

/* ---- how deep the stack is ---- */

/* Where an exception is handled, and where the block began that it comes from. */
static int64_t depth_behind(const struct native_testing *testing, const struct flow_edge *edge,
                            const int64_t *depths) {
  int64_t before = depths[edge->from], grows = edge->exceptional ? 0 : testing->grows[edge->from];
  return before == NATIVE_DEPTH_UNKNOWN || grows == NATIVE_DEPTH_UNKNOWN ? NATIVE_DEPTH_UNKNOWN
                                                                         : before + grows;
}

/* As the blocks' pushes and pops tell. A block that control comes to with one depth or another has
 * none. */
static void find_depths(const struct native_graph *graph, const struct native_testing *testing,
                        int64_t *depths, bool *has) {
  memset(has, 0, graph->nblocks);
  for (uint32_t i = 0; i < graph->nblocks; i++)
    depths[i] = NATIVE_DEPTH_UNKNOWN;
  depths[0] = RETURN_ADDRESS;
  has[0] = true;
  for (bool changed = true; changed;) {
    changed = false;
    for (uint32_t i = 0; i < graph->nedges; i++) {
      const struct flow_edge *edge = &graph->edges[i];
      if (!has[edge->from])
        continue;
      int64_t depth = depth_behind(testing, edge, depths), *to = &depths[edge->to];
      if (has[edge->to] && (*to == depth || *to == NATIVE_DEPTH_UNKNOWN))
        continue;
      *to = has[edge->to] ? NATIVE_DEPTH_UNKNOWN : depth;
      has[edge->to] = changed = true;
    }
  }
}

/* ---- what blocks begin with ---- */

static bool is_like(struct native_held a, uint32_t like) {
  return a.is_number || a.like == like;
}

/* Where it may be one or the other, that is decided by something else. */
static struct native_held native_tests_either(struct native_held a, struct native_held b) {
  uint32_t like = a.is_number ? b.like : a.like;
  if (!is_like(a, like) || !is_like(b, like))
    like = 0;
  struct native_memory memory = a.memory.bits != 0 ? a.memory : b.memory;
  if (a.memory.bits != 0 && b.memory.bits != 0 && !native_memory_is(a.memory, b.memory))
    memory.bits = 0;
  return (struct native_held){.by = a.by | b.by,
                              .by_more = true,
                              .is_number = a.is_number && b.is_number,
                              .is_moved = a.is_moved || b.is_moved || a.is_number || b.is_number,
                              .like = like,
                              .plus = a.plus,
                              .varies = a.varies || b.varies || a.plus != b.plus ||
                                        a.is_number != b.is_number,
                              .memory = memory};
}

static bool are_equal(struct native_held a, struct native_held b) {
  return a.plus == b.plus && a.varies == b.varies && native_memory_is(a.memory, b.memory) &&
         a.by == b.by && a.by_more == b.by_more && a.is_number == b.is_number &&
         a.is_moved == b.is_moved && a.like == b.like && !a.is_number;
}

/* From what is behind the blocks that lead to each. What a call has returned is known in its block
 * alone, and an exception's handler begins with nothing that is known. */
static void find_entries(const struct native_graph *graph, const struct native_held *exits,
                         struct native_held *entries, bool *has) {
  for (size_t i = 0; i < (size_t)graph->nblocks * NATIVE_REGISTERS; i++)
    entries[i] = native_anything;
  memset(has, 0, graph->nblocks);
  has[0] = true;
  for (uint32_t i = 0; i < graph->nedges; i++) {
    const struct flow_edge *edge = &graph->edges[i];
    for (uint32_t at = 0; at < NATIVE_REGISTERS; at++) {
      struct native_held *entry = &entries[(size_t)edge->to * NATIVE_REGISTERS + at];
      struct native_held exit = exits[(size_t)edge->from * NATIVE_REGISTERS + at];
      exit.is_result = false;
      exit.truth = 0;
      if (edge->exceptional || at == RSP)
        exit = native_anything;
      if (!has[edge->to])
        *entry = exit;
      else if (!are_equal(*entry, exit))
        *entry = native_tests_either(*entry, exit);
    }
    has[edge->to] = true;
  }
}

/* ---- of a function ---- */

/* Its arrays, by block, or by block and register. */
struct arrays {
  struct native_held *exits, *entries;
  struct flow_values *values;
  int64_t *depths, *grows;
  bool *has;
};

static bool arrays_make(struct arrays *arrays, uint32_t nblocks) {
  size_t blocks = (size_t)nblocks + 1, room = blocks * NATIVE_REGISTERS;
  arrays->exits = calloc(room, sizeof *arrays->exits);
  arrays->entries = calloc(room, sizeof *arrays->entries);
  arrays->values = calloc(blocks, sizeof *arrays->values);
  arrays->depths = calloc(blocks, sizeof *arrays->depths);
  arrays->grows = calloc(blocks, sizeof *arrays->grows);
  arrays->has = calloc(blocks, sizeof *arrays->has);
  return arrays->exits != NULL && arrays->entries != NULL && arrays->values != NULL &&
         arrays->depths != NULL && arrays->grows != NULL && arrays->has != NULL;
}

/* All but the values. */
static void arrays_drop(struct arrays *arrays) {
  free(arrays->exits);
  free(arrays->entries);
  free(arrays->depths);
  free(arrays->grows);
  free(arrays->has);
}

static bool tests_find(struct native_testing *testing, const struct native_graph *graph,
                       const struct native_code *code, const uint32_t *block_at,
                       struct arrays *arrays) {
  for (size_t i = 0; i < (size_t)graph->nblocks * NATIVE_REGISTERS; i++)
    arrays->exits[i] = native_anything;
  testing->exits = arrays->exits;
  testing->grows = arrays->grows;
  if (!find_all(testing, code, block_at, NULL))
    return false;
  find_depths(graph, testing, arrays->depths, arrays->has);
  testing->depths = arrays->depths;
  if (!find_all(testing, code, block_at, NULL))
    return false;
  find_entries(graph, arrays->exits, arrays->entries, arrays->has);
  testing->entries = arrays->entries;
  return find_all(testing, code, block_at, arrays->values);
}

static bool has_loop_with_call(const struct native_graph *graph, const struct flow_rounds *rounds) {
  bool has = false;
  for (uint32_t i = 0; i < graph->nblocks; i++)
    has |= graph->blocks[i].sites != 0 && flow_rounds_loop(rounds, i) != FLOW_NONE;
  return has;
}

/* What loops count, in terms of what variables are where blocks begin. */
static void tests_count(struct native_testing *testing, struct native_graph *graph,
                        const struct native_code *code, const uint32_t *block_at) {
  struct native_counting counting = {.nchanges = 0};
  struct flow_graph flow = {graph->blocks, graph->edges, graph->nblocks, graph->nedges, NULL};
  struct flow_rounds *rounds = flow_rounds_make(&flow);
  if (rounds != NULL && has_loop_with_call(graph, rounds) &&
      native_counting_begin(&counting, graph->nblocks)) {
    testing->counting = &counting;
    if (find_all(testing, code, block_at, NULL) && !counting.failed)
      native_counters_find(graph, rounds, &counting, testing);
    testing->counting = NULL;
  }
  native_counting_drop(&counting);
  flow_rounds_free(rounds);
}

void native_find_tests(struct native_graph *graph, const struct native_code *code,
                       const uint32_t *block_at) {
  struct native_cursor cursor;
  bool failed;
  struct native_testing testing = {.nslots = 0};
  struct arrays arrays = {.values = NULL};
  if (code->decode != native_decode_x86_64)
    return;
  for (bool more = native_first(code, &cursor, &failed); more;
       more = native_next(code, &cursor, &failed))
    native_values_look(&testing.use, cursor.at, cursor.is.length);
  bool found =
      arrays_make(&arrays, graph->nblocks) && tests_find(&testing, graph, code, block_at, &arrays);
  graph->values = arrays.values;
  if (found) {
    tests_count(&testing, graph, code, block_at);
  } else {
    free(graph->values);
    graph->values = NULL;
  }
  arrays_drop(&arrays);
}
