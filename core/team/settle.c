/* The winner rule (settle.h), written as one comparison so that its order can be read off. */
#include "core/team/settle.h"

#include <stddef.h>

#include "core/transport/plane.h"
#include "core/unit/unit.h"

static int settle_order(uint64_t a, uint64_t b) {
  return (a > b) - (a < b);
}

/* LEAVE, then the marks, then all that is to be issued, and where a round begins. */
static uint32_t settle_standing(const struct claimed *claimed) {
  bool is_mark = claimed->mark != 0 && claimed->mark != MARK_ROUND;
  return is_mark ? claimed->mark : claimed->hash != 0 ? UINT32_MAX : 0;
}

/* ---- adding up ---- */

/* Above 0 if a stands before b in a summary; 0 if they are one thing. */
static int identity_order(const struct claimed *a, const struct claimed *b) {
  int by = settle_order(settle_standing(a), settle_standing(b));
  if (by == 0)
    by = settle_order(b->hash, a->hash);
  if (by == 0)
    by = settle_order(b->epoch, a->epoch);
  return by != 0 ? by : settle_order(b->kinds, a->kinds);
}

/* Of levels plus one, 0 for none, the outermost. */
static uint32_t outermost_level(uint32_t a, uint32_t b) {
  return a == 0 || (b != 0 && b < a) ? b : a;
}

static void add_up_rounds(struct claimed *to, const struct claimed *from) {
  uint32_t level = place_rounds_differ(to->rounds, from->rounds);
  uint32_t apart_levels = PLACE_LEVELS - place_rounds_alike(to->rounds, from->rounds);
  if (from->apart_levels > apart_levels)
    apart_levels = from->apart_levels;
  if (apart_levels > to->apart_levels)
    to->apart_levels = apart_levels;
  to->rounds_differ = outermost_level(to->rounds_differ, from->rounds_differ);
  if (level < PLACE_LEVELS)
    to->rounds_differ = outermost_level(to->rounds_differ, level + 1);
  if (to->rounds_differ != 0)
    to->rounds = place_rounds_only(to->rounds, to->rounds_differ - 1);
}

static void add_up(struct claimed *to, const struct claimed *from) {
  to->any |= from->any;
  to->all &= from->all;
  to->claimants += from->claimants;
  to->elsewhere |= from->elsewhere || from->place_id != to->place_id;
  add_up_rounds(to, from);
  if (from->last_real > to->last_real)
    to->last_real = from->last_real;
  if (from->rank >= to->rank)
    return;
  to->rank = from->rank;
  to->text = from->text;
  to->place_id = from->place_id;
}

struct claimed *settle_add(struct settle *settle, const struct claimed *claimed) {
  uint32_t at = 0, end = settle->nunits;
  settle->nranks += claimed->claimants;
  settle->any |= claimed->any;
  settle->all &= claimed->all;
  uint32_t refused = place_rounds_refused(claimed->rounds);
  if (refused < PLACE_LEVELS)
    settle->refused = outermost_level(settle->refused, refused + 1);
  while (at < end && identity_order(&settle->units[at], claimed) > 0)
    at++;
  if (at < end && identity_order(&settle->units[at], claimed) == 0) {
    add_up(&settle->units[at], claimed);
    return &settle->units[at];
  }
  if (at == SETTLE_UNITS_MAX)
    return NULL;
  /* Each of the first sets belongs to one thing. A new thing takes the next set, or that of the
   * thing which it displaces. */
  uint32_t set = end;
  if (end == SETTLE_UNITS_MAX)
    set = settle->units[--end].set;
  for (uint32_t i = end; i > at; i--)
    settle->units[i] = settle->units[i - 1];
  settle->units[at] = *claimed;
  settle->units[at].set = set;
  settle->nunits = end + 1;
  return &settle->units[at];
}

/* ---- rounds ---- */

static enum place_pass compare_rounds(const struct settle *settle, const struct claimed *a,
                                      const struct claimed *b, bool alike) {
  uint32_t levels = settle->refused == 0 ? PLACE_LEVELS : settle->refused - 1;
  if (a->place == NULL || b->place == NULL)
    return PASS_UNKNOWN;
  return place_compare_rounds(a->place, place_rounds_only(a->rounds, levels), b->place,
                              place_rounds_only(b->rounds, levels), alike);
}

/* Above 0 if a goes before b as far as their rounds tell, and 0 if they do not. */
static int order_by_rounds(const struct settle *settle, const struct claimed *a,
                           const struct claimed *b) {
  enum place_pass pass = compare_rounds(settle, a, b, a->alike && b->alike);
  if (pass == PASS_BEFORE || pass == PASS_AFTER)
    return pass == PASS_BEFORE ? 1 : -1;
  if (pass == PASS_UNKNOWN || !place_is_ordered(a->place, b->place) ||
      place_are_branches(a->place, b->place))
    return 0;
  return place_goes_first(a->place, b->place) ? 1 : -1;
}

uint32_t settle_levels(const struct settle *settle) {
  uint32_t level = settle->refused;
  for (uint32_t i = 0; i < settle->nunits; i++)
    if (settle->units[i].all & CLAIM_OWN_PLACE)
      level = outermost_level(level, settle->units[i].rounds_differ);
  return level == 0 ? PLACE_LEVELS : level - 1;
}

/* Whether x stands in front of a loop, y in it, and who is at x may come to the loop yet. Where all
 * come to x in each round who is in the loop has been there, and who is at x has gone round. */
static bool is_in_front(const struct claimed *x, const struct claimed *y) {
  return place_is_in_front(x->place, y->place) && place_counts_rounds(x->place, y->place) == 0;
}

/* Whether ranks that stand at both have gone round no loop that is around both, or as often. */
static bool are_in_one_pass(const struct claimed *a, const struct claimed *b) {
  return settle_are_counted(a, b) || place_comes_once(a->place, b->place);
}

/* ---- the rule ---- */

/* Whether x has been issued by some ranks and not by all, while y is in the program of each. */
static bool is_skipped(const struct claimed *x, const struct claimed *y) {
  return x->seen && !x->common && y->common;
}

/* Whether x comes with the next round of a loop around both, and y is still in this one. */
static bool goes_round(const struct settle *settle, const struct claimed *x,
                       const struct claimed *y) {
  return settle->last != NULL && place_goes_round(settle->last, x->place) &&
         !place_goes_round(settle->last, y->place);
}

/* Whether y's ranks, in another branch than x's, come from y to what looks like x. */
static bool is_come_to(const struct claimed *x, const struct claimed *y) {
  return x->in_branch != NULL && place_are_branches(x->place, y->place) &&
         place_goes_first(y->place, x->in_branch) && place_is_reached(y->place, x->in_branch);
}

/* Whether nobody has come yet to where x stands, and y goes round a loop around both that all have
 * gone round without it. In an even program all come to x in one round, or none does: so x is of a
 * rank's last round (validation after its last batch), or of a later one by what it has counted
 * itself. Not where ranks have been at something else in the loop, or the call, in which x stands
 * and y does not: who has gone round may have had no part in that. */
static bool is_last_in_loop(const struct settle *settle, const struct claimed *x,
                            const struct claimed *y) {
  return !x->seen && y->again && goes_round(settle, y, x) &&
         !place_leaves_loop(y->place, x->place) &&
         !place_parts_within(x->place, y->place, x->along);
}

/* Whether x is the begin of a round, and rounds do not tell that y is of an earlier one, as where
 * its loop does not say them: nobody is to wait for that. */
static bool begins_for_nothing(const struct claimed *x, const struct claimed *y) {
  return x->mark == MARK_ROUND && y->mark == 0 &&
         (x->place == NULL || y->place == NULL ||
          (place_shares_epoch(x->place, y->place) && !(x->alike && y->alike)));
}

/* What loops say of their rounds goes first. Of two loops one that some ranks have no part in goes
 * first: who is in it will come to the other, and who has none of it never will. Not where all are
 * known to be in one round: they may have had no part in it so far, and will come to it. And what
 * stands in front of a loop goes before what stands in it where neither has been issued: who is in
 * the loop has passed the other by, and who is in front of it has not been in it. */
static int compare_places(const struct settle *settle, const struct claimed *x,
                          const struct claimed *y) {
  int by = order_by_rounds(settle, x, y);
  if (by == 0 && begins_for_nothing(x, y) != begins_for_nothing(y, x))
    return begins_for_nothing(x, y) ? 1 : -1;
  if (by != 0 || x->place == NULL || y->place == NULL)
    return by;
  if (is_come_to(x, y) != is_come_to(y, x))
    return is_come_to(y, x) ? 1 : -1;
  if (is_skipped(x, y) != is_skipped(y, x) && place_relate(x->place, y->place) == PLACE_LOOPS &&
      !settle_are_counted(x, y))
    return is_skipped(x, y) ? 1 : -1;
  if (!x->seen && !y->seen && is_in_front(x, y) != is_in_front(y, x))
    return is_in_front(x, y) ? 1 : -1;
  if (is_last_in_loop(settle, x, y) != is_last_in_loop(settle, y, x))
    return is_last_in_loop(settle, y, x) ? 1 : -1;
  return place_order(x->place, y->place, settle->last);
}

/* Above 0 if x goes before y. */
static int settle_compare(const struct settle *settle, const struct claimed *x,
                          const struct claimed *y) {
  int by;
  if ((by = settle_order(settle_standing(x), settle_standing(y))) != 0)
    return by;
  bool same = x->hash == y->hash || settle_is_same(x, y);
  if (!same && (by = compare_places(settle, x, y)) != 0)
    return by;
  if (!same && (by = settle_order(x->last_real, y->last_real)) != 0)
    return by;
  if ((by = settle_order(x->expected, y->expected)) != 0)
    return by;
  if (same && (by = settle_order(settle_is_stood_at(x), settle_is_stood_at(y))) != 0)
    return by;
  if ((by = settle_order(x->seen, y->seen)) != 0)
    return by;
  if ((by = settle_order(x->any & CLAIM_PREDICTED, y->any & CLAIM_PREDICTED)) != 0)
    return by;
  if ((by = settle_order(x->bytes, y->bytes)) != 0)
    return by;
  if ((by = settle_order(x->claimants, y->claimants)) != 0)
    return by;
  return settle_order(y->rank, x->rank);
}

/* A yield wants nothing: its ranks shadow whatever the others agree on. */
static bool is_wanted(const struct claimed *claimed) {
  return !(claimed->kinds & CLAIM_YIELD);
}

/* Whether a unit is claimed in a later epoch, too, and in no earlier one. */
static bool is_behind(const struct settle *settle, const struct claimed *unit) {
  bool behind = false;
  for (uint32_t i = 0; i < settle->nunits; i++) {
    if (!settle_is_out_of_step(unit, &settle->units[i]))
      continue;
    if (settle->units[i].epoch < unit->epoch)
      return false;
    behind = true;
  }
  return behind;
}

/* Of what is one unit but for the epoch the earliest goes first. This looks at all of them: who
 * says no epoch, or stands at another place, is the same as either of two that are out of step. */
static uint32_t of_the_earliest_epoch(const struct settle *settle, uint32_t winner) {
  const struct claimed *best = &settle->units[winner];
  if (is_behind(settle, best))
    return winner;
  for (uint32_t i = 0; i < settle->nunits; i++) {
    const struct claimed *unit = &settle->units[i];
    if ((unit->hash == best->hash || settle_is_same(unit, best)) && is_behind(settle, unit))
      return i;
  }
  return winner;
}

uint32_t settle_winner(const struct settle *settle) {
  uint32_t winner = 0;
  for (uint32_t i = 1; i < settle->nunits; i++) {
    const struct claimed *unit = &settle->units[i], *best = &settle->units[winner];
    if (is_wanted(unit) && (!is_wanted(best) || settle_compare(settle, unit, best) > 0))
      winner = i;
  }
  return of_the_earliest_epoch(settle, winner);
}

/* Whether the winner may be what its rank comes to in its last round of the loop around both, to
 * which the others come, too, but go on first: nobody has come to it yet, or nobody expects it. Of
 * what nobody has come to yet also where the others stand behind it in this round. */
static bool may_be_last(const struct settle *settle, const struct claimed *won,
                        const struct claimed *lost) {
  if (won->place == NULL || lost->place == NULL || place_leaves_loop(lost->place, won->place))
    return false;
  if (goes_round(settle, lost, won))
    return !won->seen || (lost->expected && !won->expected);
  return !won->seen && lost->common && place_shares_loop(won->place, lost->place) &&
         place_goes_first(won->place, lost->place);
}

/* Whether one call makes both, with other arguments: in other rounds of a loop, say, as of a list
 * of evaluations. Who has issued for real last may then be in any of them. */
static bool are_of_one_call(const struct claimed *a, const struct claimed *b) {
  return a->place_id != 0 && a->place_id == b->place_id;
}

/* Of what stands in front of a loop, and in it, whether who is in front may have gone round the
 * loops around both, while the other has not, or the other way. Where neither has been issued
 * before, nobody has come through one of them. */
static bool may_have_gone_round(const struct claimed *won, const struct claimed *lost) {
  bool first = is_in_front(won, lost) && !won->seen && !lost->seen;
  return !first && (is_in_front(won, lost) || is_in_front(lost, won)) &&
         !are_in_one_pass(won, lost);
}

/* Whether nothing is known of which of two different units goes first. Of two loops it is known
 * only that one goes on. Whoever stands in a later one has left it. But where the other one is
 * earlier in the program its rank has gone round a loop that surrounds both; and the rank in the
 * loop that goes on may have done so as well, and have had no part in the earlier one. Of a loop
 * and what stands in front of it, too: who is there may have gone round, or not. Of two branches it
 * says nothing which one comes first in the program. */
static bool is_unsure(const struct settle *settle, const struct claimed *won,
                      const struct claimed *lost) {
  if (order_by_rounds(settle, won, lost) != 0)
    return false;
  if (settle_may_be_one(won, lost))
    return true;
  if (compare_places(settle, won, lost) == 0)
    return won->last_real <= lost->last_real || are_of_one_call(won, lost);
  if (may_be_last(settle, won, lost) || is_last_in_loop(settle, lost, won) ||
      place_are_branches(won->place, lost->place) || may_have_gone_round(won, lost) ||
      place_may_go_round(won->place, lost->place, settle->last) ||
      place_may_be_before_loop(lost->place, won->place, settle->last))
    return true;
  return place_relate(won->place, lost->place) == PLACE_LOOPS && !settle_are_counted(won, lost) &&
         place_order(won->place, lost->place, NULL) <= 0;
}

/* Whether ranks that stand at two places say that they are in different rounds of the outermost
 * loop, of as many. */
static bool are_in_two_rounds(const struct settle *settle, const struct claimed *a,
                              const struct claimed *b) {
  enum place_pass pass = compare_rounds(settle, a, b, true);
  return pass == PASS_BEFORE || pass == PASS_AFTER;
}

/* Whether ranks stand at a third place that is one with the unit or with the winner, and not with
 * both, although these count as one. */
static bool is_one_of_two(const struct settle *settle, const struct claimed *won,
                          const struct claimed *unit) {
  for (uint32_t i = 0; i < settle->nunits; i++) {
    const struct claimed *third = &settle->units[i];
    if (third->mark == 0 && third->hash != unit->hash && third->hash != won->hash &&
        settle_is_stood_at(third) && settle_is_same(unit, third) != settle_is_same(won, third))
      return true;
  }
  return false;
}

static bool is_merged_in_doubt(const struct settle *settle, const struct claimed *won,
                               const struct claimed *lost) {
  return settle_is_stood_at(won) && settle_is_stood_at(lost) && won->hash != lost->hash &&
         (settle_is_doubtful(won, lost) || are_in_two_rounds(settle, won, lost) ||
          is_one_of_two(settle, won, lost));
}

bool settle_is_guess(const struct settle *settle, uint32_t winner, uint32_t *loser) {
  const struct claimed *won = &settle->units[winner];
  for (uint32_t i = 0; i < settle->nunits; i++) {
    const struct claimed *lost = &settle->units[i];
    if (i == winner || won->mark != 0 || lost->hash == 0 || lost->mark != 0 ||
        settle_is_out_of_step(won, lost))
      continue;
    if (settle_is_same(won, lost) ? !is_merged_in_doubt(settle, won, lost)
                                  : !is_unsure(settle, won, lost))
      continue;
    *loser = i;
    return true;
  }
  return false;
}

bool settle_is_unanimous(const struct settle *settle, uint32_t winner) {
  uint32_t agreed = 0;
  for (uint32_t i = 0; i < settle->nunits; i++)
    if (settle_is_same(&settle->units[winner], &settle->units[i]) &&
        is_wanted(&settle->units[i]) == is_wanted(&settle->units[winner]))
      agreed += settle->units[i].claimants;
  return agreed == settle->nranks; /* those left out among them */
}
