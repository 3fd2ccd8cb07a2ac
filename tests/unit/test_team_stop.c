/* Early termination, on ranks in memory: all stop at one index, or none does. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/planes.h"
#include "core/predict/learner.h"
#include "core/team/team_stop.h"

#define RANKS 3

static struct planes *memory;
static struct team *teams[RANKS];
static struct unit got;

static void start(void) {
  memory = planes_create(RANKS);
  for (uint32_t rank = 0; rank < RANKS; rank++)
    teams[rank] = team_create(planes_rank(memory, rank));
}

static void stop(void) {
  for (uint32_t rank = 0; rank < RANKS; rank++)
    team_destroy(teams[rank]);
  planes_destroy(memory);
}

TestSuite(team_stop, .init = start, .fini = stop);

static struct member member(uint64_t count) {
  return (struct member){
      .count = count, .root = ROOT_NONE, .kind = MEMBER_ALLREDUCE, .datatype = 7};
}

static void claim(uint32_t rank, const struct member *of) {
  team_claim(teams[rank], (struct unit){of, 1}, CLAIM_TOGETHER, NULL);
}

/* As a rank with early termination does it: whether it may issue the unit at once. */
static bool commits(uint32_t rank, const struct member *of) {
  struct unit unit = {of, 1};
  if (!team_must_meet(teams[rank]) && team_commit(teams[rank], unit))
    return true;
  claim(rank, of);
  return false;
}

/* All ranks issue the unit; how many of them without asking. */
static int all_issue(const struct member *of) {
  int committed = 0;
  for (uint32_t rank = 0; rank < RANKS; rank++)
    committed += commits(rank, of);
  for (uint32_t rank = 0; rank < RANKS; rank++)
    if (teams[rank]->claim.open)
      cr_assert_eq(team_poll(teams[rank], &got), TEAM_REAL);
  return committed;
}

static void expect_stopped(uint32_t rank, bool exhausted, uint32_t stopped_for) {
  cr_expect_eq(team_poll(teams[rank], &got), TEAM_STOPPED, "rank %u", rank);
  cr_expect_not(teams[rank]->claim.open);
  cr_expect_eq(teams[rank]->stop.exhausted, exhausted, "rank %u", rank);
  cr_expect_eq(teams[rank]->stop.rank, stopped_for, "rank %u", rank);
  cr_expect_not(teams[rank]->stop.elsewhere);
}

Test(team_stop, all_stop_where_one_leaves) {
  struct member A = member(100);
  all_issue(&A);
  claim(0, &A);
  claim(1, &A);
  cr_expect_eq(team_poll(teams[0], &got), TEAM_PARKED);
  team_claim_leave(teams[2]);
  expect_stopped(2, true, 2);
  expect_stopped(0, false, 2);
  expect_stopped(1, false, 2);
  for (uint32_t rank = 0; rank < RANKS; rank++)
    cr_expect_eq(team_passed(teams[rank]), 2);
}

Test(team_stop, a_rank_that_wants_something_else_has_left_too) {
  struct member A = member(100), barrier = member(1);
  for (int i = 0; i < 4; i++)
    all_issue(&A);
  claim(0, &barrier);
  claim(1, &A);
  claim(2, &A);
  expect_stopped(0, true, 0);
  expect_stopped(1, false, 0);
  expect_stopped(2, false, 0);
}

Test(team_stop, of_several_the_lowest_is_named) {
  struct member A = member(100), barrier = member(1);
  for (int i = 0; i < 4; i++)
    all_issue(&A);
  claim(0, &A);
  team_claim_leave(teams[1]);
  claim(2, &barrier);
  expect_stopped(0, false, 1);
  expect_stopped(1, true, 1);
  expect_stopped(2, true, 1);
}

Test(team_stop, ranks_that_agree_do_not_stop) {
  struct member A = member(100), barrier = member(1);
  for (int i = 0; i < 5; i++)
    all_issue(&A);
  all_issue(&barrier);
  for (uint32_t rank = 0; rank < RANKS; rank++)
    team_claim_leave(teams[rank]);
  for (uint32_t rank = 0; rank < RANKS; rank++)
    cr_expect_eq(team_poll(teams[rank], &got), TEAM_LEFT);
}

/* They go on together, and stop again if it happens again. */
Test(team_stop, the_sequence_goes_on) {
  struct member A = member(100), B = member(200);
  for (int round = 0; round < 3; round++) {
    for (int i = 0; i < 5; i++)
      all_issue(&A);
    claim(0, &A);
    claim(1, &A);
    team_claim_leave(teams[2]);
    for (uint32_t rank = 0; rank < RANKS; rank++)
      cr_expect_eq(team_poll(teams[rank], &got), TEAM_STOPPED);
    all_issue(&B);
  }
  for (uint32_t rank = 0; rank < RANKS; rank++)
    cr_expect(team_is_valid(teams[rank]));
}

/* Of a body of four, two are claimed: the first, and the one after it, with which the loop begins
 * if a unit like the last one came before it. */
Test(team_stop, within_a_body_nobody_waits) {
  struct member units[] = {member(1), member(2), member(3), member(4)};
  for (int round = 0; round < 6; round++)
    for (int i = 0; i < 4; i++)
      all_issue(&units[i]);
  for (int i = 0; i < 4; i++)
    cr_expect_eq(all_issue(&units[i]), i < 2 ? 0 : RANKS, "unit %d", i);
}

/* An iteration is A B C, and before the first there is a C. Where an iteration ends, all meet. */
Test(team_stop, a_unit_before_the_loop_like_its_last_one) {
  struct member A = member(1), B = member(2), C = member(3);
  all_issue(&C);
  for (int round = 0; round < 6; round++) {
    all_issue(&A);
    all_issue(&B);
    all_issue(&C);
  }
  cr_expect_not(commits(0, &A));
  cr_expect_not(commits(1, &A));
  team_claim_leave(teams[2]);
  expect_stopped(2, true, 2);
  expect_stopped(0, false, 2);
}

/* A log line in between now and then. */
Test(team_stop, an_iteration_may_begin_after_an_insert) {
  struct member A = member(1), B = member(2), C = member(3), metric = member(9);
  for (int round = 0; round < 12; round++) {
    all_issue(&A);
    all_issue(&B);
    all_issue(&C);
    if (round % 5 == 4)
      all_issue(&metric);
  }
  cr_expect_eq(all_issue(&A), 0);
  cr_expect_eq(all_issue(&B), 0);
  cr_expect_eq(all_issue(&C), RANKS);
}

/* Who leaves in the middle of a body is shadowed to where all meet. */
Test(team_stop, a_rank_that_leaves_elsewhere_follows_to_the_next_place) {
  struct member units[] = {member(1), member(2), member(3), member(4)};
  for (int round = 0; round < 6; round++)
    for (int i = 0; i < 4; i++)
      all_issue(&units[i]);
  all_issue(&units[0]);
  all_issue(&units[1]);
  team_claim_leave(teams[2]);
  for (int i = 2; i < 4; i++) {
    cr_expect(commits(0, &units[i]));
    cr_expect(commits(1, &units[i]));
    cr_expect_eq(team_poll(teams[2], &got), TEAM_SHADOW);
  }
  cr_expect_not(commits(0, &units[0]));
  cr_expect_not(commits(1, &units[0]));
  expect_stopped(2, true, 2);
  expect_stopped(0, false, 2);
  expect_stopped(1, false, 2);
}

/* ---- failures ---- */

Test(team_stop, who_fails_before_is_a_failure) {
  struct member A = member(100);
  claim(0, &A);
  claim(1, &A);
  team_end(teams[2], RANK_FAILED);
  cr_expect_eq(team_poll(teams[0], &got), TEAM_FAILED);
  cr_expect_eq(team_poll(teams[1], &got), TEAM_FAILED);
}

Test(team_stop, who_stops_first_and_ends_with_an_error_takes_nothing_away) {
  struct member A = member(100);
  claim(0, &A);
  claim(1, &A);
  team_claim_leave(teams[2]);
  cr_expect_eq(team_poll(teams[0], &got), TEAM_STOPPED);
  team_end(teams[0], RANK_FAILED);
  expect_stopped(1, false, 2);
  expect_stopped(2, true, 2);
  claim(1, &A);
  cr_expect_eq(team_poll(teams[1], &got), TEAM_FAILED);
}

Test(team_stop, who_stops_first_and_leaves_takes_nothing_away) {
  struct member A = member(100);
  claim(0, &A);
  claim(1, &A);
  team_claim_leave(teams[2]);
  expect_stopped(2, true, 2);
  team_end(teams[2], RANK_DONE);
  expect_stopped(0, false, 2);
  expect_stopped(1, false, 2);
  claim(1, &A);
  cr_expect_eq(team_poll(teams[1], &got), TEAM_FAILED);
  cr_expect_eq(teams[1]->failed.how, FAILURE_ENDED);
}

/* A rank that is stopped waits for its device, unless a peer may never have come to what that has.
 */
Test(team_stop, who_ends_after_it_was_stopped_is_not_missed) {
  struct member A = member(100);
  all_issue(&A);
  claim(0, &A);
  claim(1, &A);
  team_claim_leave(teams[2]);
  for (uint32_t rank = 0; rank < 2; rank++)
    cr_expect_eq(team_poll(teams[rank], &got), TEAM_STOPPED);
  team_end(teams[0], RANK_FAILED);
  cr_expect_not(team_stop_is_lost(teams[1]));
  team_end(teams[2], RANK_FAILED);
  cr_expect(team_stop_is_lost(teams[1]));
}

Test(team_stop, who_ends_after_it_was_stopped_elsewhere_is_not_missed) {
  struct member A = member(100);
  all_issue(&A);
  team_stop(teams[0]);
  team_end(teams[0], RANK_FAILED);
  cr_expect_not(team_stop_is_lost(teams[1]));
  team_end(teams[2], RANK_FAILED);
  cr_expect(team_stop_is_lost(teams[1]));
}

/* ---- stopped in another team ---- */

Test(team_stop, a_stop_elsewhere_stops_all) {
  struct member A = member(100);
  team_stop(teams[0]);
  claim(1, &A);
  cr_expect_eq(team_poll(teams[1], &got), TEAM_PARKED);
  claim(2, &A);
  for (uint32_t rank = 1; rank < RANKS; rank++) {
    cr_expect_eq(team_poll(teams[rank], &got), TEAM_STOPPED);
    cr_expect(teams[rank]->stop.elsewhere);
    cr_expect_eq(teams[rank]->stop.rank, 0);
    cr_expect_not(teams[rank]->stop.exhausted);
  }
  /* It has heard already: its next request is for the next index. */
  for (uint32_t rank = 0; rank < RANKS; rank++)
    claim(rank, &A);
  for (uint32_t rank = 0; rank < RANKS; rank++)
    cr_expect_eq(team_poll(teams[rank], &got), TEAM_REAL, "rank %u", rank);
}

Test(team_stop, who_left_is_named_before_who_passes_it_on) {
  struct member A = member(100);
  team_stop(teams[0]);
  claim(1, &A);
  team_claim_leave(teams[2]);
  expect_stopped(1, false, 2);
  expect_stopped(2, true, 2);
}

/* All were stopped elsewhere: nobody hears of it twice. */
Test(team_stop, ranks_that_have_all_heard_go_on) {
  struct member A = member(100);
  for (uint32_t rank = 0; rank < RANKS; rank++)
    team_stop(teams[rank]);
  for (uint32_t rank = 0; rank < RANKS; rank++)
    claim(rank, &A);
  for (uint32_t rank = 0; rank < RANKS - 1; rank++)
    cr_expect_eq(team_poll(teams[rank], &got), TEAM_PARKED, "rank %u", rank);
  for (uint32_t rank = RANKS; rank-- > 0;)
    cr_expect_eq(team_poll(teams[rank], &got), TEAM_REAL, "rank %u", rank);
}

/* Also a rank that wants to leave, and nothing else is requested. */
Test(team_stop, a_rank_that_leaves_hears_of_a_stop_elsewhere) {
  team_stop(teams[0]);
  team_stop(teams[1]);
  team_claim_leave(teams[2]);
  cr_expect_eq(team_poll(teams[2], &got), TEAM_STOPPED);
  cr_expect(teams[2]->stop.elsewhere);
}

Test(team_stop, a_stop_elsewhere_counts_although_its_rank_has_failed_since) {
  struct member A = member(100);
  team_stop(teams[0]);
  team_end(teams[0], RANK_FAILED);
  claim(1, &A);
  cr_expect_eq(team_poll(teams[1], &got), TEAM_PARKED);
  claim(2, &A);
  cr_expect_eq(team_poll(teams[2], &got), TEAM_STOPPED);
  cr_expect_eq(team_poll(teams[1], &got), TEAM_STOPPED);
  claim(1, &A);
  cr_expect_eq(team_poll(teams[1], &got), TEAM_FAILED);
}

/* A rank that has given way here, parked elsewhere, has left its loop: it hears of it here. */
Test(team_stop, a_rank_that_yields_stops_the_others) {
  struct member A = member(100);
  claim(1, &A);
  team_yield(teams[0]);
  cr_expect_eq(team_poll(teams[0], &got), TEAM_PARKED);
  claim(2, &A);
  cr_expect_eq(team_poll(teams[0], &got), TEAM_STOPPED);
  cr_expect(teams[0]->stop.exhausted);
  expect_stopped(1, false, 0);
  expect_stopped(2, false, 0);
}

/* It may hear of it elsewhere first, and end: that counts here too. */
Test(team_stop, a_rank_that_yields_may_be_stopped_elsewhere) {
  struct member A = member(100);
  claim(1, &A);
  team_yield(teams[0]);
  team_stop(teams[0]);
  team_end(teams[0], RANK_FAILED);
  claim(2, &A);
  cr_expect_eq(team_poll(teams[1], &got), TEAM_STOPPED);
  cr_expect_eq(team_poll(teams[2], &got), TEAM_STOPPED);
  cr_expect(teams[1]->stop.elsewhere && teams[2]->stop.elsewhere);
}

/* A rank behind passes first what the others have passed before they heard. */
Test(team_stop, a_stop_elsewhere_later_on_is_no_failure_here) {
  struct member A = member(100), B = member(200);
  claim(0, &A);
  claim(1, &A);
  claim(2, &A);
  cr_expect_eq(team_poll(teams[0], &got), TEAM_REAL);
  team_stop(teams[0]);
  team_end(teams[0], RANK_FAILED);
  for (uint32_t rank = 1; rank < RANKS; rank++)
    cr_expect_eq(team_poll(teams[rank], &got), TEAM_REAL);
  for (uint32_t rank = 1; rank < RANKS; rank++)
    claim(rank, &B);
  for (uint32_t rank = 1; rank < RANKS; rank++)
    cr_expect_eq(team_poll(teams[rank], &got), TEAM_STOPPED);
}

/* What no rank with an open claim can have agreed to. */
Test(team_stop, a_stop_that_nobody_asked_for_is_corruption) {
  struct member A = member(100);
  claim(0, &A);
  claim(1, &A);
  team_claim_leave(teams[2]);
  cr_expect_eq(team_poll(teams[0], &got), TEAM_STOPPED);
  team_give_up(teams[2]);
  cr_expect_eq(team_poll(teams[2], &got), TEAM_FAILED);
  cr_expect_eq(teams[2]->failed.how, FAILURE_CORRUPT);
}

/* An epoch as the body: each iteration of its loop may be the first that a rank has no data for. Of
 * what comes once in it only the two first may begin one. */
Test(team_stop, all_meet_at_the_iterations_of_a_loop_in_the_body) {
  static const char epoch[] = "pqrstgmgmgmgmgm";
  int alone = 0;
  struct learner *learner = learner_create();
  for (int i = 0; i < 12; i++)
    for (const char *at = epoch; *at != '\0'; at++)
      learner_step(learner, (symbol_t)*at, (uint32_t)*at);
  cr_assert_eq(learner_body_length(learner), strlen(epoch));
  for (const char *at = epoch; *at != '\0'; at++) {
    bool may = learner_may_begin_iteration(learner), repeats = strchr("gm", *at) != NULL;
    cr_expect(may || !repeats, "before unit %d", (int)(at - epoch));
    alone += may && !repeats;
    learner_step(learner, (symbol_t)*at, (uint32_t)*at);
  }
  cr_expect_leq(alone, 2);
  learner_destroy(learner);
}
