/* What the conditions of a function's code test, and what its blocks set, as far as it is held in
 * registers that calls keep and in the function's own frame: see native_graph.h. Of x86-64's code.
 *
 * The compiler may keep several variables in one register. So one that a loop sets to anything but
 * a number, or what it was and a number, may be another one there.
 *
 * What calls do not keep is followed from a block into those behind it. */
#include "interpose/places/native/native_contents.h"
#include "interpose/places/native/native_counters.h"

#include <stdlib.h>
#include <string.h>

static bool is_variable(uint32_t i) {
  return i >= NATIVE_REGISTERS || (NATIVE_KEPT >> i & 1);
}

static void begin_block(struct native_testing *testing, uint32_t block) {
  const struct native_held *entry =
      testing->entries == NULL ? NULL : testing->entries + (size_t)block * NATIVE_REGISTERS;
  for (uint32_t i = 0; i < NATIVE_TESTED; i++)
    testing->contents[i] = is_variable(i)
                               ? (struct native_held){.by = UINT64_C(1) << i, .like = i + 1}
                           : entry != NULL ? entry[i]
                                           : native_anything;
  for (uint32_t i = 0; i < testing->nslots; i++)
    testing->contents[NATIVE_REGISTERS + i].by_more = testing->slots[i].base == NATIVE_STATIC;
  testing->flags = native_anything;
  testing->compared.bits = testing->decides.bits = 0;
  testing->pushed = 0;
  testing->calls = false;
  testing->values = (struct flow_values){.tests_more = true};
  if (testing->counting != NULL)
    native_counting_begin(testing->counting);
}

static void end_block(struct native_testing *testing, uint32_t block) {
  struct flow_values *values = &testing->values;
  for (uint32_t i = 0; i < NATIVE_REGISTERS; i++)
    testing->exits[(size_t)block * NATIVE_REGISTERS + i] = testing->contents[i];
  if (testing->counting != NULL)
    native_counting_end(testing->counting, testing, block);
  for (uint32_t i = 0; i < NATIVE_TESTED; i++) {
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

/* False: the code cannot be read. */
static bool find_all(struct native_testing *testing, const struct native_code *code,
                     const uint32_t *block_at, struct flow_values *values) {
  struct native_cursor cursor;
  uint32_t block = FLOW_ANYWHERE;
  bool failed, ends = false;
  for (bool more = native_first(code, &cursor, &failed); more;
       more = native_next(code, &cursor, &failed)) {
    if (block_at[cursor.position] != block) {
      if (block != FLOW_ANYWHERE) {
        end_block(testing, block);
        values[block] = testing->values;
        testing->is_unbalanced |= testing->pushed != 0 && block != 0 && !ends;
      }
      block = block_at[cursor.position];
      begin_block(testing, block);
    }
    if (cursor.is.kind == NATIVE_CALL)
      testing->called =
          cursor.is.has_target ? (uint32_t)((uintptr_t)cursor.at + (uintptr_t)cursor.is.target) : 0;
    native_contents_step(testing, cursor.at, cursor.is.length);
    if (testing->counting != NULL)
      native_counting_step(testing->counting, testing, (uint32_t)cursor.position);
    ends = cursor.is.kind != NATIVE_PLAIN && cursor.is.kind != NATIVE_CALL &&
           cursor.is.kind != NATIVE_BRANCH;
  }
  if (block != FLOW_ANYWHERE) {
    end_block(testing, block);
    values[block] = testing->values;
  }
  return !failed;
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

void native_find_tests(struct native_graph *graph, const struct native_code *code,
                       const uint32_t *block_at) {
  struct native_cursor cursor;
  bool failed;
  struct native_testing testing = {.nslots = 0};
  struct native_counting counting = {.nchanges = 0};
  struct flow_values *values = NULL;
  if (code->decode != native_decode_x86_64)
    return;
  for (uint32_t times = 0; times < 2; times++)
    for (bool more = native_first(code, &cursor, &failed); more;
         more = native_next(code, &cursor, &failed))
      native_values_look(&testing.use, cursor.at, cursor.is.length);
  size_t room = ((size_t)graph->nblocks + 1) * NATIVE_REGISTERS;
  struct native_held *exits = calloc(room, sizeof *exits), *entries = calloc(room, sizeof *entries);
  bool *has = calloc((size_t)graph->nblocks + 1, sizeof *has);
  values = calloc((size_t)graph->nblocks + 1, sizeof *values);
  for (size_t i = 0; exits != NULL && i < room; i++)
    exits[i] = native_anything;
  testing.exits = exits;
  bool found = values != NULL && exits != NULL && entries != NULL && has != NULL &&
               find_all(&testing, code, block_at, values);
  if (found && testing.is_unbalanced) { /* once more, without what rsp leads to */
    testing.nslots = 0;
    found = find_all(&testing, code, block_at, values);
  }
  if (found) { /* and with what is known of it, what blocks begin with */
    find_entries(graph, exits, entries, has);
    testing.entries = entries;
    testing.counting = &counting;
    found = find_all(&testing, code, block_at, values);
  }
  counting.failed |= !found;
  native_counters_find(graph, &counting, &testing);
  free(exits);
  free(entries);
  free(has);
  if (!found) {
    free(values);
    values = NULL;
  }
  graph->values = values;
}
