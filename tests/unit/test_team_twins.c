/* Two loops of one program that make the same calls (place.h, PLACE_TWIN), as ranks agree on them:
 *
 *   for (...) {
 *     BEGIN;
 *     if (rank != 0 || epoch == 0) for (...) ANOTHER; else for (...) ONE;
 *   }
 *
 * which are one loop in the source; or ONE stands behind ANOTHER. */
#include <criterion/criterion.h>

#include "core/team/team_private.h"
#include "tests/unit/quartet.h"

enum { BEGIN = 40, ANOTHER, ONE };

static uint16_t twin_flags;

static void twins_start(void) {
  quartet_start();
  twin_flags = PLACE_TWIN | PLACE_TWIN_BRANCH;
}

TestSuite(team_twins, .init = twins_start, .fini = quartet_stop);

static struct place twin_place(uint32_t id) {
  struct place place = {
      .id = id, .nnodes = 2, .nodes = {node(1000, 1, 0), node(1001, 5, PLACE_LOOP)}};
  if (id == BEGIN) {
    place.nodes[place.nnodes++] = node(id, 1, PLACE_ALWAYS);
    place.nodes[2].since = 1;
    place.nodes[2].until = 60;
    return place;
  }
  place.nodes[place.nnodes++] = node(2000 + id, (uint16_t)id, PLACE_LOOP);
  place.nodes[place.nnodes++] = node(id, 1, twin_flags);
  for (uint32_t i = 2; i < 4; i++)
    place.nodes[i].reach_from = 1; /* nothing */
  return place;
}

static void claim_twin(uint32_t rank, uint32_t id, uint32_t flags) {
  struct place place = twin_place(id);
  team_claim(quartet[rank], at(id, SUM), flags, &place);
}

static void all_do(uint32_t id) {
  for (uint32_t rank = 0; rank < RANKS; rank++)
    if (!team_commit(quartet[rank], at(id, SUM)))
      claim_twin(rank, id, 0);
  for (uint32_t rank = 0; rank < RANKS; rank++)
    if (quartet[rank]->claim.open)
      expect_verdict(rank, TEAM_REAL);
}

static void epoch(void) {
  all_do(BEGIN);
  for (int i = 0; i < 3; i++)
    all_do(ANOTHER);
}

/* All but rank 0 go on in their loop. */
static void part(void) {
  for (uint32_t rank = 1; rank < RANKS; rank++)
    if (!team_commit(quartet[rank], at(ANOTHER, SUM)))
      claim_twin(rank, ANOTHER, 0);
  claim_twin(0, ONE, 0);
}

static void part_asking(void) {
  for (uint32_t rank = 1; rank < RANKS; rank++)
    claim_twin(rank, ANOTHER, 0);
  claim_twin(0, ONE, 0);
}

/* One of them issues a shadow; then all are together again. */
static void shadow_once(uint32_t shadows) {
  struct place end = twin_place(BEGIN);
  for (uint32_t rank = 0; rank < RANKS; rank++)
    if (rank == shadows)
      team_claim(quartet[rank], at(BEGIN, OTHER), 0, &end);
    else
      claim_twin(rank, ANOTHER, 0);
  for (uint32_t rank = 0; rank < RANKS; rank++)
    expect_verdict(rank, rank == shadows ? TEAM_SHADOW : TEAM_REAL);
  for (uint32_t rank = 0; rank < RANKS; rank++)
    if (rank != shadows)
      team_claim(quartet[rank], at(BEGIN, OTHER), 0, &end);
  expect_all_real();
}

static void learn(void) {
  for (int i = 0; i < 12; i++)
    epoch();
  all_do(BEGIN);
}

Test(team_twins, ranks_in_two_branches_meet_where_nothing_has_been_shadowed) {
  epoch();
  all_do(BEGIN);
  uint64_t index = quartet[0]->head;
  part_asking();
  expect_all_real();
  cr_assert(flags_of(0, index) & ENTRY_EVEN);
  cr_assert_eq(hash_of(0, index), hash_at(ANOTHER, SUM));
  expect_agreement();
}

/* Nobody is asked: they are in a loop that has been learnt. */
Test(team_twins, so_they_do_if_the_others_expect_it) {
  learn();
  uint64_t index = quartet[0]->head;
  part();
  cr_assert_not(quartet[1]->claim.open);
  expect_verdict(0, TEAM_REAL);
  cr_assert(flags_of(0, index) & ENTRY_EXPECTED);
  expect_agreement();
}

Test(team_twins, not_where_a_rank_has_shadowed_something) {
  epoch();
  shadow_once(3);
  all_do(BEGIN);
  part_asking();
  for (uint32_t rank = 1; rank < RANKS; rank++)
    expect_verdict(rank, TEAM_REAL);
  expect_verdict(0, TEAM_SHADOW);
  cr_assert_not(quartet[0]->telling.guessed);
}

static void expect_to_shadow_what_is_expected(uint32_t has_shadowed) {
  epoch();
  shadow_once(has_shadowed);
  learn();
  part();
  cr_assert_not(quartet[1]->claim.open);
  expect_verdict(0, TEAM_SHADOW);
}

Test(team_twins, nor_where_it_is_expected_and_this_rank_has) {
  expect_to_shadow_what_is_expected(0);
}

Test(team_twins, nor_where_it_is_expected_and_who_is_followed_has) {
  expect_to_shadow_what_is_expected(1);
}

/* ---- the same round ---- */

Test(team_twins, a_point_of_each_round_that_all_come_to_counts_rounds) {
  struct place place = twin_place(ANOTHER);
  epoch();
  cr_assert_eq(quartet[0]->places.last, ANOTHER);
  cr_assert_neq(team_clocks(quartet[0], &place, false), 0);
  team_known_place(quartet[0], BEGIN)->common = false;
  cr_assert_eq(team_clocks(quartet[0], &place, true), 0);
}

Test(team_twins, even_ranks_that_have_been_in_neither_loop_last_are_in_one_round) {
  struct place place = twin_place(ONE);
  epoch();
  all_do(BEGIN);
  team_known_place(quartet[0], BEGIN)->common = false;
  cr_assert_neq(team_clocks(quartet[0], &place, true), 0);
  cr_assert_eq(team_clocks(quartet[0], &place, false), 0);
  place.nodes[1].id = 1003; /* they have been in another outermost loop */
  cr_assert_eq(team_clocks(quartet[0], &place, true), 0);
}

/* ---- one behind the other ---- */

/* Who settles tells, or who follows; and it is told that the others' unit is not taken for it. */
Test(team_twins, of_loops_one_behind_the_other_it_is_told_that_they_may_be_one) {
  twin_flags = PLACE_TWIN;
  epoch();
  all_do(BEGIN);
  part_asking();
  bool told = false;
  for (uint32_t rank = RANKS; rank-- > 0;) {
    expect_verdict(rank, rank == 0 ? TEAM_SHADOW : TEAM_REAL);
    told |= quartet[rank]->telling.guessed && quartet[rank]->telling.guess.kind == GUESS_APART;
  }
  cr_assert(told);
}

Test(team_twins, also_if_the_others_expect_it) {
  twin_flags = PLACE_TWIN;
  learn();
  part();
  expect_verdict(0, TEAM_SHADOW);
  cr_assert(quartet[0]->telling.guessed);
  cr_assert_eq(quartet[0]->telling.guess.kind, GUESS_APART);
}

Test(team_twins, then_all_stop_who_want_no_guess) {
  twin_flags = PLACE_TWIN;
  learn();
  for (uint32_t rank = 1; rank < RANKS; rank++)
    cr_assert(team_commit(quartet[rank], at(ANOTHER, SUM)));
  claim_twin(0, ONE, CLAIM_SURE);
  expect_verdict(0, TEAM_FAILED);
  cr_assert_eq(quartet[0]->failed.how, FAILURE_UNSURE);
}
