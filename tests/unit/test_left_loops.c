/* Sends and receives of a rank that has left a loop, which meet those of ranks that have not. */
#include <criterion/criterion.h>

#include "core/team/team_private.h"
#include "tests/unit/operation.h"
#include "tests/unit/quartet.h"

enum { COMM = 7 };

TestSuite(left_loops, .init = quartet_start, .fini = quartet_stop);

static struct unequal unequal;

static struct member operation(uint8_t kind, uint32_t peer) {
  return operation_member(kind, COMM, peer, 64);
}

/* Whether it is told of. place: of struct posts; described as place_of has it. */
static bool post(uint32_t rank, uint32_t place, const struct member *members, uint32_t nmembers) {
  struct peers *peers = quartet[rank]->peers;
  unequal.found = true; /* it is always said */
  if (!peers_know_place(peers, place)) {
    struct place described = place_of(place);
    peers_learn_place(peers, &described);
    cr_assert(peers_know_place(peers, place));
  }
  cr_assert_eq(team_post(quartet[rank], &(struct posts){.members = members,
                                                        .nmembers = nmembers,
                                                        .place = place,
                                                        .unequal = &unequal}),
               POST_DONE);
  return unequal.found;
}

/* Sends to the right and receives from the left. */
static bool shift(uint32_t rank, uint32_t place) {
  return post(rank, place,
              (struct member[]){operation(MEMBER_SEND, (rank + 1) % RANKS),
                                operation(MEMBER_RECEIVE, (rank + RANKS - 1) % RANKS)},
              2);
}

static bool send_at(uint32_t rank, uint32_t place, uint32_t peer) {
  struct member member = operation(MEMBER_SEND, peer);
  return post(rank, place, &member, 1);
}

static bool receive_at(uint32_t rank, uint32_t place, uint32_t peer) {
  struct member member = operation(MEMBER_RECEIVE, peer);
  return post(rank, place, &member, 1);
}

static void all_shift(uint32_t place) {
  for (uint32_t rank = 0; rank < RANKS; rank++)
    cr_assert_not(shift(rank, place));
}

Test(left_loops, even_ranks_are_not_doubted) {
  for (int epoch = 0; epoch < 3; epoch++) {
    for (int i = 0; i < 5; i++)
      all_shift(HEAD);
    all_shift(AFTER);
  }
}

Test(left_loops, who_goes_on_is_told_that_a_peer_has_left) {
  all_shift(HEAD);
  cr_assert_not(shift(0, AFTER));
  cr_assert(shift(1, HEAD));
  cr_expect_eq(unequal.how, UNEQUAL_THEY_LEFT);
  cr_expect_eq(unequal.ours.kind, MEMBER_RECEIVE);
  cr_expect_eq(unequal.ours.root, 0);
  cr_expect_eq(unequal.place, AFTER);
}

Test(left_loops, who_has_left_is_told_that_a_peer_goes_on) {
  all_shift(HEAD);
  cr_assert_not(shift(1, HEAD));
  cr_assert(shift(0, AFTER));
  cr_expect_eq(unequal.how, UNEQUAL_WE_LEFT);
  cr_expect_eq(unequal.ours.kind, MEMBER_SEND);
  cr_expect_eq(unequal.ours.root, 1);
  cr_expect_eq(unequal.place, HEAD);
}

/* All but the plane's own rank. */
static const char *elsewhere(const struct plane *plane, uint32_t rank) {
  return rank == plane->rank ? NULL : "there";
}

/* What one has posted may be on its way to the other's machine when that posts, and the other way
 * round: neither sees it then. Who leaves is told so, and asks again. */
Test(left_loops, who_leaves_asks_again_of_a_peer_on_another_machine) {
  struct member send = operation(MEMBER_SEND, 1);
  quartet[0]->plane->machine = quartet[1]->plane->machine = elsewhere;
  all_shift(HEAD);
  cr_assert_not(unequal.open, "the loop goes on");
  cr_assert_not(send_at(0, AFTER, 1));
  cr_expect(unequal.open, "nobody knows yet what rank 1 does next");
  struct unequal again = unequal;
  struct posts posts = {.members = &send, .nmembers = 1, .place = AFTER, .unequal = &again};
  team_look_at_posts(quartet[0], &posts, 0);
  cr_expect(again.open && !again.found);
  cr_assert(shift(1, HEAD));
  cr_expect_not(unequal.open);
  team_look_at_posts(quartet[0], &posts, 0);
  cr_expect(again.found && !again.open);
  cr_expect_eq(again.how, UNEQUAL_WE_LEFT);
}

Test(left_loops, of_one_on_this_machine_nothing_is_open) {
  all_shift(HEAD);
  cr_assert_not(send_at(0, AFTER, 1));
  cr_expect_not(unequal.open);
}

/* Stages stand at places of their own: what counts is what each has done since its last one. */
Test(left_loops, stages_have_places_of_their_own) {
  for (int i = 0; i < 4; i++) {
    cr_assert_not(send_at(0, HEAD, 1));
    cr_assert_not(receive_at(1, THEN, 0));
  }
  cr_assert_not(send_at(0, AFTER, 1));
  cr_expect(receive_at(1, THEN, 0));
}

/* for (...) { if (rank == 0) { send; send; } else { receive; receive; } } */
Test(left_loops, two_places_of_one_round_are_in_one_loop) {
  for (int i = 0; i < 4; i++) {
    cr_assert_not(send_at(0, HEAD, 1));
    cr_assert_not(send_at(0, THEN, 1));
    cr_assert_not(receive_at(1, HEAD, 0));
    cr_assert_not(receive_at(1, HEAD, 0));
  }
}

/* One whose peer has never been in the loop has its own reasons. */
Test(left_loops, the_first_of_a_pair_says_nothing) {
  cr_assert_not(send_at(0, HEAD, 1));
  cr_assert_not(receive_at(1, AFTER, 0));
  cr_assert_not(send_at(2, AFTER, 3));
  cr_assert_not(receive_at(3, HEAD, 2));
}

Test(left_loops, places_that_cannot_be_seen_say_nothing) {
  for (int i = 0; i < 3; i++) {
    cr_assert_not(send_at(0, HEAD, 1));
    cr_assert_not(receive_at(1, HEAD, 0));
  }
  cr_assert_not(send_at(0, AFTER, 1));
  cr_assert_not(receive_at(1, 0, 0));
}

/* A rank that waits in a collective answers for the loop that it has left, and goes into it again.
 */
Test(left_loops, answers_are_no_way_of_the_program) {
  struct unit answer;
  all_shift(HEAD);
  team_claim_leave(quartet[0]);
  cr_assert_not(send_at(1, HEAD, 0));
  cr_assert_eq(team_poll(quartet[0], &answer), TEAM_MIRROR);
  team_give_up(quartet[0]);
  cr_assert_not(send_at(1, HEAD, 0));
  cr_assert_not(receive_at(0, HEAD, 1));
  cr_assert_not(send_at(1, HEAD, 0));
  team_claim_leave(quartet[0]);
  cr_assert_eq(team_poll(quartet[0], &answer), TEAM_MIRROR);
  team_give_up(quartet[0]);
  cr_assert_not(send_at(1, HEAD, 0));
  cr_expect(receive_at(0, AFTER, 1), "it has left the loop, whatever it has answered");
}

/* for (...) { for (...) INNER; END; } */
enum { INNER = 2000, END };

static void learn_epochs(uint32_t rank) {
  struct place inner = {.id = INNER,
                        .nnodes = 4,
                        .nodes = {node(1000, 1, 0), node(1001, 5, PLACE_LOOP),
                                  node(1002, 6, PLACE_LOOP), node(INNER, 7, 0)}};
  struct place end = {.id = END,
                      .nnodes = 3,
                      .nodes = {node(1000, 1, 0), node(1001, 5, PLACE_LOOP), node(END, 9, 0)}};
  peers_learn_place(quartet[rank]->peers, &inner);
  peers_learn_place(quartet[rank]->peers, &end);
}

/* It goes round the loop of epochs, while the others leave the one within it. */
Test(left_loops, a_rank_without_a_round_in_an_epoch_is_where_the_others_are) {
  learn_epochs(0);
  learn_epochs(1);
  for (int i = 0; i < 2; i++) {
    cr_assert_not(send_at(0, INNER, 1));
    cr_assert_not(receive_at(1, INNER, 0));
  }
  cr_assert_not(send_at(0, END, 1));
  cr_assert_not(receive_at(1, END, 0));
  struct unit answer;
  cr_assert_not(receive_at(1, INNER, 0));
  team_claim_leave(quartet[0]);
  cr_assert_eq(team_poll(quartet[0], &answer), TEAM_MIRROR);
  team_give_up(quartet[0]);
  cr_assert_not(send_at(0, END, 1));
  cr_assert_not(receive_at(1, END, 0));
}

/* More places than are remembered at once: the oldest are looked at anew. */
Test(left_loops, places_are_forgotten_and_learnt_again) {
  enum { PLACES = PLACE_TABLE_PLACES + 20 };
  for (int round = 0; round < 2; round++)
    for (uint32_t place = HEAD; place < PLACES; place++)
      if (place != AFTER) {
        cr_assert_not(send_at(0, place, 1));
        cr_assert_not(receive_at(1, HEAD, 0), "%u", place);
      }
  cr_assert_not(send_at(0, AFTER, 1));
  cr_expect(receive_at(1, HEAD, 0));
}
