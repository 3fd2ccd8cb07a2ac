/* Blocks that a compiler has copied: see native_twins.h. */
#include "interpose/places/native/native_twins.h"

enum { LEADING_MAX = 16 }; /* blocks without calls that lead to a copied one */

/* Whether control comes from a block to another one, and nothing is called on the way. */
static bool leads_straight(const struct native_graph *graph, const struct flow_lists *next,
                           uint32_t block, uint32_t to) {
  uint32_t passed[LEADING_MAX] = {block}, count = 1;
  for (uint32_t at = 0; at < count; at++) {
    block = passed[at];
    for (uint32_t i = next->start[block];
         graph->blocks[block].sites == 0 && i < next->start[block + 1]; i++) {
      if (next->items[i] == to)
        return true;
      if (count < LEADING_MAX)
        passed[count++] = next->items[i];
    }
  }
  return false;
}

static bool leads_to(const struct flow_lists *next, uint32_t block, uint32_t to) {
  for (uint32_t i = next->start[block]; i < next->start[block + 1]; i++)
    if (next->items[i] == to)
      return true;
  return false;
}

/* Whether two blocks have as many calls and lead on to the same blocks, one of which decides, with no
 * call on the way, which of the two comes next. */
static bool are_one_block(const struct native_graph *graph, const struct flow_lists *next,
                          uint32_t one, uint32_t other) {
  bool decided = false;
  if (graph->blocks[one].sites != graph->blocks[other].sites ||
      next->start[one + 1] - next->start[one] != next->start[other + 1] - next->start[other])
    return false;
  for (uint32_t i = next->start[one]; i < next->start[one + 1]; i++) {
    uint32_t to = next->items[i];
    if (!leads_to(next, other, to))
      return false;
    decided |= leads_straight(graph, next, to, one) && leads_straight(graph, next, to, other);
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
         are_one_block(graph, flow_rounds_next(rounds), of_copy, of_original);
}
