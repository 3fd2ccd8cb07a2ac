/* Point to point, rule by rule, on ranks in memory. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>

#include "tests/unit/failing.h"
#include "tests/unit/operation.h"
#include "tests/unit/trio.h"

static struct unit got;

static void start(void) {
  trio_start();
  units();
}

TestSuite(peers, .init = start, .fini = trio_stop);

static struct member on(uint32_t comm, uint8_t kind, uint32_t peer) {
  return operation_member(kind, comm, peer, 64);
}

static struct member send(uint32_t peer) {
  return on(7, MEMBER_SEND, peer);
}

static struct member receive(uint32_t peer) {
  return on(7, MEMBER_RECEIVE, peer);
}

static void post(uint32_t rank, struct member member) {
  cr_assert_eq(team_post(teams[rank], &(struct posts){.members = &member, .nmembers = 1}),
               POST_DONE);
}

static void post_group(uint32_t rank, struct member one, struct member other) {
  cr_assert_eq(team_post(teams[rank],
                         &(struct posts){.members = (struct member[]){one, other}, .nmembers = 2}),
               POST_DONE);
}

/* The rank is told to issue these now, and nothing else. */
static void expect_mirror(uint32_t rank, uint8_t kind, uint32_t peer) {
  cr_assert_eq(team_poll(teams[rank], &got), TEAM_MIRROR);
  cr_assert_eq(got.nmembers, 1);
  cr_assert_eq(got.members[0].kind, kind);
  cr_assert_eq(got.members[0].root, (int32_t)peer);
  cr_assert_eq(got.members[0].count, 64);
  cr_assert_eq(got.members[0].datatype, 7);
  cr_assert_eq(got.members[0].comm, 7);
}

static void expect_nothing(uint32_t rank) {
  cr_assert_eq(team_poll(teams[rank], &got), TEAM_PARKED);
}

Test(peers, a_send_to_a_parked_rank_meets_a_receive) {
  team_claim_leave(teams[0]);
  expect_nothing(0);
  post(1, send(0));
  expect_mirror(0, MEMBER_RECEIVE, 1);
  expect_nothing(0);
}

Test(peers, a_receive_from_a_parked_rank_meets_a_send) {
  team_claim(teams[0], unit(&A), 0, NULL);
  post(2, receive(0));
  expect_mirror(0, MEMBER_SEND, 2);
  expect_nothing(0);
}

Test(peers, what_the_rank_has_issued_itself_is_not_mirrored) {
  post(0, receive(1));
  team_claim_leave(teams[0]);
  post(1, send(0));
  expect_nothing(0);
  post(1, send(0));
  expect_mirror(0, MEMBER_RECEIVE, 1);
}

Test(peers, what_is_directed_at_others_is_not_mirrored) {
  team_claim_leave(teams[0]);
  post(1, send(2));
  expect_nothing(0);
}

Test(peers, two_parked_ranks_that_post_nothing_ask_each_other_nothing) {
  post(2, receive(2 - 1));
  team_claim_leave(teams[0]);
  team_claim_leave(teams[1]);
  expect_nothing(0);
  expect_mirror(1, MEMBER_SEND, 2);
  expect_nothing(0);
}

/* On a device behind an operation that nobody has answered yet: a mirror would wait there, and with
 * it all that come later. */
Test(peers, a_post_behind_one_that_waits_is_mirrored_later) {
  team_claim_leave(teams[0]);
  post(1, receive(2));
  post(1, send(0));
  expect_nothing(0);
  post(2, send(1));
  expect_mirror(0, MEMBER_RECEIVE, 1);
}

Test(peers, so_is_one_whose_partners_partner_waits) {
  team_claim_leave(teams[0]);
  post(1, receive(2));
  post(1, send(0));
  post(2, receive(0));
  post(2, send(1));
  /* Rank 2 waits for rank 0 as well: both are answered together. */
  cr_assert_eq(team_poll(teams[0], &got), TEAM_MIRROR);
  cr_assert_eq(got.nmembers, 2);
}

/* NCCL connects all ranks of a group at once, on the host. */
Test(peers, a_group_is_answered_when_all_its_partners_have_come) {
  team_claim_leave(teams[0]);
  post_group(1, receive(2), send(0));
  expect_nothing(0);
  post(2, send(1));
  expect_mirror(0, MEMBER_RECEIVE, 1);
}

Test(peers, groups_that_wait_for_each_other_are_answered_as_one) {
  team_claim_leave(teams[0]);
  post_group(1, send(2), send(0));
  expect_nothing(0);
  post_group(2, receive(1), receive(0));
  cr_assert_eq(team_poll(teams[0], &got), TEAM_MIRROR);
  cr_assert_eq(got.nmembers, 2);
  expect_nothing(0);
}

Test(peers, a_group_is_not_answered_while_a_partners_group_waits_for_something_else) {
  team_claim_leave(teams[0]);
  post_group(1, send(2), send(0));
  post_group(2, receive(1), receive(1));
  expect_nothing(0);
}

Test(peers, all_that_a_group_sends_to_a_parked_rank_is_answered_at_once) {
  team_claim_leave(teams[0]);
  post_group(1, send(0), send(0));
  cr_assert_eq(team_poll(teams[0], &got), TEAM_MIRROR);
  cr_assert_eq(got.nmembers, 2);
  expect_nothing(0);
}

Test(peers, looking_again_and_again_takes_no_more_memory) {
  team_claim_leave(teams[0]);
  post(1, send(2));
  expect_nothing(0);
  fail_call(CALL_ALLOCATION, 1, 1000, ENOMEM);
  for (int look = 0; look < 1000; look++)
    expect_nothing(0);
  bool allocates = call_has_failed(CALL_ALLOCATION);
  fail_call(CALL_ALLOCATION, 1, 0, 0); /* what counts branches allocates when the test ends */
  cr_assert_not(allocates);
}

/* What a partner does next has nothing to do with it. */
Test(peers, what_a_partner_waits_for_afterwards_is_not_waited_for) {
  team_claim_leave(teams[0]);
  post(2, send(1));
  post_group(2, receive(1), receive(1));
  post_group(1, receive(2), send(0));
  expect_mirror(0, MEMBER_RECEIVE, 1);
}

Test(peers, ranks_that_answer_the_same_group_do_not_wait_for_each_other) {
  team_claim_leave(teams[0]);
  team_claim_leave(teams[1]);
  post_group(2, send(0), receive(1));
  expect_nothing(0); /* rank 1 has not said yet that it answers */
  expect_mirror(1, MEMBER_SEND, 2);
  expect_mirror(0, MEMBER_RECEIVE, 2);
}

Test(peers, a_post_behind_a_unit_waits_until_all_have_issued_that) {
  for (uint32_t rank = 0; rank < RANKS; rank++)
    post(rank, send((rank + 1) % RANKS)), post(rank, receive((rank + 2) % RANKS));
  for (int i = 0; i < 8; i++) {
    for (uint32_t rank = 0; rank < RANKS; rank++)
      if (!team_commit(teams[rank], unit(&A)))
        team_claim(teams[rank], unit(&A), 0, NULL);
    for (uint32_t rank = 0; rank < RANKS; rank++)
      if (teams[rank]->claim.open)
        cr_assert_eq(team_poll(teams[rank], &got), TEAM_REAL);
  }
  team_claim_leave(teams[0]);
  cr_assert(team_commit(teams[1], unit(&A)));
  post(1, send(0));
  expect_nothing(0); /* nor is the unit followed: rank 2 may still post something before it */
  post(2, receive(0));
  expect_mirror(0, MEMBER_SEND, 2);
  expect_nothing(0);
  cr_assert(team_commit(teams[2], unit(&A)));
  cr_assert_eq(team_poll(teams[0], &got), TEAM_SHADOW);
  expect_mirror(0, MEMBER_RECEIVE, 1);
}

/* A claim that is not looked after yet counts: who claims answers. */
Test(peers, nobody_passes_an_index_while_a_claimant_is_still_asked) {
  post(1, send(0));
  post(0, receive(1));
  team_claim(teams[0], unit(&A), 0, NULL);
  team_claim(teams[2], unit(&A), 0, NULL);
  post(1, send(0));
  team_claim(teams[1], unit(&A), 0, NULL);
  expect_nothing(1);
  expect_mirror(0, MEMBER_RECEIVE, 1);
  cr_assert_eq(team_poll(teams[1], &got), TEAM_REAL);
}

static void all_meet(const struct member *of, bool uneven) {
  for (uint32_t rank = 1; rank < RANKS; rank++)
    post_group(rank, send(3 - rank), receive(3 - rank));
  if (uneven)
    post(1, send(0));
  for (uint32_t rank = 0; rank < RANKS; rank++)
    if (!team_commit(teams[rank], unit(of)))
      team_claim(teams[rank], unit(of), 0, NULL);
  while (uneven && teams[0]->claim.open && team_poll(teams[0], &got) == TEAM_MIRROR)
    ;
  for (uint32_t rank = 0; rank < RANKS; rank++)
    if (teams[rank]->claim.open)
      cr_assert_eq(team_poll(teams[rank], &got), TEAM_REAL);
}

/* However regularly it comes: a rank that has less to send must wait there. */
Test(peers, a_unit_at_which_a_rank_had_less_to_send_is_never_committed) {
  for (int i = 0; i < 20; i++)
    all_meet(&A, i == 1);
  cr_assert_not(team_commit(teams[0], unit(&A)));
}

Test(peers, one_at_which_all_had_the_same_is) {
  for (int i = 0; i < 20; i++)
    all_meet(&A, false);
  cr_assert(team_commit(teams[0], unit(&A)));
}

Test(peers, a_unit_before_which_ranks_had_better_meet_is_not_committed) {
  for (int i = 0; i < 20; i++)
    all_meet(&A, false);
  team_expect_nothing(teams[1]);
  cr_assert_not(team_commit(teams[1], unit(&A)));
  cr_assert(team_commit(teams[2], unit(&A)));
  team_claim(teams[1], unit(&A), 0, NULL);
  cr_assert_eq(team_poll(teams[1], &got), TEAM_PARKED);
  cr_assert(team_commit(teams[0], unit(&A)));
  cr_assert_eq(team_poll(teams[1], &got), TEAM_REAL);
  cr_assert(team_commit(teams[1], unit(&A)));
}

/* Two communicators may be at work at the same time, which is not followed: then mirrors come when
 * all ranks have come, and not never. */
Test(peers, what_cannot_be_followed_is_mirrored_when_all_have_come) {
  post(1, on(7, MEMBER_RECEIVE, 2));
  post(1, on(8, MEMBER_SEND, 2));
  post(2, on(8, MEMBER_RECEIVE, 1));
  post(2, on(7, MEMBER_SEND, 1));
  post(1, send(0));
  team_claim(teams[0], unit(&B), 0, NULL);
  expect_nothing(0);
  team_claim(teams[1], unit(&A), 0, NULL);
  team_claim(teams[2], unit(&A), 0, NULL);
  expect_mirror(0, MEMBER_RECEIVE, 1);
  cr_assert_neq(team_poll(teams[0], &got), TEAM_MIRROR);
}

Test(peers, a_parked_rank_is_rung) {
  post(2, send(1));
  team_claim_leave(teams[0]);
  expect_nothing(0);
  uint64_t rings = planes_rings(memory);
  cr_assert_eq(team_wait(teams[0], &got, 0), TEAM_PARKED);
  post(1, send(0));
  cr_assert_eq(planes_rings(memory), rings + 1);
}

Test(peers, a_rank_parked_in_another_team_answers_here) {
  for (int i = 0; i < 20; i++)
    all_meet(&A, false);
  post(1, send(0));
  expect_mirror(0, MEMBER_RECEIVE, 1); /* it polls without a claim */
  team_claim_leave(teams[2]);
  cr_assert(team_commit(teams[1], unit(&A)));
  cr_assert_eq(team_poll(teams[2], &got), TEAM_SHADOW, "rank 0 will not post anything before");
}

Test(peers, until_it_goes_on_with_its_program) {
  for (int i = 0; i < 20; i++)
    all_meet(&A, false);
  expect_nothing(0);
  team_stop_answering(teams[0]);
  team_claim_leave(teams[2]);
  cr_assert(team_commit(teams[1], unit(&A)));
  expect_nothing(2); /* rank 0 may still post something before */
  post(0, send(2));
  expect_mirror(2, MEMBER_RECEIVE, 0);
}

static bool is_not_answering(void *context) {
  (void)context;
  return false;
}

Test(peers, a_thread_does_not_answer_for_another_one) {
  teams[0]->owner.is_answering = is_not_answering;
  post(1, send(0));
  team_claim_leave(teams[0]);
  expect_nothing(0);
}

/* ---- what is lost ---- */

Test(peers, a_receive_from_a_rank_that_has_joined_is_known_before) {
  struct member one = receive(0);
  post(1, send(2));
  cr_assert_eq(peers_find_lossy(teams[1]->peers, &one, 1, 0, false), -1);
  post(0, send(1));
  team_claim_leave(teams[0]);
  expect_nothing(0);
  cr_assert_eq(peers_find_lossy(teams[1]->peers, &one, 1, 0, false), -1, "it has been sent");
  cr_assert_eq(peers_find_lossy(teams[1]->peers, (struct member[]){one, one}, 2, 0, false), 1);
  cr_assert_eq(peers_find_lossy(teams[1]->peers, (struct member[]){one, one}, 2, 1, false), -1,
               "rank 0 may still follow to there, and find that it is not its turn to leave");
}

/* ---- the ring ---- */

Test(peers, the_ring_is_never_full_while_peers_keep_up) {
  for (uint32_t i = 0; i < 3 * PLANE_OPERATIONS; i++) {
    post(1, send(2));
    post(2, receive(1));
  }
}

/* Also where the model of the devices does not come along. */
Test(peers, nor_while_they_keep_up_on_two_communicators_at_once) {
  post(1, on(8, MEMBER_RECEIVE, 2));
  post(1, on(9, MEMBER_SEND, 2));
  post(2, on(9, MEMBER_RECEIVE, 1));
  post(2, on(8, MEMBER_SEND, 1));
  for (uint32_t i = 0; i < 3 * PLANE_OPERATIONS; i++) {
    post(1, send(2));
    post(2, receive(1));
  }
}

Test(peers, a_group_beyond_the_ring_ends_it_for_all) {
  struct member *many = calloc(PLANE_OPERATIONS + 1, sizeof(*many));
  for (uint32_t i = 0; i <= PLANE_OPERATIONS; i++)
    many[i] = send(0);
  cr_assert_eq(
      team_post(teams[1], &(struct posts){.members = many, .nmembers = PLANE_OPERATIONS + 1}),
      POST_LOST);
  cr_assert_not(peers_are_tracked(teams[2]->plane));
  struct member one = send(1);
  cr_assert_eq(team_post(teams[2], &(struct posts){.members = &one, .nmembers = 1}), POST_LOST);
  team_claim(teams[0], unit(&A), 0, NULL);
  team_claim(teams[1], unit(&A), 0, NULL);
  team_claim(teams[2], unit(&A), 0, NULL);
  cr_assert_eq(team_poll(teams[0], &got), TEAM_REAL, "collectives go on");
  free(many);
}

Test(peers, so_do_more_pairs_than_there_is_room_for) {
  enum post_result result = POST_DONE;
  for (uint32_t comm = 1; comm <= PLANE_PAIRS && result == POST_DONE; comm++) {
    struct member one = on(comm, MEMBER_SEND, 2), other = on(comm, MEMBER_RECEIVE, 1);
    result = team_post(teams[1], &(struct posts){.members = &one, .nmembers = 1});
    if (result == POST_DONE)
      team_post(teams[2], &(struct posts){.members = &other, .nmembers = 1});
  }
  cr_assert_eq(result, POST_LOST);
}

/* ---- logs that are not as they should be ---- */

Test(peers, a_post_to_a_rank_that_is_none_is_nobodys) {
  post(1, send(2));
  post(1, send(0));
  struct plane_log *log = teams[1]->own;
  atomic_store(&log->operations[0].what, (uint32_t)RANKS << 16 | 7u << 8);
  team_claim_leave(teams[0]);
  cr_assert_neq(team_poll(teams[0], &got), TEAM_FAILED);
}

Test(peers, more_posts_than_a_ring_holds_are_none) {
  post(1, send(0));
  atomic_store(&teams[1]->own->operations_end, 4 * PLANE_OPERATIONS + 1);
  team_claim_leave(teams[0]);
  expect_nothing(0);
}

Test(peers, what_does_not_count_on_is_not_mirrored_for_ever) {
  post(1, send(0));
  atomic_store(&teams[1]->own->operations[0].ordinal, 1000);
  team_claim_leave(teams[0]);
  expect_nothing(0);
}

Test(peers, of_two_receives_the_first_that_only_gets_zeros_is_named) {
  struct member both[] = {receive(1), receive(1)};
  team_claim_leave(teams[1]);
  cr_assert_eq(team_poll(teams[1], &got), TEAM_PARKED);
  post(0, send(1));
  cr_assert_eq(team_poll(teams[1], &got), TEAM_MIRROR);
  cr_expect_eq(peers_find_lossy(teams[0]->peers, both, 2, 0, false), 0);
  cr_expect_eq(peers_find_lossy(teams[0]->peers, both, 2, 1, false), -1,
               "it answers at an index before");
  both[0].count = 0;
  cr_expect_eq(peers_find_lossy(teams[0]->peers, both, 2, 0, false), 1,
               "nothing is lost of no elements");
}

Test(peers, who_is_asked_is_told_from_who_is_not) {
  post(0, send(2));
  cr_expect_not(peers_is_asked_by(teams[1]->peers, 0, 0), "the other rank is");
  struct member later = send(1);
  cr_assert_eq(peers_post(teams[0]->peers, &(struct posts){.members = &later, .nmembers = 1}, 5),
               POST_DONE);
  cr_expect_not(peers_is_asked_by(teams[1]->peers, 0, 4), "not before the index");
  cr_expect(peers_is_asked_by(teams[1]->peers, 0, 5));
  cr_expect_not(peers_is_asked_by(teams[1]->peers, 2, 5));
}
