/* Loops in the agreed sequence, by the places of their units: which rounds, and which ends, are
 * committed without asking. */
#include <criterion/criterion.h>

#include "core/team/team_private.h"
#include "tests/unit/quartet.h"

TestSuite(team_rounds, .init = quartet_start, .fini = quartet_stop);

/* ---- ends of loops ---- */

static void epoch(bool rank_0_waits) {
  all_issue_at(HEAD, SUM);
  if (rank_0_waits) {
    claim(0, AFTER, OTHER);
    for (uint32_t rank = 1; rank < RANKS; rank++)
      if (!team_commit(quartet[rank], at(HEAD, SUM)))
        claim(rank, HEAD, SUM);
    expect_verdict(0, TEAM_SHADOW);
  } else {
    all_issue_at(HEAD, SUM);
  }
  for (uint32_t rank = 1; rank < RANKS; rank++)
    if (quartet[rank]->claim.open)
      expect_verdict(rank, TEAM_REAL);
  for (uint32_t rank = 0; rank < RANKS; rank++)
    if (!quartet[rank]->claim.open && !team_commit(quartet[rank], at(AFTER, OTHER)))
      claim(rank, AFTER, OTHER);
  for (uint32_t rank = 0; rank < RANKS; rank++)
    if (quartet[rank]->claim.open)
      expect_verdict(rank, TEAM_REAL);
}

/* Whether an epoch's last unit is committed, where it is expected. */
static bool is_end_committed(void) {
  uint64_t after = hash_at(AFTER, OTHER);
  for (int i = 0; i < 2; i++)
    all_issue_at(HEAD, SUM);
  struct unit expected;
  cr_assert(unit_table_get(quartet[0]->table,
                           (team_catch_up(quartet[0]), quartet[0]->symbol_expected), &expected));
  cr_assert_eq(unit_hash(expected), after);
  uint64_t index = quartet[0]->head;
  all_issue_at(AFTER, OTHER);
  return (flags_of(0, index) & ENTRY_EXPECTED) != 0;
}

static void run_epochs(int epochs) {
  for (int i = 0; i < epochs; i++)
    epoch(false);
}

Test(team_rounds, the_end_of_a_loop_is_claimed_even_where_it_is_expected) {
  run_epochs(20);
  cr_assert_not(is_end_committed());
}

Test(team_rounds, the_end_of_a_steady_loop_is_committed) {
  run_epochs(80);
  cr_assert(is_end_committed());
}

Test(team_rounds, the_end_of_a_loop_where_a_rank_has_waited_is_claimed_for_ever) {
  run_epochs(4);
  epoch(true);
  run_epochs(200);
  cr_assert_not(is_end_committed());
}

/* By the place, not by what has come before it there. */
Test(team_rounds, also_where_it_comes_after_something_else_than_then) {
  run_epochs(4);
  all_issue_at(HEAD, SUM);
  claim(0, AFTER, OTHER);
  for (uint32_t rank = 1; rank < RANKS; rank++)
    claim(rank, THIRD, 9);
  expect_verdict(0, TEAM_SHADOW);
  for (uint32_t rank = 1; rank < RANKS; rank++) {
    expect_verdict(rank, TEAM_REAL);
    claim(rank, AFTER, OTHER);
  }
  expect_all_real();
  run_epochs(200);
  cr_assert_not(is_end_committed());
}

Test(team_rounds, a_steady_loop_is_steady_from_where_it_last_was_not) {
  run_epochs(50);
  all_issue_at(HEAD, OTHER);
  run_epochs(20);
  cr_assert_not(is_end_committed());
}

/* ---- steady loops that are so no more ---- */

/* What all ranks of this program come to behind the loop. */
static void all_come_behind_the_loop(void) {
  struct place behind = place_of(AFTER);
  behind.nodes[1].since = place_of(HEAD).nodes[1].order;
  for (uint32_t rank = 0; rank < RANKS; rank++)
    team_claim(quartet[rank], at(AFTER, OTHER), 0, &behind);
  expect_all_real();
}

/* Rank 0 has one round more than the others, who have committed the end and a unit of the next
 * epoch by the time that it claims. */
static void rank_0_is_left_in_a_steady_loop(void) {
  all_come_behind_the_loop();
  run_epochs(80);
  for (int i = 0; i < 2; i++)
    all_issue_at(HEAD, SUM);
  claim(0, HEAD, SUM);
  for (uint32_t rank = 1; rank < RANKS; rank++)
    cr_assert(team_commit(quartet[rank], at(AFTER, OTHER)) &&
              team_commit(quartet[rank], at(HEAD, SUM)));
}

Test(team_rounds, who_is_left_in_a_steady_loop_takes_nothing_of_the_next_epoch) {
  rank_0_is_left_in_a_steady_loop();
  expect_verdict(0, TEAM_SHADOW);
  cr_expect_eq(got.members[0].count, OTHER);
  expect_verdict(0, TEAM_SHADOW);
  cr_expect_eq(got.members[0].count, SUM);
  cr_expect_eq(quartet[0]->telling.guess.kind, GUESS_EPOCH);
}

Test(team_rounds, nobody_commits_the_end_of_a_loop_in_which_a_rank_was_left) {
  struct lossy_event lossy;
  rank_0_is_left_in_a_steady_loop();
  expect_verdict(0, TEAM_SHADOW);
  for (uint32_t rank = 1; rank < RANKS; rank++) {
    cr_expect_not(team_events(quartet[rank], &lossy));
    cr_expect(team_commit(quartet[rank], at(HEAD, SUM)));
    cr_expect_not(team_commit(quartet[rank], at(AFTER, OTHER)));
  }
}

/* ---- rounds that pass something by ---- */

/* Ranks meet behind the loop, rank 0 an iteration before the others. */
static void meet_behind(void) {
  claim(0, AFTER, OTHER);
  for (uint32_t rank = 1; rank < RANKS; rank++)
    cr_assert(team_commit(quartet[rank], at(HEAD, SUM)));
  expect_verdict(0, TEAM_SHADOW);
  for (uint32_t rank = 1; rank < RANKS; rank++)
    claim(rank, AFTER, OTHER);
  expect_all_real();
}

/* Whether a rank commits HEAD after HEAD so many units after all have met, in a program in which
 * all have come to THIRD so many times before, and have since. */
static bool goes_round_after_a_meeting(uint32_t before, uint32_t since, uint32_t units) {
  all_issue_at(HEAD, SUM);
  for (uint32_t i = 0; i < before; i++)
    all_issue_at(THIRD, OTHER);
  for (int i = 0; i < 8; i++)
    all_issue_at(HEAD, SUM);
  meet_behind();
  for (uint32_t i = 0; i < since; i++)
    all_issue_at(THIRD, OTHER);
  for (uint32_t i = 0; i < units; i++)
    all_issue_at(HEAD, SUM);
  return team_commit(quartet[0], at(HEAD, SUM));
}

Test(team_rounds, who_goes_round_past_what_others_may_come_to_asks) {
  cr_assert_not(goes_round_after_a_meeting(2, 0, 1));
}

Test(team_rounds, who_goes_round_past_nothing_does_not_ask) {
  cr_assert(goes_round_after_a_meeting(0, 0, 1));
}

Test(team_rounds, who_goes_round_past_what_has_come_once_does_not_ask) {
  cr_assert(goes_round_after_a_meeting(1, 0, 1));
}

Test(team_rounds, who_goes_round_past_what_not_all_have_come_to_asks) {
  for (int i = 0; i < 8; i++)
    all_issue_at(HEAD, SUM);
  claim(0, THIRD, OTHER + 1);
  for (uint32_t rank = 1; rank < RANKS; rank++)
    claim(rank, AFTER, OTHER);
  expect_verdict(0, TEAM_REAL);
  for (uint32_t rank = 1; rank < RANKS; rank++)
    expect_verdict(rank, TEAM_SHADOW);
  claim(0, AFTER, OTHER);
  expect_all_real();
  all_issue_at(HEAD, SUM);
  cr_assert_not(team_commit(quartet[0], at(HEAD, SUM)));
}

/* How many units of the loop a rank commits until it asks, at most so many. */
static uint32_t count_committed(uint32_t most) {
  uint32_t count = 0;
  while (count < most && team_commit(quartet[0], at(HEAD, SUM)))
    count++;
  return count;
}

/* Rank 0 comes to THIRD, which the others leave out, or all do. */
static void come_to_third(bool all) {
  for (int i = 0; i < 40; i++)
    all_issue_at(HEAD, SUM);
  claim(0, THIRD, OTHER + 1);
  for (uint32_t rank = 1; rank < RANKS; rank++)
    claim(rank, all ? THIRD : AFTER, all ? OTHER + 1 : OTHER);
  expect_verdict(0, TEAM_REAL);
  for (uint32_t rank = 1; rank < RANKS; rank++)
    expect_verdict(rank, all ? TEAM_REAL : TEAM_SHADOW);
  if (!all) {
    claim(0, AFTER, OTHER);
    expect_all_real();
  }
  for (int i = 0; i < 40; i++)
    all_issue_at(HEAD, SUM);
}

Test(team_rounds, it_does_so_now_and_then_as_long_as_some_come_there_alone) {
  come_to_third(false);
  for (int i = 0; i < 4; i++) {
    uint32_t count = count_committed(200);
    cr_assert((i == 0 || count > TEAM_LONE_ROOM / 2) && count <= 2 * TEAM_LONE_ROOM, "%u", count);
    for (uint32_t rank = 1; rank < RANKS; rank++)
      for (uint32_t unit = 0; unit < count; unit++)
        cr_assert(team_commit(quartet[rank], at(HEAD, SUM)));
    all_issue_at(HEAD, SUM);
  }
}

Test(team_rounds, not_past_what_all_have_come_to) {
  come_to_third(true);
  cr_assert_eq(count_committed(PLANE_RUN_AHEAD / 2), PLANE_RUN_AHEAD / 2);
}

/* Some have been alone elsewhere. */
Test(team_rounds, nor_past_that_as_long_as_some_come_to_another_place_alone) {
  come_to_third(true);
  quartet[0]->places.lone_at = quartet[0]->head;
  cr_assert_eq(count_committed(200), 200);
}

Test(team_rounds, who_goes_round_past_what_all_have_come_to_since_does_not_ask) {
  cr_assert(goes_round_after_a_meeting(2, 1, 2));
}

Test(team_rounds, who_goes_round_as_all_have_for_a_while_does_not_ask) {
  cr_assert(goes_round_after_a_meeting(2, 0, 6));
}

/* So that all know whether they still come to it together. */
Test(team_rounds, what_rounds_may_pass_by_is_asked_for_once_after_a_meeting) {
  for (int i = 0; i < 10; i++)
    all_issue_at(HEAD, SUM);
  struct known_place *head = team_known_place(quartet[0], HEAD);
  cr_assert_not(team_must_be_shared(quartet[0], head), "nobody has waited");
  meet_behind();
  cr_assert(team_must_be_shared(quartet[0], head));
  head->place.nodes[2].flags |= PLACE_ALWAYS;
  cr_assert_not(team_must_be_shared(quartet[0], head), "each round comes to it");
  head->place.nodes[2].flags &= (uint16_t)~PLACE_ALWAYS;
  all_issue_at(HEAD, SUM);
  cr_assert_not(team_must_be_shared(quartet[0], head));
}

/* The same of a rank that is in one of two branches, which nobody knows all to come to. */
static bool goes_on_in_a_branch_after_a_meeting(uint32_t units) {
  for (int i = 0; i < 10; i++)
    issue_at((uint32_t[]){THEN, ELSE, ELSE, ELSE}, SUM);
  claim(0, AFTER, OTHER);
  for (uint32_t rank = 1; rank < RANKS; rank++)
    cr_assert(team_commit(quartet[rank], at(ELSE, SUM)));
  expect_verdict(0, TEAM_SHADOW);
  for (uint32_t rank = 1; rank < RANKS; rank++)
    claim(rank, AFTER, OTHER);
  expect_all_real();
  for (uint32_t i = 0; i < units; i++)
    issue_at((uint32_t[]){THEN, ELSE, ELSE, ELSE}, SUM);
  return team_commit(quartet[1], at(ELSE, SUM));
}

Test(team_rounds, after_a_meeting_who_is_where_not_all_are_known_to_come_asks_for_a_while) {
  cr_assert_not(goes_on_in_a_branch_after_a_meeting(1));
}

Test(team_rounds, and_no_longer_than_that) {
  cr_assert(goes_on_in_a_branch_after_a_meeting(6));
}

/* ---- units without a place ---- */

/* Whether a rank commits a unit without a place so many units after all have met, where some have
 * come to THIRD before, and rank 0 has not. */
static bool goes_on_without_a_place(bool with_third, uint32_t units) {
  claim(0, AFTER, OTHER);
  for (uint32_t rank = 1; rank < RANKS; rank++)
    claim(rank, with_third ? THIRD : HEAD, SUM);
  expect_verdict(0, TEAM_SHADOW);
  for (uint32_t rank = 1; rank < RANKS; rank++)
    expect_verdict(rank, TEAM_REAL);
  for (uint32_t rank = 1; rank < RANKS; rank++)
    claim(rank, AFTER, OTHER);
  expect_all_real();
  if (!with_third)
    all_issue_at(HEAD, SUM);
  for (int i = 0; i < 10; i++)
    all_issue_at(0, OTHER);
  claim(0, AFTER, SUM);
  for (uint32_t rank = 1; rank < RANKS; rank++)
    cr_assert(team_commit(quartet[rank], at(0, OTHER)));
  expect_verdict(0, TEAM_SHADOW);
  for (uint32_t rank = 1; rank < RANKS; rank++)
    claim(rank, AFTER, SUM);
  expect_all_real();
  for (uint32_t i = 0; i < units; i++)
    all_issue_at(0, OTHER);
  return team_commit(quartet[0], at(0, OTHER));
}

Test(team_rounds, while_not_all_have_come_somewhere_a_unit_without_a_place_is_asked_for) {
  cr_assert_not(goes_on_without_a_place(true, 1));
}

Test(team_rounds, but_not_where_all_have_come_to_all_there_is) {
  cr_assert(goes_on_without_a_place(false, 1));
}

Test(team_rounds, nor_for_longer_than_a_while) {
  cr_assert(goes_on_without_a_place(true, 8));
}
