/* Several teams at once: which units are committed without asking, and when a rank waits with one
 * until those of another team have caught up. */
#include <criterion/criterion.h>

#include "tests/unit/crossing.h"

TestSuite(overlap_asking, .fini = crossing_stop);

/* ---- committing ---- */

Test(overlap_asking, ranks_of_one_team_are_left_alone) {
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
Test(overlap_asking, a_barrier_after_equal_epochs_is_not_committed) {
  crossing_pair();
  for (int epoch = 0; epoch < 8; epoch++) {
    for (int i = 0; i < 4; i++)
      crossing_issue(1, 10);
    crossing_issue(0, 3);
  }
  for (int i = 0; i < 4; i++)
    crossing_issue(1, 10);
  team_look_further(crossing_teams[0][0]);
  cr_assert_neq(*crossing_teams[0][0]->expected, &team_nothing, "its own learner expects it");
  cr_assert_not(overlap_may_commit(crossing_overlaps[0], crossing_teams[0][0]));
}

Test(overlap_asking, a_loop_over_two_teams_is_committed) {
  crossing_pair();
  uint32_t committed = 0;
  for (int i = 0; i < 12; i++)
    for (uint32_t at = 0; at < 2; at++)
      committed += crossing_commit(at, 10 + at);
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

Test(overlap_asking, a_unit_of_another_team_waits_for_those_behind) {
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

Test(overlap_asking, shadows_are_waited_for_by_nobody) {
  struct overlap_behind behind;
  crossing_add(0, 2, (const uint32_t[]){0, 1});
  crossing_add(1, 2, (const uint32_t[]){0, 2});
  team_claim_leave(crossing_teams[0][0]);
  crossing_claim(1, 0, 4);
  cr_assert_eq(crossing_poll(0, 0), TEAM_SHADOW);
  cr_assert_not(overlap_must_wait(crossing_overlaps[0], crossing_teams[0][1], &behind));
}

Test(overlap_asking, nobody_waits_where_one_team_has_all_ranks_of_the_other) {
  struct overlap_behind behind;
  crossing_add(0, 2, (const uint32_t[]){0, 1});
  crossing_add(1, 3, (const uint32_t[]){0, 1, 2});
  crossing_claim(0, 0, 4);
  crossing_claim(1, 0, 4);
  cr_assert_eq(crossing_poll(0, 0), TEAM_REAL);
  cr_assert_not(overlap_must_wait(crossing_overlaps[0], crossing_teams[0][1], &behind));
}

Test(overlap_asking, the_dead_are_not_waited_for) {
  struct overlap_behind behind;
  ahead_in_the_first();
  team_end(crossing_teams[1][0], RANK_FAILED);
  cr_assert_not(overlap_must_wait(crossing_overlaps[0], crossing_teams[0][1], &behind));
}

Test(overlap_asking, who_waits_for_those_behind_answers_when_it_is_quiet) {
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

Test(overlap_asking, who_waits_for_those_behind_does_not_yield_to_a_leave) {
  ahead_in_the_first();
  team_claim_leave(crossing_teams[2][1]);
  overlap_park(crossing_overlaps[2], 0);
  overlap_wait(crossing_overlaps[0], 0);
  cr_assert_eq(overlap_delay(crossing_overlaps[0]), OVERLAP_NEVER);
  cr_assert_not(crossing_answers(0, 1, OVERLAP_NEVER - 1));
}

/* Of what is passed or claimed in the team of all ranks: three ranks, of which 0 waits. */
static uint64_t steps_of_who_waits(uint64_t of_1, uint64_t of_2) {
  crossing_add(0, 2, (const uint32_t[]){0, 1});
  crossing_add(1, 3, (const uint32_t[]){0, 1, 2});
  crossing_add(2, 2, (const uint32_t[]){1, 2});
  for (int i = 0; i < 12; i++)
    crossing_commit(1, 10);
  if (of_1 != 0)
    crossing_claim(1, 1, of_1);
  if (of_2 != 0)
    crossing_claim(2, 1, of_2);
  overlap_wait(crossing_overlaps[0], 0);
  uint64_t delay = overlap_delay(crossing_overlaps[0]);
  cr_assert_not(crossing_answers(0, 1, delay - 1));
  cr_assert(crossing_answers(0, 1, delay));
  return delay / OVERLAP_STEP_MS;
}

Test(overlap_asking, who_waits_yields_to_what_its_rank_always_does_next) {
  cr_assert_eq(steps_of_who_waits(10, 0), 5);
}

Test(overlap_asking, who_waits_yields_to_anything_else_later) {
  cr_assert_eq(steps_of_who_waits(0, 99), 6);
}

Test(overlap_asking, who_waits_yields_to_the_first_of_two_if_that_comes_first) {
  cr_assert_eq(steps_of_who_waits(10, 99), 5);
}

Test(overlap_asking, who_waits_yields_to_the_second_of_two_if_that_comes_first) {
  cr_assert_eq(steps_of_who_waits(99, 10), 5);
}

Test(overlap_asking, who_waits_follows_what_has_been_passed_when_it_is_quiet) {
  struct member of = crossing_member(10);
  struct unit unit = {&of, 1};
  crossing_add(0, 2, (const uint32_t[]){0, 1});
  crossing_add(1, 2, (const uint32_t[]){0, 2});
  for (int i = 0; i < 12; i++)
    crossing_commit(1, 10);
  overlap_wait(crossing_overlaps[0], 0);
  cr_assert_eq(overlap_delay(crossing_overlaps[0]), OVERLAP_NEVER);
  cr_assert(team_commit(crossing_teams[2][1], unit));
  uint64_t delay = overlap_delay(crossing_overlaps[0]);
  cr_assert_eq(delay / OVERLAP_STEP_MS, 5);
  cr_assert_not(crossing_answers(0, 1, delay - 1));
  cr_assert(crossing_answers(0, 1, delay));
  cr_assert_eq(crossing_poll(0, 1), TEAM_SHADOW);
}

Test(overlap_asking, who_is_behind_and_at_work_makes_those_wait_who_wait_for_it) {
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
      commits += crossing_commit(at, 10 + at);
  return commits;
}

Test(overlap_asking, after_a_yield_that_only_time_decided_all_ask) {
  crossing_chain();
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
  cr_assert(log_asks(crossing_teams[0][0]->own));
  cr_assert(log_asks(crossing_teams[0][2]->own));
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
  crossing_pair();
  for (int i = 0; i < 12; i++) {
    crossing_commit(0, 10);
    crossing_commit(0, 20);
    crossing_commit(1, 11);
  }
  cr_assert(crossing_commit(0, 10));
  crossing_claim(0, 0, request);
  commit(1, 0, 20);
  commit(1, 1, 11);
  cr_assert_eq(crossing_poll(0, 0), TEAM_SHADOW);
  cr_assert(crossing_answers(0, 1, 0));
  cr_assert_eq(crossing_poll(0, 1), TEAM_SHADOW);
}

Test(overlap_asking, who_meets_others_in_the_middle_of_their_loop_asks) {
  leaves_in_an_iteration(10);
  commit(1, 0, 10);
  cr_assert_eq(crossing_poll(0, 0), TEAM_REAL);
  cr_assert_eq(atomic_load(&crossing_teams[0][1]->own->asks), 1);
  cr_assert_not(overlap_may_commit(crossing_overlaps[1], crossing_teams[1][0]));
}

Test(overlap_asking, who_meets_others_where_all_want_it_does_not) {
  leaves_in_an_iteration(4);
  crossing_claim(1, 0, 4);
  cr_assert_eq(crossing_poll(0, 0), TEAM_REAL);
  cr_assert_eq(crossing_poll(1, 0), TEAM_REAL);
  cr_assert_eq(atomic_load(&crossing_teams[0][1]->own->asks), 0);
}

/* Ranks 1 and 2, which ask about each other, have both gone on without rank 0. */
Test(overlap_asking, what_several_ask_about_is_answered_in_turn) {
  crossing_add(0, 2, (const uint32_t[]){0, 1});
  crossing_add(1, 3, (const uint32_t[]){0, 1, 2});
  for (int i = 0; i < 12; i++)
    crossing_commit(1, 10);
  for (uint32_t rank = 1; rank < 3; rank++) {
    commit(rank, 1, 10);
    log_ask_about(crossing_teams[rank][1]->own, 1 + (3 - rank)); /* a number plus one */
  }
  crossing_claim(0, 0, 4);
  for (uint64_t now = 1; now <= 6; now++) {
    overlap_quiet(crossing_overlaps[0], now);
    cr_assert_eq(log_holds(crossing_teams[0][1]->own), now % 2 != 0 ? 2 : 3);
  }
}
