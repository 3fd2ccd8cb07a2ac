/* Who holds back the second of what it sends and receives without a unit in between has gone round
 * a loop without data, or passed one by (core/p2p/peers_behind.c): the quartet as in
 * test_team_behind.c. */
#include <criterion/criterion.h>

#include "core/team/team_private.h"
#include "tests/unit/behind.h"
#include "tests/unit/operation.h"

TestSuite(team_rounds_behind, .init = quartet_start, .fini = quartet_stop);

/* Rank 3 has no data in the second epoch. */
Test(team_rounds_behind, others_go_on_in_the_next_round_of_a_loop_around) {
  behind_begin();
  gather_all();
  claim(0, HEAD, SUM);
  expect_verdict(0, TEAM_PARKED);
  cr_assert_not(shows_claim(0), "rank 3 runs its program");
  hold(3, sends(0));
  expect_verdict(3, TEAM_PARKED);
  cr_assert_not(shows_claim(3), "it waits until it sees what rank 0 does");
  claim(1, HEAD, SUM);
  claim(2, HEAD, SUM);
  expect_verdicts((enum team_verdict[]){TEAM_REAL, TEAM_REAL, TEAM_REAL, TEAM_SHADOW});
  hold(0, receives_from_others());
  hold(1, sends(0));
  hold(2, sends(0));
  for (uint32_t rank = 1; rank < RANKS; rank++)
    (void)team_poll(quartet[rank], &got);
  post(0, receives_from_others());
  post(3, sends(0));
  expect_agreement();
  for (uint32_t rank = 0; rank < RANKS; rank++)
    cr_assert_not(quartet[rank]->telling.guessed, "they have left it for that before");
}

/* Nor rank 1: it has been met, but its peer has not by rank 2. */
Test(team_rounds_behind, who_waits_for_one_that_waits_does_not_come_first) {
  behind_begin();
  gather_all();
  claim(2, HEAD, SUM);
  hold(0, receives_from_others());
  hold(1, sends(0));
  hold(3, sends(0));
  expect_verdicts((enum team_verdict[]){TEAM_SHADOW, TEAM_SHADOW, TEAM_REAL, TEAM_SHADOW});
}

/* A chain. Ranks 0 and 1 are done with the second epoch, but for what rank 1 sends to rank 2, which
 * has data: so rank 0 is an epoch ahead of rank 2. */
Test(team_rounds_behind, who_has_gone_round_once_more_waits_for_the_others) {
  behind_begin();
  hold(0, sends(1));
  hold(1, receives(0));
  hold(2, receives(1));
  post(0, sends(1));
  post(1, receives(0));
  hold(1, sends(2));
  post(2, receives(1));
  post(1, sends(2));
  claim(2, HEAD, SUM);
  claim(3, HEAD, SUM);
  hold(0, sends(1));
  hold(1, receives(0));
  post(0, sends(1));
  post(1, receives(0));
  claim(0, HEAD, SUM);
  hold(1, sends(2));
  expect_verdicts((enum team_verdict[]){TEAM_SHADOW, TEAM_SHADOW, TEAM_REAL, TEAM_REAL});
  cr_assert(quartet[0]->claim.open);
}

/* What rank 0 comes to first in the next epoch the others do not come to: they wait there for its
 * next one as they did for the first. */
Test(team_rounds_behind, who_has_gone_on_from_there_is_in_the_next_round) {
  behind_begin();
  gather_all();
  claim(0, THIRD, OTHER);
  for (uint32_t rank = 1; rank < RANKS; rank++)
    claim(rank, HEAD, SUM);
  expect_verdicts((enum team_verdict[]){TEAM_REAL, TEAM_SHADOW, TEAM_SHADOW, TEAM_SHADOW});
  claim(0, HEAD, SUM);
  expect_all_issue();
}

/* Rank 1 has not heard yet that it may post what rank 0 has sent: it does not stand at the next
 * round, and may have data there. */
Test(team_rounds_behind, what_is_about_to_be_posted_is_of_the_round_before) {
  struct member both[] = {operation_member(MEMBER_SEND, 0, 1, 64),
                          operation_member(MEMBER_SEND, 0, 2, 64)};
  const struct posts scattered = {.members = both, .nmembers = 2, .place = AFTER};
  behind_begin();
  hold(0, &scattered);
  hold(1, receives(0));
  hold(2, receives(0));
  post(0, &scattered);
  post(2, receives(0));
  hold(0, &scattered);
  hold(2, receives(0));
  expect_verdict(2, TEAM_PARKED);
  post(1, receives(0));
  expect_verdict(2, TEAM_PARKED);
  claim(1, HEAD, SUM);
  expect_verdicts((enum team_verdict[]){TEAM_PARKED, TEAM_PARKED, TEAM_PARKED, TEAM_PARKED});
  claim(3, HEAD, SUM);
  expect_verdicts((enum team_verdict[]){TEAM_SHADOW, TEAM_REAL, TEAM_SHADOW, TEAM_REAL});
}

/* Rank 0 is met by rank 1, and by rank 2 only behind what that sends to rank 3. */
Test(team_rounds_behind, who_is_met_by_one_that_is_not_waits_while_others_go_on) {
  behind_begin();
  hold(2, sends(3));
  hold(3, receives(2));
  struct member both[] = {operation_member(MEMBER_RECEIVE, 0, 1, 64),
                          operation_member(MEMBER_RECEIVE, 0, 2, 64)};
  hold(0, &(struct posts){.members = both, .nmembers = 2, .place = AFTER});
  hold(1, sends(0));
  expect_verdict(1, TEAM_PARKED);
  post(2, sends(3));
  post(3, receives(2));
  expect_verdict(1, TEAM_PARKED);
  hold(2, sends(0));
  post(1, sends(0));
}

/* ---- an epoch of two loops, with sends and receives behind each ---- */

enum { TRAIN = 21, LOGS, EVALUATE, RESULTS };
enum { BEHIND_LOGS = 100 + LOGS }; /* in front of EVALUATE */

static struct place in_epoch(uint32_t id) {
  uint16_t order = (uint16_t)(id == BEHIND_LOGS ? 10 * LOGS + 5 : 10 * id);
  struct place place = {
      .id = id, .nnodes = 2, .nodes = {node(1000, 1, 0), node(1001, 2, PLACE_LOOP)}};
  if (id == TRAIN || id == EVALUATE)
    place.nodes[place.nnodes++] = node(2000 + id, order, PLACE_LOOP);
  place.nodes[place.nnodes++] = node(3000 + id, order, 0);
  for (uint32_t i = 0; i < place.nnodes; i++)
    place.nodes[i].reach_to = UINT16_MAX;
  return place;
}

static void claim_in_epoch(uint32_t rank, uint32_t id) {
  struct place place = in_epoch(id);
  team_claim(quartet[rank], at(id, SUM), 0, &place);
}

static void hold_in_epoch(uint32_t rank, uint32_t id, const struct posts *behind) {
  struct posts here = *behind;
  here.place = id;
  cr_assert(team_leaves_by(quartet[rank], id));
  cr_assert(team_stand_behind(quartet[rank], &here, true, false));
  team_hold(quartet[rank]);
}

static void post_in_epoch(uint32_t rank, uint32_t id, const struct posts *behind) {
  struct posts here = *behind;
  here.place = id;
  post(rank, &here);
}

static void train_in_epoch(void) {
  for (uint32_t rank = 0; rank < RANKS; rank++) {
    for (uint32_t id = TRAIN; id <= RESULTS; id++) {
      struct place place = in_epoch(id);
      peers_learn_place(quartet[rank]->peers, &place);
    }
    struct place behind_logs = in_epoch(BEHIND_LOGS);
    peers_learn_place(quartet[rank]->peers, &behind_logs);
    claim_in_epoch(rank, TRAIN);
  }
  expect_all_issue();
}

/* All have trained, and brought logs together. */
static void begin_epoch(void) {
  train_in_epoch();
  hold_in_epoch(0, LOGS, receives_from_others());
  for (uint32_t rank = 1; rank < RANKS; rank++)
    hold_in_epoch(rank, LOGS, sends(0));
  post_in_epoch(0, LOGS, receives_from_others());
  for (uint32_t rank = 1; rank < RANKS; rank++)
    post_in_epoch(rank, LOGS, sends(0));
}

/* In the next epoch rank 1 has sent something in the loop, which rank 0 has only answered. */
Test(team_rounds_behind, both_have_left_a_loop) {
  struct member member = operation_member(MEMBER_SEND, 0, 0, 64);
  struct unequal unequal = {0};
  begin_epoch();
  for (uint32_t rank = 0; rank < RANKS; rank++)
    claim_in_epoch(rank, TRAIN);
  expect_all_issue();
  (void)team_post(quartet[1], &(struct posts){.members = &member, .nmembers = 1, .place = TRAIN});
  (void)team_post(quartet[0], &(struct posts){.members = receives(1)->members, .nmembers = 1});
  hold_in_epoch(0, LOGS, receives(1));
  hold_in_epoch(1, RESULTS, sends(0));
  post_in_epoch(0, LOGS, receives(1));
  expect_verdict(1, TEAM_REAL);
  team_release(quartet[1], true);
  (void)team_post(quartet[1], &(struct posts){.members = sends(0)->members,
                                              .nmembers = 1,
                                              .place = RESULTS,
                                              .unequal = &unequal});
  cr_assert_not(unequal.found);
}

/* Rank 3 has nothing to evaluate; nobody has done so before. */
Test(team_rounds_behind, others_go_into_a_loop_that_is_passed_by) {
  begin_epoch();
  hold_in_epoch(3, RESULTS, sends(0));
  for (uint32_t rank = 0; rank < 3; rank++)
    claim_in_epoch(rank, EVALUATE);
  expect_verdicts((enum team_verdict[]){TEAM_REAL, TEAM_REAL, TEAM_REAL, TEAM_SHADOW});
  for (uint32_t rank = 0; rank < 3; rank++)
    claim_in_epoch(rank, EVALUATE);
  expect_verdicts((enum team_verdict[]){TEAM_REAL, TEAM_REAL, TEAM_REAL, TEAM_SHADOW});
  hold_in_epoch(0, RESULTS, receives_from_others());
  hold_in_epoch(1, RESULTS, sends(0));
  hold_in_epoch(2, RESULTS, sends(0));
  post_in_epoch(0, RESULTS, receives_from_others());
  post_in_epoch(3, RESULTS, sends(0));
  expect_agreement();
}

/* All meet at the end of the epoch; rank 3 has no data in the next one, and has not been in its
 * loop since. */
Test(team_rounds_behind, others_go_into_a_loop_that_is_passed_by_behind_a_unit) {
  begin_epoch();
  for (uint32_t rank = 0; rank < RANKS; rank++)
    claim_in_epoch(rank, RESULTS);
  expect_all_issue();
  hold_in_epoch(3, LOGS, sends(0));
  expect_verdict(3, TEAM_PARKED);
  for (uint32_t rank = 0; rank < 3; rank++)
    claim_in_epoch(rank, TRAIN);
  expect_verdicts((enum team_verdict[]){TEAM_REAL, TEAM_REAL, TEAM_REAL, TEAM_SHADOW});
  hold_in_epoch(0, LOGS, receives_from_others());
  hold_in_epoch(1, LOGS, sends(0));
  hold_in_epoch(2, LOGS, sends(0));
  post_in_epoch(0, LOGS, receives_from_others());
  post_in_epoch(3, LOGS, sends(0));
  expect_agreement();
}

/* Only rank 2 evaluates. Rank 1 is done with the epoch, as rank 0 has received from it. */
Test(team_rounds_behind, who_has_passed_a_loop_by_waits_for_those_in_it) {
  begin_epoch();
  hold_in_epoch(0, RESULTS, receives(1));
  hold_in_epoch(1, RESULTS, sends(0));
  post_in_epoch(0, RESULTS, receives(1));
  post_in_epoch(1, RESULTS, sends(0));
  claim_in_epoch(1, TRAIN);
  hold_in_epoch(0, RESULTS, receives(2));
  claim_in_epoch(2, EVALUATE);
  claim_in_epoch(3, EVALUATE);
  expect_verdicts((enum team_verdict[]){TEAM_SHADOW, TEAM_SHADOW, TEAM_REAL, TEAM_REAL});
  cr_assert(quartet[1]->claim.open);
}

/* Rank 0 receives the results in its next epoch: by NCCL's buffers. */
Test(team_rounds_behind, what_comes_behind_both_is_not_waited_for) {
  begin_epoch();
  hold_in_epoch(3, RESULTS, sends(0));
  for (uint32_t rank = 0; rank < 3; rank++)
    claim_in_epoch(rank, TRAIN);
  expect_verdict(3, TEAM_PARKED);
  for (int looks = 0; looks < 2; looks++)
    for (uint32_t rank = 0; rank < 3; rank++)
      expect_verdict(rank, TEAM_PARKED);
  cr_assert(shows_claim(0));
  expect_verdict(3, TEAM_REAL);
}

/* A chain of four, of which the two in the middle evaluate: none of them waits until it has seen
 * what the other does, as others wait for both. */
Test(team_rounds_behind, those_for_whom_others_wait_do_not_wait_for_each_other) {
  train_in_epoch();
  for (uint32_t rank = 0; rank + 1 < RANKS; rank++) {
    hold_in_epoch(rank, BEHIND_LOGS, sends(rank + 1));
    hold_in_epoch(rank + 1, LOGS, receives(rank));
    post_in_epoch(rank, BEHIND_LOGS, sends(rank + 1));
    post_in_epoch(rank + 1, LOGS, receives(rank));
  }
  hold_in_epoch(0, RESULTS, sends(1));
  hold_in_epoch(3, RESULTS, receives(2));
  claim_in_epoch(1, EVALUATE);
  claim_in_epoch(2, EVALUATE);
  expect_verdicts((enum team_verdict[]){TEAM_SHADOW, TEAM_REAL, TEAM_REAL, TEAM_SHADOW});
}

/* Asked before anybody has trained, and again. */
Test(team_rounds_behind, a_loop_that_is_new_may_lie_between) {
  struct place logs = in_epoch(LOGS);
  peers_learn_place(quartet[3]->peers, &logs);
  for (int epoch = 0; epoch < 2; epoch++) {
    for (uint32_t rank = 0; rank < RANKS; rank++)
      claim_in_epoch(rank, RESULTS);
    expect_all_issue();
    cr_assert_eq(team_leaves_by(quartet[3], LOGS), epoch == 1);
    if (epoch == 0)
      train_in_epoch();
  }
}
