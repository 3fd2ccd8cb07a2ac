/* The agreed sequence, rule by rule, on ranks in memory. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "tests/unit/trio.h"

TestSuite(team, .init = trio_start, .fini = trio_stop);

Test(team, nothing_is_committed_before_a_loop_is_known) {
  units();
  cr_assert_not(team_commit(teams[0], unit(&A)));
  cr_assert_eq(teams[0]->head, 0);
}

Test(team, a_claim_waits_for_all_and_then_settles_for_all) {
  units();
  struct unit got;
  team_claim(teams[0], unit(&A), 0, NULL);
  team_claim(teams[1], unit(&A), 0, NULL);
  cr_assert_eq(team_poll(teams[0], &got), TEAM_PARKED);
  team_claim(teams[2], unit(&A), 0, NULL);
  cr_assert_eq(team_poll(teams[2], &got), TEAM_REAL);
  cr_assert_eq(team_poll(teams[0], &got), TEAM_REAL);
  cr_assert_eq(team_poll(teams[1], &got), TEAM_REAL);
  cr_assert_eq(team_index(teams[1]), 0);
}

Test(team, an_expected_unit_is_committed_without_asking) {
  learn_loop();
  uint64_t head = teams[0]->head;
  for (int i = 0; i < 10; i++)
    cr_assert(team_commit(teams[0], unit(&A)));
  cr_assert_eq(teams[0]->head, head + 10);
  cr_assert_not(team_commit(teams[0], unit(&B)), "a deviation is never committed");
}

Test(team, a_parked_rank_shadows_what_others_commit) {
  learn_loop();
  struct unit got;
  team_claim(teams[0], unit(&C), 0, NULL);
  cr_assert(team_commit(teams[1], unit(&A)));
  cr_assert(team_commit(teams[1], unit(&A)));
  for (int i = 0; i < 2; i++) {
    cr_assert_eq(team_poll(teams[0], &got), TEAM_SHADOW);
    cr_assert(unit_equal(got, unit(&A)));
  }
  cr_assert_eq(team_poll(teams[0], &got), TEAM_PARKED);
  cr_assert_eq(teams[0]->shadows, 2);
}

/* Rank 0 passes what another has committed. */
static void expect_shadow(struct member *of) {
  struct unit got;
  cr_assert(team_commit(teams[1], unit(of)) && team_commit(teams[2], unit(of)));
  cr_assert_eq(team_poll(teams[0], &got), TEAM_SHADOW);
  cr_assert(unit_equal(got, unit(of)));
}

/* Epochs of equal length become a loop themselves, and what is after each a unit of it: a rank
 * without data in one of them waits there. A few equal units may be a model's buckets, and what
 * comes after them a loss; not as many as where ranks wait for each other anyway, and not once more
 * and once less. */
static void skip_an_epoch(int iterations, int then) {
  struct unit got;
  units();
  for (int epoch = 0; epoch < 4; epoch++) {
    for (int i = 0; i < iterations; i++)
      all_issue(&A);
    all_issue(&C);
  }
  team_claim(teams[0], unit(&C), 0, NULL);
  for (int i = 0; i < then; i++)
    expect_shadow(&A);
  if (!team_commit(teams[1], unit(&C))) {
    team_claim(teams[1], unit(&C), 0, NULL);
    team_claim(teams[2], unit(&C), 0, NULL);
  }
  cr_assert_eq(team_poll(teams[0], &got), TEAM_REAL);
}

Test(team, what_comes_after_a_long_loop_within_the_loop_is_what_it_looks_like) {
  skip_an_epoch(70, 70);
}

Test(team, what_comes_after_a_loop_of_other_length_is_what_it_looks_like) {
  skip_an_epoch(5, 4);
}

/* It has left out a part of an iteration, not the loop. */
Test(team, who_leaves_inside_an_iteration_goes_on_with_the_next) {
  struct unit got;
  units();
  for (int i = 0; i < 4; i++) {
    all_issue(&A);
    all_issue(&B);
    all_issue(&C);
  }
  all_issue(&A);
  team_claim(teams[0], unit(&A), 0, NULL);
  expect_shadow(&B);
  expect_shadow(&C);
  cr_assert(team_commit(teams[1], unit(&A)));
  cr_assert_eq(team_poll(teams[0], &got), TEAM_REAL);
}

/* Whoever's log was read: a joined rank may have been there before. */
Test(team, a_shadow_names_a_rank_that_issued_the_unit_for_real) {
  learn_loop();
  struct unit got;
  team_claim_leave(teams[0]);
  team_claim_leave(teams[1]);
  cr_assert(team_commit(teams[2], unit(&A)));
  for (uint32_t rank = 0; rank < 2; rank++) {
    cr_assert_eq(team_poll(teams[rank], &got), TEAM_SHADOW);
    cr_assert_eq(teams[rank]->source, 2, "rank %u names rank %u", rank, teams[rank]->source);
  }
}

Test(team, a_rank_that_learnt_nothing_follows_from_index_0) {
  units();
  struct unit got;
  team_claim_leave(teams[0]);
  for (int i = 0; i < 40; i++) {
    struct member *of = i % 2 ? &A : &B;
    for (uint32_t rank = 1; rank < RANKS; rank++)
      if (!team_commit(teams[rank], unit(of)))
        team_claim(teams[rank], unit(of), 0, NULL);
    cr_assert_eq(team_poll(teams[0], &got), TEAM_SHADOW, "unit %d", i);
    cr_assert(unit_equal(got, unit(of)));
    for (uint32_t rank = 1; rank < RANKS; rank++)
      if (teams[rank]->claim.open)
        cr_assert_eq(team_poll(teams[rank], &got), TEAM_REAL);
  }
}

Test(team, the_loser_of_a_settlement_shadows_and_keeps_its_claim) {
  learn_loop();
  struct unit got;
  cr_assert(team_commit(teams[0], unit(&A)));
  cr_assert(team_commit(teams[1], unit(&A)));
  team_claim(teams[2], unit(&C), 0, NULL);
  cr_assert_eq(team_poll(teams[2], &got), TEAM_SHADOW);
  team_claim(teams[0], unit(&B), 0, NULL);
  team_claim(teams[1], unit(&B), 0, NULL);
  /* 0 and 1 have done one unit more: B wins. */
  cr_assert_eq(team_poll(teams[2], &got), TEAM_SHADOW);
  cr_assert(unit_equal(got, unit(&B)));
  cr_assert_eq(team_poll(teams[0], &got), TEAM_REAL);
  cr_assert_eq(team_poll(teams[1], &got), TEAM_REAL);
  team_claim(teams[0], unit(&C), 0, NULL);
  team_claim(teams[1], unit(&C), 0, NULL);
  cr_assert_eq(team_poll(teams[2], &got), TEAM_REAL);
}

/* Rank 2 has no data: it goes from the evaluation (twice C) of one epoch straight to that of the
 * next, although after C came C the time before. */
Test(team, a_rank_that_skips_the_loop_waits_while_the_others_are_in_it) {
  struct unit got;
  units();
  team_claim(teams[2], unit(&C), 0, NULL);
  for (int i = 0; i < 6; i++) {
    for (uint32_t rank = 0; rank < 2; rank++)
      if (!team_commit(teams[rank], unit(&A)))
        team_claim(teams[rank], unit(&A), 0, NULL);
    cr_assert_eq(team_poll(teams[2], &got), TEAM_SHADOW);
    for (uint32_t rank = 0; rank < 2; rank++)
      if (teams[rank]->claim.open)
        cr_assert_eq(team_poll(teams[rank], &got), TEAM_REAL);
  }
  for (uint32_t rank = 0; rank < 2; rank++)
    team_claim(teams[rank], unit(&C), 0, NULL);
  for (uint32_t rank = 0; rank < RANKS; rank++)
    cr_assert_eq(team_poll(teams[rank], &got), TEAM_REAL);
  all_issue(&C);
  team_claim(teams[0], unit(&A), 0, NULL);
  team_claim(teams[1], unit(&A), 0, NULL);
  team_claim(teams[2], unit(&C), 0, NULL);
  cr_assert_eq(team_poll(teams[2], &got), TEAM_SHADOW);
  cr_assert(unit_equal(got, unit(&A)));
  cr_assert_eq(team_poll(teams[0], &got), TEAM_REAL);
}

/* Whoever settles it. */
Test(team, a_guess_is_told_by_one_rank) {
  for (uint32_t first = 0; first < RANKS; first++) {
    struct unit got;
    units();
    for (uint32_t rank = 0; rank < RANKS; rank++)
      team_claim(teams[rank], unit(rank == 0 ? &B : &A), 0, NULL);
    uint32_t told = 0;
    for (uint32_t i = 0; i < RANKS; i++) {
      struct team *team = teams[(first + i) % RANKS];
      cr_assert_eq(team_poll(team, &got), team == teams[0] ? TEAM_REAL : TEAM_SHADOW);
      if (!team->telling.guessed)
        continue;
      told++;
      cr_assert_eq(team->telling.guess.rank, 0, "the larger unit");
      cr_assert_eq(team->telling.guess.other, 1);
      cr_assert_eq(team->telling.guess.member.count, A.count);
    }
    cr_assert_eq(told, 1, "%u ranks tell if rank %u settles first", told, first);
    trio_stop();
    trio_start();
  }
}

/* Two settle it at the same moment: the other one has begun to tell. */
Test(team, a_guess_that_another_rank_tells_is_not_told_again) {
  struct unit got;
  units();
  for (uint32_t rank = 0; rank < RANKS; rank++)
    team_claim(teams[rank], unit(rank == 0 ? &B : &A), 0, NULL);
  atomic_store(&teams[0]->shared->told, teams[0]->head + 1);
  cr_assert_eq(team_poll(teams[0], &got), TEAM_REAL);
  cr_assert_not(teams[0]->telling.guessed);
}

Test(team, a_shadow_that_settles_first_tells_the_others) {
  units();
  struct unit got;
  team_claim_leave(teams[0]);
  team_claim(teams[1], unit(&A), 0, NULL);
  team_claim(teams[2], unit(&B), 0, NULL);
  cr_assert_eq(team_poll(teams[0], &got), TEAM_SHADOW, "rank 0 settles it alone");
  cr_assert(unit_equal(got, unit(&B)), "B is larger");
  cr_assert_eq(team_poll(teams[1], &got), TEAM_SHADOW, "rank 1 has it from rank 0's entry");
  cr_assert(unit_equal(got, unit(&B)));
  cr_assert_eq(team_poll(teams[2], &got), TEAM_REAL);
}

Test(team, a_claim_is_not_committed_even_if_it_comes_to_be_expected) {
  learn_loop();
  struct unit got;
  team_claim(teams[0], unit(&C), 0, NULL);
  cr_assert_eq(team_poll(teams[0], &got), TEAM_PARKED);
  cr_assert_eq(teams[0]->head, 8);
}

Test(team, leave_settles_when_all_have_left) {
  learn_loop();
  struct unit got;
  team_claim_leave(teams[0]);
  team_claim_leave(teams[1]);
  cr_assert(team_commit(teams[2], unit(&A)));
  cr_assert_eq(team_poll(teams[0], &got), TEAM_SHADOW);
  cr_assert_eq(team_poll(teams[1], &got), TEAM_SHADOW);
  cr_assert_eq(team_poll(teams[1], &got), TEAM_PARKED);
  team_claim_leave(teams[2]);
  for (uint32_t rank = 0; rank < RANKS; rank++)
    cr_assert_eq(team_poll(teams[rank], &got), TEAM_LEFT);
}

Test(team, joining_is_repeatable) {
  learn_loop();
  struct unit got;
  for (int epoch = 0; epoch < 5; epoch++) {
    uint32_t early = (uint32_t)epoch % RANKS;
    team_claim(teams[early], unit(&C), 0, NULL);
    for (uint32_t rank = 0; rank < RANKS; rank++)
      if (rank != early && !team_commit(teams[rank], unit(&A)))
        team_claim(teams[rank], unit(&A), 0, NULL); /* the first unit after a meeting */
    cr_assert_eq(team_poll(teams[early], &got), TEAM_SHADOW);
    for (uint32_t rank = 0; rank < RANKS; rank++)
      if (teams[rank]->claim.open && rank != early)
        cr_assert_eq(team_poll(teams[rank], &got), TEAM_REAL);
    for (uint32_t rank = 0; rank < RANKS; rank++)
      for (int i = 0; i < 2 && rank != early; i++)
        cr_assert(team_commit(teams[rank], unit(&A)));
    for (int i = 0; i < 2; i++)
      cr_assert_eq(team_poll(teams[early], &got), TEAM_SHADOW);
    for (uint32_t rank = 0; rank < RANKS; rank++)
      if (rank != early)
        team_claim(teams[rank], unit(&C), 0, NULL);
    for (uint32_t rank = 0; rank < RANKS; rank++)
      cr_assert_eq(team_poll(teams[rank], &got), TEAM_REAL, "epoch %d rank %u", epoch, rank);
  }
}

Test(team, membership_is_known_once_all_have_passed) {
  learn_loop();
  struct unit got;
  bool active[RANKS];
  team_claim(teams[0], unit(&C), 0, NULL);
  cr_assert(team_commit(teams[1], unit(&A)));
  uint64_t index = team_index(teams[1]);
  cr_assert_eq(team_active(teams[1], index, active), TEAM_PARKED);
  cr_assert(team_commit(teams[2], unit(&A)));
  cr_assert_eq(team_poll(teams[0], &got), TEAM_SHADOW);
  cr_assert_eq(team_active(teams[1], index, active), TEAM_REAL);
  cr_assert(!active[0] && active[1] && active[2]);
}

/* Ranks 1 and 2 go on for two rounds, meet rank 0, and go on again. */
Test(team, since_when_a_rank_has_joined_is_known) {
  learn_loop();
  struct unit got;
  for (int times = 0; times < 2; times++) {
    team_claim(teams[0], unit(&C), 0, NULL);
    uint64_t since = teams[0]->head;
    for (uint64_t index = since; index < since + 2; index++) {
      for (uint32_t rank = 1; rank < RANKS; rank++)
        if (!team_commit(teams[rank], unit(&A)))
          team_claim(teams[rank], unit(&A), 0, NULL);
      for (uint32_t rank = 1; rank < RANKS; rank++)
        if (teams[rank]->claim.open)
          team_poll(teams[rank], &got);
      cr_assert_not(team_has_shadowed(teams[0], index), "not passed yet");
      cr_assert_eq(team_poll(teams[0], &got), TEAM_SHADOW);
      for (uint32_t rank = 1; rank < RANKS; rank++)
        if (teams[rank]->claim.open)
          cr_assert_eq(team_poll(teams[rank], &got), TEAM_REAL);
      cr_assert_eq(team_joined_since(teams[2], index, 0), since);
      cr_assert(team_has_shadowed(teams[0], index));
      cr_assert_not(team_has_shadowed(teams[1], index));
    }
    for (uint32_t rank = 1; rank < RANKS; rank++)
      team_claim(teams[rank], unit(&C), 0, NULL);
    for (uint32_t rank = 0; rank < RANKS; rank++)
      cr_assert_eq(team_poll(teams[rank], &got), TEAM_REAL);
    cr_assert_not(team_has_shadowed(teams[0], team_index(teams[0])));
  }
}

static bool only_a_is_lossy(void *context, struct unit unit, uint32_t rank) {
  (void)context;
  (void)rank;
  return unit.nmembers == 1 && unit.members[0].count == A.count;
}

/* All have agreed that A is not to be issued. Who hears of it first, and ends of it, takes nothing
 * away from who hears of it later; for the rank that has left it is a failure. */
Test(team, who_is_refused_first_and_ends_with_an_error_takes_nothing_away) {
  struct unit got;
  units();
  for (uint32_t rank = 0; rank < RANKS; rank++)
    teams[rank]->owner.is_lossy = only_a_is_lossy;
  team_claim(teams[0], unit(&A), CLAIM_STRICT, NULL);
  team_claim(teams[1], unit(&A), CLAIM_STRICT, NULL);
  team_claim_leave(teams[2]);
  cr_expect_eq(team_poll(teams[0], &got), TEAM_REFUSED);
  team_end(teams[0], RANK_FAILED);
  cr_expect_eq(team_poll(teams[1], &got), TEAM_REFUSED);
  cr_expect_eq(team_refused_for(teams[1]), 2);
  team_claim(teams[1], unit(&A), CLAIM_STRICT, NULL);
  cr_expect_eq(team_poll(teams[1], &got), TEAM_FAILED);
  cr_expect_eq(team_poll(teams[2], &got), TEAM_FAILED);
}
