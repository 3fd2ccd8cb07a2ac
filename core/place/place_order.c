/* Which of two places a rank comes to first, and what it passes on the way (place.h). */
#include <stddef.h>

#include "core/place/place_private.h"

/* Where the loop is, the innermost one around both, that who comes from one place to another goes
 * round; 0: none. */
static uint32_t place_loop_between(const struct place *from, const struct place *to) {
  uint32_t at = from->nnodes;
  if (from->id != to->id &&
      (!place_part(from, to, &at) || !place_nodes_are_ordered(&from->nodes[at], &to->nodes[at]) ||
       to->nodes[at].order > from->nodes[at].order))
    return 0;
  while (at > 0 && !(from->nodes[at - 1].flags & PLACE_LOOP))
    at--;
  return at;
}

bool place_goes_round(const struct place *from, const struct place *to) {
  return place_loop_between(from, to) != 0;
}

bool place_passes_by(const struct place *from, const struct place *to, const struct place *other) {
  uint32_t at, loop = place_loop_between(from, to);
  if (loop == 0)
    return false;
  return (place_part(from, other, &at) && at >= loop &&
          place_nodes_are_ordered(&from->nodes[at], &other->nodes[at]) &&
          other->nodes[at].order > from->nodes[at].order) ||
         (place_part(to, other, &at) && at >= loop &&
          place_nodes_are_ordered(&to->nodes[at], &other->nodes[at]) &&
          other->nodes[at].order < to->nodes[at].order);
}

bool place_goes_past(const struct place *from, const struct place *to, const struct place *other) {
  uint32_t at_from, at_to, loop = place_common_loop(from, to);
  return place_passes_by(from, to, other) ||
         (loop != 0 && place_goes_first(from, other) && place_goes_first(other, to) &&
          place_part(from, other, &at_from) && at_from >= loop && place_part(other, to, &at_to) &&
          at_to >= loop);
}

/* Whether a place goes the way that another goes, one node further than where they part from a
 * third. */
static bool place_goes_with(const struct place *last, const struct place *place, uint32_t at) {
  if (last == NULL || last->nnodes <= at)
    return false;
  for (uint32_t i = 0; i <= at; i++)
    if (last->nodes[i].id != place->nodes[i].id)
      return false;
  return true;
}

/* Whether who has been at `last` comes to a place without going round a loop around node `at`, from
 * which on it may part from the other place. Within a call that both are in it may not be known. */
enum ahead { AHEAD_UNKNOWN, AHEAD_NO, AHEAD_YES };

static enum ahead place_is_ahead(const struct place *place, const struct place *last, uint32_t at) {
  if (last == NULL || last->nnodes < at)
    return AHEAD_UNKNOWN;
  for (uint32_t i = 0; i < place->nnodes && i < last->nnodes; i++) {
    const struct place_node *to = &place->nodes[i], *from = &last->nodes[i];
    if (to->id != from->id && !place_nodes_are_ordered(to, from))
      return AHEAD_UNKNOWN;
    /* Two branches: ranks have been last where the one is, which may have its name from the other.
     */
    if (to->id != from->id && place_nodes_are_branches(to, from))
      return AHEAD_UNKNOWN;
    if (to->id != from->id)
      return i >= at && to->order > from->order ? AHEAD_YES : AHEAD_NO;
    if (i >= at && (to->flags & PLACE_LOOP))
      return AHEAD_YES;
  }
  return AHEAD_NO;
}

/* Of places in no loop that is not around both: whether who has been at `last`, and is there again,
 * has not gone round, as in each round it would have come to the other place before. So one call
 * has made both collectives. */
static bool place_is_in_call(const struct place *place, const struct place *other,
                             const struct place *last, uint32_t at) {
  const struct place_node *from = &place->nodes[at], *to = &other->nodes[at];
  return last != NULL && last->id == place->id && place_nodes_are_ordered(from, to) &&
         to->since <= from->order;
}

int place_order(const struct place *a, const struct place *b, const struct place *last) {
  uint32_t at;
  if (!place_compare(a, b, &at))
    return 0;
  bool loops_a = place_has(a, at, PLACE_LOOP), loops_b = place_has(b, at, PLACE_LOOP);
  enum ahead ahead_a = place_is_ahead(a, last, at), ahead_b = place_is_ahead(b, last, at);
  if (!loops_a && !loops_b &&
      (place_is_in_call(a, b, last, at) || place_is_in_call(b, a, last, at)))
    ahead_a = ahead_b = AHEAD_YES;
  if (ahead_a != ahead_b && ahead_a != AHEAD_UNKNOWN && ahead_b != AHEAD_UNKNOWN)
    return ahead_a == AHEAD_YES ? 1 : -1;
  bool ordered = place_nodes_are_ordered(&a->nodes[at], &b->nodes[at]);
  bool in_one_pass = ordered && ahead_a == ahead_b && ahead_a != AHEAD_UNKNOWN &&
                     !place_nodes_are_branches(&a->nodes[at], &b->nodes[at]);
  if (loops_a != loops_b && !in_one_pass)
    return loops_a ? 1 : -1;
  bool with_a = loops_a && ahead_a != AHEAD_NO && place_goes_with(last, a, at);
  bool with_b = loops_b && ahead_b != AHEAD_NO && place_goes_with(last, b, at);
  if (with_a != with_b)
    return with_a ? 1 : -1;
  if (!ordered)
    return 0;
  return a->nodes[at].order < b->nodes[at].order ? 1 : -1;
}

bool place_may_go_round(const struct place *place, const struct place *other,
                        const struct place *last) {
  uint32_t at;
  if (!place_compare(place, other, &at) || last == NULL || last->nnodes <= at ||
      place_is_ahead(other, last, at) != AHEAD_YES ||
      place_is_ahead(place, last, at) != AHEAD_UNKNOWN)
    return false;
  return place_shares_loop(place, other) && last->nodes[at].id == place->nodes[at].id;
}

bool place_may_be_before_loop(const struct place *place, const struct place *other,
                              const struct place *last) {
  uint32_t at, loop;
  if (!place_compare(place, other, &at) || place_has(place, at, PLACE_LOOP) ||
      place_nodes_are_ordered(&place->nodes[at], &other->nodes[at]))
    return false;
  enum ahead ahead = place_is_ahead(place, last, at), loop_ahead = place_is_ahead(other, last, at);
  if (ahead != loop_ahead && ahead != AHEAD_UNKNOWN && loop_ahead != AHEAD_UNKNOWN)
    return false;
  for (loop = at; loop < other->nnodes && !(other->nodes[loop].flags & PLACE_LOOP); loop++)
    ;
  return loop < other->nnodes && !place_goes_with(last, other, loop);
}
