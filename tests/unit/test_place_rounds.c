/* Rounds of the loops around a call (core/place/place_rounds.h). */
#include <criterion/criterion.h>

#include "core/place/place_rounds.h"

/* for (epoch) { for (batch) { FIRST; SECOND; } AFTER; } */
enum { MAIN = 1, EPOCHS, BATCHES, FIRST, SECOND, AFTER };

static struct place way(uint32_t id) {
  struct place place = {.id = id,
                        .nnodes = 2,
                        .nodes = {{.id = MAIN, .flags = PLACE_ORDERED},
                                  {.id = EPOCHS, .order = 1, .flags = PLACE_ORDERED | PLACE_LOOP}}};
  if (id != AFTER)
    place.nodes[place.nnodes++] = (struct place_node){
        .id = BATCHES, .order = 2, .flags = PLACE_ORDERED | PLACE_LOOP | PLACE_ALWAYS};
  place.nodes[place.nnodes++] =
      (struct place_node){.id = id, .order = (uint16_t)id, .flags = PLACE_ORDERED | PLACE_ALWAYS};
  return place;
}

/* Of three epochs, and so many batches. */
static place_rounds_t in(uint32_t epoch, uint32_t batch, uint32_t batches) {
  const struct place place = way(FIRST);
  const struct place_round rounds[] = {{0}, {epoch, 3}, {batch, batches}, {0}};
  return place_rounds_of(place.nodes, place.nnodes, rounds);
}

static enum place_pass compare(uint32_t a, place_rounds_t of_a, uint32_t b, place_rounds_t of_b) {
  const struct place at_a = way(a), at_b = way(b);
  enum place_pass pass = place_compare_rounds(&at_a, of_a, &at_b, of_b, false);
  enum place_pass other = place_compare_rounds(&at_b, of_b, &at_a, of_a, false);
  bool is_order = pass == PASS_BEFORE || pass == PASS_AFTER;
  cr_expect_eq(other, is_order ? PASS_BEFORE + PASS_AFTER - pass : pass, "either way");
  return pass;
}

Test(place_rounds, of_two_epochs_the_earlier_comes_first) {
  cr_expect_eq(compare(FIRST, in(2, 7, 9), AFTER, in(1, 0, 0)), PASS_AFTER);
  cr_expect_eq(compare(AFTER, in(2, 0, 0), FIRST, in(3, 1, 4)), PASS_BEFORE);
}

Test(place_rounds, in_one_epoch_ranks_are_in_one_round_of_what_is_around_both) {
  cr_expect_eq(compare(FIRST, in(2, 7, 9), AFTER, in(2, 0, 0)), PASS_SAME);
  cr_expect_eq(compare(FIRST, in(2, 7, 9), SECOND, in(2, 7, 8)), PASS_SAME);
}

/* Who has fewer batches comes to what is behind the last one earlier. */
Test(place_rounds, of_rounds_of_a_loop_that_is_not_as_long_on_both_ranks_nothing_is_told) {
  cr_expect_eq(compare(FIRST, in(2, 7, 9), SECOND, in(2, 5, 5)), PASS_UNKNOWN);
  cr_expect_eq(compare(FIRST, in(2, 7, 0), SECOND, in(2, 5, 0)), PASS_UNKNOWN);
  cr_expect_eq(compare(FIRST, in(2, 7, 9), SECOND, in(2, 5, 9)), PASS_AFTER);
}

Test(place_rounds, what_a_loop_does_not_say_is_not_known) {
  cr_expect_eq(compare(FIRST, in(0, 7, 9), AFTER, in(1, 0, 0)), PASS_UNKNOWN);
  cr_expect_eq(compare(FIRST, in(1, 0, 0), SECOND, in(1, 2, 9)), PASS_UNKNOWN);
  cr_expect_eq(compare(FIRST, 0, AFTER, 0), PASS_UNKNOWN);
  cr_expect_eq(in(PLACE_ROUND_MAX + 1, 0, 0), 0, "too many");
}

Test(place_rounds, nor_where_there_may_be_loops_that_are_not_seen) {
  struct place first = way(FIRST), after = way(AFTER);
  first.nodes[0].flags = after.nodes[0].flags = PLACE_OPAQUE;
  cr_expect_eq(place_compare_rounds(&first, in(2, 1, 1), &after, in(1, 0, 0), false), PASS_UNKNOWN);
  first = way(FIRST), after = way(AFTER);
  first.nodes[1].flags = after.nodes[1].flags = PLACE_LOOP;
  cr_expect_eq(place_compare_rounds(&first, in(2, 1, 1), &after, in(1, 0, 0), false), PASS_UNKNOWN);
}

Test(place_rounds, nor_of_places_in_no_loop_that_is_around_both) {
  struct place first = way(FIRST), after = way(AFTER);
  after.nodes[1].id = AFTER + 1;
  cr_expect_eq(place_compare_rounds(&first, in(2, 1, 1), &after, in(1, 0, 0), false), PASS_UNKNOWN);
}

Test(place_rounds, nor_of_loops_within_those_that_count) {
  struct place first = way(FIRST), second = way(SECOND);
  first.nodes[first.nnodes - 1].id = second.nodes[second.nnodes - 1].id = SECOND + AFTER;
  first.nodes[first.nnodes - 1].flags = second.nodes[second.nnodes - 1].flags =
      PLACE_LOOP | PLACE_ORDERED;
  first.nodes[first.nnodes++] = (struct place_node){.id = FIRST};
  second.nodes[second.nnodes++] = (struct place_node){.id = SECOND};
  cr_expect_eq(place_compare_rounds(&first, in(2, 1, 1), &second, in(2, 1, 1), false),
               PASS_UNKNOWN);
}

Test(place_rounds, a_rank_goes_round_as_a_loop_around_the_innermost_one_does) {
  const struct place first = way(FIRST), after = way(AFTER);
  cr_expect_eq(place_rounds_turn(&first, in(2, 1, 9), in(2, 2, 9)), TURN_SAME);
  cr_expect_eq(place_rounds_turn(&first, in(2, 9, 9), in(3, 1, 9)), TURN_ROUND);
  cr_expect_eq(place_rounds_turn(&first, in(0, 9, 9), in(0, 1, 9)), TURN_UNKNOWN);
  cr_expect_eq(place_rounds_turn(&first, in(2, 9, 9), in(0, 1, 9)), TURN_UNKNOWN);
  cr_expect_eq(place_rounds_turn(&after, in(1, 0, 0), in(1, 0, 0)), TURN_UNKNOWN, "one loop");
}

Test(place_rounds, what_is_refused_tells_nothing_and_neither_does_what_is_within) {
  place_rounds_t rounds = in(2, 7, 9);
  cr_expect_eq(place_rounds_refused(rounds), PLACE_LEVELS);
  cr_expect_eq(place_rounds_refuse(rounds, PLACE_LEVELS), rounds);
  cr_expect_eq(place_rounds_refused(place_rounds_refuse(rounds, 1)), 1);
  cr_expect_eq(place_rounds_refused(place_rounds_refuse(rounds, 0)), 0);
  cr_expect_eq(compare(FIRST, place_rounds_refuse(rounds, 1), AFTER, in(1, 0, 0)), PASS_AFTER);
  cr_expect_eq(compare(FIRST, place_rounds_refuse(rounds, 1), SECOND, in(2, 7, 9)), PASS_UNKNOWN);
  cr_expect_eq(compare(FIRST, place_rounds_refuse(rounds, 0), AFTER, in(1, 0, 0)), PASS_UNKNOWN);
  cr_expect_eq(place_rounds_only(rounds, 1), in(2, 0, 0));
  cr_expect_eq(place_rounds_only(rounds, 0), 0);
}

Test(place_rounds, ranks_differ_where_their_numbers_do) {
  cr_expect_eq(place_rounds_differ(in(2, 7, 9), in(2, 7, 8)), PLACE_LEVELS);
  cr_expect_eq(place_rounds_differ(in(2, 7, 9), in(2, 6, 9)), 1);
  cr_expect_eq(place_rounds_differ(in(2, 7, 9), in(1, 7, 9)), 0);
  cr_expect_eq(place_rounds_differ(in(2, 7, 9), in(0, 7, 9)), 0);
}

/* `if (item % world != rank) continue;`: each rank has rounds of its own. */
Test(place_rounds, a_loop_whose_rounds_need_not_come_to_the_places_has_no_order) {
  struct place first = way(FIRST), after = way(AFTER);
  after.nodes[2].flags &= (uint16_t)~PLACE_ALWAYS;
  cr_expect_eq(place_compare_rounds(&first, in(2, 1, 1), &after, in(1, 0, 0), false), PASS_UNKNOWN);
  cr_expect_eq(place_compare_rounds(&after, in(1, 0, 0), &first, in(2, 1, 1), false), PASS_UNKNOWN);
  cr_expect_eq(place_compare_rounds(&first, in(2, 1, 1), &after, in(2, 0, 0), false), PASS_SAME,
               "each round comes to the other");
  first.nodes[2].flags &= (uint16_t)~PLACE_ALWAYS;
  cr_expect_eq(place_compare_rounds(&first, in(2, 1, 1), &after, in(2, 0, 0), false), PASS_UNKNOWN);
  first = way(FIRST), after = way(AFTER);
  first.nodes[3].flags &= (uint16_t)~PLACE_ALWAYS;
  cr_expect_eq(place_compare_rounds(&first, in(2, 1, 1), &after, in(1, 0, 0), false), PASS_AFTER,
               "what an inner loop comes to is another matter");
}

/* ... but for the outermost one if ranks have been seen to count it alike. */
Test(place_rounds, a_loop_that_ranks_count_alike_has_one_whatever_its_rounds_come_to) {
  struct place first = way(FIRST), after = way(AFTER);
  first.nodes[2].flags &= (uint16_t)~PLACE_ALWAYS;
  after.nodes[2].flags &= (uint16_t)~PLACE_ALWAYS;
  cr_expect_eq(place_compare_rounds(&first, in(2, 1, 1), &after, in(1, 0, 0), true), PASS_AFTER);
  cr_expect_eq(place_compare_rounds(&first, in(2, 1, 1), &after, in(2, 0, 0), true), PASS_SAME);
  struct place second = way(SECOND);
  first = way(FIRST);
  first.nodes[3].flags &= (uint16_t)~PLACE_ALWAYS;
  second.nodes[3].flags &= (uint16_t)~PLACE_ALWAYS;
  cr_expect_eq(place_compare_rounds(&first, in(2, 1, 4), &second, in(2, 2, 4), true), PASS_UNKNOWN,
               "what an inner loop comes to is another matter");
}

Test(place_rounds, nor_where_a_call_in_it_may_come_back_before) {
  struct place first = way(FIRST), after = way(AFTER);
  after.nodes[2] = (struct place_node){.id = 50, .order = 7, .flags = PLACE_ORDERED | PLACE_ALWAYS};
  after.nodes[3] = (struct place_node){.id = 51};
  after.nodes[4] =
      (struct place_node){.id = AFTER, .order = 2, .flags = PLACE_ORDERED | PLACE_ALWAYS};
  after.nnodes = 5;
  cr_expect_eq(place_compare_rounds(&first, in(2, 1, 1), &after, in(1, 0, 0), false), PASS_AFTER);
  after.nodes[4].flags = PLACE_ORDERED;
  cr_expect_eq(place_compare_rounds(&first, in(2, 1, 1), &after, in(1, 0, 0), false), PASS_UNKNOWN);
  after.nodes[4].flags = PLACE_OPAQUE;
  cr_expect_eq(place_compare_rounds(&first, in(2, 1, 1), &after, in(1, 0, 0), false), PASS_UNKNOWN);
}

Test(place_rounds, loops_are_around_both_as_far_as_the_ways_go_together) {
  struct place first = way(FIRST), second = way(SECOND), after = way(AFTER);
  cr_assert_eq(place_loops_around(&first, &second), 2);
  cr_assert_eq(place_loops_around(&first, &after), 1);
  second.nodes[0].id = AFTER;
  cr_assert_eq(place_loops_around(&first, &second), 0);
}

/* ---- where a round begins ---- */

static struct place_begin begin_of(uint32_t id, place_rounds_t rounds) {
  struct place place = way(id);
  struct place_begin begin;
  place.rounds = rounds;
  cr_assert(place_round_begins(&place, 0, &begin));
  return begin;
}

Test(place_rounds, a_round_begins_before_all_that_stands_in_the_outermost_loop) {
  struct place_begin begin = begin_of(FIRST, in(2, 7, 9));
  cr_expect(begin.number == 2 && begin.comes && place_is_begin(&begin.place));
  cr_expect_eq(begin_of(AFTER, in(2, 0, 0)).place.id, begin.place.id, "wherever in the loop");
  for (uint32_t id = FIRST; id <= AFTER; id++) {
    struct place place = way(id);
    cr_expect_not(place_is_begin(&place));
    cr_expect(place_goes_first(&begin.place, &place) && place_is_certain(&begin.place, &place));
    cr_expect_not(place_are_branches(&begin.place, &place));
    cr_expect_eq(place_compare_rounds(&begin.place, begin.place.rounds, &place, in(2, 1, 9), false),
                 PASS_SAME);
    cr_expect_eq(place_compare_rounds(&begin.place, begin.place.rounds, &place, in(1, 9, 9), false),
                 PASS_AFTER);
  }
  struct place_begin next = begin_of(SECOND, in(3, 1, 4));
  cr_expect_eq(next.place.id, begin.place.id);
  cr_expect_eq(
      place_compare_rounds(&begin.place, begin.place.rounds, &next.place, next.place.rounds, false),
      PASS_BEFORE);
}

/* That one begins says that ranks have the rounds of the loop in common. */
Test(place_rounds, where_it_begins_rounds_order_what_stands_behind_a_condition_too) {
  struct place_begin begin = begin_of(FIRST, in(2, 7, 9));
  struct place after = way(AFTER);
  after.nodes[2].flags &= (uint16_t)~PLACE_ALWAYS;
  cr_expect_eq(place_compare_rounds(&begin.place, begin.place.rounds, &after, in(3, 0, 0), false),
               PASS_BEFORE);
  after.rounds = in(3, 0, 0);
  cr_assert(place_round_begins(&after, 0, &begin));
  cr_expect_not(begin.comes, "each rank may leave out others");
  after.nodes[2].flags |= PLACE_FIXED;
  cr_assert(place_round_begins(&after, 0, &begin));
  cr_expect(begin.comes, "all of them, or none");
}

static bool begins(const struct place *place, struct place_round epochs) {
  struct place with = *place;
  struct place_begin begin;
  with.rounds =
      place_rounds_of(place->nodes, place->nnodes, (struct place_round[]){{0}, epochs, {0}, {0}});
  return place_round_begins(&with, 0, &begin);
}

Test(place_rounds, only_of_a_loop_that_says_how_many_rounds_it_has_and_these_are_few) {
  struct place first = way(FIRST), other = way(FIRST);
  cr_expect(begins(&first, (struct place_round){1, PLACE_EPOCHS_MAX}));
  cr_expect_not(begins(&first, (struct place_round){1, PLACE_EPOCHS_MAX + 1}));
  cr_expect_not(begins(&first, (struct place_round){1, 0}));
  cr_expect_not(begins(&first, (struct place_round){0, 0}));
  cr_expect_not(begins(&first, (struct place_round){PLACE_ROUND_MAX + 1, 3}));
  other.nodes[0].flags = PLACE_OPAQUE;
  cr_expect_not(begins(&other, (struct place_round){1, 3}), "another loop may be around it");
  other = first;
  other.nodes[1].flags &= (uint16_t)~PLACE_LOOP;
  other.nodes[2].flags &= (uint16_t)~PLACE_LOOP;
  cr_expect_not(begins(&other, (struct place_round){1, 3}), "no loop");
}

/* ---- of the loop in the outermost one ---- */

/* for (epoch) for (model) for (batch) FIRST; */
static struct place of_models(struct place_round epoch, struct place_round model) {
  struct place place = way(FIRST);
  place.nodes[4] = place.nodes[3];
  place.nodes[3] = place.nodes[2];
  place.nodes[3].id = BATCHES + 100;
  place.nodes[3].order = 3;
  place.nnodes++;
  const struct place_round rounds[] = {{0}, epoch, model, {7, 9}, {0}};
  place.rounds = place_rounds_of(place.nodes, place.nnodes, rounds);
  return place;
}

Test(place_rounds, begin_of_the_loop_in_the_outermost_one_too_if_that_has_another) {
  const struct place place = of_models((struct place_round){2, 3}, (struct place_round){2, 2});
  struct place first = way(FIRST);
  struct place_begin outer, inner;
  cr_expect_eq(place_rounds_begin(&place), 2);
  first.rounds = in(2, 7, 9);
  cr_expect_eq(place_rounds_begin(&first), 1, "that of the batches");
  cr_assert(place_round_begins(&place, 0, &outer) && place_round_begins(&place, 1, &inner));
  cr_expect_not(place_round_begins(&place, 2, &outer));
  cr_expect(place_is_begin(&inner.place) && inner.comes && outer.place.id != inner.place.id);
  cr_expect_eq(place_loops_around(&inner.place, &place), 2);
  /* Behind where the outer round begins, before the batches, and before those of the next model. */
  cr_expect_eq(place_compare_rounds(&outer.place, outer.place.rounds, &inner.place,
                                    inner.place.rounds, false),
               PASS_SAME);
  cr_expect(place_goes_first(&outer.place, &inner.place) && place_goes_first(&inner.place, &place));
  const struct place before = of_models((struct place_round){2, 3}, (struct place_round){1, 2}),
                     later = of_models((struct place_round){3, 3}, (struct place_round){1, 2});
  cr_expect_eq(
      place_compare_rounds(&inner.place, inner.place.rounds, &before, before.rounds, false),
      PASS_AFTER);
  cr_expect_eq(place_compare_rounds(&inner.place, inner.place.rounds, &later, later.rounds, false),
               PASS_BEFORE);
}

Test(place_rounds, of_two_loops_count_as_far_as_both_say_theirs) {
  struct place place = of_models((struct place_round){2, 3}, (struct place_round){2, 0});
  cr_expect_eq(place_rounds_begin(&place), 1);
  place = of_models((struct place_round){0, 0}, (struct place_round){2, 2});
  cr_expect_eq(place_rounds_begin(&place), 0);
  place = of_models((struct place_round){2, 3}, (struct place_round){2, PLACE_EPOCHS_MAX + 1});
  cr_expect_eq(place_rounds_begin(&place), 1, "batches");
  struct place_begin begin;
  place = of_models((struct place_round){2, 3}, (struct place_round){2, 2});
  place.nodes[2].flags &= (uint16_t)~PLACE_ALWAYS;
  cr_expect(place_round_begins(&place, 1, &begin) && !begin.comes,
            "each rank may leave out others of the outer one");
}

/* One of two loops may be that of epochs. */
Test(place_rounds, of_what_is_left_begin_where_there_is_a_loop_within) {
  const struct place_round left = {PLACE_EPOCHS_MAX - 3, PLACE_EPOCHS_MAX};
  const struct place_round one[] = {{0}, left, {0}}, two[] = {{0}, left, {0}, {0}};
  struct place after = way(AFTER), first = way(FIRST);
  after.rounds = place_rounds_of(after.nodes, after.nnodes, one);
  first.rounds = place_rounds_of(first.nodes, first.nnodes, two);
  cr_expect_eq(place_rounds_begin(&after), 0);
  cr_expect_eq(place_rounds_begin(&first), 1);
}

Test(place_rounds, of_two_loops_are_alike_level_by_level) {
  const place_rounds_t of[] = {
      of_models((struct place_round){2, 3}, (struct place_round){2, 2}).rounds,
      of_models((struct place_round){2, 3}, (struct place_round){1, 2}).rounds,
      of_models((struct place_round){1, 3}, (struct place_round){2, 2}).rounds};
  cr_expect_eq(place_rounds_alike(of[0], of[0]), 2);
  cr_expect_eq(place_rounds_alike(of[0], of[1]), 1);
  cr_expect_eq(place_rounds_alike(of[0], of[2]), 0);
  cr_expect_eq(place_rounds_alike(0, 0), 0, "nothing is said");
  /* The last of them may be one more than is known. */
  const struct place last = of_models((struct place_round){1, 3}, (struct place_round){3, 2}),
                     next = of_models((struct place_round){2, 3}, (struct place_round){1, 2});
  uint32_t number = place_rounds_number(last.rounds, 1);
  cr_expect_lt(number, place_rounds_number(next.rounds, 1));
  cr_expect(place_numbers_of(number).number == 3 && place_numbers_of(number).around == 1);
  cr_expect_eq(place_number_of(place_numbers_of(number)), number);
}
