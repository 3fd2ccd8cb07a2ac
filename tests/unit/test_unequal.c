/* Sends and receives that meet what is not of their size. */
#include <criterion/criterion.h>

#include "tests/unit/operation.h"
#include "tests/unit/trio.h"

enum { COMM = 7, PLACE = 11 };

static struct unequal unequal;

static void start(void) {
  trio_start();
  units();
}

TestSuite(unequal, .init = start, .fini = trio_stop);

static struct member send(uint32_t peer, uint64_t count) {
  return operation_member(MEMBER_SEND, COMM, peer, count);
}

static struct member receive(uint32_t peer, uint64_t count) {
  return operation_member(MEMBER_RECEIVE, COMM, peer, count);
}

/* Whether it meets one of another size. */
static bool post(uint32_t rank, const struct member *members, uint32_t nmembers) {
  unequal.found = true; /* it is always said */
  cr_assert_eq(team_post(teams[rank], &(struct posts){.members = members,
                                                      .nmembers = nmembers,
                                                      .place = PLACE + rank,
                                                      .unequal = &unequal}),
               POST_DONE);
  return unequal.found;
}

static bool post_one(uint32_t rank, struct member member) {
  return post(rank, &member, 1);
}

/* Sends to the right and receives from the left. */
static bool post_ring(uint32_t rank, uint64_t count) {
  return post(rank,
              (struct member[]){send((rank + 1) % RANKS, count),
                                receive((rank + RANKS - 1) % RANKS, count)},
              2);
}

Test(unequal, who_posts_later_finds_it) {
  cr_expect_not(post_one(1, send(0, 64)));
  cr_assert(post_one(0, receive(1, 32)));
  cr_expect_eq(unequal.ours.kind, MEMBER_RECEIVE);
  cr_expect_eq(unequal.ours.root, 1);
  cr_expect_eq(unequal.ours.count, 32);
  cr_expect_eq(unequal.theirs.kind, MEMBER_SEND);
  cr_expect_eq(unequal.theirs.root, 0);
  cr_expect_eq(unequal.theirs.count, 64);
  cr_expect_eq(unequal.theirs.comm, COMM);
  cr_expect_eq(unequal.place, PLACE + 1);
}

Test(unequal, so_does_one_that_sends) {
  cr_expect_not(post_one(0, receive(1, 32)));
  cr_expect(post_one(1, send(0, 0)));
}

Test(unequal, bytes_decide_and_not_datatypes) {
  static const struct {
    uint8_t datatype;
    uint64_t count;
    bool equal;
  } cases[] = {{DATATYPE_FLOAT32, 64, true},   {DATATYPE_INT8, 256, true},
               {DATATYPE_INT8, 64, false},     {DATATYPE_FLOAT64, 32, true},
               {DATATYPE_BFLOAT16, 64, false}, {200, 64, true}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    post_one(1, send(0, 64));
    struct member receives = receive(1, cases[i].count);
    receives.datatype = cases[i].datatype;
    cr_expect_eq(post_one(0, receives), !cases[i].equal, "%zu", i);
  }
}

Test(unequal, only_what_meets_is_compared) {
  struct member elsewhere = send(0, 32);
  elsewhere.comm = COMM + 1;
  cr_expect_not(post_one(1, elsewhere), "another communicator");
  cr_expect_not(post_one(1, send(2, 32)), "another peer");
  cr_expect_not(post_one(1, receive(0, 32)), "another direction");
  cr_expect_not(post_one(1, send(0, 64)));
  cr_expect_not(post_one(1, send(0, 32)));
  cr_expect_not(post_one(0, receive(1, 64)));
  cr_expect_not(post_one(0, receive(1, 32)), "in order");
  cr_expect_not(post_one(0, receive(1, 16)), "there is none yet");
  cr_expect(post_one(1, send(0, 32)));
}

Test(unequal, the_first_of_a_group_is_named) {
  post_one(1, send(0, 64));
  post_one(1, send(0, 65));
  post_one(1, send(0, 66));
  cr_assert(post(0, (struct member[]){receive(1, 64), receive(1, 5), receive(1, 6)}, 3));
  cr_expect_eq(unequal.ours.count, 5);
  cr_expect_eq(unequal.theirs.count, 65);
}

/* Far longer than a log has room, with one rank ahead of the others, and rounds of many kinds. */
Test(unequal, a_loop_that_goes_on_for_long_is_right_until_a_rank_leaves_it) {
  enum { ROUNDS = 5000, AHEAD = 5 };
  for (int i = 0; i < ROUNDS + AHEAD; i++) {
    if (i < ROUNDS)
      cr_assert_not(post_ring(0, (uint64_t)(i % 7)), "%d", i);
    for (uint32_t rank = 1; rank < RANKS && i >= AHEAD; rank++)
      cr_assert_not(post_ring(rank, (uint64_t)((i - AHEAD) % 7)), "%d", i);
    if (i % 3 == 0) {
      cr_assert_not(post_one(1, send(2, 9)));
      cr_assert_not(post_one(2, receive(1, 9)));
    }
  }
  cr_assert_not(post_ring(0, 100));
  cr_assert(post_ring(1, 50));
  cr_expect_eq(unequal.theirs.count, 100);
}

/* What a rank that has joined sends is as large as what its peer receives. */
Test(unequal, answers_are_never) {
  struct unit mirror;
  team_claim_leave(teams[0]);
  cr_assert_eq(team_poll(teams[0], &mirror), TEAM_PARKED);
  for (uint64_t i = 1; i < 10; i++) {
    cr_expect_not(post_one(1, receive(0, i)));
    cr_assert_eq(team_poll(teams[0], &mirror), TEAM_MIRROR);
    cr_expect_eq(mirror.members[0].count, i);
  }
}

Test(unequal, a_log_that_says_nonsense_is_read_no_further_than_it_is_long) {
  for (uint64_t i = 1; i < 4; i++)
    post_one(1, send(0, 64));
  atomic_store(&teams[1]->own->operations_end, UINT64_MAX);
  atomic_store(&teams[1]->own->operations[0].ordinal, 1000);
  cr_expect_not(post_one(0, receive(1, 32)));
  cr_expect(post_one(0, receive(1, 32)));
}
