/* Comparing places (place.h). The ways to two places run together for some nodes, and then part:
 * there the two nodes stand in the same function, in the same loops of it, and have an order. */
#include "core/place/place_private.h"

#include <stddef.h>
#include <string.h>

uint32_t place_nodes_in_common(const struct place *a, const struct place *b) {
  uint32_t n = 0;
  while (n < a->nnodes && n < b->nnodes && a->nodes[n].id == b->nodes[n].id)
    n++;
  return n;
}

bool place_part(const struct place *a, const struct place *b, uint32_t *at) {
  *at = place_nodes_in_common(a, b);
  return *at != 0 && *at < a->nnodes && *at < b->nnodes;
}

bool place_parts_within(const struct place *place, const struct place *other, uint32_t nodes) {
  uint32_t at;
  return place_part(place, other, &at) && at < nodes;
}

/* Whether it is known if the place stands in a loop from there on: the outermost one tells. */
static bool place_is_clear(const struct place *place, uint32_t from) {
  for (uint32_t i = from; i < place->nnodes; i++)
    if (place->nodes[i].flags & (PLACE_LOOP | PLACE_OPAQUE))
      return (place->nodes[i].flags & PLACE_LOOP) != 0;
  return true;
}

bool place_compare(const struct place *a, const struct place *b, uint32_t *at) {
  return place_part(a, b, at) && place_is_clear(a, *at) && place_is_clear(b, *at);
}

bool place_has(const struct place *place, uint32_t from, uint32_t flags) {
  for (uint32_t i = from; i < place->nnodes; i++)
    if (place->nodes[i].flags & flags)
      return true;
  return false;
}

bool place_nodes_are_ordered(const struct place_node *a, const struct place_node *b) {
  return (a->flags & b->flags & PLACE_ORDERED) != 0 && a->order != b->order;
}

static bool place_nodes_are_certain(const struct place_node *a, const struct place_node *b) {
  if (!place_nodes_are_ordered(a, b))
    return false;
  const struct place_node *first = a->order < b->order ? a : b, *second = first == a ? b : a;
  return second->since <= first->order || first->until >= second->order;
}

bool place_says_anything(const struct place *place) {
  return place_has(place, 0, PLACE_LOOP | PLACE_ORDERED);
}

/* Whether who begins a round of the loop that the node before `at` is, or the function that it
 * calls, always comes to the place, through no loop. */
static bool place_is_come_to(const struct place *place, uint32_t at) {
  for (; at < place->nnodes; at++) {
    uint32_t flags = place->nodes[at].flags;
    if ((flags & (PLACE_LOOP | PLACE_OPAQUE)) ||
        (flags & (PLACE_ORDERED | PLACE_ALWAYS)) == PLACE_ORDERED)
      return false;
  }
  return true;
}

/* Whether each round of the loop that is the node at `loop` comes to the place, through no loop. */
static bool place_is_of_each_round(const struct place *place, uint32_t loop) {
  return loop + 1 < place->nnodes && (place->nodes[loop].flags & PLACE_ORDERED) &&
         place_is_come_to(place, loop + 1);
}

bool place_is_of_each_epoch(const struct place *place) {
  uint32_t at = 0;
  while (at < place->nnodes && !(place->nodes[at].flags & (PLACE_LOOP | PLACE_OPAQUE)))
    at++;
  return place_is_of_each_round(place, at);
}

bool place_ends_loop(const struct place *place, const struct place *in_loop) {
  uint32_t at;
  return place_compare(in_loop, place, &at) && place_has(in_loop, at, PLACE_LOOP) &&
         place_nodes_are_ordered(&in_loop->nodes[at], &place->nodes[at]) &&
         in_loop->nodes[at].order < place->nodes[at].order &&
         place->nodes[at].since <= in_loop->nodes[at].order &&
         !(place->nodes[at].flags & (PLACE_LOOP | PLACE_OPAQUE)) && place_is_come_to(place, at + 1);
}

bool place_shares_epoch(const struct place *place, const struct place *other) {
  for (uint32_t i = 0; i < place->nnodes && i < other->nnodes; i++) {
    if (place->nodes[i].id != other->nodes[i].id)
      return false;
    if (place->nodes[i].flags & PLACE_LOOP)
      return true;
  }
  return false;
}

bool place_is_in_one_loop(const struct place *place) {
  uint32_t loops = 0;
  for (uint32_t i = 0; i < place->nnodes; i++) {
    if (place->nodes[i].flags & PLACE_OPAQUE)
      return false;
    loops += (place->nodes[i].flags & PLACE_LOOP) != 0;
  }
  return loops == 1;
}

bool place_goes_first(const struct place *first, const struct place *second) {
  uint32_t at;
  return place_part(first, second, &at) &&
         place_nodes_are_ordered(&first->nodes[at], &second->nodes[at]) &&
         first->nodes[at].order < second->nodes[at].order;
}

bool place_leaves_loop(const struct place *from, const struct place *to) {
  uint32_t at;
  return from->nnodes != 0 && to->nnodes != 0 && place_compare(from, to, &at) &&
         place_has(from, at, PLACE_LOOP);
}

enum place_relation place_relate(const struct place *a, const struct place *b) {
  uint32_t at;
  if (!place_compare(a, b, &at))
    return PLACE_UNRELATED;
  bool loops_a = place_has(a, at, PLACE_LOOP), loops_b = place_has(b, at, PLACE_LOOP);
  if (loops_a && loops_b)
    return PLACE_LOOPS;
  if (loops_a || loops_b)
    return PLACE_OUTSIDE;
  return place_nodes_are_certain(&a->nodes[at], &b->nodes[at]) ? PLACE_SEQUENTIAL
                                                               : PLACE_ALTERNATIVE;
}

bool place_is_certain(const struct place *a, const struct place *b) {
  uint32_t at;
  return place_compare(a, b, &at) && place_nodes_are_certain(&a->nodes[at], &b->nodes[at]);
}

/* Whether who comes to the node at `at` comes to the place, as far as the function goes in which
 * that stands, if the loops in between have a round. A compiler may have put a loop's condition in
 * front of it, too, and what a function does that is called there is mostly what it is called for.
 */
static bool place_is_not_left_out(const struct place *place, uint32_t at) {
  for (at++; at < place->nnodes && (place->nodes[at].flags & PLACE_ORDERED); at++)
    if (!(place->nodes[at].flags & (PLACE_ALWAYS | PLACE_LOOP)))
      return false;
  return true;
}

/* Where the ways to two ordered places part, the earlier one in the program first. */
static bool place_in_order(const struct place **first, const struct place **second, uint32_t *at) {
  const struct place *a = *first, *b = *second;
  if (!place_is_ordered(a, b) || !place_part(a, b, at))
    return false;
  *first = a->nodes[*at].order < b->nodes[*at].order ? a : b;
  *second = *first == a ? b : a;
  return true;
}

bool place_has_been_passed(const struct place *a, const struct place *b) {
  uint32_t at;
  return place_in_order(&a, &b, &at) && a->nodes[at].until >= b->nodes[at].order &&
         !place_has(a, at, PLACE_LOOP | PLACE_OPAQUE) && place_is_not_left_out(a, at);
}

bool place_parts_to_all(const struct place *place, const struct place *other) {
  uint32_t at;
  return place_part(place, other, &at) && (place->nodes[at].flags & PLACE_ALWAYS);
}

bool place_is_of_all(const struct place *place, const struct place *other) {
  uint32_t at;
  return place_part(place, other, &at) && (place->nodes[at].flags & PLACE_ALWAYS) &&
         place_is_not_left_out(place, at);
}

bool place_comes_to_both(const struct place *a, const struct place *b) {
  uint32_t at;
  if (!place_in_order(&a, &b, &at))
    return false;
  const struct place_node *first = &a->nodes[at], *second = &b->nodes[at];
  return (first->until >= second->order && place_is_not_left_out(a, at)) ||
         (second->since <= first->order && place_is_not_left_out(b, at));
}

bool place_is_ordered(const struct place *a, const struct place *b) {
  uint32_t at;
  return place_compare(a, b, &at) && place_nodes_are_ordered(&a->nodes[at], &b->nodes[at]);
}

bool place_is_twin(const struct place *place) {
  return place_has(place, 0, PLACE_TWIN);
}

/* The call, in the function in which it parts from another, that a place goes on by. NULL: none. */
static const struct place_node *place_call(const struct place *place, uint32_t at) {
  while (at < place->nnodes && (place->nodes[at].flags & PLACE_LOOP))
    at++;
  return at < place->nnodes ? &place->nodes[at] : NULL;
}

bool place_are_twins(const struct place *a, const struct place *b) {
  uint32_t at;
  if (!place_compare(a, b, &at) || !((a->nodes[at].flags | b->nodes[at].flags) & PLACE_LOOP))
    return false;
  const struct place_node *of_a = place_call(a, at), *of_b = place_call(b, at);
  return of_a != NULL && of_b != NULL && (of_a->flags & of_b->flags & PLACE_TWIN) != 0;
}

bool place_are_twin_branches(const struct place *a, const struct place *b) {
  uint32_t at;
  return place_are_twins(a, b) && place_part(a, b, &at) &&
         (place_call(a, at)->flags & place_call(b, at)->flags & PLACE_TWIN_BRANCH);
}

/* Whether a place goes on, from a node on, into a loop with a twin. */
static bool place_goes_on_as_twin(const struct place *place, uint32_t at) {
  const struct place_node *call = place_call(place, at);
  return (place->nodes[at].flags & PLACE_LOOP) && call != NULL && (call->flags & PLACE_TWIN);
}

bool place_one_is_twin(const struct place *a, const struct place *b) {
  uint32_t at;
  return place_part(a, b, &at) && place_goes_on_as_twin(a, at) != place_goes_on_as_twin(b, at);
}

/* One more than the last loop among the first nodes; 0: none. */
static uint32_t place_last_loop(const struct place *place, uint32_t count) {
  while (count > 0 && !(place->nodes[count - 1].flags & PLACE_LOOP))
    count--;
  return count;
}

uint32_t place_common_loop(const struct place *a, const struct place *b) {
  uint32_t at;
  return place_part(a, b, &at) ? place_last_loop(a, at) : 0;
}

place_nodes_t place_loop_around(const struct place *a, const struct place *b) {
  uint32_t loop = place_common_loop(a, b);
  return loop == 0 ? 0 : UINT64_C(1) << (loop - 1);
}

bool place_shares_loop(const struct place *a, const struct place *b) {
  return place_loop_around(a, b) != 0;
}

bool place_comes_once(const struct place *a, const struct place *b) {
  uint32_t at;
  if (!place_compare(a, b, &at))
    return false;
  while (at > 0 && (a->nodes[at - 1].flags & PLACE_ORDERED) &&
         !(a->nodes[at - 1].flags & (PLACE_LOOP | PLACE_OPAQUE)))
    at--;
  return at == 0;
}

bool place_is_in_front(const struct place *place, const struct place *other) {
  return place_relate(place, other) == PLACE_OUTSIDE && place_leaves_loop(other, place) &&
         place_goes_first(place, other) && !place_are_branches(place, other);
}

place_nodes_t place_counts_rounds(const struct place *place, const struct place *other) {
  uint32_t loop = place_common_loop(place, other);
  bool counts = loop != 0 && loop == place_last_loop(place, place->nnodes) &&
                place_is_of_each_round(place, loop - 1);
  return counts ? place_loop_around(place, other) : 0;
}

bool place_may_be_passed(const struct place *place) {
  uint32_t loop = place_last_loop(place, place->nnodes);
  return loop != 0 && !place_is_of_each_round(place, loop - 1);
}

bool place_parts_unseen(const struct place *a, const struct place *b) {
  uint32_t at;
  return place_part(a, b, &at) && !(place_is_clear(a, at) && place_is_clear(b, at));
}

bool place_roots_differ(const struct place *a, const struct place *b) {
  return a->nnodes != 0 && b->nnodes != 0 && a->nodes[0].id != b->nodes[0].id;
}

/* Whether control can come from the one that stands first to the other in the same round. What has
 * always come through the first, or always follows it, need not be in its span. */
static bool place_nodes_are_reached(const struct place_node *x, const struct place_node *y) {
  const struct place_node *first = x->order < y->order ? x : y, *second = first == x ? y : x;
  return place_nodes_are_certain(x, y) ||
         (second->order >= first->reach_from && second->order <= first->reach_to);
}

bool place_is_reached(const struct place *a, const struct place *b) {
  uint32_t at;
  return place_compare(a, b, &at) && place_nodes_are_ordered(&a->nodes[at], &b->nodes[at]) &&
         place_nodes_are_reached(&a->nodes[at], &b->nodes[at]);
}

bool place_are_two_conditions(const struct place *a, const struct place *b) {
  uint32_t at;
  return place_is_reached(a, b) && place_part(a, b, &at) &&
         !((a->nodes[at].flags ^ b->nodes[at].flags) & PLACE_CAUGHT);
}

bool place_nodes_are_branches(const struct place_node *x, const struct place_node *y) {
  return x->reach_from != 0 && y->reach_from != 0 && place_nodes_are_ordered(x, y) &&
         !place_nodes_are_reached(x, y);
}

bool place_are_branches(const struct place *a, const struct place *b) {
  uint32_t at;
  return place_compare(a, b, &at) && place_nodes_are_branches(&a->nodes[at], &b->nodes[at]);
}

bool place_are_one_call(const struct place *a, const struct place *b) {
  uint32_t at, end = a->nnodes;
  if (!place_are_branches(a, b) || !place_part(a, b, &at) || a->nnodes != b->nnodes)
    return false;
  while (end > at + 1 && a->nodes[end - 1].id == b->nodes[end - 1].id)
    end--;
  return end == at + 1 &&
         !((a->nodes[at].flags | b->nodes[at].flags) & (PLACE_LOOP | PLACE_OPAQUE));
}

static uint32_t place_turn(const struct place_node *node) {
  return node->flags >> PLACE_TURN_SHIFT;
}

bool place_takes_turns(const struct place *a, const struct place *b) {
  uint32_t at;
  return place_is_ordered(a, b) && place_shares_loop(a, b) && place_part(a, b, &at) &&
         place_turn(&a->nodes[at]) != place_turn(&b->nodes[at]);
}

/* How far behind the head of its loop the node is that is the first, from a node of the place on,
 * to stand in a loop behind a condition that changes; 0: there is none. */
static uint32_t place_turn_in_loop(const struct place *place, uint32_t at) {
  for (uint32_t i = at + 1; i < place->nnodes; i++)
    if ((place->nodes[i - 1].flags & PLACE_LOOP) && place_turn(&place->nodes[i]) != 0 &&
        place->nodes[i].order > place->nodes[i - 1].order)
      return (uint32_t)place->nodes[i].order - place->nodes[i - 1].order;
  return 0;
}

bool place_turns_differ(const struct place *a, const struct place *b) {
  uint32_t at;
  if (!place_part(a, b, &at))
    return false;
  uint32_t of_a = place_turn_in_loop(a, at), of_b = place_turn_in_loop(b, at);
  return of_a != 0 && of_b != 0 && of_a != of_b;
}

/* All loops around both must be of the function in which they part: what is called again in a loop
 * may be given something else. */
bool place_stays_apart(const struct place *a, const struct place *b) {
  uint32_t at, loop = 0;
  if (!place_is_ordered(a, b) || place_is_reached(a, b) || !place_shares_loop(a, b) ||
      !place_part(a, b, &at) || !(a->nodes[at].flags & b->nodes[at].flags & PLACE_FIXED))
    return false;
  while (!(a->nodes[loop].flags & (PLACE_LOOP | PLACE_OPAQUE)))
    loop++;
  while (loop < at && (a->nodes[loop].flags & PLACE_LOOP))
    loop++;
  return loop == at;
}

bool place_in_one_function(const struct place *a, const struct place *b, struct place *as) {
  uint32_t at, i, j;
  if (!place_part(a, b, &at))
    return false;
  for (i = at; i < a->nnodes; i++)
    for (j = at; j < b->nnodes; j++)
      if (a->nodes[i].id == b->nodes[j].id && i + b->nnodes - j <= PLACE_NODES_MAX) {
        *as = (struct place){.nnodes = i + b->nnodes - j};
        memcpy(as->nodes, a->nodes, i * sizeof(*as->nodes));
        memcpy(as->nodes + i, b->nodes + j, (b->nnodes - j) * sizeof(*as->nodes));
        return true;
      }
  return false;
}

void place_clean_text(struct place *place) {
  place->text[PLACE_TEXT_MAX - 1] = '\0';
  for (char *c = place->text; *c != '\0'; c++)
    if ((unsigned char)*c < 0x20 || *c == 0x7f)
      *c = '?';
}
