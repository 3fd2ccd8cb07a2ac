/* What a rank did last, for messages (core/team/team_last.c): what it waits in, or has passed. */
#include <criterion/criterion.h>

#include "core/team/team_private.h"
#include "tests/unit/quartet.h"

TestSuite(team_last, .init = quartet_start, .fini = quartet_stop);

static struct team_last last;

/* What rank 0 is told of another. */
static void expect_last(uint32_t rank, uint32_t place, uint64_t count, bool parked) {
  cr_assert(team_last_unit(quartet[0], rank, &last));
  cr_assert_eq(last.parked, parked);
  cr_assert_eq(last.unit.nmembers, 1);
  cr_assert_eq(last.unit.members->count, count);
  cr_assert_str_eq(last.place, place_of(place).text);
}

Test(team_last, of_who_has_done_nothing_nothing_can_be_told) {
  cr_assert_not(team_last_unit(quartet[0], 1, &last));
}

Test(team_last, who_is_parked_waits_in_what_it_claims) {
  all_issue_at(HEAD, SUM);
  claim(1, AFTER, OTHER);
  expect_last(1, AFTER, OTHER, true);
}

Test(team_last, who_is_parked_in_a_leave_leaves) {
  team_claim_leave(quartet[1]);
  cr_assert(team_last_unit(quartet[0], 1, &last));
  cr_assert(last.parked);
  cr_assert_eq(last.unit.nmembers, 0);
  cr_assert_str_eq(last.place, "");
}

Test(team_last, of_who_yields_it_is_what_it_has_passed) {
  all_issue_at(HEAD, SUM);
  team_yield(quartet[1]);
  expect_last(1, HEAD, SUM, false);
}

Test(team_last, of_who_runs_it_is_what_it_has_passed) {
  all_issue_at(HEAD, SUM);
  all_issue_at(AFTER, OTHER);
  expect_last(1, AFTER, OTHER, false);
}

/* Rank 0 has fallen behind, and has not seen that unit in the sequence yet. */
Test(team_last, what_this_rank_has_not_come_to_is_read_where_it_was_claimed) {
  all_issue_at(HEAD, SUM);
  for (uint32_t rank = 0; rank < RANKS; rank++)
    if (rank != 0)
      claim(rank, AFTER, OTHER);
  team_claim_leave(quartet[0]);
  for (uint32_t rank = 1; rank < RANKS; rank++)
    expect_verdict(rank, TEAM_REAL);
  expect_last(1, AFTER, OTHER, false);
}

Test(team_last, a_leave_that_has_been_passed_is_no_unit) {
  all_issue_at(HEAD, SUM);
  for (uint32_t rank = 0; rank < RANKS; rank++)
    team_claim_leave(quartet[rank]);
  for (uint32_t rank = 0; rank < RANKS; rank++)
    expect_verdict(rank, TEAM_LEFT);
  cr_assert_not(team_last_unit(quartet[0], 1, &last));
}

/* What it has claimed is written over by then. */
Test(team_last, what_is_only_expected_is_known_from_the_sequence) {
  for (uint32_t i = 0; i < PLANE_RUN_AHEAD + 64; i++)
    all_issue_at(HEAD, SUM);
  expect_last(1, HEAD, SUM, false);
}
