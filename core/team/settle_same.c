/* One unit or two: which claims are the same (settle.h). */
#include <stddef.h>

#include "core/team/settle.h"
#include "core/transport/plane.h"

bool settle_are_counted(const struct claimed *a, const struct claimed *b) {
  return (place_loop_around(a->place, b->place) & a->clocks & b->clocks) != 0;
}

bool settle_is_stood_at(const struct claimed *claimed) {
  return (claimed->any & CLAIM_OWN_PLACE) != 0;
}

bool settle_is_out_of_step(const struct claimed *a, const struct claimed *b) {
  return a->hash == b->hash && a->epoch != 0 && b->epoch != 0 && a->epoch != b->epoch;
}

static bool are_in_one_round(const struct claimed *a, const struct claimed *b) {
  return a->even && b->even && place_are_twin_branches(a->place, b->place) &&
         (!place_shares_loop(a->place, b->place) || settle_are_counted(a, b));
}

/* Whether one rank has both in its program. As long as nothing has been shadowed the program may be
 * even: then each rank may have one of them, and what stands between them tells nothing. */
static bool are_of_one_rank(const struct claimed *a, const struct claimed *b) {
  return a->even && b->even ? place_comes_to_both(a->place, b->place)
                            : place_is_certain(a->place, b->place);
}

/* Whether each is come to by a condition of its own, and all ranks have come to each. As long as
 * nothing has been shadowed one rank may stand at one where another stands at the other. */
static bool are_two_conditions(const struct claimed *a, const struct claimed *b) {
  return a->common && b->common && !(a->even && b->even) &&
         place_are_two_conditions(a->place, b->place);
}

bool settle_is_sent(const struct claimed *a, const struct claimed *b) {
  return a->even && b->even && ((a->by_root && b->by_ways) || (b->by_root && a->by_ways));
}

bool settle_is_distinct(const struct claimed *a, const struct claimed *b) {
  if (a->hash == b->hash)
    return settle_is_out_of_step(a, b);
  if (a->place == NULL || b->place == NULL || settle_is_sent(a, b))
    return false;
  if ((a->apart && b->expected) || (b->apart && a->expected))
    return true;
  if (place_are_one_call(a->place, b->place))
    return false;
  switch (place_relate(a->place, b->place)) {
  case PLACE_UNRELATED:
    return false;
  case PLACE_ALTERNATIVE:
    return are_two_conditions(a, b);
  case PLACE_SEQUENTIAL:
    return a->common || b->common || (settle_is_stood_at(a) && settle_is_stood_at(b));
  case PLACE_OUTSIDE:
  case PLACE_LOOPS:
    return (a->common || b->common || are_of_one_rank(a, b)) && !are_in_one_round(a, b);
  }
  return false;
}

bool settle_is_same(const struct claimed *a, const struct claimed *b) {
  if (a->hash == b->hash)
    return !settle_is_out_of_step(a, b);
  return a->signature == b->signature && !settle_is_distinct(a, b);
}

/* Whether x stands behind a loop that y stands in, and all ranks are known to come to both x and
 * the loop. */
static bool ends_loop_of_all(const struct claimed *x, const struct claimed *y) {
  return place_leaves_loop(y->place, x->place) && place_goes_first(y->place, x->place) &&
         (x->common || place_is_of_all(x->place, y->place)) &&
         (y->common || place_parts_to_all(y->place, x->place));
}

/* Whether it is seen that the two are two points of the program: all ranks come to both, or to the
 * end of a loop, or whoever stands at the later one has been at the other. */
static bool are_known_apart(const struct claimed *a, const struct claimed *b) {
  if (a->by_ways || b->by_ways) /* where others stand is not seen */
    return false;
  return (a->common && b->common) || ends_loop_of_all(a, b) || ends_loop_of_all(b, a) ||
         (settle_is_stood_at(a) && settle_is_stood_at(b) &&
          place_relate(a->place, b->place) != PLACE_SEQUENTIAL &&
          place_has_been_passed(a->place, b->place));
}

bool settle_may_be_one(const struct claimed *a, const struct claimed *b) {
  return a->hash != b->hash && a->signature == b->signature && a->even && b->even &&
         a->place != NULL && b->place != NULL &&
         (place_are_twins(a->place, b->place) || !are_known_apart(a, b)) && !settle_is_same(a, b);
}

/* Whether two branches of one condition in a loop may be two points of the program: a rank that is
 * in another branch than before may be at the end of its loop. Not where each rank is in one of
 * them for good; and a collective may be called by its root in a branch of its own. */
static bool may_end_the_loop(const struct claimed *a, const struct claimed *b) {
  bool by_rank = place_stays_apart(a->place, b->place) || a->by_root || b->by_root;
  by_rank &= !a->common && !b->common;
  return !by_rank && place_shares_loop(a->place, b->place) &&
         place_is_ordered(a->place, b->place) && !place_is_reached(a->place, b->place);
}

/* settle_is_doubtful, but for two branches of one condition. */
static bool may_be_two_points(const struct claimed *a, const struct claimed *b) {
  switch (place_relate(a->place, b->place)) {
  case PLACE_UNRELATED:
    return place_parts_unseen(a->place, b->place) || place_roots_differ(a->place, b->place);
  case PLACE_SEQUENTIAL:
    return true;
  case PLACE_ALTERNATIVE:
    if (!place_is_ordered(a->place, b->place))
      return !a->by_root && !b->by_root;
    return ((a->shared || b->shared || (a->common && b->common)) &&
            place_is_reached(a->place, b->place)) ||
           place_takes_turns(a->place, b->place);
  case PLACE_OUTSIDE:
  case PLACE_LOOPS:
    return !place_is_ordered(a->place, b->place) || place_is_reached(a->place, b->place) ||
           place_takes_turns(a->place, b->place) || place_turns_differ(a->place, b->place) ||
           place_one_is_twin(a->place, b->place);
  }
  return false;
}

/* Whether they may be two points of one function, to which each rank has come in its own way. */
static bool may_be_two_points_of_one_function(const struct claimed *a, const struct claimed *b) {
  struct place as;
  struct claimed other = *b;
  other.place = &as;
  return place_in_one_function(a->place, b->place, &as) && may_be_two_points(a, &other);
}

bool settle_is_doubtful(const struct claimed *a, const struct claimed *b) {
  if (a->hash == b->hash || a->place == NULL || b->place == NULL)
    return false;
  bool one_may_end = place_relate(a->place, b->place) == PLACE_ALTERNATIVE ||
                     (place_are_branches(a->place, b->place) && !settle_are_counted(a, b));
  return may_be_two_points(a, b) || may_be_two_points_of_one_function(a, b) ||
         (one_may_end && may_end_the_loop(a, b));
}
