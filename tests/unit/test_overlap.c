/* Several teams at once, rule by rule: two ranks in two teams, three in a chain, and the rank
 * predictor. */
#include <criterion/criterion.h>

#include "core/predict/rank_predictor.h"
#include "tests/unit/crossing.h"

TestSuite(overlap, .fini = crossing_stop);

/* Ranks 0 and 1 in both of two teams. */
static void two_in_two(void) {
  crossing_add(0, 2, (const uint32_t[]){0, 1});
  crossing_add(1, 2, (const uint32_t[]){0, 1});
}

/* All ranks of a team claim the unit and get it. */
static void all_issue(uint32_t at, uint64_t count) {
  for (uint32_t i = 0; i < crossing_groups[at].nranks; i++)
    crossing_claim(crossing_groups[at].ranks[i], at, count);
  for (uint32_t i = 0; i < crossing_groups[at].nranks; i++)
    cr_assert_eq(crossing_poll(crossing_groups[at].ranks[i], at), TEAM_REAL);
}

/* Both ranks of a team do a unit; whether they committed it. */
static bool both_commit(uint32_t at, uint64_t count) {
  struct member of = crossing_member(count);
  struct unit unit = {&of, 1};
  bool both = true;
  for (uint32_t i = 0; i < crossing_groups[at].nranks; i++) {
    uint32_t rank = crossing_groups[at].ranks[i];
    struct team *team = crossing_teams[rank][at];
    bool may = overlap_may_commit(crossing_overlaps[rank], team) && team_commit(team, unit);
    if (may)
      overlap_issued(crossing_overlaps[rank], team, unit);
    else
      crossing_claim(rank, at, count);
    both &= may;
  }
  for (uint32_t i = 0; i < crossing_groups[at].nranks; i++)
    if (crossing_teams[crossing_groups[at].ranks[i]][at]->claim.open)
      cr_assert_eq(crossing_poll(crossing_groups[at].ranks[i], at), TEAM_REAL);
  return both;
}

Test(overlap, of_two_that_wait_for_each_other_exactly_one_yields) {
  two_in_two();
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
  two_in_two();
  crossing_claim(0, 0, 4);
  crossing_claim(1, 1, 1000);
  cr_assert(crossing_answers(0, 1, 0));
  cr_assert(overlap_guessed(crossing_overlaps[0], &requested, &to));
  cr_assert_eq(requested.members[0].count, 4);
  cr_assert_eq(to.count, 1000);
  cr_assert_not(overlap_guessed(crossing_overlaps[0], &requested, &to));
}

Test(overlap, who_still_works_goes_before_who_has_stopped) {
  two_in_two();
  for (int i = 0; i < 6; i++)
    all_issue(1, 10);
  crossing_claim(0, 0, 1000000);
  crossing_claim(1, 1, 10);
  cr_assert(crossing_answers(0, 1, 0),
            "the unit that rank 1 always did next, although it is smaller");
  cr_assert_not(crossing_answers(1, 0, 0));
}

Test(overlap, nobody_yields_to_a_leave) {
  two_in_two();
  crossing_claim(0, 0, 4);
  team_claim_leave(crossing_teams[1][1]);
  overlap_park(crossing_overlaps[1], 0);
  cr_assert_not(crossing_answers(0, 1, OVERLAP_NEVER - 1));
  cr_assert(crossing_answers(1, 0, 0), "the one that leaves does");
}

Test(overlap, what_a_rank_did_before_it_had_a_second_team_counts) {
  crossing_add(0, 2, (const uint32_t[]){0, 1});
  for (int i = 0; i < 3; i++)
    all_issue(0, 10);
  crossing_add(1, 2, (const uint32_t[]){0, 1});
  crossing_claim(0, 1, 20);
  cr_assert_eq(atomic_load(&crossing_teams[0][1]->own->claim_reals), 3);
  crossing_claim(0, 0, 10);
  cr_assert_eq(atomic_load(&crossing_teams[0][0]->own->claim_reals), 3);
}

/* A child of all ranks is destroyed in the middle of a loop. */
Test(overlap, what_follows_a_leave_comes_after_it) {
  two_in_two();
  for (int i = 0; i < 12; i++)
    all_issue(1, 10);
  all_issue(0, 4);
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
  two_in_two();
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
  two_in_two();
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
  two_in_two();
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
  two_in_two();
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
  two_in_two();
  crossing_add(2, 2, (const uint32_t[]){1, 2});
  crossing_claim(0, 0, 4);
  crossing_claim(1, 0, 4);
  cr_assert_eq(crossing_poll(1, 0), TEAM_REAL);
  crossing_claim(1, 1, 1000);
  cr_assert_not(crossing_answers(0, 1, 0));
  cr_assert_eq(crossing_poll(0, 0), TEAM_REAL);
}

/* 0 waits for 1 in {0, 1}, 1 for 2 in {1, 2}, 2 for 0 in {0, 2}. */
static void chain(void) {
  crossing_add(0, 2, (const uint32_t[]){0, 1});
  crossing_add(1, 2, (const uint32_t[]){1, 2});
  crossing_add(2, 2, (const uint32_t[]){0, 2});
  crossing_claim(0, 0, 4);
  crossing_claim(1, 1, 4);
  crossing_claim(2, 2, 4);
}

Test(overlap, in_a_chain_a_rank_yields_when_it_is_quiet) {
  chain();
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

Test(overlap, a_rank_at_work_keeps_its_whole_chain_from_yielding) {
  chain();
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
  chain();
  overlap_issues(crossing_overlaps[2], 100);
  cr_assert_leq(quiet_at(100, 1000), 1);
  cr_assert_eq(quiet_at(1001, 100 + OVERLAP_ISSUE_MS + 50), 50);
}
Test(overlap, a_rank_that_has_issued_is_quiet_from_then_on) {
  chain();
  overlap_issues(crossing_overlaps[2], 100);
  cr_assert_leq(quiet_at(100, 1000), 1);
  overlap_moved(crossing_overlaps[2], 1000);
  cr_assert_eq(quiet_at(1001, 1100), 100);
}

Test(overlap, ranks_of_one_team_are_left_alone) {
  crossing_add(0, 3, (const uint32_t[]){0, 1, 2});
  cr_assert(overlap_may_commit(crossing_overlaps[0], crossing_teams[0][0]));
  struct member of = crossing_member(3);
  cr_assert_eq(
      overlap_claim_flags(crossing_overlaps[0], crossing_teams[0][0], (struct unit){&of, 1}), 0);
  crossing_claim(0, 0, 4);
  cr_assert_eq(overlap_delay(crossing_overlaps[0]), OVERLAP_NEVER);
}

/* A barrier of its own team is a loop of barriers to that team's learner; the rank predictor knows
 * better.
 */
Test(overlap, a_barrier_after_equal_epochs_is_not_committed) {
  two_in_two();
  for (int epoch = 0; epoch < 8; epoch++) {
    for (int i = 0; i < 4; i++)
      all_issue(1, 10);
    all_issue(0, 3);
  }
  for (int i = 0; i < 4; i++)
    all_issue(1, 10);
  team_look_further(crossing_teams[0][0]);
  cr_assert_neq(*crossing_teams[0][0]->expected, &team_nothing, "its own learner expects it");
  cr_assert_not(overlap_may_commit(crossing_overlaps[0], crossing_teams[0][0]));
}

Test(overlap, a_loop_over_two_teams_is_committed) {
  two_in_two();
  uint32_t committed = 0;
  for (int i = 0; i < 12; i++)
    for (uint32_t at = 0; at < 2; at++)
      committed += both_commit(at, 10 + at);
  cr_assert_geq(committed, 12);
}

/* ---- step by step ---- */

/* 0 in {0, 1} and in {0, 2}; it has issued a unit of the first that rank 1 has claimed. */
static void ahead_in_the_first(void) {
  crossing_add(0, 2, (const uint32_t[]){0, 1});
  crossing_add(1, 2, (const uint32_t[]){0, 2});
  crossing_claim(0, 0, 4);
  crossing_claim(1, 0, 4);
  cr_assert_eq(crossing_poll(0, 0), TEAM_REAL);
  overlap_return(crossing_overlaps[0]);
}

Test(overlap, a_unit_of_another_team_waits_for_those_behind) {
  struct overlap_behind behind;
  ahead_in_the_first();
  cr_assert_not(overlap_must_wait(crossing_overlaps[0], crossing_teams[0][0], &behind),
                "the same team");
  cr_assert(overlap_must_wait(crossing_overlaps[0], crossing_teams[0][1], &behind));
  cr_assert_eq(behind.team, crossing_teams[0][0]);
  cr_assert_eq(behind.index, 0);
  cr_assert_eq(crossing_poll(1, 0), TEAM_REAL);
  cr_assert_not(overlap_must_wait(crossing_overlaps[0], crossing_teams[0][1], &behind));
}

Test(overlap, shadows_are_waited_for_by_nobody) {
  struct overlap_behind behind;
  crossing_add(0, 2, (const uint32_t[]){0, 1});
  crossing_add(1, 2, (const uint32_t[]){0, 2});
  team_claim_leave(crossing_teams[0][0]);
  crossing_claim(1, 0, 4);
  cr_assert_eq(crossing_poll(0, 0), TEAM_SHADOW);
  cr_assert_not(overlap_must_wait(crossing_overlaps[0], crossing_teams[0][1], &behind));
}

Test(overlap, nobody_waits_where_one_team_has_all_ranks_of_the_other) {
  struct overlap_behind behind;
  crossing_add(0, 2, (const uint32_t[]){0, 1});
  crossing_add(1, 3, (const uint32_t[]){0, 1, 2});
  crossing_claim(0, 0, 4);
  crossing_claim(1, 0, 4);
  cr_assert_eq(crossing_poll(0, 0), TEAM_REAL);
  cr_assert_not(overlap_must_wait(crossing_overlaps[0], crossing_teams[0][1], &behind));
}

Test(overlap, the_dead_are_not_waited_for) {
  struct overlap_behind behind;
  ahead_in_the_first();
  team_end(crossing_teams[1][0], RANK_FAILED);
  cr_assert_not(overlap_must_wait(crossing_overlaps[0], crossing_teams[0][1], &behind));
}

Test(overlap, who_waits_for_those_behind_answers_when_it_is_quiet) {
  ahead_in_the_first();
  crossing_claim(2, 1, 9);
  overlap_wait(crossing_overlaps[0], 0);
  cr_assert_not(crossing_answers(0, 1, 0));
  uint64_t delay = overlap_delay(crossing_overlaps[0]);
  cr_assert_neq(delay, OVERLAP_NEVER);
  cr_assert_not(crossing_answers(0, 1, delay - 1));
  cr_assert(crossing_answers(0, 1, delay), "it yields");
  cr_assert_eq(crossing_poll(2, 1), TEAM_REAL);
  cr_assert_eq(crossing_poll(0, 1), TEAM_SHADOW);
}

Test(overlap, who_is_behind_and_at_work_makes_those_wait_who_wait_for_it) {
  crossing_add(2, 2, (const uint32_t[]){1, 2});
  ahead_in_the_first();
  overlap_return(crossing_overlaps[1]); /* its program runs */
  overlap_wait(crossing_overlaps[0], 0);
  cr_assert_leq(overlap_quiet(crossing_overlaps[0], 1000), 1);
  overlap_park(crossing_overlaps[1], 1000);
  cr_assert_eq(overlap_quiet(crossing_overlaps[0], 1500), 500);
}

/* ---- asking ---- */

static uint32_t commits_of_a_loop(void) {
  uint32_t commits = 0;
  for (uint32_t i = 0; i < 12; i++)
    for (uint32_t at = 0; at < TEAMS; at++)
      commits += both_commit(at, 10 + at);
  return commits;
}

Test(overlap, after_a_yield_that_only_time_decided_all_ask) {
  chain();
  crossing_claim(1, 0, 4);
  crossing_claim(2, 1, 4);
  crossing_claim(0, 2, 4);
  for (uint32_t at = 0; at < TEAMS; at++)
    for (uint32_t i = 0; i < crossing_groups[at].nranks; i++)
      cr_assert_eq(crossing_poll(crossing_groups[at].ranks[i], at), TEAM_REAL);
  cr_assert_gt(commits_of_a_loop(), 12);
  cr_assert_gt(commits_of_a_loop(), 30);
  crossing_claim(0, 0, 4);
  crossing_claim(1, 1, 4);
  crossing_claim(2, 2, 4);
  cr_assert(crossing_answers(0, 2, overlap_delay(crossing_overlaps[0])));
  cr_assert_eq(crossing_poll(2, 2), TEAM_REAL);
  cr_assert_eq(crossing_poll(0, 2), TEAM_SHADOW);
  crossing_claim(2, 1, 4);
  crossing_claim(1, 0, 4);
  for (uint32_t at = 0; at < 2; at++)
    for (uint32_t i = 0; i < crossing_groups[at].nranks; i++)
      cr_assert_eq(crossing_poll(crossing_groups[at].ranks[i], at), TEAM_REAL);
  cr_assert_eq(commits_of_a_loop(), 0);
  cr_assert_eq(commits_of_a_loop(), 0);
}

static void commit(uint32_t rank, uint32_t at, uint64_t count) {
  struct member of = crossing_member(count);
  struct unit unit = {&of, 1};
  cr_assert(overlap_may_commit(crossing_overlaps[rank], crossing_teams[rank][at]));
  cr_assert(team_commit(crossing_teams[rank][at], unit));
  overlap_issued(crossing_overlaps[rank], crossing_teams[rank][at], unit);
}

/* Rank 0 wants something else than the rest of an iteration, which rank 1 goes on with. */
static void leaves_in_an_iteration(uint64_t request) {
  two_in_two();
  for (int i = 0; i < 12; i++) {
    both_commit(0, 10);
    both_commit(0, 20);
    both_commit(1, 11);
  }
  cr_assert(both_commit(0, 10));
  crossing_claim(0, 0, request);
  commit(1, 0, 20);
  commit(1, 1, 11);
  cr_assert_eq(crossing_poll(0, 0), TEAM_SHADOW);
  cr_assert(crossing_answers(0, 1, 0));
  cr_assert_eq(crossing_poll(0, 1), TEAM_SHADOW);
}

Test(overlap, who_meets_others_in_the_middle_of_their_loop_asks) {
  leaves_in_an_iteration(10);
  commit(1, 0, 10);
  cr_assert_eq(crossing_poll(0, 0), TEAM_REAL);
  cr_assert_eq(atomic_load(&crossing_teams[0][1]->own->asks), 1);
  cr_assert_not(overlap_may_commit(crossing_overlaps[1], crossing_teams[1][0]));
}

Test(overlap, who_meets_others_where_all_want_it_does_not) {
  leaves_in_an_iteration(4);
  crossing_claim(1, 0, 4);
  cr_assert_eq(crossing_poll(0, 0), TEAM_REAL);
  cr_assert_eq(crossing_poll(1, 0), TEAM_REAL);
  cr_assert_eq(atomic_load(&crossing_teams[0][1]->own->asks), 0);
}

Test(overlap, the_order_of_claims_is_strict) {
  struct overlap_claim claims[64];
  uint32_t n = 0;
  bool guess;
  for (uint32_t bits = 0; bits < 32; bits++, n++)
    claims[n] = (struct overlap_claim){.predicted = bits & 1,
                                       .expected = bits & 2,
                                       .seen = bits & 4,
                                       .recent = bits >> 3 & 1,
                                       .bytes = bits >> 4 & 1,
                                       .identity = bits};
  for (uint32_t i = 0; i < n; i++)
    for (uint32_t k = 0; k < n; k++) {
      if (i != k)
        cr_assert_neq(overlap_goes_before(&claims[i], &claims[k], &guess),
                      overlap_goes_before(&claims[k], &claims[i], &guess));
      for (uint32_t m = 0; m < n; m++)
        if (overlap_goes_before(&claims[i], &claims[k], &guess) &&
            overlap_goes_before(&claims[k], &claims[m], &guess))
          cr_assert(overlap_goes_before(&claims[i], &claims[m], &guess));
    }
}
