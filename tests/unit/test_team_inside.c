/* Sends and receives in a loop of collectives, of a rank that goes on in it, while others have left
 * it for sends and receives behind it (core/p2p/peers_announced.c): the quartet as in
 * test_team_behind.c. */
#include <criterion/criterion.h>

#include "core/team/team_private.h"
#include "core/transport/logs.h"
#include "core/transport/operations.h"
#include "tests/unit/behind.h"
#include "tests/unit/operation.h"

TestSuite(team_inside, .init = quartet_start, .fini = quartet_stop);

/* Rank 1 sends to rank 0 in each round, at THEN and ELSE, which stand in the loop. */
static const struct posts *inside(uint8_t kind, uint32_t peer, uint32_t place) {
  static struct member member;
  static struct posts posts;
  member = operation_member(kind, 0, peer, 64);
  posts = (struct posts){.members = &member, .nmembers = 1, .place = place};
  return &posts;
}

static void pass(uint32_t from, uint32_t to) {
  cr_assert_eq(team_post(quartet[from], inside(MEMBER_SEND, to, THEN)), POST_DONE);
  cr_assert_eq(team_post(quartet[to], inside(MEMBER_RECEIVE, from, ELSE)), POST_DONE);
}

static void expect_mirror(uint32_t rank, uint8_t kind, uint32_t peer) {
  expect_verdict(rank, TEAM_MIRROR);
  cr_assert_eq(got.nmembers, 1);
  cr_assert_eq(got.members[0].kind, kind);
  cr_assert_eq(got.members[0].root, (int32_t)peer);
}

/* Rank 1 comes to no collective before rank 0 has answered. */
Test(team_inside, what_stands_in_the_loop_is_answered_before_it_is_known_who_goes_on) {
  behind_begin();
  pass(1, 0);
  hold(0, receives(1));
  expect_verdict(0, TEAM_PARKED);
  (void)team_post(quartet[1], inside(MEMBER_SEND, 0, THEN));
  expect_mirror(0, MEMBER_RECEIVE, 1);
  expect_verdict(0, TEAM_PARKED);
}

/* Rank 0 takes what rank 1 sends in the loop behind it. */
Test(team_inside, what_this_rank_comes_to_behind_the_loop_is_not_answered) {
  behind_begin();
  hold(0, receives(2));
  (void)team_post(quartet[1], inside(MEMBER_SEND, 0, THEN));
  expect_verdict(0, TEAM_PARKED);
}

/* Nor what stands at a place that cannot be seen. */
Test(team_inside, what_may_stand_behind_the_loop_is_not_answered) {
  behind_begin();
  pass(1, 0);
  hold(0, receives(2));
  (void)team_post(quartet[1], inside(MEMBER_SEND, 0, 0));
  expect_verdict(0, TEAM_PARKED);
}

/* Rank 0 does not come to its side before what it holds back now. */
Test(team_inside, what_a_peer_posts_behind_the_loop_is_not_answered) {
  behind_begin();
  pass(1, 0);
  hold(1, sends(0));
  team_release(quartet[1], true);
  (void)team_post(quartet[1], sends(0));
  hold(0, receives(2));
  expect_verdict(0, TEAM_PARKED);
}

/* Rank 2 has no part in what comes behind the loop: it may have gone round to the next epoch. */
Test(team_inside, who_does_not_have_to_leave_the_loop_is_not_answered) {
  behind_begin();
  pass(2, 0);
  hold(0, receives(1));
  (void)team_post(quartet[2], inside(MEMBER_SEND, 0, THEN));
  expect_verdict(0, TEAM_PARKED);
  hold(1, sends(0));
  post(0, receives(1));
}

/* What is answered comes first, of one pair, too: what is held back is another one of it then. */
Test(team_inside, what_is_held_back_comes_behind_what_is_answered) {
  behind_begin();
  pass(1, 0);
  hold(0, receives(1));
  (void)team_post(quartet[1], inside(MEMBER_SEND, 0, THEN));
  expect_mirror(0, MEMBER_RECEIVE, 1);
  claim(1, HEAD, SUM);
  expect_verdict(0, TEAM_PARKED);
  for (uint32_t rank = 2; rank < RANKS; rank++)
    claim(rank, HEAD, SUM);
  expect_verdicts((enum team_verdict[]){TEAM_SHADOW, TEAM_REAL, TEAM_REAL, TEAM_REAL});
  hold(1, sends(0));
  expect_verdict(0, TEAM_REAL);
  team_release(quartet[0], true);
  (void)team_post(quartet[0], receives(1));
  post(1, sends(0));
  uint64_t received = pair_issued(quartet[0]->own, pair_key(0, 1, true));
  cr_assert_eq(received, pair_issued(quartet[1]->own, pair_key(0, 0, false)));
  cr_assert_eq(received, 3);
}

/* Rank 1 has issued what stands in the loop, and left that, before rank 0 has looked. */
Test(team_inside, what_is_behind_waits_for_answers_of_the_loop) {
  behind_begin();
  pass(1, 0);
  (void)team_post(quartet[1], inside(MEMBER_SEND, 0, THEN));
  hold(1, sends(0));
  hold(0, receives(1));
  expect_mirror(0, MEMBER_RECEIVE, 1);
  post(0, receives(1));
  post(1, sends(0));
}

Test(team_inside, who_has_something_to_answer_waits) {
  behind_begin();
  pass(1, 0);
  (void)team_post(quartet[1], inside(MEMBER_SEND, 0, THEN));
  hold(1, receives(0));
  hold(0, sends(1));
  cr_assert_not(team_has_left_together(quartet[0]));
  expect_mirror(0, MEMBER_RECEIVE, 1);
  cr_assert(team_has_left_together(quartet[0]));
}

/* Rank 3 still stands where rank 1 had left the loop, when that has issued its next round and makes
 * room for more. */
Test(team_inside, what_was_announced_is_kept_while_a_rank_may_ask) {
  behind_begin();
  gather_all();
  uint64_t index = quartet[1]->head;
  for (uint32_t rank = 0; rank < RANKS; rank++)
    claim(rank, HEAD, SUM);
  for (uint32_t rank = 0; rank < RANKS; rank++)
    expect_verdict(rank, TEAM_PARKED);
  expect_verdicts((enum team_verdict[]){TEAM_REAL, TEAM_REAL, TEAM_REAL, TEAM_PARKED});
  for (int i = 0; i < 200; i++)
    pass(1, 0);
  cr_assert(peers_has_left(quartet[3]->peers, 1, index));
  expect_verdict(3, TEAM_REAL);
  for (int i = 0; i < 200; i++)
    pass(1, 0);
  cr_assert_not(peers_has_left(quartet[3]->peers, 1, index), "nobody stands there: it made room");
}
