/* How the buffers of units look on the ranks that issue them (core/unit/look.h): what a rank knows
 * of it, and from whom. */
#include <criterion/criterion.h>
#include <string.h>

#include "core/unit/look.h"
#include "tests/unit/trio.h"

static struct unit got;

static void start(void) {
  trio_start();
  units();
}

TestSuite(looks, .init = start, .fini = trio_stop);

#define LOOK look_of(LOOK_REGISTERED, LOOK_REGISTERED | LOOK_MAPPED, true)
#define OTHER look_of(0, LOOK_REGISTERED, false)

static void claim(uint32_t rank, struct member *of, look_t look) {
  team_claim_looking(teams[rank], unit(of), 0, NULL, &look);
}

/* Ranks 1 and 2 issue a unit that looks so, or are expected to; rank 0 has left. */
static void others_issue(struct member *of, look_t look) {
  for (uint32_t rank = 1; rank < RANKS; rank++)
    if (!team_commit(teams[rank], unit(of)))
      claim(rank, of, look);
}

static void others_get_it(void) {
  for (uint32_t rank = 1; rank < RANKS; rank++)
    if (teams[rank]->claim.open)
      cr_assert_eq(team_poll(teams[rank], &got), TEAM_REAL);
}

static void expect_shadow(struct member *of, look_t look) {
  cr_assert_eq(team_poll(teams[0], &got), TEAM_SHADOW);
  cr_assert(unit_equal(got, unit(of)));
  const look_t *looks = team_looks(teams[0]);
  cr_assert_eq(looks == NULL ? 0 : looks[0], look, "%x, not %x", looks == NULL ? 0 : looks[0],
               look);
}

Test(looks, fields_come_out_as_they_went_in) {
  for (unsigned send = 0; send <= LOOK_BUFFER_MASK; send += 3)
    for (unsigned receive = 0; receive <= LOOK_BUFFER_MASK; receive += 5) {
      look_t look = look_of(send, receive, true);
      cr_expect_eq(look_send(look), send);
      cr_expect_eq(look_receive(look), receive);
      cr_expect_eq(look_is_in_place(look), send != 0 || receive != 0);
      cr_expect(!look_is_in_place(look_of(send, receive, false)));
    }
}

/* One that is told, and then those that are expected and not told of. */
Test(looks, a_rank_without_data_is_told) {
  team_claim_leave(teams[0]);
  for (int i = 0; i < 20; i++) {
    others_issue(&A, LOOK);
    expect_shadow(&A, LOOK);
    others_get_it();
  }
  cr_assert_not_null(unit_table_looks(teams[0]->table, unit_table_find(teams[0]->table, unit(&A))));
}

Test(looks, a_rank_knows_what_it_has_issued_itself) {
  for (int i = 0; i < 8; i++) {
    others_issue(&A, LOOK);
    if (!team_commit(teams[0], unit(&A)))
      claim(0, &A, LOOK);
    for (uint32_t rank = 0; rank < RANKS; rank++)
      if (teams[rank]->claim.open)
        cr_assert_eq(team_poll(teams[rank], &got), TEAM_REAL);
  }
  team_claim_leave(teams[0]);
  others_issue(&A, LOOK);
  expect_shadow(&A, LOOK);
}

/* The last claim counts. */
Test(looks, what_is_claimed_again_may_look_otherwise) {
  const look_t looks[] = {LOOK, OTHER, LOOK};
  team_claim_leave(teams[0]);
  for (int i = 0; i < 3; i++) {
    team_expect_nothing(teams[1]);
    team_expect_nothing(teams[2]);
    others_issue(&A, looks[i]);
    expect_shadow(&A, looks[i]);
    others_get_it();
  }
}

Test(looks, each_unit_has_its_own) {
  team_claim_leave(teams[0]);
  for (int i = 0; i < 20; i++) {
    struct member *of = i % 2 ? &A : &B;
    look_t look = i % 2 ? LOOK : 0;
    others_issue(of, look);
    expect_shadow(of, look);
    others_get_it();
  }
}

Test(looks, of_groups) {
  struct member members[] = {A, B, C, A, B};
  look_t looks[] = {LOOK, 0, OTHER, 0, LOOK};
  struct unit group = {members, 5};
  team_claim_leave(teams[0]);
  for (uint32_t rank = 1; rank < RANKS; rank++)
    team_claim_looking(teams[rank], group, 0, NULL, looks);
  cr_assert_eq(team_poll(teams[0], &got), TEAM_SHADOW);
  cr_assert(unit_equal(got, group));
  cr_assert_eq(memcmp(team_looks(teams[0]), looks, sizeof looks), 0);
}

/* Behind them in the same text. */
Test(looks, places_come_through_beside_them) {
  struct place place = {.id = 77, .nnodes = 2, .nodes = {{.id = 5}, {.id = 6}}, .text = "here"};
  look_t look = LOOK;
  A.number = place.id;
  team_claim_leave(teams[0]);
  for (uint32_t rank = 1; rank < RANKS; rank++)
    team_claim_looking(teams[rank], unit(&A), 0, &place, &look);
  expect_shadow(&A, LOOK);
  const struct known_place *known = place_table_find(teams[0]->places.table, place.id);
  cr_assert_not_null(known);
  cr_assert_eq(known->place.nnodes, 2);
  cr_assert_str_eq(known->place.text, "here");
}

/* Of a send or receive that is answered: as its peer's buffer does. */
Test(looks, of_posts) {
  for (int receives = 0; receives < 2; receives++)
    for (unsigned look = 0; look <= LOOK_BUFFER_MASK; look += 7) {
      struct member post = {.count = 64,
                            .comm = 7,
                            .root = 0,
                            .reduction = REDUCTION_NONE,
                            .kind = receives ? MEMBER_RECEIVE : MEMBER_SEND,
                            .datatype = 7,
                            .number = look};
      if (!teams[0]->claim.open)
        team_claim_leave(teams[0]);
      cr_assert_eq(team_post(teams[1], &(struct posts){.members = &post, .nmembers = 1}),
                   POST_DONE);
      cr_assert_eq(team_poll(teams[0], &got), TEAM_MIRROR);
      cr_assert_eq(got.members[0].kind, receives ? MEMBER_SEND : MEMBER_RECEIVE);
      cr_assert_eq(got.members[0].number, 0);
      look_t seen = team_looks(teams[0])[0];
      cr_assert_eq(receives ? look_send(seen) : look_receive(seen), look);
    }
}
