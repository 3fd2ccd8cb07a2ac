/* Choices without knowledge: they are told once, or stop the ranks (NCCL_JOIN_UNSURE=stop). */
#include <criterion/criterion.h>

#include "core/team/team_private.h"
#include "tests/unit/trio.h"

TestSuite(team_guess, .init = trio_start, .fini = trio_stop);

static struct unit got;

/* Rank 0 wants A, the others B; nothing is known of either. */
static void disagree(uint32_t flags) {
  units();
  team_claim(teams[0], unit(&A), flags, NULL);
  team_claim(teams[1], unit(&B), 0, NULL);
  team_claim(teams[2], unit(&B), 0, NULL);
}

/* Which of the two goes first. */
static uint32_t count_guesses(void) {
  uint32_t told = 0;
  for (uint32_t rank = 0; rank < RANKS; rank++) {
    (void)team_poll(teams[rank], &got);
    told += teams[rank]->telling.guessed && teams[rank]->telling.guess.kind == GUESS_ORDER;
    teams[rank]->telling.guessed = false;
  }
  return told;
}

Test(team_guess, one_rank_tells) {
  disagree(0);
  cr_assert_eq(count_guesses(), 1);
}

Test(team_guess, what_has_been_told_is_not_told_again) {
  disagree(0);
  cr_assert_eq(count_guesses(), 1);
  struct team *loser = teams[0]->claim.open ? teams[0] : teams[1];
  struct member *again = loser == teams[0] ? &B : &A;
  for (uint32_t rank = 0; rank < RANKS; rank++)
    if (!teams[rank]->claim.open)
      team_claim(teams[rank], unit(again), 0, NULL);
  cr_assert_eq(count_guesses(), 0, "the same two units");
}

Test(team_guess, a_rank_that_wants_to_be_sure_stops_all) {
  disagree(CLAIM_SURE);
  for (uint32_t rank = 0; rank < RANKS; rank++)
    cr_assert_eq(team_poll(teams[rank], &got), TEAM_STOPPED);
  cr_assert_eq(teams[0]->head, 1);
}

Test(team_guess, nobody_is_stopped_where_all_want_the_same) {
  units();
  for (uint32_t rank = 0; rank < RANKS; rank++)
    team_claim(teams[rank], unit(&A), CLAIM_SURE, NULL);
  for (uint32_t rank = 0; rank < RANKS; rank++)
    cr_assert_eq(team_poll(teams[rank], &got), TEAM_REAL);
}

Test(team_guess, that_nothing_can_be_seen_is_said_once_and_of_one_rank) {
  units();
  for (int round = 0; round < 2; round++) {
    for (uint32_t rank = 0; rank < RANKS; rank++)
      team_claim(teams[rank], unit(&A), CLAIM_BLIND, NULL);
    for (uint32_t rank = 0; rank < RANKS; rank++)
      cr_assert_eq(team_poll(teams[rank], &got), TEAM_REAL);
  }
  int told = 0;
  for (uint32_t rank = 0; rank < RANKS; rank++)
    told += teams[rank]->telling.guessed && teams[rank]->telling.guess.kind == GUESS_BLIND;
  cr_assert_eq(told, 1);
}

/* Rank 0 has left a loop of A, and claims an A of its own; nobody knows where either stands. */
static void join_unseen(uint32_t flags) {
  learn_loop();
  struct member other = member(77);
  team_claim(teams[0], unit(&other), flags, NULL);
  cr_assert(team_commit(teams[1], unit(&A)) && team_commit(teams[2], unit(&A)));
  cr_assert_eq(team_poll(teams[0], &got), TEAM_SHADOW);
}

Test(team_guess, a_rank_that_joins_where_nothing_is_seen_says_so_once) {
  join_unseen(0);
  cr_assert(teams[0]->telling.guessed);
  cr_assert_eq(teams[0]->telling.guess.kind, GUESS_HIDDEN);
  cr_assert_eq(teams[0]->telling.guess.other, 0);
  teams[0]->telling.guessed = false;
  cr_assert(team_commit(teams[1], unit(&A)));
  cr_assert_eq(team_poll(teams[0], &got), TEAM_SHADOW);
  cr_assert_not(teams[0]->telling.guessed);
}

/* Of another's unit its place may be known, and nothing of it. */
Test(team_guess, nor_can_it_be_told_where_nothing_is_known_of_the_others_place) {
  struct member theirs = member(5);
  theirs.number = 5;
  struct place place = {.id = 5};
  for (place.nnodes = 0; place.nnodes <= 1; place.nnodes++) {
    trio_stop();
    trio_start();
    learn_loop();
    team_claim(teams[0], unit(&theirs), 0, NULL);
    (void)place_table_add(teams[0]->places.table, &place);
    team_tell_hidden(teams[0], unit(&theirs));
    cr_assert_eq(teams[0]->telling.guessed, place.nnodes == 0);
  }
}
