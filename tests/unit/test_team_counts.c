/* Whether all ranks count the rounds of a loop alike: what a rank asks before it waits where a round begins
 * (interpose/calls/rounds.h). */
#include <criterion/criterion.h>

#include "core/place/place_rounds.h"
#include "core/team/team_private.h"
#include "tests/unit/quartet.h"

TestSuite(team_counts, .init = quartet_start, .fini = quartet_stop);

/* In a round of the loop, of so many. */
static struct place in_round(uint32_t id, uint32_t number, uint32_t total) {
  struct place place = place_of(id);
  const struct place_round rounds[] = {{0}, {number, total}, {0}};
  place.rounds = place_rounds_of(place.nodes, place.nnodes, rounds);
  return place;
}

static void claim_in_round(uint32_t rank, uint32_t id, uint32_t number, uint32_t total) {
  const struct place place = in_round(id, number, total);
  team_claim(quartet[rank], at(id, SUM), CLAIM_OWN_PLACE, &place);
}

/* All ranks issue a unit of the loop; rank 0 in a round of its own. */
static void issue_in_round(uint32_t number_of_0, uint32_t total_of_0) {
  for (uint32_t rank = 0; rank < RANKS; rank++)
    claim_in_round(rank, HEAD, rank == 0 ? number_of_0 : 1, rank == 0 ? total_of_0 : 3);
  expect_all_real();
}

/* Of the loop, and the same of all ranks, whoever has settled it, or has only followed. */
static bool counts(void) {
  struct place place = in_round(ELSE, 2, 3);
  struct place_begin begin;
  cr_assert(place_round_begins(&place, &begin));
  bool first = team_counts_rounds(quartet[0], &begin.place);
  for (uint32_t rank = 1; rank < RANKS; rank++)
    cr_expect_eq(team_counts_rounds(quartet[rank], &begin.place), first, "rank %u", rank);
  return first;
}

Test(team_counts, rounds_count_once_all_have_said_the_same) {
  cr_expect_not(counts());
  issue_in_round(1, 3);
  cr_expect(counts());
}

Test(team_counts, not_where_one_rank_does_not_say_its_own) {
  issue_in_round(0, 0);
  cr_expect_not(counts());
}

Test(team_counts, nor_where_one_is_in_another_round_or_has_not_as_many) {
  issue_in_round(2, 3);
  cr_expect_not(counts());
  quartet_stop();
  quartet_start();
  issue_in_round(1, 4);
  cr_expect_not(counts());
}

Test(team_counts, nor_where_nobody_says_how_many_there_are) {
  for (uint32_t rank = 0; rank < RANKS; rank++)
    claim_in_round(rank, HEAD, 1, 0);
  expect_all_real();
  cr_expect_not(counts());
}

/* The others settle it; who has not looked meanwhile follows them. */
Test(team_counts, who_follows_knows_as_well) {
  for (uint32_t rank = 0; rank < RANKS; rank++)
    claim_in_round(rank, HEAD, 1, 3);
  for (uint32_t rank = 1; rank < RANKS; rank++)
    expect_verdict(rank, TEAM_REAL);
  for (uint32_t rank = 1; rank < RANKS; rank++)
    claim_in_round(rank, HEAD, 1, 3);
  expect_verdict(0, TEAM_REAL);
  cr_expect(counts());
}
