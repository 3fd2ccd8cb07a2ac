/* Sends and receives behind a loop of collectives (core/team/team_behind.c,
 * core/p2p/peers_behind.c): the quartet's loop is HEAD, and behind it stands AFTER. */
#include <criterion/criterion.h>

#include "core/team/team_private.h"
#include "tests/unit/behind.h"
#include "tests/unit/operation.h"

TestSuite(team_behind, .init = quartet_start, .fini = quartet_stop);

#define OTHER_COMM 9 /* that of the loop is 0 */

Test(team_behind, a_loop_is_left_by_what_does_not_stand_in_it) {
  learn_places();
  cr_assert_not(team_leaves_by(quartet[0], AFTER), "there has been none");
  all_issue_at(HEAD, SUM);
  cr_assert(team_leaves_by(quartet[0], AFTER));
  cr_assert_not(team_leaves_by(quartet[0], THEN));
  cr_assert_not(team_leaves_by(quartet[0], 0), "it cannot be seen");
  cr_assert_not(team_leaves_by(quartet[0], 77), "nothing is known of it");
  all_issue_at(AFTER, SUM);
  cr_assert_not(team_leaves_by(quartet[0], AFTER));
}

Test(team_behind, units_that_have_not_been_learnt_count) {
  behind_begin();
  for (int i = 0; i < 200; i++)
    all_issue_at(i % 2 == 0 ? HEAD : THEN, SUM);
  for (uint32_t rank = 0; rank < RANKS; rank++)
    if (!team_commit(quartet[rank], at(HEAD, SUM)))
      claim(rank, HEAD, SUM);
  cr_assert(team_leaves_by(quartet[0], AFTER));
}

/* Even: nobody is waited for, and nothing is told. */
Test(team_behind, all_have_left_it) {
  behind_begin();
  gather_all();
  for (uint32_t rank = 0; rank < RANKS; rank++)
    claim(rank, HEAD, SUM);
  for (uint32_t rank = 0; rank < RANKS; rank++)
    cr_assert_not(quartet[rank]->telling.guessed);
  expect_all_issue();
  expect_agreement();
}

Test(team_behind, one_that_has_not_come_is_waited_for) {
  behind_begin();
  hold(1, sends(0));
  expect_verdict(1, TEAM_PARKED);
  cr_assert_not(shows_claim(1), "rank 0 may come to the same as this one");
  claim(2, HEAD, SUM);
  expect_verdict(1, TEAM_PARKED);
  cr_assert_not(shows_claim(1), "rank 2 has nothing to do with it");
}

Test(team_behind, those_that_go_on_in_it_are_answered) {
  behind_begin();
  for (uint32_t rank = 1; rank < RANKS; rank++)
    hold(rank, sends(0));
  claim(0, HEAD, SUM);
  expect_verdicts((enum team_verdict[]){TEAM_REAL, TEAM_SHADOW, TEAM_SHADOW, TEAM_SHADOW});
  cr_assert(team_has_answered_loop(quartet[1]));
  expect_agreement();
  hold(0, receives_from_others());
  post(0, receives_from_others());
  for (uint32_t rank = 1; rank < RANKS; rank++)
    post(rank, sends(0));
}

/* Where nobody has been before: gradients that are laid out anew, say. */
Test(team_behind, those_that_come_to_a_new_place_of_the_loop_go_on_in_it) {
  behind_begin();
  for (uint32_t rank = 1; rank < RANKS; rank++)
    hold(rank, sends(0));
  claim(0, THIRD, OTHER);
  expect_verdicts((enum team_verdict[]){TEAM_REAL, TEAM_SHADOW, TEAM_SHADOW, TEAM_SHADOW});
  expect_agreement();
}

/* Rank 0 receives from one after the other: rank 1 is done with that, and does not come to its next
 * round before rank 2 has left this one. */
Test(team_behind, what_comes_behind_is_no_round_of_the_loop) {
  behind_begin();
  hold(0, receives(1));
  hold(1, sends(0));
  hold(3, sends(0));
  post(0, receives(1));
  post(1, sends(0));
  claim(1, HEAD, SUM);
  hold(0, receives(2));
  claim(2, HEAD, SUM);
  expect_verdicts((enum team_verdict[]){TEAM_SHADOW, TEAM_SHADOW, TEAM_REAL, TEAM_SHADOW});
  cr_assert(quartet[1]->claim.open);
  expect_agreement();
}

/* Nor where another rank has passed it there, which has nothing to do with all that. */
Test(team_behind, what_comes_behind_waits_for_ranks_that_have_more_to_announce) {
  behind_begin();
  hold(0, receives(1));
  hold(1, sends(0));
  post(0, receives(1));
  post(1, sends(0));
  claim(1, HEAD, SUM);
  expect_verdict(1, TEAM_PARKED);
  cr_assert_not(shows_claim(1), "rank 0 runs its program");
  claim(0, HEAD, SUM);
  expect_verdict(0, TEAM_PARKED);
  expect_verdict(1, TEAM_PARKED);
  cr_assert(shows_claim(0) && shows_claim(1));
}

/* Rank 2's send stands behind that of rank 1 in rank 0's program, which is under way. */
Test(team_behind, who_is_not_met_yet_waits_while_others_go_on) {
  behind_begin();
  hold(0, receives(1));
  hold(1, sends(0));
  hold(2, sends(0));
  expect_verdict(2, TEAM_PARKED);
  post(0, receives(1));
  post(1, sends(0));
  expect_verdict(2, TEAM_PARKED);
  hold(0, receives(2));
  post(2, sends(0));
  post(0, receives(2));
}

/* Each sends, and then receives, and none in a group: as NCCL's buffers allow. */
Test(team_behind, a_ring_in_which_nobody_is_met_goes_on) {
  uint32_t steps[RANKS] = {0}, done = 0;
  behind_begin();
  for (uint32_t rank = 0; rank < RANKS; rank++) {
    hold(rank, sends((rank + 1) % RANKS));
    if (rank + 1 < RANKS)
      expect_verdict(rank, TEAM_PARKED);
  }
  for (int looks = 0; looks < 20; looks++)
    for (uint32_t rank = 0; rank < RANKS; rank++) {
      uint32_t next = (rank + 1) % RANKS, before = (rank + RANKS - 1) % RANKS;
      if (steps[rank] == 2 || team_poll(quartet[rank], &got) != TEAM_REAL)
        continue;
      team_release(quartet[rank], true);
      (void)team_post(quartet[rank], steps[rank] == 0 ? sends(next) : receives(before));
      if (++steps[rank] == 1)
        hold(rank, receives(before));
      else
        claim(rank, HEAD, SUM);
      done += steps[rank] == 2;
    }
  cr_assert_eq(done, RANKS);
}

/* A chain of four; rank 0 goes on in the loop, and rank 1 posts where it has left it. Rank 2 still
 * stands where it had not. */
Test(team_behind, what_is_posted_later_was_not_there_before) {
  behind_begin();
  hold(1, receives(0));
  hold(2, receives(1));
  hold(3, receives(2));
  claim(0, HEAD, SUM);
  for (uint32_t rank = 1; rank < RANKS; rank++)
    (void)team_poll(quartet[rank], &got);
  expect_verdicts((enum team_verdict[]){TEAM_REAL, TEAM_SHADOW, TEAM_PARKED, TEAM_PARKED});
  hold(0, sends(1));
  post(0, sends(1));
  post(1, receives(0));
  hold(1, sends(2));
  expect_verdict(2, TEAM_SHADOW);
  post(2, receives(1));
  post(1, sends(2));
}

Test(team_behind, what_was_announced_before_the_last_round_is_over) {
  behind_begin();
  gather_all();
  uint64_t index = quartet[0]->head;
  cr_assert(peers_has_left(quartet[0]->peers, 1, index));
  cr_assert_not(peers_has_left(quartet[0]->peers, 1, index + 1), "it may issue something first");
  for (uint32_t rank = 0; rank < RANKS; rank++)
    claim(rank, HEAD, SUM);
  expect_all_issue();
  cr_assert_eq(quartet[1]->head, index + 1);
  cr_assert(peers_has_left(quartet[0]->peers, 1, index), "it had when it stood there");
  cr_assert_not(peers_has_left(quartet[0]->peers, 1, index + 1));
  hold(0, receives(1));
  expect_verdict(0, TEAM_PARKED);
}

Test(team_behind, a_rank_that_leaves_or_stands_behind_is_not_waited_for) {
  behind_begin();
  hold(1, sends(0));
  team_claim_leave(quartet[0]);
  expect_verdict(1, TEAM_REAL);
  team_release(quartet[1], true);
  hold(2, sends(3));
  claim(3, AFTER, OTHER);
  expect_verdict(2, TEAM_REAL);
}

Test(team_behind, a_rank_that_has_ended_is_not_waited_for) {
  behind_begin();
  hold(1, sends(0));
  expect_verdict(1, TEAM_PARKED);
  team_end(quartet[0], RANK_DONE);
  expect_verdict(1, TEAM_REAL);
}

/* Though it is parked, and answers: a receive of it would not get zeros. */
Test(team_behind, what_a_rank_holds_back_it_will_send) {
  behind_begin();
  hold(1, sends(0));
  claim(0, HEAD, SUM);
  expect_verdict(1, TEAM_PARKED);
  cr_assert_eq(log_answering(quartet[1]->own), quartet[1]->head + 1);
  const struct posts *wanted = receives(1);
  cr_assert_eq(peers_find_lossy(quartet[0]->peers, wanted->members, 1, quartet[0]->head, false),
               -1);
  claim(2, AFTER, OTHER);
  peers_begin(quartet[2]->peers);
  (void)team_poll(quartet[2], &got);
  wanted = receives(2);
  cr_assert_eq(peers_find_lossy(quartet[0]->peers, wanted->members, 1, quartet[0]->head, false), 0);
}

/* It posts that itself. */
Test(team_behind, who_holds_something_back_answers_nobody_who_has_left) {
  behind_begin();
  hold(1, sends(0));
  hold(2, sends(1));
  claim(0, HEAD, SUM);
  struct posts posted = *sends(1);
  cr_assert_eq(team_post(quartet[2], &posted), POST_DONE);
  claim(3, HEAD, SUM);
  for (int looks = 0; looks < 4; looks++) {
    enum team_verdict verdict = team_poll(quartet[1], &got);
    cr_assert(verdict == TEAM_PARKED || verdict == TEAM_SHADOW, "%d", (int)verdict);
    for (uint32_t rank = 0; rank < RANKS; rank++)
      if (rank != 1)
        (void)team_poll(quartet[rank], &got);
  }
}

/* It may have left a loop of which nothing can be seen. */
Test(team_behind, a_peer_that_posts_from_a_place_not_known_has_left_it) {
  behind_begin();
  hold(1, sends(0));
  struct posts unseen = *receives(1);
  unseen.place = 0;
  cr_assert_eq(team_post(quartet[0], &unseen), POST_DONE);
  claim(0, HEAD, SUM);
  expect_verdict(1, TEAM_REAL);
}

/* What another rank has announced links this one with its peers. */
Test(team_behind, ranks_are_linked_by_others) {
  behind_begin();
  hold(0, receives_from_others());
  hold(1, sends(0));
  hold(2, sends(0));
  claim(3, HEAD, SUM);
  expect_verdict(1, TEAM_PARKED);
  cr_assert(shows_claim(1), "it lets rank 3 go on");
}

/* ---- what nothing tells ---- */

static bool is_told(uint32_t rank, enum guess_kind kind) {
  return quartet[rank]->telling.guessed && quartet[rank]->telling.guess.kind == kind;
}

Test(team_behind, order_of_a_send_that_has_not_been_seen_is_told) {
  behind_begin();
  hold(1, sends(0));
  claim(0, HEAD, SUM);
  expect_verdict(1, TEAM_PARKED);
  cr_assert(is_told(1, GUESS_BEHIND));
  cr_assert_str_eq(quartet[1]->telling.guess.place, "train.py:1");
  cr_assert_str_eq(quartet[1]->telling.guess.other_place, "train.py:5");
}

Test(team_behind, order_that_has_been_seen_is_not_told) {
  behind_begin();
  gather_all();
  for (uint32_t rank = 0; rank < RANKS; rank++)
    claim(rank, HEAD, SUM);
  expect_all_issue();
  hold(1, sends(0));
  claim(0, HEAD, SUM);
  expect_verdict(1, TEAM_PARKED);
  cr_assert(shows_claim(1));
  cr_assert_not(quartet[1]->telling.guessed);
}

Test(team_behind, order_of_a_receive_is_known) {
  behind_begin();
  hold(1, receives(0));
  claim(0, HEAD, SUM);
  expect_verdict(1, TEAM_PARKED);
  cr_assert(shows_claim(1));
  cr_assert_not(quartet[1]->telling.guessed);
}

Test(team_behind, on_another_communicator_and_stream_it_is_not_waited) {
  behind_begin();
  cr_assert(team_stand_behind(quartet[1], one_side(MEMBER_RECEIVE, 0, OTHER_COMM), false, false));
  team_hold(quartet[1]);
  claim(0, HEAD, SUM);
  expect_verdict(1, TEAM_REAL);
  cr_assert(is_told(1, GUESS_BESIDE));
}

Test(team_behind, on_another_communicator_in_the_same_stream_it_is) {
  behind_begin();
  cr_assert(team_stand_behind(quartet[1], one_side(MEMBER_RECEIVE, 0, OTHER_COMM), true, false));
  team_hold(quartet[1]);
  claim(0, HEAD, SUM);
  expect_verdict(1, TEAM_PARKED);
  cr_assert(shows_claim(1));
}

Test(team_behind, who_must_not_guess_fails) {
  behind_begin();
  cr_assert(team_stand_behind(quartet[1], sends(0), true, true));
  team_hold(quartet[1]);
  claim(0, HEAD, SUM);
  expect_verdict(1, TEAM_FAILED);
  cr_assert_eq(quartet[1]->failed.how, FAILURE_UNSURE);
}

/* So often in a row that nobody waits any more; once ranks have been uneven there, all do again. */
Test(team_behind, where_all_have_always_left_it_nobody_waits) {
  struct team *team = quartet[1];
  behind_begin();
  for (uint32_t times = 0; times < TEAM_STEADY_ROUNDS; times++) {
    cr_assert(team_stand_behind(team, sends(0), true, false), "%u", times);
    team_hold(team);
    team_release(team, true);
  }
  cr_assert_not(team_stand_behind(team, sends(0), true, false));
  cr_assert(peers_has_left(quartet[0]->peers, 1, team->head), "it says so all the same");
  team->behind.was_ahead = true;
  team_release(team, true);
  cr_assert(team_stand_behind(team, sends(0), true, false));
}

/* What is announced stays in the ring, however much else comes. */
Test(team_behind, announcements_are_not_dropped) {
  behind_begin();
  hold(1, sends(0));
  team_release(quartet[1], true);
  for (uint32_t i = 0; i < PLANE_OPERATIONS - 2; i++) {
    cr_assert_eq(team_post(quartet[1], one_side(MEMBER_SEND, 2, 0)), POST_DONE, "%u", i);
    cr_assert_eq(team_post(quartet[2], one_side(MEMBER_RECEIVE, 1, 0)), POST_DONE, "%u", i);
  }
  cr_assert(peers_has_left(quartet[0]->peers, 1, quartet[1]->head));
}
