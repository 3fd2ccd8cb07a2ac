/* The winner rule where places are known, and which units are one. What shows each step is listed
 * in claims.h. */
#include <criterion/criterion.h>

#include "core/transport/plane.h"
#include "tests/unit/claims.h"

static struct place_node node(uint32_t id, uint16_t order, bool loop) {
  return (struct place_node){.id = id,
                             .order = order,
                             .since = order,
                             .until = order,
                             .flags = PLACE_ORDERED | (loop ? PLACE_LOOP : 0)};
}

/* for (epoch) { for (batch) in_loop(); after(); } */
enum { MAIN = 9, EPOCHS, BATCHES, EVALUATION, IN_LOOP, ALSO_IN_LOOP, AFTER };
static struct place in_loop, also_in_loop, in_evaluation, after;

static struct place way(uint32_t id, struct place_node last) {
  return (struct place){
      .id = id, .nnodes = 3, .nodes = {node(MAIN, 0, false), node(EPOCHS, 1, true), last}};
}

static void program(void) {
  begin();
  in_loop = way(IN_LOOP, node(BATCHES, 2, true));
  in_loop.nodes[in_loop.nnodes++] = node(IN_LOOP, 3, false);
  also_in_loop = way(ALSO_IN_LOOP, node(BATCHES, 2, true));
  also_in_loop.nodes[also_in_loop.nnodes++] = node(ALSO_IN_LOOP, 4, false);
  in_evaluation = way(EVALUATION, node(EVALUATION, 6, true));
  in_evaluation.nodes[in_evaluation.nnodes++] = node(EVALUATION, 7, false);
  after = way(AFTER, node(AFTER, 9, false));
}

TestSuite(settle_places, .init = program);

static void add_at(uint64_t hash, uint64_t signature, const struct place *place, bool common) {
  add((struct claimed){.hash = hash,
                       .signature = signature,
                       .place = place,
                       .common = common,
                       .any = CLAIM_OWN_PLACE});
}

Test(settle_places, a_mark_waits_for_any_unit_wherever_it_stands) {
  add((struct claimed){.hash = A, .mark = 1, .place = &in_loop});
  add((struct claimed){.hash = B, .place = &after});
  cr_assert_eq(winner()->hash, B);
}

Test(settle_places, who_is_in_the_loop_goes_before_who_has_left_it) {
  add((struct claimed){.hash = A, .place = &after, .last_real = 9, .expected = true, .bytes = 9});
  add((struct claimed){.hash = B, .place = &in_loop});
  cr_assert_eq(winner()->hash, B);
  cr_assert_not(is_guess());
}

Test(settle_places, of_two_loops_the_one_that_goes_on) {
  settle.last = &in_evaluation;
  add((struct claimed){.hash = A, .place = &in_loop, .last_real = 9});
  add((struct claimed){.hash = B, .place = &in_evaluation});
  cr_assert_eq(winner()->hash, B);
  cr_assert(is_guess(), "the rank may have had no batches in this epoch");
  settle.last = &in_loop;
  cr_assert_eq(winner()->hash, A);
  cr_assert_not(is_guess(), "who stands in the later loop has left the earlier one");
  settle.last = &after;
  cr_assert_eq(winner()->hash, A, "which comes first in the program");
}

Test(settle_places, within_a_loop_what_comes_first_in_the_program) {
  add((struct claimed){.hash = A, .place = &also_in_loop, .last_real = 9});
  add((struct claimed){.hash = B, .place = &in_loop});
  cr_assert_eq(winner()->hash, B);
}

/* A rank has gone on to the next iteration before its peers have come to the end of theirs. */
Test(settle_places, what_comes_without_going_round_the_loop_goes_first) {
  settle.last = &in_loop;
  add((struct claimed){.hash = A, .place = &also_in_loop});
  add((struct claimed){.hash = B, .place = &in_loop});
  cr_assert_eq(winner()->hash, A);
  settle.last = &also_in_loop;
  cr_assert_eq(winner()->hash, B);
  settle.last = &after;
  cr_assert_eq(winner()->hash, B, "for both of them the loop of epochs has gone round");
}

Test(settle_places, also_where_the_next_iteration_begins_with_a_loop) {
  struct place nested = in_loop;
  nested.nodes[3] = node(77, 1, true);
  nested.nodes[nested.nnodes++] = node(78, 2, false);
  settle.last = &in_loop;
  add((struct claimed){.hash = A, .place = &nested});
  add((struct claimed){.hash = B, .place = &also_in_loop});
  cr_assert_eq(winner()->hash, B);
  settle.last = &nested;
  cr_assert_eq(winner()->hash, A, "another round of that loop");
}

Test(settle_places, who_has_gone_round_to_a_loop_waits_for_what_is_left_of_the_epoch) {
  settle.last = &in_evaluation;
  add((struct claimed){.hash = A, .place = &in_loop});
  add((struct claimed){.hash = B, .place = &after});
  cr_assert_eq(winner()->hash, B);
  cr_assert_not(is_guess());
}

Test(settle_places,
     of_a_loop_in_an_unknown_order_in_which_nobody_has_been_it_is_a_guess_that_it_goes_first) {
  in_loop.nodes[2].flags = also_in_loop.nodes[2].flags = PLACE_LOOP;
  add((struct claimed){.hash = A, .place = &in_loop});
  add((struct claimed){.hash = B, .place = &after});
  cr_assert_eq(winner()->hash, A);
  cr_assert(is_guess());
  settle.last = &also_in_loop;
  cr_assert_not(is_guess(), "it goes on");
}

/* A function that ends in a jump to another leaves no frame: the ways part in functions. */
Test(settle_places, where_a_call_is_not_understood_what_comes_first_in_the_program_goes_first) {
  struct place within = way(ALSO_IN_LOOP, node(BATCHES, 2, false)), here = within;
  within.nodes[within.nnodes++] = (struct place_node){.id = 70};
  here.nodes[here.nnodes++] = (struct place_node){.id = 71};
  settle.last = &here;
  add((struct claimed){.hash = A, .place = &after});
  add((struct claimed){.hash = B, .place = &within});
  cr_assert_eq(winner()->hash, B);
  cr_assert(is_guess(), "it may have gone round the loop of epochs");
}

Test(settle_places, of_one_unit_in_two_epochs_the_earlier_goes_first) {
  add((struct claimed){.hash = A, .signature = C, .place = &after, .epoch = 4, .claimants = 5});
  add((struct claimed){.hash = A, .signature = C, .place = &after, .epoch = 3});
  cr_assert_eq(winner()->epoch, 3);
  cr_assert_not(is_unanimous());
  cr_assert_not(is_guess());
  begin();
  add((struct claimed){.hash = A, .signature = C, .place = &after, .epoch = 4});
  add((struct claimed){.hash = A, .signature = C, .place = &after});
  cr_assert(is_unanimous(), "of one it is not known");
}

static void add_in_epoch(uint64_t hash, uint32_t epoch, bool expected) {
  add((struct claimed){.hash = hash, .signature = C, .epoch = epoch, .expected = expected});
}

/* Who says none is of any: it must not stand between two that are told apart. */
Test(settle_places, who_says_no_epoch_does_not_hide_that_others_are_out_of_step) {
  add_in_epoch(A, 0, false);
  add_in_epoch(A, 3, false);
  add_in_epoch(A, 4, false);
  cr_assert_eq(winner()->epoch, 3, "not the unit of no epoch, which would be one with both");
  add_in_epoch(A, 4, false);
  cr_assert_eq(winner()->epoch, 3, "though more claim a later one");
  cr_assert_eq(winner()->claimants, 1);
}

Test(settle_places, nor_does_another_point_that_is_the_same_unit) {
  add_in_epoch(A, 4, false);
  add_in_epoch(A, 4, false);
  add_in_epoch(B, 0, true);
  add_in_epoch(A, 3, false);
  cr_assert_eq(winner()->hash, A);
  cr_assert_eq(winner()->epoch, 3);
  begin();
  add_in_epoch(A, 4, false);
  add_in_epoch(A, 3, false);
  add((struct claimed){.hash = B, .signature = B, .last_real = 1});
  cr_assert_eq(winner()->hash, B, "it is another unit, and goes first");
}

Test(settle_places, of_the_earliest_epoch_the_rule_chooses_the_name) {
  add_in_epoch(A, 4, false);
  add_in_epoch(A, 3, false);
  add_in_epoch(B, 4, true);
  add_in_epoch(B, 3, true);
  add_in_epoch(B, 3, true);
  cr_assert_eq(winner()->epoch, 3);
  cr_assert_eq(winner()->hash, B);
}

/* Two conditions of one loop. */
static void be_reached(void) {
  in_loop.nodes[3].reach_from = in_loop.nodes[3].reach_to = 4;
}

Test(settle_places,
     taking_two_conditions_of_a_loop_for_one_is_a_guess_where_all_have_been_at_both) {
  be_reached();
  add_at(A, C, &also_in_loop, true);
  add_at(B, C, &in_loop, true);
  settle.units[0].even = settle.units[1].even = true;
  cr_assert(is_guess());
  cr_assert(is_unanimous());
  begin();
  add_at(A, C, &also_in_loop, true);
  add_at(B, C, &in_loop, false);
  cr_assert_not(is_guess(), "ranks may branch");
}

Test(settle_places, two_places_that_all_come_to_may_be_two_conditions_if_they_have_no_order) {
  in_loop.nodes[1].flags = in_loop.nodes[2].flags = PLACE_ORDERED; /* no loops */
  also_in_loop.nodes[1].flags = also_in_loop.nodes[2].flags = PLACE_ORDERED;
  add_at(A, C, &also_in_loop, true);
  add_at(B, C, &in_loop, true);
  in_loop.nodes[3].reach_from = 1; /* nothing */
  cr_assert_not(is_guess());
  in_loop.nodes[3].flags = 0;
  cr_assert(is_guess());
}

Test(settle_places, who_is_again_where_all_have_been_may_have_gone_round_past_the_other) {
  be_reached();
  for (uint32_t shared = A; shared <= B; shared++) {
    begin();
    add((struct claimed){.hash = A,
                         .signature = C,
                         .place = &also_in_loop,
                         .any = CLAIM_OWN_PLACE,
                         .shared = shared == A});
    add((struct claimed){.hash = B,
                         .signature = C,
                         .place = &in_loop,
                         .any = CLAIM_OWN_PLACE,
                         .shared = shared == B});
    cr_assert(is_guess());
  }
}

Test(settle_places, a_unit_has_the_name_of_a_place_where_somebody_stands) {
  for (uint32_t expected = 0; expected <= 1; expected++) {
    begin();
    add((struct claimed){.hash = A,
                         .signature = C,
                         .place = &also_in_loop,
                         .seen = true,
                         .expected = expected != 0});
    add_at(B, C, &in_loop, false);
    cr_assert_eq(winner()->hash, expected ? A : B);
  }
}

/* Who claims it knows where it stands itself (team_guess.c). */
Test(settle_places, a_place_where_nobody_stands_says_nothing_of_who_claims_it) {
  also_in_loop.nodes[3].since = 3;
  for (uint32_t expected = 0; expected <= 1; expected++) {
    begin();
    add((struct claimed){
        .hash = A, .signature = C, .place = &also_in_loop, .expected = expected != 0});
    add_at(B, C, &in_loop, false);
    cr_assert(is_unanimous());
    cr_assert_eq(winner()->hash, expected ? A : B);
    cr_assert_not(is_guess());
  }
}

Test(settle_places, without_an_order_to_take_one_for_another_is_a_guess) {
  also_in_loop.nodes[3].flags = 0;
  add_at(A, C, &also_in_loop, false);
  add_at(B, C, &in_loop, false);
  cr_assert(is_guess(), "one may stand behind the other");
  settle.units[0].by_root = true;
  cr_assert_not(is_guess(), "the root's own branch");
}

Test(settle_places, without_an_order_to_take_a_unit_of_a_loop_for_one_after_it_is_a_guess) {
  add_at(A, C, &after, false);
  add_at(B, C, &in_loop, false);
  cr_assert_not(is_guess());
  after.nodes[2].flags = 0;
  cr_assert(is_guess());
}

Test(settle_places, to_take_a_unit_of_a_loop_for_one_that_may_come_after_it_is_a_guess) {
  add_at(A, C, &after, false);
  add_at(B, C, &in_loop, false);
  cr_assert_not(is_guess());
  in_loop.nodes[2].reach_from = in_loop.nodes[2].reach_to = 9;
  cr_assert(is_guess());
}

Test(settle_places, to_take_one_unit_for_another_where_they_part_unseen_is_a_guess) {
  after.nodes[2].flags = in_loop.nodes[2].flags = PLACE_OPAQUE;
  add_at(A, C, &after, false);
  add_at(B, C, &in_loop, false);
  cr_assert(is_unanimous());
  cr_assert(is_guess());
}

Test(settle_places, units_of_a_loop_and_after_it_are_two_where_all_know_one_of_them) {
  add_at(A, C, &after, false);
  add_at(B, C, &in_loop, false);
  cr_assert(is_unanimous(), "ranks may branch");
  begin();
  add_at(A, C, &after, false);
  add_at(B, C, &in_loop, true);
  cr_assert_not(is_unanimous());
  cr_assert_eq(winner()->hash, B);
  begin();
  after.nodes[2].since = 2;
  add_at(A, C, &after, false);
  add_at(B, C, &in_loop, false);
  cr_assert_not(is_unanimous(), "who is in the loop will come to what is after it");
}

Test(settle_places, within_a_loop_branches_are_one_unit_and_a_sequence_is_two) {
  add_at(A, C, &also_in_loop, true);
  add_at(B, C, &in_loop, true);
  cr_assert(is_unanimous());
  begin();
  also_in_loop.nodes[3].since = 3;
  add_at(A, C, &also_in_loop, true);
  add_at(B, C, &in_loop, true);
  cr_assert_not(is_unanimous());
  cr_assert_eq(winner()->hash, B);
  begin();
  add_at(A, C, &also_in_loop, true);
  add_at(B, C, &in_loop, false);
  cr_assert_not(is_unanimous(), "who knows one of them will come to the other");
}

/* for (...) { a(); } if (rest) b(); c(): who has no rest waits at c() for who is at b(), in the
 * first epoch, too. An even program may mean them for one. */
Test(settle_places, a_sequence_is_two_units_also_before_all_have_come_to_one) {
  also_in_loop.nodes[3].since = 3;
  for (uint32_t even = 0; even <= 1; even++) {
    begin();
    add_at(A, C, &also_in_loop, false);
    add_at(B, C, &in_loop, false);
    for (uint32_t i = 0; i < 2; i++)
      settle.units[i].even = even != 0;
    cr_assert_not(is_unanimous());
    cr_assert_eq(winner()->hash, B);
    cr_assert_eq(is_guess(), even != 0);
  }
}

Test(settle_places, of_one_unit_the_place_that_is_expected_names_it) {
  add((struct claimed){.hash = A, .signature = C, .place = &in_loop, .last_real = 9});
  add((struct claimed){.hash = B, .signature = C, .place = &also_in_loop, .expected = true});
  cr_assert_eq(winner()->hash, B);
}

/* One of them was issued by some ranks only: those come to the other, too. */
Test(settle_places, of_two_loops_one_that_some_ranks_have_no_part_in_goes_first) {
  for (uint32_t skipped = A; skipped <= B; skipped++) {
    begin();
    settle.last = &in_evaluation;
    add((struct claimed){.hash = skipped, .place = &in_loop, .seen = true});
    add((struct claimed){.hash = A + B - skipped, .place = &in_evaluation, .common = true});
    cr_assert_eq(winner()->hash, skipped);
    begin();
    settle.last = &in_evaluation;
    add((struct claimed){.hash = skipped, .place = &in_loop});
    add((struct claimed){.hash = A + B - skipped, .place = &in_evaluation, .common = true});
    cr_assert_eq(winner()->hash, A + B - skipped, "nobody has issued it");
    begin();
    settle.last = &in_evaluation;
    add((struct claimed){.hash = skipped, .place = &in_loop, .seen = true, .common = true});
    add((struct claimed){.hash = A + B - skipped, .place = &in_evaluation, .common = true});
    cr_assert_eq(winner()->hash, A + B - skipped, "all have issued it");
    begin();
    settle.last = &in_evaluation;
    add((struct claimed){.hash = skipped, .place = &in_loop, .seen = true});
    add((struct claimed){.hash = A + B - skipped, .place = &in_evaluation, .seen = true});
    cr_assert_eq(winner()->hash, A + B - skipped, "not all have the other, either");
  }
}

/* Others may have had no part in its loop so far, and come to it in this round. */
Test(settle_places, that_who_goes_first_has_a_loop_of_its_own_is_a_guess) {
  settle.last = &in_loop;
  add((struct claimed){.hash = A, .place = &in_loop, .common = true});
  add((struct claimed){.hash = B, .place = &in_evaluation, .seen = true});
  cr_assert_eq(winner()->hash, B);
  cr_assert(is_guess(), "it comes later in the program");
}

Test(settle_places,
     where_all_count_the_rounds_a_loop_that_not_all_had_waits_for_what_comes_before) {
  place_nodes_t round = place_loop_around(&in_loop, &in_evaluation);
  cr_assert_neq(round, 0);
  settle.last = &in_loop;
  add((struct claimed){.hash = A, .place = &in_loop, .common = true, .clocks = round});
  add((struct claimed){.hash = B, .place = &in_evaluation, .seen = true, .clocks = round});
  cr_assert_eq(winner()->hash, A);
  cr_assert_not(is_guess());
  begin();
  settle.last = &in_evaluation; /* what comes next in the round */
  add((struct claimed){.hash = A, .place = &in_loop, .common = true, .clocks = round});
  add((struct claimed){.hash = B, .place = &in_evaluation, .seen = true, .clocks = round});
  cr_assert_eq(winner()->hash, B);
  cr_assert_not(is_guess());
}

/* for (each set) for (...) sum(set): a rank without a batch of the first set is in the second. */
Test(settle_places, which_round_of_one_call_goes_first_is_a_guess) {
  for (uint32_t place = 0; place < 2; place++) {
    begin();
    add((struct claimed){.hash = A, .signature = A, .place_id = 5, .last_real = 9});
    add((struct claimed){.hash = B, .signature = B, .place_id = 5 + place, .last_real = 8});
    cr_assert_eq(winner()->hash, A);
    cr_assert_eq(is_guess(), place == 0);
  }
}

Test(settle_places, a_loop_goes_before_what_is_after_it_also_if_not_all_come_there) {
  add((struct claimed){.hash = A, .place = &after, .seen = true});
  add((struct claimed){.hash = B, .place = &in_loop, .common = true});
  cr_assert_eq(winner()->hash, B);
}

/* if (rank == 0) for (...) a(); else for (...) { if (some) b(); c(); }: a() looks like both. */
Test(settle_places, to_be_one_with_either_of_two_that_are_apart_is_a_guess) {
  also_in_loop.nodes[3].since = 3;
  for (uint32_t units = 2; units <= 3; units++) {
    begin();
    add_at(A, C, &in_evaluation, false);
    add_at(B, C, &in_loop, false);
    if (units == 3)
      add_at(C, C, &also_in_loop, false);
    cr_assert_eq(is_guess(), units == 3);
  }
}

Test(settle_places, of_a_hidden_place_nothing_is_told) {
  for (uint32_t hidden = A; hidden <= B; hidden++) {
    begin();
    add_at(A, C, hidden == A ? NULL : &after, true);
    add_at(B, C, hidden == B ? NULL : &after, true);
    cr_assert(is_unanimous());
    cr_assert_not(is_guess());
    begin();
    add((struct claimed){.hash = A, .place = hidden == A ? NULL : &after, .last_real = 1});
    add((struct claimed){.hash = B, .place = hidden == B ? NULL : &in_loop});
    cr_assert_eq(winner()->hash, A, "who has issued last");
  }
}
