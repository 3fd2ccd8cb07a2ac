/* For how long a rank waits with a unit of one team for those behind in another, so that even
 * programs come to their end although a rank may come to its unit only once another has told it to.
 * Three ranks, each two of which have a team. */
#include <criterion/criterion.h>

#include "core/transport/logs.h"
#include "tests/unit/crossing.h"

TestSuite(overlap_step, .fini = crossing_stop);

#define CLAIMED_MS ((uint64_t)OVERLAP_PATIENCE_CLAIMED * OVERLAP_PATIENCE_MS)

static struct overlap_behind behind;

/* Team 0 is of 0 and 1, team 1 of 1 and 2, team 2 of 0 and 2. All have done a unit of each; then
 * rank 0 has of the first, and wants to go on with the last. */
static void ahead_in_the_first(void) {
  crossing_add(0, 2, (const uint32_t[]){0, 1});
  crossing_add(1, 2, (const uint32_t[]){1, 2});
  crossing_add(2, 2, (const uint32_t[]){0, 2});
  for (uint32_t round = 0; round < 12; round++)
    for (uint32_t at = 0; at < 3; at++)
      crossing_commit(at, 10 + at);
  struct member of = crossing_member(10);
  cr_assert(overlap_may_commit(crossing_overlaps[0], crossing_teams[0][0]));
  cr_assert(team_commit(crossing_teams[0][0], (struct unit){&of, 1}));
  overlap_issued(crossing_overlaps[0], crossing_teams[0][0], (struct unit){&of, 1});
  cr_assert(overlap_must_wait(crossing_overlaps[0], crossing_teams[0][2], &behind));
  overlap_wait(crossing_overlaps[0], 1);
}

static uint64_t patience(void) {
  return overlap_patience(crossing_overlaps[0], crossing_teams[0][2], &behind);
}

Test(overlap_step, who_is_at_work_is_waited_for_for_a_second) {
  ahead_in_the_first();
  cr_assert_eq(patience(), OVERLAP_PATIENCE_MS);
}

Test(overlap_step, where_that_is_in_vain_less_and_less) {
  ahead_in_the_first();
  uint64_t before = patience();
  for (int i = 0; i < 8; i++) {
    overlap_waited(crossing_overlaps[0], &behind, true);
    cr_assert(patience() < before || patience() == OVERLAP_PATIENCE_LEAST_MS);
    before = patience();
  }
  cr_assert_eq(before, OVERLAP_PATIENCE_LEAST_MS);
}

Test(overlap_step, where_it_is_not_longer_again) {
  ahead_in_the_first();
  for (int i = 0; i < 8; i++)
    overlap_waited(crossing_overlaps[0], &behind, true);
  for (int i = 0; i < 200; i++)
    overlap_waited(crossing_overlaps[0], &behind, false);
  cr_assert_eq(patience(), OVERLAP_PATIENCE_MS);
}

/* It may be out of its loop. */
Test(overlap_step, who_is_parked_with_a_claim_is_waited_for_longer) {
  ahead_in_the_first();
  crossing_claim(1, 1, 5);
  overlap_park(crossing_overlaps[1], 1);
  cr_assert_eq(patience(), CLAIMED_MS);
}

static void issue_in_the_first(uint32_t rank) {
  struct member of = crossing_member(10);
  cr_assert(team_commit(crossing_teams[rank][0], (struct unit){&of, 1}));
  overlap_issued(crossing_overlaps[rank], crossing_teams[rank][0], (struct unit){&of, 1});
}

/* Of a team of all: rank 1 is behind, and rank 2, which is not, is parked. */
Test(overlap_step, what_a_rank_does_that_has_come_is_no_reason_to_wait_longer) {
  crossing_add(0, 3, (const uint32_t[]){0, 1, 2});
  crossing_add(1, 2, (const uint32_t[]){1, 2});
  crossing_add(2, 2, (const uint32_t[]){0, 2});
  for (uint32_t round = 0; round < 12; round++)
    for (uint32_t at = 0; at < 3; at++)
      crossing_commit(at, 10 + at);
  issue_in_the_first(0);
  issue_in_the_first(2);
  behind = (struct overlap_behind){crossing_teams[0][0], 0};
  overlap_wait(crossing_overlaps[0], 1);
  crossing_claim(2, 0, 5);
  overlap_park(crossing_overlaps[2], 1);
  cr_assert_eq(patience(), OVERLAP_PATIENCE_MS);
}

Test(overlap_step, who_waits_for_those_behind_in_turn_is_on_its_way) {
  ahead_in_the_first();
  struct overlap_behind theirs = {crossing_teams[1][1], 0};
  overlap_wait(crossing_overlaps[1], 1);
  cr_assert_eq(patience(), CLAIMED_MS, "not known yet");
  cr_assert_eq(overlap_patience(crossing_overlaps[1], crossing_teams[1][0], &theirs),
               OVERLAP_PATIENCE_MS);
  cr_assert_eq(patience(), OVERLAP_PATIENCE_MS);
  overlap_return(crossing_overlaps[1]);
  cr_assert_not(log_keeps_step(crossing_teams[1][0]->own));
}

Test(overlap_step, where_a_rank_has_joined_they_are_waited_for_until_they_come) {
  ahead_in_the_first();
  crossing_claim(1, 0, 5);
  cr_assert_eq(crossing_poll(1, 0), TEAM_SHADOW);
  cr_assert_eq(patience(), OVERLAP_NEVER);
}

Test(overlap_step, nor_does_who_waits_for_them_count_as_on_its_way) {
  ahead_in_the_first();
  crossing_claim(1, 0, 5);
  cr_assert_eq(crossing_poll(1, 0), TEAM_SHADOW);
  patience();
  cr_assert_not(log_keeps_step(crossing_teams[0][0]->own));
}

/* It will shadow what comes next there. */
Test(overlap_step, who_leaves_has_joined) {
  ahead_in_the_first();
  team_say_leaving(crossing_teams[2][2], true);
  cr_assert_eq(patience(), OVERLAP_NEVER);
}

/* What comes next it has issued: it leaves at the end of the program. */
Test(overlap_step, who_leaves_after_that_has_not) {
  ahead_in_the_first();
  struct member of = crossing_member(12);
  cr_assert(team_commit(crossing_teams[2][2], (struct unit){&of, 1}));
  team_say_leaving(crossing_teams[2][2], true);
  cr_assert_eq(patience(), OVERLAP_PATIENCE_MS);
}
