/* Blocks that a compiler has copied: see native_twins.h. */
#include "interpose/places/native/native_twins.h"

static bool has_block(const uint32_t *blocks, uint32_t count, uint32_t block) {
  for (uint32_t i = 0; i < count; i++)
    if (blocks[i] == block)
      return true;
  return false;
}

/* Whether two blocks have as many calls and lead on to the same blocks, one of which decides, with
 * no call on the way, which of the two comes next. */
static bool are_one_block(const struct native_graph *graph, const struct flow_rounds *rounds,
                          uint32_t one, uint32_t other) {
  const struct flow_lists *next = flow_rounds_next(rounds);
  const uint32_t *of_one = next->items + next->start[one],
                 *of_other = next->items + next->start[other];
  uint32_t nways = next->start[one + 1] - next->start[one], passed[LEADING_MAX];
  bool decided = false;
  if (graph->blocks[one].sites != graph->blocks[other].sites ||
      nways != next->start[other + 1] - next->start[other])
    return false;
  for (uint32_t i = 0; i < nways; i++) {
    if (!has_block(of_other, nways, of_one[i]))
      return false;
    uint32_t count = native_straight_from(graph, rounds, of_one[i], passed);
    decided |= has_block(passed, count, one) && has_block(passed, count, other);
  }
  return decided;
}

static uint32_t block_of(const struct native_calls *calls, uint32_t call) {
  return calls->block_at[calls->all[call].position];
}

/* How many calls stand before one in its block. */
static uint32_t calls_before(const struct native_calls *calls, uint32_t call) {
  uint32_t first = call;
  while (first > 0 && block_of(calls, first - 1) == block_of(calls, call))
    first--;
  return call - first;
}

bool native_are_duplicates(const struct native_graph *graph, const struct native_calls *calls,
                           const struct flow_rounds *rounds, uint32_t copy, uint32_t original) {
  uint32_t of_copy = block_of(calls, copy), of_original = block_of(calls, original),
           inner = flow_rounds_loop(rounds, of_copy), outer = flow_rounds_loop(rounds, of_original);
  return inner != outer && flow_rounds_around(rounds, outer, inner) &&
         calls_before(calls, copy) == calls_before(calls, original) &&
         are_one_block(graph, rounds, of_copy, of_original);
}
