/* Ranks that are an epoch apart (core/team/team_epochs.c): found out where each epoch comes once,
 * told, and mended. */
#include <criterion/criterion.h>

#include "core/team/team_private.h"
#include "tests/unit/quartet.h"

TestSuite(team_epochs, .init = quartet_start, .fini = quartet_stop);

/* for (epoch) { for (batch) TRAINING; ONCE; LAST; } OUTSIDE; */
enum { TRAINING = 20, ONCE, LAST, OUTSIDE };

static bool branches; /* LAST is in a branch */

static struct place place_in_epoch(uint32_t id) {
  struct place place = {
      .id = id, .nnodes = 3, .nodes = {node(1000, 1, 0), node(1001, 5, PLACE_LOOP)}};
  if (id == OUTSIDE) {
    place.nodes[1] = node(2000 + id, 9, 0);
    place.nnodes = 2;
  } else if (id == TRAINING) {
    place.nodes[2] = node(1002, 6, PLACE_LOOP);
    place.nodes[place.nnodes++] = node(2000 + id, 7, 0);
  } else {
    place.nodes[2] = node(2000 + id, id == ONCE ? 8 : 9, 0);
    if (id != LAST || !branches) {
      place.nodes[2].since = 6;
      place.nodes[2].flags |= PLACE_ALWAYS;
    }
  }
  return place;
}

static void claim_in_epoch(uint32_t rank, uint32_t id) {
  struct place place = place_in_epoch(id);
  team_claim(quartet[rank], at(id, id), 0, &place);
}

static void all_claim(uint32_t id) {
  for (uint32_t rank = 0; rank < RANKS; rank++)
    claim_in_epoch(rank, id);
  expect_all_real();
}

/* Rank 0 comes to `next` while the others are at `here` once more; then they come, too. */
static void rank_0_goes_ahead(uint32_t here, uint32_t next) {
  claim_in_epoch(0, next);
  for (uint32_t rank = 1; rank < RANKS; rank++)
    claim_in_epoch(rank, here);
  expect_verdict(0, TEAM_SHADOW);
  for (uint32_t rank = 1; rank < RANKS; rank++)
    expect_verdict(rank, TEAM_REAL);
  for (uint32_t rank = 1; rank < RANKS; rank++)
    claim_in_epoch(rank, next);
  expect_all_real();
}

/* An epoch in which rank 0 has one batch less. */
static void uneven_epoch(void) {
  all_claim(TRAINING);
  rank_0_goes_ahead(TRAINING, ONCE);
}

/* As if others had issued it while rank 0 stood aside. */
static void rank_0_falls_behind(void) {
  place_table_find(quartet[0]->places.table, ONCE)->epochs--;
}

Test(team_epochs, ranks_in_step_meet) {
  uneven_epoch();
  uneven_epoch();
  for (uint32_t rank = 0; rank < RANKS; rank++)
    cr_assert_eq(quartet[rank]->claim.epoch, 2);
  expect_agreement();
}

Test(team_epochs, who_is_behind_goes_on_alone_until_all_are_in_one_epoch) {
  uneven_epoch();
  rank_0_falls_behind();
  all_claim(TRAINING);
  for (uint32_t rank = 0; rank < RANKS; rank++)
    claim_in_epoch(rank, ONCE);
  expect_verdict(1, TEAM_SHADOW);
  expect_verdict(0, TEAM_REAL);
  expect_verdict(2, TEAM_SHADOW);
  expect_verdict(3, TEAM_SHADOW);
  cr_assert(flags_of(3, quartet[3]->head - 1) & ENTRY_BEHIND);
  claim_in_epoch(0, TRAINING);
  expect_verdict(0, TEAM_REAL);
  for (uint32_t rank = 1; rank < RANKS; rank++)
    expect_verdict(rank, TEAM_SHADOW);
  claim_in_epoch(0, ONCE);
  expect_all_real();
  expect_agreement();
}

static bool refuses_to_shadow(void *context, struct unit unit, uint32_t rank) {
  (void)unit;
  return rank == *(uint32_t *)context;
}

/* A rank whose counts do not fit each other is as likely behind as not. Whatever it does, it does
 * what all count it for: that a unit which it must not shadow is issued depends on that. */
Test(team_epochs, who_cannot_tell_its_epoch_goes_with_those_behind) {
  uneven_epoch();
  all_claim(LAST);
  rank_0_falls_behind();
  place_table_find(quartet[0]->places.table, LAST)->epochs--;
  place_table_find(quartet[1]->places.table, LAST)->epochs++;
  all_claim(TRAINING);
  uint32_t may_not_shadow = 1;
  for (uint32_t rank = 0; rank < RANKS; rank++) {
    struct place place = place_in_epoch(ONCE);
    quartet[rank]->owner.is_lossy = refuses_to_shadow;
    quartet[rank]->owner.is_lossy_context = &may_not_shadow;
    team_claim(quartet[rank], at(ONCE, ONCE), CLAIM_STRICT, &place);
  }
  cr_assert_eq(quartet[1]->claim.epoch, 0);
  expect_verdict(2, TEAM_SHADOW);
  cr_assert(flags_of(2, quartet[2]->head - 1) & ENTRY_BEHIND);
  expect_verdict(1, TEAM_REAL);
  expect_verdict(0, TEAM_REAL);
  expect_verdict(3, TEAM_SHADOW);
  expect_agreement();
}

/* What waits behind a yield has not been said, and was not counted; but it is of an epoch. */
Test(team_epochs, a_claim_behind_a_yield_is_of_its_own_epoch) {
  uneven_epoch();
  all_claim(LAST);
  uneven_epoch();
  rank_0_falls_behind();
  place_table_find(quartet[0]->places.table, LAST)->epochs--;
  all_claim(TRAINING);
  team_yield(quartet[3]);
  quartet[3]->claim.epoch = 1; /* as if all since its last claim there had been committed */
  for (uint32_t rank = 0; rank < RANKS; rank++)
    claim_in_epoch(rank, LAST);
  cr_assert_eq(quartet[0]->claim.epoch, 1);
  cr_assert_eq(quartet[1]->claim.epoch, 2);
  expect_verdict(1, TEAM_SHADOW);
  expect_verdict(3, TEAM_SHADOW);
  expect_verdict(0, TEAM_REAL);
}

Test(team_epochs, that_ranks_are_out_of_step_is_told_once) {
  uneven_epoch();
  rank_0_falls_behind();
  for (uint32_t rank = 0; rank < RANKS; rank++)
    claim_in_epoch(rank, ONCE);
  uint32_t told = 0;
  for (uint32_t rank = 0; rank < RANKS; rank++) {
    (void)team_poll(quartet[rank], &got);
    if (!quartet[rank]->telling.guessed || quartet[rank]->telling.guess.kind != GUESS_EPOCH)
      continue;
    told++;
    cr_assert_eq(quartet[rank]->telling.guess.rank, 0);
    cr_assert_eq(quartet[rank]->telling.guess.epochs, 1);
  }
  cr_assert_eq(told, 1);
}

/* Whoever looks first settles, also one that leaves and requests for no unit of its own. */
Test(team_epochs, that_ranks_are_out_of_step_is_told_by_who_leaves) {
  uneven_epoch();
  rank_0_falls_behind();
  for (uint32_t rank = 0; rank + 1 < RANKS; rank++)
    claim_in_epoch(rank, ONCE);
  team_claim_leave(quartet[RANKS - 1]);
  expect_verdict(RANKS - 1, TEAM_SHADOW);
  cr_assert(quartet[RANKS - 1]->telling.guessed);
  cr_assert_eq(quartet[RANKS - 1]->telling.guess.kind, GUESS_EPOCH);
  cr_assert_eq(quartet[RANKS - 1]->telling.guess.member.count, ONCE);
  expect_verdict(0, TEAM_REAL);
  expect_verdict(1, TEAM_SHADOW);
  expect_verdict(2, TEAM_SHADOW);
  expect_agreement();
}

/* Ranks may do as they like before anything has been uneven: nothing can have gone wrong. */
Test(team_epochs, even_programs_are_not_asked) {
  for (int epoch = 0; epoch < 3; epoch++) {
    all_claim(TRAINING);
    all_claim(ONCE);
  }
  rank_0_falls_behind();
  all_claim(ONCE);
}

/* An exception, or a call through a pointer that leads elsewhere: code does not show it. */
Test(team_epochs, a_rank_that_skips_a_point_of_each_epoch_is_not_behind) {
  uneven_epoch();
  all_claim(LAST);
  all_claim(TRAINING);
  rank_0_goes_ahead(ONCE, LAST);
  all_claim(TRAINING);
  all_claim(ONCE);
  all_claim(LAST);
  expect_agreement();
}

/* The same, where nothing else is known to come in each epoch. */
Test(team_epochs, what_comes_once_at_most_tells_that_a_point_was_skipped) {
  branches = true;
  uneven_epoch();
  all_claim(LAST);
  place_table_find(quartet[0]->places.table, ONCE)->epochs--;
  all_claim(TRAINING);
  all_claim(ONCE);
  cr_assert_eq(quartet[0]->claim.epoch, 0);
  cr_assert_eq(quartet[1]->claim.epoch, 2);
  expect_agreement();
}

/* A thread for each epoch, or longjmp: the loop seen is not the outermost one. */
Test(team_epochs, a_loop_that_is_gone_into_again_has_no_epochs) {
  uneven_epoch();
  claim_in_epoch(0, OUTSIDE);
  for (uint32_t rank = 1; rank < RANKS; rank++)
    claim_in_epoch(rank, ONCE);
  expect_verdict(0, TEAM_SHADOW);
  for (uint32_t rank = 1; rank < RANKS; rank++)
    expect_verdict(rank, TEAM_REAL);
  for (uint32_t rank = 1; rank < RANKS; rank++)
    claim_in_epoch(rank, OUTSIDE);
  expect_all_real();
  all_claim(ONCE);
  expect_agreement();
}

Test(team_epochs, counts_that_fit_each_other_are_said) {
  uneven_epoch();
  all_claim(LAST);
  uneven_epoch();
  cr_assert_eq(quartet[0]->claim.epoch, 2);
  all_claim(LAST);
  cr_assert_eq(quartet[0]->claim.epoch, 2);
  expect_agreement();
}

Test(team_epochs, only_what_comes_once_in_each_epoch_counts) {
  struct place once = place_in_epoch(ONCE), training = place_in_epoch(TRAINING);
  cr_assert(place_is_of_each_epoch(&once));
  cr_assert_not(place_is_of_each_epoch(&training), "a loop of batches");
  once.nodes[2].flags &= (uint16_t)~PLACE_ALWAYS;
  cr_assert_not(place_is_of_each_epoch(&once), "not all rounds come to it");
  once = place_in_epoch(ONCE);
  once.nodes[1].flags = PLACE_ORDERED;
  cr_assert_not(place_is_of_each_epoch(&once), "in no loop");
  once = place_in_epoch(ONCE);
  once.nodes[2].flags |= PLACE_OPAQUE;
  cr_assert_not(place_is_of_each_epoch(&once), "it may be in more loops");
}
