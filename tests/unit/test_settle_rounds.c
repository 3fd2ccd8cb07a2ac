/* The winner rule where loops say in which round ranks are (core/place/place_rounds.h). What shows
 * each step is listed in claims.h. */
#include <criterion/criterion.h>

#include "core/transport/plane.h"
#include "core/unit/unit.h"
#include "tests/unit/claims.h"

/* for (epoch) { for (batch) IN_LOOP; for (meter) METER; } */
enum { MAIN = 9, EPOCHS, BATCHES, METERS, IN_LOOP, METER };
static struct place in_loop, meter;

static struct place_node node(uint32_t id, uint16_t order, bool loop) {
  return (struct place_node){.id = id,
                             .order = order,
                             .since = order,
                             .until = order,
                             .flags = PLACE_ORDERED | PLACE_ALWAYS | (loop ? PLACE_LOOP : 0)};
}

static struct place way(uint32_t id, struct place_node loop) {
  return (struct place){.id = id,
                        .nnodes = 4,
                        .nodes = {node(MAIN, 0, false), node(EPOCHS, 1, true), loop,
                                  node(id, loop.order + 1, false)}};
}

static void program(void) {
  begin();
  in_loop = way(IN_LOOP, node(BATCHES, 2, true));
  meter = way(METER, node(METERS, 6, true));
  settle.last = &meter;
}

TestSuite(settle_rounds, .init = program);

static place_rounds_t in(const struct place *place, uint32_t epoch, uint32_t round) {
  const struct place_round rounds[] = {{0}, {epoch, 4}, {round, 3}, {0}};
  return place_rounds_of(place->nodes, place->nnodes, rounds);
}

static void add_in(uint64_t hash, const struct place *place, place_rounds_t rounds) {
  add((struct claimed){.hash = hash,
                       .place = place,
                       .place_id = place->id,
                       .rounds = rounds,
                       .any = CLAIM_OWN_PLACE});
}

/* A rank without a batch comes from the meters of one epoch to those of the next: that looks like
 * one more round of the loop where all have been last. */
Test(settle_rounds, in_one_epoch_what_comes_first_in_it_goes_first_wherever_ranks_have_been_last) {
  add_in(A, &meter, in(&meter, 2, 1));
  add_in(B, &in_loop, in(&in_loop, 2, 1));
  cr_assert_eq(winner()->hash, B);
  cr_assert_not(is_guess());
}

Test(settle_rounds, of_two_epochs_the_earlier_goes_first_wherever_ranks_have_been_last) {
  const struct place *last[] = {&meter, &in_loop};
  for (size_t i = 0; i < 2; i++) {
    begin();
    settle.last = last[i];
    add_in(A, &meter, in(&meter, 1, 3));
    add_in(B, &in_loop, in(&in_loop, 2, 1));
    cr_assert_eq(winner()->hash, A);
    cr_assert_not(is_guess());
  }
}

Test(settle_rounds, without_them_the_loop_goes_on_and_that_is_a_guess) {
  add_in(A, &meter, 0);
  add_in(B, &in_loop, in(&in_loop, 2, 1));
  cr_assert_eq(winner()->hash, A);
  cr_assert(is_guess());
}

/* `if (!enabled) return;` before the meters. */
Test(settle_rounds, what_a_condition_leads_to_is_ordered_if_all_count_the_epochs_alike) {
  meter.nodes[2].flags &= (uint16_t)~PLACE_ALWAYS;
  for (int alike = 0; alike < 2; alike++) {
    begin();
    settle.last = &meter;
    add_in(A, &meter, in(&meter, 2, 1));
    add_in(B, &in_loop, in(&in_loop, 3, 1));
    for (uint32_t i = 0; i < settle.nunits; i++)
      settle.units[i].alike = alike;
    cr_expect_eq(is_guess(), !alike);
  }
  cr_assert_eq(winner()->hash, A);
}

Test(settle_rounds, one_rank_that_refuses_them_does_so_for_all) {
  add_in(A, &meter, in(&meter, 2, 1));
  add_in(B, &in_loop, in(&in_loop, 2, 1));
  add((struct claimed){.hash = LEAVE, .rounds = place_rounds_refuse(0, 0)});
  cr_assert_eq(winner()->hash, A);
  cr_assert(is_guess());
  cr_assert_eq(settle_levels(&settle), 0);
}

Test(settle_rounds, of_ranks_that_claim_one_unit_what_all_say_counts) {
  add_in(A, &meter, in(&meter, 2, 1));
  add_in(B, &in_loop, in(&in_loop, 2, 1));
  add_in(B, &in_loop, in(&in_loop, 2, 3));
  cr_assert_eq(winner()->hash, B, "the epoch is the same");
  cr_assert_eq(settle_levels(&settle), 1, "batches are not");
  add_in(A, &meter, in(&meter, 3, 1));
  cr_assert_eq(winner()->hash, A, "which epoch is not known of all");
}

Test(settle_rounds, ranks_at_one_place_in_different_rounds_refuse_them) {
  add_in(A, &meter, in(&meter, 1, 1));
  cr_assert_eq(settle_levels(&settle), PLACE_LEVELS);
  add_in(A, &meter, in(&meter, 1, 2));
  cr_assert_eq(settle_levels(&settle), 1);
  add_in(A, &meter, in(&meter, 2, 1));
  cr_assert_eq(settle_levels(&settle), 0);
}

Test(settle_rounds, who_claims_what_its_unit_has_been_taken_for_refuses_nothing) {
  add((struct claimed){.hash = A, .place = &meter, .rounds = in(&meter, 1, 1), .any = CLAIM_EVEN});
  add((struct claimed){.hash = A, .place = &meter, .rounds = 0, .any = CLAIM_EVEN});
  cr_assert_eq(settle_levels(&settle), PLACE_LEVELS);
}

/* ---- where a round begins ---- */

static struct place_begin begun;

/* A rank has come to the third round. */
static void add_begin(void) {
  struct place place = in_loop;
  place.rounds = in(&in_loop, 3, 1);
  cr_assert(place_round_begins(&place, 0, &begun));
  add((struct claimed){.hash = C,
                       .mark = MARK_ROUND,
                       .place = &begun.place,
                       .place_id = begun.place.id,
                       .rounds = begun.place.rounds,
                       .any = CLAIM_OWN_PLACE});
}

Test(settle_rounds, a_round_begins_when_all_have_left_the_one_before) {
  const struct place *last[] = {&meter, &in_loop};
  for (size_t i = 0; i < 4; i++) {
    begin();
    settle.last = last[i / 2];
    add_begin();
    add_in(A, last[i % 2], in(last[i % 2], 2, 1));
    cr_assert_eq(winner()->hash, A);
    cr_assert_not(is_guess());
  }
}

Test(settle_rounds, a_round_begins_before_what_stands_in_it) {
  const struct place *last[] = {&meter, &in_loop};
  for (size_t i = 0; i < 4; i++) {
    begin();
    settle.last = last[i / 2];
    add_in(A, last[i % 2], in(last[i % 2], 3, 1));
    add_begin();
    cr_assert_eq(winner()->hash, C);
    cr_assert_not(is_guess());
  }
}

Test(settle_rounds, a_round_begins_before_what_stands_behind_the_loop_and_before_other_marks) {
  struct place behind = {
      .id = 77, .nnodes = 2, .nodes = {node(MAIN, 0, false), node(77, 20, false)}};
  add_in(A, &behind, 0);
  add((struct claimed){.hash = B, .mark = MARK_OWN_JOIN});
  add((struct claimed){.hash = 0});
  add_begin();
  cr_assert_eq(winner()->hash, C);
}

/* Else it would wait until they have left for good: they begin no round. */
Test(settle_rounds, a_round_waits_for_nobody_whose_loop_does_not_say_its_rounds) {
  const place_rounds_t not_alike[] = {
      0, place_rounds_of(in_loop.nodes, in_loop.nnodes,
                         (struct place_round[]){{0}, {2, 5}, {1, 3}, {0}})};
  for (size_t i = 0; i < 3; i++) {
    begin();
    settle.last = &in_loop;
    add_begin();
    if (i < 2)
      add_in(A, &in_loop, not_alike[i]);
    else
      add((struct claimed){.hash = A});
    cr_assert_eq(winner()->hash, C, "%zu", i);
    cr_assert_not(is_guess());
  }
}

/* Epochs of two phases in turn, the loops of which look alike: a rank without data in the first
 * epoch is in the second. */
Test(settle_rounds, to_take_one_for_another_in_another_epoch_of_as_many_is_a_guess) {
  for (uint32_t epoch = 1; epoch <= 2; epoch++) {
    begin();
    struct place places[] = {in_loop, meter};
    for (uint32_t i = 0; i < 2; i++) {
      places[i].nodes[2].flags &= ~(uint16_t)PLACE_ALWAYS;
      add((struct claimed){.hash = i == 0 ? A : B,
                           .signature = C,
                           .place = &places[i],
                           .rounds = in(&places[i], i == 0 ? 1 : epoch, 1),
                           .any = CLAIM_OWN_PLACE});
    }
    cr_assert(is_unanimous());
    cr_assert_eq(is_guess(), epoch == 2);
  }
}
