/* Marks, and where all ranks are together again: what an explicit end of a loop and a
 * resynchronisation are to the agreed sequence. On ranks in memory. */
#include <criterion/criterion.h>

#include "tests/unit/trio.h"

static void start(void) {
  trio_start();
  units();
}

TestSuite(marks, .init = start, .fini = trio_stop);

static void claim_mark(uint32_t rank, enum mark mark, uint32_t flags) {
  struct member member = mark_member(mark);
  team_claim(teams[rank], unit(&member), flags, NULL);
}

/* The verdict of a poll, and the unit that it hands out. */
static enum team_verdict poll(uint32_t rank, struct unit *got) {
  *got = (struct unit){0};
  return team_poll(teams[rank], got);
}

Test(marks, the_end_of_a_loop_waits_for_all_and_shadows_what_they_issue_meanwhile) {
  learn_loop();
  struct unit got;
  claim_mark(0, MARK_LOOP_END, 0);
  cr_assert(team_commit(teams[1], unit(&A)) && team_commit(teams[2], unit(&A)));
  cr_assert_eq(poll(0, &got), TEAM_SHADOW);
  cr_assert(team_commit(teams[1], unit(&A)));
  claim_mark(2, MARK_LOOP_END, 0);
  cr_assert_eq(poll(0, &got), TEAM_SHADOW);
  cr_assert_eq(poll(2, &got), TEAM_SHADOW);
  cr_assert_eq(poll(0, &got), TEAM_PARKED);
  claim_mark(1, MARK_LOOP_END, 0);
  for (uint32_t rank = 0; rank < RANKS; rank++) {
    cr_assert_eq(poll(rank, &got), TEAM_REAL);
    cr_assert(team_is_rejoin(teams[rank]) && !team_is_resync(teams[rank]));
    cr_assert_eq(team_last_joiner(teams[rank]), 1);
  }
}

Test(marks, a_mark_gives_way_to_a_unit_and_goes_before_leave) {
  struct unit got;
  claim_mark(0, MARK_LOOP_END, 0);
  team_claim(teams[1], unit(&A), 0, NULL);
  team_claim_leave(teams[2]);
  cr_assert_eq(poll(0, &got), TEAM_SHADOW);
  cr_assert(unit_equal(got, unit(&A)));
  cr_assert_eq(poll(1, &got), TEAM_REAL);
  cr_assert_not(team_is_rejoin(teams[1]));
  cr_assert_eq(poll(2, &got), TEAM_SHADOW);
  team_claim_leave(teams[1]);
  cr_assert_eq(poll(0, &got), TEAM_REAL);
  cr_assert_not(team_is_rejoin(teams[0]), "the last joiner is not there");
  for (uint32_t rank = 1; rank < RANKS; rank++) {
    cr_assert_eq(poll(rank, &got), TEAM_SHADOW);
    cr_assert_eq(unit_mark(got), MARK_LOOP_END);
  }
  team_claim(teams[0], (struct unit){NULL, 0}, CLAIM_RESYNC, NULL);
  for (uint32_t rank = 0; rank < RANKS; rank++) {
    cr_assert_eq(poll(rank, &got), TEAM_LEFT);
    cr_assert(team_is_rejoin(teams[rank]) && team_is_resync(teams[rank]));
    cr_assert_eq(team_last_joiner(teams[rank]), 1);
    cr_assert_eq(team_was_last(teams[rank]), rank == 1);
  }
}

/* All expected the unit at which one that had joined comes back, and nobody waited for it there:
 * all are together where they next claim the same. */
Test(marks, who_comes_back_unnoticed_is_together_with_the_others_at_their_next_meeting) {
  learn_loop();
  struct unit got;
  team_claim(teams[0], unit(&C), 0, NULL);
  for (int i = 0; i < 2; i++)
    cr_assert(team_commit(teams[1], unit(&A)) && team_commit(teams[2], unit(&A)));
  cr_assert_eq(poll(0, &got), TEAM_SHADOW);
  team_give_up(teams[0]);
  team_claim(teams[0], unit(&A), 0, NULL);
  cr_assert_eq(poll(0, &got), TEAM_REAL);
  cr_assert_not(team_is_rejoin(teams[0]));
  all_issue(&A);
  for (uint32_t rank = 0; rank < RANKS; rank++)
    team_claim(teams[rank], unit(&C), 0, NULL);
  for (uint32_t rank = 0; rank < RANKS; rank++) {
    cr_assert_eq(poll(rank, &got), TEAM_REAL);
    cr_assert(team_is_rejoin(teams[rank]));
    cr_assert_eq(team_last_joiner(teams[rank]), 2);
    cr_assert_eq(team_was_last(teams[rank]), rank != 0);
  }
}

/* Who begins the next loop without having said that the last one is over is out of that one too. */
Test(marks, the_end_of_a_loop_goes_before_the_begin_of_the_next) {
  struct unit got;
  claim_mark(0, MARK_LOOP_BEGIN, 0);
  claim_mark(1, MARK_LOOP_END, 0);
  claim_mark(2, MARK_LOOP_BEGIN, 0);
  cr_assert_eq(poll(1, &got), TEAM_REAL);
  cr_assert_eq(poll(0, &got), TEAM_SHADOW);
  cr_assert_eq(poll(2, &got), TEAM_SHADOW);
  claim_mark(1, MARK_LOOP_BEGIN, 0);
  for (uint32_t rank = 0; rank < RANKS; rank++) {
    cr_assert_eq(poll(rank, &got), TEAM_REAL);
    cr_assert_not(team_is_rejoin(teams[rank]), "what was only marked is nobody's data");
  }
}

Test(marks, a_mark_is_never_committed) {
  struct unit got;
  struct member end = mark_member(MARK_LOOP_END);
  for (int round = 0; round < 20; round++) {
    all_issue(&A);
    for (uint32_t rank = 0; rank < RANKS; rank++)
      cr_assert_not(team_commit(teams[rank], unit(&end)));
    for (uint32_t rank = 0; rank < RANKS; rank++)
      team_claim(teams[rank], unit(&end), 0, NULL);
    for (uint32_t rank = 0; rank < RANKS; rank++)
      cr_assert_eq(poll(rank, &got), TEAM_REAL);
  }
  cr_assert(team_commit(teams[0], unit(&A)), "the loop around it is learnt");
}

Test(marks, all_are_together_again_where_they_meet_after_one_has_joined) {
  learn_loop();
  struct unit got;
  team_claim(teams[2], unit(&C), 0, NULL);
  cr_assert(team_commit(teams[0], unit(&A)) && team_commit(teams[1], unit(&A)));
  cr_assert_eq(poll(2, &got), TEAM_SHADOW);
  team_claim(teams[0], unit(&C), CLAIM_RESYNC, NULL);
  team_claim(teams[1], unit(&C), 0, NULL);
  for (uint32_t rank = 0; rank < RANKS; rank++) {
    cr_assert_eq(poll(rank, &got), TEAM_REAL);
    cr_assert(team_is_rejoin(teams[rank]) && team_is_resync(teams[rank]), "rank %u", rank);
    cr_assert_eq(team_last_joiner(teams[rank]), 1);
  }
}

Test(marks, a_meeting_of_ranks_that_are_even_is_no_rejoin) {
  learn_loop();
  struct unit got;
  for (uint32_t rank = 0; rank < RANKS; rank++)
    team_claim(teams[rank], unit(&C), CLAIM_RESYNC, NULL);
  for (uint32_t rank = 0; rank < RANKS; rank++) {
    cr_assert_eq(poll(rank, &got), TEAM_REAL);
    cr_assert_not(team_is_rejoin(teams[rank]));
  }
}

/* The buffers of rank 1 follow; those who have claimed the end of that take them over. */
Test(marks, a_resynchronisation_is_a_part_of_the_sequence) {
  struct unit got;
  struct member state = {.count = 4, .root = 1, .kind = MEMBER_STATE, .number = 7};
  claim_mark(0, MARK_STATE_DONE, 0);
  team_claim_leave(teams[2]);
  team_claim(teams[1], unit(&state), 0, NULL);
  cr_assert_eq(poll(1, &got), TEAM_REAL);
  for (uint32_t rank = 0; rank < RANKS; rank += 2) {
    cr_assert_eq(poll(rank, &got), TEAM_SHADOW);
    cr_assert(unit_equal(got, unit(&state)));
  }
  claim_mark(1, MARK_STATE_DONE, 0);
  cr_assert_eq(poll(1, &got), TEAM_REAL);
  cr_assert_not(team_is_rejoin(teams[1]));
  cr_assert_eq(poll(0, &got), TEAM_REAL);
  cr_assert_eq(poll(2, &got), TEAM_SHADOW);
}

/* The mark at index 1, which one rank alone issued, is found behind the LEAVE that came since. */
Test(marks, a_mark_before_a_leave_says_nothing_of_who_has_data) {
  struct unit got;
  all_issue(&A);
  claim_mark(1, MARK_LOOP_BEGIN, 0);
  team_claim_leave(teams[0]);
  team_claim_leave(teams[2]);
  cr_assert_eq(poll(1, &got), TEAM_REAL);
  cr_assert_eq(poll(0, &got), TEAM_SHADOW);
  cr_assert_eq(poll(2, &got), TEAM_SHADOW);
  team_claim_leave(teams[1]);
  for (uint32_t rank = 0; rank < RANKS; rank++)
    cr_assert_eq(poll(rank, &got), TEAM_LEFT);
  all_issue(&B);
  for (uint32_t rank = 0; rank < RANKS; rank++)
    cr_assert_not(team_is_rejoin(teams[rank]));
}
