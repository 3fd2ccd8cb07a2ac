/* Several teams at once, rule by rule: who yields, where ranks wait for each other. Two ranks in
 * two teams, three in a chain. What is committed: test_overlap_asking.c. */
#include <criterion/criterion.h>

#include "tests/unit/crossing.h"

TestSuite(overlap, .fini = crossing_stop);

Test(overlap, of_two_that_wait_for_each_other_exactly_one_yields) {
  crossing_pair();
  crossing_claim(0, 0, 4);
  crossing_claim(1, 1, 1000);
  cr_assert(crossing_answers(0, 1, 0), "the smaller unit is not the loop's");
  cr_assert_not(crossing_answers(1, 0, 0));
  cr_assert_not(crossing_answers(1, 0, OVERLAP_NEVER - 1), "time makes no difference between two");
  cr_assert_eq(crossing_poll(1, 1), TEAM_REAL);
  cr_assert_eq(crossing_poll(0, 1), TEAM_SHADOW);
  cr_assert_eq(crossing_poll(0, 0), TEAM_PARKED, "its own claim is still open");
  crossing_claim(1, 0, 4);
  cr_assert_eq(crossing_poll(0, 0), TEAM_REAL);
  cr_assert_eq(crossing_poll(1, 0), TEAM_REAL);
}

Test(overlap, a_guess_is_said_once) {
  struct unit requested;
  struct member to;
  crossing_pair();
  crossing_claim(0, 0, 4);
  crossing_claim(1, 1, 1000);
  cr_assert(crossing_answers(0, 1, 0));
  cr_assert(overlap_guessed(crossing_overlaps[0], &requested, &to));
  cr_assert_eq(requested.members[0].count, 4);
  cr_assert_eq(to.count, 1000);
  cr_assert_not(overlap_guessed(crossing_overlaps[0], &requested, &to));
}

Test(overlap, who_still_works_goes_before_who_has_stopped) {
  crossing_pair();
  for (int i = 0; i < 6; i++)
    crossing_issue(1, 10);
  crossing_claim(0, 0, 1000000);
  crossing_claim(1, 1, 10);
  cr_assert(crossing_answers(0, 1, 0),
            "the unit that rank 1 always did next, although it is smaller");
  cr_assert_not(crossing_answers(1, 0, 0));
}

/* The first goes on in a team of both, in which the second follows it, having claimed in the other.
 */
static void goes_on_alone(uint32_t first, uint32_t second, uint32_t at) {
  crossing_claim(second, 1 - at, 4);
  crossing_claim(first, at, 1000);
  cr_assert(crossing_answers(second, at, 0), "the smaller unit is not the loop's");
  cr_assert_eq(crossing_poll(first, at), TEAM_REAL);
  cr_assert_eq(crossing_poll(second, at), TEAM_SHADOW);
  overlap_return(crossing_overlaps[first]);
}

/* The claims are as new to the teams and to their ranks; rank 0's is larger. */
static void expect_rank_0_gives_way(bool gives_way) {
  crossing_claim(0, 0, 7);
  crossing_claim(1, 1, 3);
  cr_assert_eq(crossing_answers(0, 1, 0), gives_way);
  cr_assert_eq(crossing_answers(1, 0, 0), !gives_way);
}

Test(overlap, who_has_issued_more_since_both_were_together_goes_first) {
  crossing_pair();
  goes_on_alone(1, 0, 1);
  team_give_up(crossing_teams[0][0]);
  expect_rank_0_gives_way(true);
}

Test(overlap, that_both_were_together_where_one_waits_is_seen) {
  crossing_pair();
  goes_on_alone(1, 0, 1);
  crossing_claim(1, 0, 4);
  cr_assert_eq(crossing_poll(0, 0), TEAM_REAL);
  cr_assert_eq(crossing_poll(1, 0), TEAM_REAL);
  expect_rank_0_gives_way(false);
}

Test(overlap, that_both_were_together_where_the_other_waits_is_seen) {
  crossing_pair();
  goes_on_alone(1, 0, 0);
  crossing_claim(1, 1, 4);
  cr_assert_eq(crossing_poll(0, 1), TEAM_REAL);
  cr_assert_eq(crossing_poll(1, 1), TEAM_REAL);
  expect_rank_0_gives_way(false);
}

Test(overlap, nobody_yields_to_a_leave) {
  crossing_pair();
  crossing_claim(0, 0, 4);
  team_claim_leave(crossing_teams[1][1]);
  overlap_park(crossing_overlaps[1], 0);
  cr_assert_not(crossing_answers(0, 1, OVERLAP_NEVER - 1));
  cr_assert(crossing_answers(1, 0, 0), "the one that leaves does");
}

Test(overlap, what_a_rank_did_before_it_had_a_second_team_counts) {
  crossing_add(0, 2, (const uint32_t[]){0, 1});
  for (int i = 0; i < 3; i++)
    crossing_issue(0, 10);
  crossing_add(1, 2, (const uint32_t[]){0, 1});
  crossing_claim(0, 1, 20);
  cr_assert_eq(atomic_load(&crossing_teams[0][1]->own->claim_reals), 3);
  crossing_claim(0, 0, 10);
  cr_assert_eq(atomic_load(&crossing_teams[0][0]->own->claim_reals), 3);
}

/* Where nothing may be committed it is not asked whether it may: a mark. */
Test(overlap, and_counts_where_a_rank_claims_at_once) {
  struct member mark = mark_member(MARK_LOOP_BEGIN);
  crossing_add(0, 2, (const uint32_t[]){0, 1});
  for (int i = 0; i < 3; i++)
    crossing_issue(0, 10);
  crossing_add(1, 2, (const uint32_t[]){0, 1});
  for (uint32_t rank = 0; rank < 2; rank++) {
    team_claim(crossing_teams[rank][1], (struct unit){&mark, 1}, 0, NULL);
    overlap_park(crossing_overlaps[rank], 0);
  }
  cr_assert_eq(crossing_poll(0, 1), TEAM_REAL);
  cr_assert_eq(log_reals(crossing_teams[0][1]->own, 0), 4);
}

/* A child of all ranks is destroyed in the middle of a loop. */
Test(overlap, what_follows_a_leave_comes_after_it) {
  crossing_pair();
  for (int i = 0; i < 12; i++)
    crossing_issue(1, 10);
  crossing_issue(0, 4);
  for (uint32_t rank = 0; rank < 2; rank++) {
    overlap_may_commit(crossing_overlaps[rank], crossing_teams[rank][0]);
    team_claim_leave(crossing_teams[rank][0]);
    overlap_park(crossing_overlaps[rank], 0);
  }
  cr_assert_eq(crossing_poll(0, 0), TEAM_LEFT);
  overlap_remove(crossing_overlaps[0], crossing_teams[0][0]);
  struct member of = crossing_member(10);
  overlap_may_commit(crossing_overlaps[0], crossing_teams[0][1]);
  cr_assert(team_commit(crossing_teams[0][1], (struct unit){&of, 1}));
  cr_assert_eq(crossing_poll(1, 0), TEAM_LEFT, "and not only after that unit");
  cr_assert(!crossing_answers(1, 1, 0), "it is rank 1's own next one");
}

Test(overlap, a_yield_cannot_be_taken_back) {
  crossing_pair();
  crossing_add(2, 3, (const uint32_t[]){0, 1, 2});
  crossing_claim(0, 0, 4);
  crossing_claim(1, 2, 1000);
  cr_assert(crossing_answers(0, 2, 0));
  /* Its request settles nevertheless: rank 1 yields too. */
  team_yield(crossing_teams[1][0]);
  cr_assert_eq(crossing_poll(0, 0), TEAM_REAL);
  cr_assert_eq(crossing_poll(1, 0), TEAM_SHADOW);
  cr_assert_not(overlap_may_commit(crossing_overlaps[0], crossing_teams[0][1]),
                "others count on it");
  /* And it wants something else where it has yielded, before that has settled. */
  crossing_claim(0, 2, 5);
  cr_assert_eq(crossing_poll(0, 2), TEAM_PARKED);
  crossing_claim(2, 2, 6);
  cr_assert_eq(crossing_poll(2, 2), TEAM_SHADOW, "the larger unit, not that of rank 0");
  cr_assert_eq(crossing_poll(1, 2), TEAM_REAL);
  cr_assert_eq(crossing_poll(0, 2), TEAM_SHADOW, "as it has promised");
  cr_assert(crossing_teams[0][2]->claim.open);
}

Test(overlap, a_yield_to_ones_own_next_unit_is_issued_for_real) {
  crossing_pair();
  crossing_claim(0, 0, 4);
  crossing_claim(1, 1, 1000);
  cr_assert(crossing_answers(0, 1, 0));
  team_yield(crossing_teams[1][0]);
  cr_assert_eq(crossing_poll(0, 0), TEAM_REAL);
  cr_assert_eq(crossing_poll(1, 0), TEAM_SHADOW);
  crossing_claim(0, 1, 1000);
  cr_assert_eq(crossing_poll(0, 1), TEAM_REAL);
  cr_assert_eq(crossing_poll(1, 1), TEAM_REAL);
}

Test(overlap, yields_alone_settle_nothing_but_leaves_do) {
  crossing_pair();
  team_yield(crossing_teams[0][0]);
  team_claim_leave(crossing_teams[1][0]);
  cr_assert_eq(crossing_poll(1, 0), TEAM_PARKED);
  cr_assert_eq(crossing_poll(0, 0), TEAM_PARKED);
  team_claim_leave(crossing_teams[0][1]);
  team_claim_leave(crossing_teams[1][1]);
  cr_assert_eq(crossing_poll(0, 1), TEAM_LEFT);
  cr_assert_eq(crossing_poll(1, 1), TEAM_LEFT);
}

/* Rank 1 does a unit of team 1, then comes to rank 0's claim in team 0. */
Test(overlap, what_a_peer_did_before_it_came_comes_first) {
  crossing_pair();
  crossing_claim(0, 0, 4);
  crossing_claim(1, 1, 1000);
  cr_assert(crossing_answers(0, 1, 0));
  cr_assert_eq(crossing_poll(1, 1), TEAM_REAL);
  crossing_claim(1, 0, 4);
  cr_assert_eq(crossing_poll(0, 0), TEAM_PARKED, "held: the unit of team 1 comes before");
  cr_assert(crossing_answers(0, 1, 0));
  cr_assert_eq(crossing_poll(0, 1), TEAM_SHADOW);
  cr_assert_eq(crossing_poll(0, 0), TEAM_REAL);
}

/* The same unit is no reason to answer if rank 1 did it after our claim had settled. */
Test(overlap, what_a_peer_did_afterwards_does_not) {
  crossing_pair();
  crossing_add(2, 2, (const uint32_t[]){1, 2});
  crossing_claim(0, 0, 4);
  crossing_claim(1, 0, 4);
  cr_assert_eq(crossing_poll(1, 0), TEAM_REAL);
  crossing_claim(1, 1, 1000);
  cr_assert_not(crossing_answers(0, 1, 0));
  cr_assert_eq(crossing_poll(0, 0), TEAM_REAL);
}

Test(overlap, in_a_chain_a_rank_yields_when_it_is_quiet) {
  crossing_chain();
  cr_assert_not(crossing_answers(0, 2, 0));
  uint64_t delay = overlap_delay(crossing_overlaps[0]);
  cr_assert_neq(delay, OVERLAP_NEVER);
  cr_assert_not(crossing_answers(0, 2, delay - 1));
  cr_assert(crossing_answers(0, 2, delay));
  cr_assert_eq(crossing_poll(2, 2), TEAM_REAL);
  cr_assert_eq(crossing_poll(0, 2), TEAM_SHADOW);
  crossing_claim(2, 2, 5);
  cr_assert(crossing_answers(0, 2, 0),
            "it has left as far as this request goes: no delay for the next unit");
}

static void make_chain(void) {
  crossing_add(0, 2, (const uint32_t[]){0, 1});
  crossing_add(1, 2, (const uint32_t[]){1, 2});
  crossing_add(2, 2, (const uint32_t[]){0, 2});
}

/* How many steps rank 0 lets pass before it gives way to rank 2, of which it knows nothing else. */
static uint64_t steps(void) {
  return overlap_delay(crossing_overlaps[0]) / OVERLAP_STEP_MS;
}

Test(overlap, in_a_chain_who_leaves_yields_first) {
  make_chain();
  team_claim_leave(crossing_teams[0][0]);
  overlap_park(crossing_overlaps[0], 0);
  crossing_claim(2, 2, 4);
  cr_assert_eq(steps(), 1);
}
Test(overlap, in_a_chain_then_who_wants_what_its_team_has_not_seen) {
  make_chain();
  crossing_issue(2, 10);
  crossing_claim(0, 0, 4);
  crossing_claim(2, 2, 10);
  cr_assert_eq(steps(), 4);
}
Test(overlap, in_a_chain_then_who_wants_what_is_as_new) {
  crossing_chain();
  cr_assert_eq(steps(), 5);
}
Test(overlap, in_a_chain_who_does_what_it_always_does_yields_after_who_does_not) {
  make_chain();
  for (int i = 0; i < 12; i++)
    crossing_issue(0, 4);
  crossing_claim(0, 0, 4);
  crossing_claim(2, 2, 10);
  cr_assert_eq(steps(), 6);
}
Test(overlap, in_a_chain_who_does_something_new_yields_before_who_does_not) {
  make_chain();
  for (int i = 0; i < 12; i++)
    crossing_issue(2, 10);
  crossing_claim(0, 0, 4);
  crossing_claim(2, 2, 10);
  cr_assert_eq(steps(), 3);
}

/* Nor is anything else of a wait known in the next one: that it was a guess is said again. */
Test(overlap, in_its_next_wait_a_rank_must_be_quiet_again) {
  struct unit requested;
  struct member to;
  crossing_chain();
  cr_assert(crossing_answers(0, 2, overlap_delay(crossing_overlaps[0])));
  cr_assert(overlap_guessed(crossing_overlaps[0], &requested, &to));
  cr_assert_eq(crossing_poll(2, 2), TEAM_REAL);
  cr_assert_eq(crossing_poll(0, 2), TEAM_SHADOW);
  crossing_claim(2, 2, 5);
  overlap_park(crossing_overlaps[0], 0);
  cr_assert_not(crossing_answers(0, 2, 0));
  uint64_t delay = overlap_delay(crossing_overlaps[0]);
  cr_assert(delay > 0 && delay != OVERLAP_NEVER);
  cr_assert(crossing_answers(0, 2, delay));
  cr_assert(overlap_guessed(crossing_overlaps[0], &requested, &to));
}
Test(overlap, a_rank_at_work_keeps_its_whole_chain_from_yielding) {
  crossing_chain();
  overlap_return(crossing_overlaps[2]); /* its program runs */
  for (uint64_t now = 1; now < 100; now++)
    for (uint32_t rank = 0; rank < 2; rank++)
      cr_assert_leq(overlap_quiet(crossing_overlaps[rank], now), 1, "rank %u at %lu", rank, now);
  overlap_park(crossing_overlaps[2], 100);
  uint64_t quiet[RANKS];
  for (uint64_t now = 100; now < 200; now++)
    for (uint32_t rank = 0; rank < RANKS; rank++)
      quiet[rank] = overlap_quiet(crossing_overlaps[rank], now);
  for (uint32_t rank = 0; rank < RANKS; rank++)
    cr_assert_eq(quiet[rank], 99, "rank %u", rank);
}

/* The longest that it has been quiet for ranks 0 and 1, after a while. Rank 2 does not ask. */
static uint64_t quiet_at(uint64_t begin, uint64_t end) {
  uint64_t longest = 0;
  for (uint64_t now = begin; now <= end; now++)
    for (uint32_t rank = 0; rank < 2; rank++) {
      uint64_t quiet = overlap_quiet(crossing_overlaps[rank], now);
      if (now == end && quiet > longest)
        longest = quiet;
    }
  return longest;
}

/* NCCL may connect ranks on the host; or it waits there for the very ranks that wait. */
Test(overlap, a_rank_that_issues_is_at_work_but_not_for_ever) {
  crossing_chain();
  overlap_issues(crossing_overlaps[2], 100);
  cr_assert_leq(quiet_at(100, 1000), 1);
  cr_assert_eq(quiet_at(1001, 100 + OVERLAP_ISSUE_MS + 50), 50);
}
Test(overlap, a_rank_that_has_issued_is_quiet_from_then_on) {
  crossing_chain();
  overlap_issues(crossing_overlaps[2], 100);
  cr_assert_leq(quiet_at(100, 1000), 1);
  overlap_moved(crossing_overlaps[2], 1000);
  cr_assert_eq(quiet_at(1001, 1100), 100);
}
