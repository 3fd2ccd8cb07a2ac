/* Exchanges: groups of sends and receives between all ranks that are agreed on as units, on ranks
 * in memory. */
#include <criterion/criterion.h>

#include "tests/unit/operation.h"
#include "tests/unit/trio.h"

#define COMM 7
#define AT 1000   /* where exchanges stand */
#define ALSO 2000 /* another point of the program */

static struct unit got;
static struct member exchange;

static void start(void) {
  trio_start();
  units();
  exchange = exchange_member(COMM, AT);
}

TestSuite(exchange, .init = start, .fini = trio_stop);

/* A rank's group with both others. */
struct group {
  struct member members[4];
  struct posts posts;
};

static struct member side(uint8_t kind, uint32_t peer, uint64_t count) {
  return operation_member(kind, COMM, peer, count);
}

static void make_group(struct group *group, uint32_t rank, uint64_t count) {
  uint32_t n = 0;
  for (uint32_t peer = 0; peer < RANKS; peer++) {
    if (peer == rank)
      continue;
    group->members[n++] = side(MEMBER_SEND, peer, count);
    group->members[n++] = side(MEMBER_RECEIVE, peer, count);
  }
  group->posts = (struct posts){.members = group->members, .nmembers = n, .place = AT};
}

static void claim(uint32_t rank, struct group *group) {
  make_group(group, rank, 64);
  peers_begin(teams[rank]->peers);
  team_claim(teams[rank], unit(&exchange), 0, NULL);
  team_claim_posts(teams[rank], &group->posts);
}

/* As a unit that has been agreed on. */
static void post(uint32_t rank, struct group *group) {
  group->posts.exchanged = true;
  cr_assert_eq(team_post(teams[rank], &group->posts), POST_DONE);
}

/* As part of none, a send to another rank. */
static void send_from(uint32_t place, uint32_t rank, uint32_t peer, uint64_t count) {
  struct member member = side(MEMBER_SEND, peer, count);
  cr_assert_eq(
      team_post(teams[rank], &(struct posts){.members = &member, .nmembers = 1, .place = place}),
      POST_DONE);
}

static void expect(uint32_t rank, enum team_verdict verdict) {
  enum team_verdict is = team_poll(teams[rank], &got);
  cr_assert_eq(is, verdict, "rank %u: %d and not %d", rank, is, verdict);
}

Test(exchange, all_come_to_it) {
  struct group groups[RANKS];
  for (uint32_t rank = 0; rank < RANKS; rank++)
    claim(rank, &groups[rank]);
  for (uint32_t rank = 0; rank < RANKS; rank++)
    expect(rank, TEAM_REAL);
  for (uint32_t rank = 0; rank < RANKS; rank++)
    post(rank, &groups[rank]);
  all_issue(&A);
}

/* Nothing is mirrored of what it has no part in, and the size is that of the peer. */
Test(exchange, who_has_left_answers_what_is_posted_behind_it) {
  struct group groups[RANKS];
  team_claim_leave(teams[0]);
  claim(1, &groups[1]);
  claim(2, &groups[2]);
  expect(0, TEAM_SHADOW);
  cr_assert(unit_is_exchange(got));
  expect(1, TEAM_REAL);
  expect(2, TEAM_REAL);
  make_group(&groups[1], 1, 96);
  make_group(&groups[2], 2, 96);
  post(1, &groups[1]);
  expect(0, TEAM_PARKED);
  post(2, &groups[2]);
  expect(0, TEAM_MIRROR);
  cr_assert_eq(got.nmembers, 4);
  for (uint32_t i = 0; i < 4; i++)
    cr_assert_eq(got.members[i].count, 96);
}

/* What a waiting rank would send and receive itself, if its peers come to an exchange elsewhere. */
Test(exchange, what_others_issue_before_it_is_not_taken_for_its_own) {
  struct group groups[RANKS], later;
  claim(0, &later);
  claim(1, &groups[1]);
  claim(2, &groups[2]);
  for (uint32_t rank = 1; rank < RANKS; rank++)
    expect(rank, TEAM_REAL);
  post(1, &groups[1]);
  post(2, &groups[2]);
  expect(0, TEAM_REAL);
  post(0, &later);
  all_issue(&A);
}

Test(exchange, who_is_answered_outside_of_it_goes_outside) {
  struct group group;
  claim(0, &group);
  send_from(ALSO, 1, 0, 64);
  expect(0, TEAM_OUTSIDE);
  cr_assert_not(teams[0]->claim.open);
  cr_assert(team_is_outside(teams[0]));
  cr_assert(peers_are_apart(teams[0]->peers, AT));
  cr_assert_not(peers_are_apart(teams[0]->peers, ALSO));
  cr_assert_eq(team_post(teams[0], &group.posts), POST_DONE);
}

/* A rank that has nothing for some other in this round. */
Test(exchange, one_that_stands_at_the_same_place_may_come_to_it_later) {
  struct group group;
  claim(0, &group);
  send_from(AT, 1, 0, 64);
  expect(0, TEAM_OUTSIDE);
  cr_assert_not(peers_are_apart(teams[0]->peers, AT));
}

Test(exchange, what_is_of_another_size_is_answered) {
  struct group group;
  claim(0, &group);
  send_from(ALSO, 1, 0, 65);
  expect(0, TEAM_MIRROR);
  cr_assert_eq(got.nmembers, 1);
  cr_assert_eq(got.members[0].count, 65);
}

/* It comes from where this rank has sent something, too, and that was no exchange. */
Test(exchange, what_this_rank_has_behind_it_is_answered) {
  struct group group;
  send_from(ALSO, 0, 1, 8);
  claim(0, &group);
  send_from(ALSO, 1, 0, 64);
  team_claim_leave(teams[1]);
  expect(1, TEAM_MIRROR);
  expect(0, TEAM_MIRROR);
  cr_assert_eq(got.members[0].count, 64);
}

/* The claim stays where others see it. Whatever becomes of the index, nobody issues an exchange
 * that is none, and all come to what is next. */
Test(exchange, ranks_go_on_after_one_that_was_none) {
  struct group group;
  struct member receive = side(MEMBER_RECEIVE, 0, 64);
  claim(0, &group);
  for (uint32_t rank = 1; rank < RANKS; rank++) {
    send_from(ALSO, rank, 0, 64);
    cr_assert_eq(team_post(teams[rank], &(struct posts){.members = &receive, .nmembers = 1}),
                 POST_DONE);
  }
  expect(0, TEAM_OUTSIDE);
  cr_assert_eq(team_post(teams[0], &group.posts), POST_DONE);
  for (uint32_t rank = 0; rank < RANKS; rank++)
    team_claim(teams[rank], unit(&A), 0, NULL);
  bool done[RANKS] = {false};
  for (int round = 0; round < 4; round++)
    for (uint32_t rank = 0; rank < RANKS; rank++) {
      if (done[rank])
        continue;
      enum team_verdict verdict = team_poll(teams[rank], &got);
      done[rank] = verdict == TEAM_REAL;
      cr_assert(verdict == TEAM_REAL || verdict == TEAM_PARKED ||
                (verdict == TEAM_SHADOW && unit_is_exchange(got)));
    }
  for (uint32_t rank = 0; rank < RANKS; rank++) {
    cr_assert(done[rank], "rank %u", rank);
    cr_assert_eq(team_passed(teams[rank]), team_passed(teams[0]));
  }
  all_issue(&B);
}

Test(exchange, who_waits_for_one_may_still_send) {
  struct group group;
  struct member receive = side(MEMBER_RECEIVE, 0, 16);
  claim(0, &group);
  expect(0, TEAM_PARKED);
  cr_assert_eq(peers_find_lossy(teams[1]->peers, &receive, 1, 0, false), -1);
  cr_assert_eq(peers_find_lossy(teams[1]->peers, &receive, 1, 0, true), -1);
}

Test(exchange, who_waits_for_something_else_is_known_before) {
  struct member receive = side(MEMBER_RECEIVE, 0, 16);
  peers_begin(teams[0]->peers);
  team_claim(teams[0], unit(&A), 0, NULL);
  expect(0, TEAM_PARKED);
  cr_assert_eq(peers_find_lossy(teams[1]->peers, &receive, 1, 0, true), 0);
}

Test(exchange, texts_name_it) {
  char text[100];
  cr_assert_str_eq(unit_describe(unit(&exchange), text, sizeof text),
                   "exchange of sends and receives on comm 00000007");
}
