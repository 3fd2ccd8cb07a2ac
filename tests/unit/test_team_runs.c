/* Runs: whether a rank goes on in a loop, or has gone round to it (core/team/team_runs.c). */
#include <criterion/criterion.h>

#include "core/team/team_private.h"
#include "tests/unit/quartet.h"

TestSuite(team_runs, .init = quartet_start, .fini = quartet_stop);

/* for (epoch) for (meter) METER; */
enum { METER = 30 };

static struct place meter_in(uint32_t epoch, uint32_t round) {
  const struct place_round rounds[] = {{0}, {epoch, 9}, {round, 0}, {0}};
  struct place place = {.id = METER,
                        .nnodes = 4,
                        .nodes = {node(1000, 1, 0), node(1001, 2, PLACE_LOOP),
                                  node(1002, 3, PLACE_LOOP), node(1003, 4, 0)}};
  place.rounds = place_rounds_of(place.nodes, place.nnodes, rounds);
  return place;
}

/* All have claimed it so often that it is expected, and the last time in that epoch. */
static void begin_in(uint32_t epoch) {
  for (uint32_t round = 1; round <= 8; round++) {
    struct place place = meter_in(epoch, round);
    for (uint32_t rank = 0; rank < RANKS; rank++)
      team_claim(quartet[rank], at(METER, SUM), 0, &place);
    expect_all_real();
  }
}

static bool looks(uint32_t epoch, uint32_t round) {
  struct place place = meter_in(epoch, round);
  return team_look_here(quartet[0], &place);
}

Test(team_runs, who_goes_on_in_a_loop_of_unknown_length_commits_when_it_has_looked) {
  begin_in(1);
  cr_assert_not(team_commit(quartet[0], at(METER, SUM)));
  cr_assert(looks(1, 9));
  cr_assert(team_commit(quartet[0], at(METER, SUM)));
  cr_assert_not(team_commit(quartet[0], at(METER, SUM)), "it looks each time");
}

Test(team_runs, who_has_gone_round_to_it_asks) {
  begin_in(1);
  cr_assert_not(team_commit(quartet[0], at(METER, SUM)));
  cr_assert_not(looks(2, 1));
  cr_assert_not(team_commit(quartet[0], at(METER, SUM)));
  cr_assert(looks(2, 2), "of what it has seen the last time");
}

/* An epoch in which no rank has anything else: the loop is gone through twice in a row. */
Test(team_runs, a_run_begins_anew_where_the_rank_has_gone_round) {
  begin_in(1);
  cr_assert_eq(quartet[0]->places.run, 8);
  cr_assert_not(looks(2, 1));
  cr_assert_eq(quartet[0]->places.run, 0);
  struct place place = meter_in(2, 1);
  for (uint32_t rank = 0; rank < RANKS; rank++)
    team_claim(quartet[rank], at(METER, SUM), 0, &place);
  expect_all_real();
  cr_assert_eq(quartet[0]->places.run, 1);
  cr_assert(team_commit(quartet[0], at(METER, SUM)), "it is known how many there are");
}

Test(team_runs, without_rounds_nobody_looks) {
  begin_in(0);
  cr_assert(team_commit(quartet[0], at(METER, SUM)));
}

/* For one that has, and comes to where they cannot be seen any more. */
Test(team_runs, where_rounds_are_not_known_any_more_it_is_as_without_them) {
  begin_in(1);
  cr_assert(looks(0, 1));
  cr_assert(team_commit(quartet[0], at(METER, SUM)));
  cr_assert(team_commit(quartet[0], at(METER, SUM)));
}

Test(team_runs, a_loop_that_goes_on_for_long_is_not_looked_at) {
  begin_in(1);
  for (uint32_t i = 0; i < 1100; i++) {
    struct place place = meter_in(1, 10 + i);
    for (uint32_t rank = 0; rank < RANKS; rank++)
      cr_assert(
          team_commit(quartet[rank], at(METER, SUM)) ||
          (team_look_here(quartet[rank], &place) && team_commit(quartet[rank], at(METER, SUM))));
  }
  cr_assert(team_commit(quartet[0], at(METER, SUM)));
}

Test(team_runs, what_is_not_expected_for_another_reason_is_not_so_after_a_look) {
  begin_in(1);
  team_expect_nothing(quartet[0]);
  cr_assert_not(looks(1, 9));
  cr_assert_not(team_commit(quartet[0], at(METER, SUM)));
}

Test(team_runs, ranks_that_have_found_that_rounds_differ_say_so_from_then_on) {
  for (uint32_t rank = 0; rank < RANKS; rank++) {
    struct place place = meter_in(1 + rank, 1);
    team_claim(quartet[rank], at(METER, SUM), 0, &place);
  }
  expect_all_real();
  uint32_t refused = 0;
  for (uint32_t rank = 0; rank < RANKS; rank++) {
    struct place place = meter_in(1, 2);
    struct log_claim claim;
    team_claim(quartet[rank], at(METER, SUM), 0, &place);
    cr_assert(log_read_claim(quartet[rank]->own, quartet[rank]->head, &claim));
    refused += place_rounds_refused(claim.rounds) == 0;
  }
  cr_assert_eq(refused, 1, "who has settled it; the others have followed");
  expect_verdict(RANKS - 1, TEAM_REAL);
  cr_assert_eq(quartet[RANKS - 1]->places.levels, 0);
}

/* Of an epoch of 8 that all go through, how many units a rank claims. */
static uint32_t claims_in(uint32_t epoch) {
  uint32_t claims = 0;
  for (uint32_t round = 1; round <= 8; round++) {
    struct place place = meter_in(epoch, round);
    bool waits[RANKS];
    for (uint32_t rank = 0; rank < RANKS; rank++) {
      waits[rank] =
          !team_commit(quartet[rank], at(METER, SUM)) &&
          !(team_look_here(quartet[rank], &place) && team_commit(quartet[rank], at(METER, SUM)));
      if (waits[rank])
        team_claim(quartet[rank], at(METER, SUM), 0, &place);
    }
    for (uint32_t rank = 0; rank < RANKS; rank++)
      if (waits[rank])
        expect_verdict(rank, TEAM_REAL);
    claims += waits[0];
  }
  return claims;
}

/* The inner loop of an iteration, rather than the batches of an epoch. */
Test(team_runs, a_loop_that_has_been_as_long_for_64_units_is_gone_into_again_without_asking) {
  begin_in(1);
  for (uint32_t epoch = 2; epoch < 40; epoch++) {
    uint32_t claims = claims_in(epoch);
    cr_expect_eq(claims, epoch < 9, "epoch %u: %u", epoch, claims);
  }
}

/* Somebody has waited there: it is the end of an epoch. */
Test(team_runs, not_so_where_a_rank_has_waited) {
  begin_in(1);
  team_known_place(quartet[0], METER)->met = true;
  cr_expect_eq(claims_in(20), 1);
  for (uint32_t epoch = 21; epoch < 40; epoch++)
    cr_expect_eq(claims_in(epoch), 1);
}
