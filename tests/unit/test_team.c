/* The agreed sequence, rule by rule, on ranks in memory. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "core/plane_memory.h"
#include "core/team.h"

#define RANKS 3

static struct plane_memory *memory;
static struct team *teams[RANKS];

static void start(void) {
  memory = plane_memory_create(RANKS);
  for (uint32_t rank = 0; rank < RANKS; rank++)
    teams[rank] = team_create(plane_memory_rank(memory, rank));
}

static void stop(void) {
  for (uint32_t rank = 0; rank < RANKS; rank++)
    team_destroy(teams[rank]);
  plane_memory_destroy(memory);
}

TestSuite(team, .init = start, .fini = stop);

static struct member member(uint64_t count) {
  return (struct member){
      .count = count, .root = ROOT_NONE, .kind = MEMBER_ALLREDUCE, .datatype = 7};
}

static struct unit unit(const struct member *of) {
  return (struct unit){of, 1};
}

static struct member A, B, C;

static void units(void) {
  A = member(100);
  B = member(200);
  C = member(3);
}

/* All ranks claim a unit and get it. */
static void all_issue(struct member *of) {
  struct unit got;
  for (uint32_t rank = 0; rank < RANKS; rank++)
    if (!team_commit(teams[rank], unit(of)))
      team_claim(teams[rank], unit(of), 0);
  for (uint32_t rank = 0; rank < RANKS; rank++)
    if (teams[rank]->claimed)
      cr_assert_eq(team_poll(teams[rank], &got), TEAM_REAL);
}

static void learn_loop(void) {
  units();
  for (int i = 0; i < 8; i++)
    all_issue(&A);
}

Test(team, nothing_is_committed_before_a_loop_is_known) {
  units();
  cr_assert_not(team_commit(teams[0], unit(&A)));
  cr_assert_eq(teams[0]->head, 0);
}

Test(team, a_claim_waits_for_all_and_then_settles_for_all) {
  units();
  struct unit got;
  team_claim(teams[0], unit(&A), 0);
  team_claim(teams[1], unit(&A), 0);
  cr_assert_eq(team_poll(teams[0], &got), TEAM_PARKED);
  team_claim(teams[2], unit(&A), 0);
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
  team_claim(teams[0], unit(&C), 0);
  cr_assert(team_commit(teams[1], unit(&A)));
  cr_assert(team_commit(teams[1], unit(&A)));
  for (int i = 0; i < 2; i++) {
    cr_assert_eq(team_poll(teams[0], &got), TEAM_SHADOW);
    cr_assert(unit_equal(got, unit(&A)));
  }
  cr_assert_eq(team_poll(teams[0], &got), TEAM_PARKED);
  cr_assert_eq(teams[0]->shadows, 2);
}

/* A loop of A and C; rank 0 has left it, and claims a C of its own. */
static void leave_a_loop_of_two(void) {
  units();
  for (int i = 0; i < 4; i++) {
    all_issue(&A);
    all_issue(&C);
  }
  team_claim(teams[0], unit(&C), 0);
}

/* Rank 0 passes what another has committed. */
static void expect_shadow(struct member *of) {
  struct unit got;
  cr_assert(team_commit(teams[1], unit(of)) && team_commit(teams[2], unit(of)));
  cr_assert_eq(team_poll(teams[0], &got), TEAM_SHADOW);
  cr_assert(unit_equal(got, unit(of)));
}

/* A scalar that is summed in each iteration, and a barrier after the loop. */
Test(team, what_looks_like_a_unit_of_the_loop_is_none_after_it) {
  struct unit got;
  leave_a_loop_of_two();
  for (int i = 0; i < 3; i++) {
    expect_shadow(&A);
    expect_shadow(&C);
  }
  cr_assert(teams[0]->claimed);
  team_claim(teams[1], unit(&C), 0);
  team_claim(teams[2], unit(&C), 0);
  for (uint32_t rank = 0; rank < RANKS; rank++)
    cr_assert_eq(team_poll(teams[rank], &got), TEAM_REAL, "all are there");
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
  team_claim(teams[0], unit(&C), 0);
  for (int i = 0; i < then; i++)
    expect_shadow(&A);
  if (!team_commit(teams[1], unit(&C))) {
    team_claim(teams[1], unit(&C), 0);
    team_claim(teams[2], unit(&C), 0);
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
  team_claim(teams[0], unit(&A), 0);
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
        team_claim(teams[rank], unit(of), 0);
    cr_assert_eq(team_poll(teams[0], &got), TEAM_SHADOW, "unit %d", i);
    cr_assert(unit_equal(got, unit(of)));
    for (uint32_t rank = 1; rank < RANKS; rank++)
      if (teams[rank]->claimed)
        cr_assert_eq(team_poll(teams[rank], &got), TEAM_REAL);
  }
}

Test(team, the_loser_of_a_settlement_shadows_and_keeps_its_claim) {
  learn_loop();
  struct unit got;
  cr_assert(team_commit(teams[0], unit(&A)));
  cr_assert(team_commit(teams[1], unit(&A)));
  team_claim(teams[2], unit(&C), 0);
  cr_assert_eq(team_poll(teams[2], &got), TEAM_SHADOW);
  team_claim(teams[0], unit(&B), 0);
  team_claim(teams[1], unit(&B), 0);
  /* 0 and 1 have done one unit more: B wins. */
  cr_assert_eq(team_poll(teams[2], &got), TEAM_SHADOW);
  cr_assert(unit_equal(got, unit(&B)));
  cr_assert_eq(team_poll(teams[0], &got), TEAM_REAL);
  cr_assert_eq(team_poll(teams[1], &got), TEAM_REAL);
  team_claim(teams[0], unit(&C), 0);
  team_claim(teams[1], unit(&C), 0);
  cr_assert_eq(team_poll(teams[2], &got), TEAM_REAL);
}

/* Rank 2 has no data: it goes from the evaluation (twice C) of one epoch straight to that of the
 * next, although after C came C the time before. */
Test(team, a_rank_that_skips_the_loop_waits_while_the_others_are_in_it) {
  struct unit got;
  units();
  team_claim(teams[2], unit(&C), 0);
  for (int i = 0; i < 6; i++) {
    for (uint32_t rank = 0; rank < 2; rank++)
      if (!team_commit(teams[rank], unit(&A)))
        team_claim(teams[rank], unit(&A), 0);
    cr_assert_eq(team_poll(teams[2], &got), TEAM_SHADOW);
    for (uint32_t rank = 0; rank < 2; rank++)
      if (teams[rank]->claimed)
        cr_assert_eq(team_poll(teams[rank], &got), TEAM_REAL);
  }
  for (uint32_t rank = 0; rank < 2; rank++)
    team_claim(teams[rank], unit(&C), 0);
  for (uint32_t rank = 0; rank < RANKS; rank++)
    cr_assert_eq(team_poll(teams[rank], &got), TEAM_REAL);
  all_issue(&C);
  team_claim(teams[0], unit(&A), 0);
  team_claim(teams[1], unit(&A), 0);
  team_claim(teams[2], unit(&C), 0);
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
      team_claim(teams[rank], unit(rank == 0 ? &B : &A), 0);
    uint32_t told = 0;
    for (uint32_t i = 0; i < RANKS; i++) {
      struct team *team = teams[(first + i) % RANKS];
      cr_assert_eq(team_poll(team, &got), team == teams[0] ? TEAM_REAL : TEAM_SHADOW);
      if (!team->guessed)
        continue;
      told++;
      cr_assert_eq(team->guessed_for, 0, "the larger unit");
      cr_assert_eq(team->guessed_over, 1);
      cr_assert_eq(team->guessed_member.count, A.count);
    }
    cr_assert_eq(told, 1, "%u ranks tell if rank %u settles first", told, first);
    stop();
    start();
  }
}

/* Two settle it at the same moment: the other one has begun to tell. */
Test(team, a_guess_that_another_rank_tells_is_not_told_again) {
  struct unit got;
  units();
  for (uint32_t rank = 0; rank < RANKS; rank++)
    team_claim(teams[rank], unit(rank == 0 ? &B : &A), 0);
  atomic_store(&teams[0]->shared->told, teams[0]->head + 1);
  cr_assert_eq(team_poll(teams[0], &got), TEAM_REAL);
  cr_assert_not(teams[0]->guessed);
}

Test(team, a_shadow_that_settles_first_tells_the_others) {
  units();
  struct unit got;
  team_claim_leave(teams[0]);
  team_claim(teams[1], unit(&A), 0);
  team_claim(teams[2], unit(&B), 0);
  cr_assert_eq(team_poll(teams[0], &got), TEAM_SHADOW, "rank 0 settles it alone");
  cr_assert(unit_equal(got, unit(&B)), "B is larger");
  cr_assert_eq(team_poll(teams[1], &got), TEAM_SHADOW, "rank 1 has it from rank 0's entry");
  cr_assert(unit_equal(got, unit(&B)));
  cr_assert_eq(team_poll(teams[2], &got), TEAM_REAL);
}

Test(team, a_claim_is_not_committed_even_if_it_comes_to_be_expected) {
  learn_loop();
  struct unit got;
  team_claim(teams[0], unit(&C), 0);
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
    team_claim(teams[early], unit(&C), 0);
    for (uint32_t rank = 0; rank < RANKS; rank++)
      if (rank != early && !team_commit(teams[rank], unit(&A)))
        team_claim(teams[rank], unit(&A), 0); /* the first unit after a meeting */
    cr_assert_eq(team_poll(teams[early], &got), TEAM_SHADOW);
    for (uint32_t rank = 0; rank < RANKS; rank++)
      if (teams[rank]->claimed && rank != early)
        cr_assert_eq(team_poll(teams[rank], &got), TEAM_REAL);
    for (uint32_t rank = 0; rank < RANKS; rank++)
      for (int i = 0; i < 2 && rank != early; i++)
        cr_assert(team_commit(teams[rank], unit(&A)));
    for (int i = 0; i < 2; i++)
      cr_assert_eq(team_poll(teams[early], &got), TEAM_SHADOW);
    for (uint32_t rank = 0; rank < RANKS; rank++)
      if (rank != early)
        team_claim(teams[rank], unit(&C), 0);
    for (uint32_t rank = 0; rank < RANKS; rank++)
      cr_assert_eq(team_poll(teams[rank], &got), TEAM_REAL, "epoch %d rank %u", epoch, rank);
  }
}

Test(team, membership_is_known_once_all_have_passed) {
  learn_loop();
  struct unit got;
  bool active[RANKS];
  team_claim(teams[0], unit(&C), 0);
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
    team_claim(teams[0], unit(&C), 0);
    uint64_t since = teams[0]->head;
    for (uint64_t index = since; index < since + 2; index++) {
      for (uint32_t rank = 1; rank < RANKS; rank++)
        if (!team_commit(teams[rank], unit(&A)))
          team_claim(teams[rank], unit(&A), 0);
      for (uint32_t rank = 1; rank < RANKS; rank++)
        if (teams[rank]->claimed)
          team_poll(teams[rank], &got);
      cr_assert_not(team_has_shadowed(teams[0], index), "not passed yet");
      cr_assert_eq(team_poll(teams[0], &got), TEAM_SHADOW);
      for (uint32_t rank = 1; rank < RANKS; rank++)
        if (teams[rank]->claimed)
          cr_assert_eq(team_poll(teams[rank], &got), TEAM_REAL);
      cr_assert_eq(team_joined_since(teams[2], index, 0), since);
      cr_assert(team_has_shadowed(teams[0], index));
      cr_assert_not(team_has_shadowed(teams[1], index));
    }
    for (uint32_t rank = 1; rank < RANKS; rank++)
      team_claim(teams[rank], unit(&C), 0);
    for (uint32_t rank = 0; rank < RANKS; rank++)
      cr_assert_eq(team_poll(teams[rank], &got), TEAM_REAL);
    cr_assert_not(team_has_shadowed(teams[0], team_index(teams[0])));
  }
}

Test(team, a_failure_frees_who_is_parked) {
  learn_loop();
  struct unit got;
  team_claim(teams[0], unit(&C), 0);
  cr_assert_eq(team_poll(teams[0], &got), TEAM_PARKED);
  team_end(teams[2], RANK_FAILED);
  cr_assert_eq(team_poll(teams[0], &got), TEAM_FAILED);
  cr_assert_eq(teams[0]->failure, FAILURE_RANK);
  cr_assert_eq(teams[0]->failure_rank, 2);
  cr_assert_eq(teams[0]->failure_index, 8);
}

Test(team, a_dead_process_is_a_failure) {
  learn_loop();
  struct unit got;
  team_claim(teams[0], unit(&C), 0);
  plane_memory_kill(memory, 1);
  cr_assert_eq(team_poll(teams[0], &got), TEAM_PARKED);
  team_look_for_the_dead(teams[0]);
  cr_assert_eq(team_poll(teams[0], &got), TEAM_FAILED);
  cr_assert_eq(teams[0]->failure_rank, 1);
}

Test(team, a_rank_that_is_done_is_not_dead) {
  learn_loop();
  struct unit got;
  for (uint32_t rank = 0; rank < RANKS; rank++)
    team_claim_leave(teams[rank]);
  cr_assert_eq(team_poll(teams[1], &got), TEAM_LEFT);
  team_end(teams[1], RANK_DONE);
  plane_memory_kill(memory, 1);
  team_look_for_the_dead(teams[0]);
  cr_assert_eq(team_poll(teams[0], &got), TEAM_LEFT);
  team_claim(teams[0], unit(&A), 0);
  cr_assert_eq(team_poll(teams[0], &got), TEAM_FAILED, "rank 1 will never come");
  cr_assert_eq(teams[0]->failure, FAILURE_ENDED);
}

static bool rank_2_spoils(void *context, struct unit of, uint32_t rank) {
  (void)context;
  return of.members[0].kind == MEMBER_ALLGATHER && rank == 2;
}

Test(team, a_lossy_unit_is_refused_by_all_where_it_is_known_in_time) {
  learn_loop();
  struct unit got;
  struct member gather = {.count = 5, .root = ROOT_NONE, .kind = MEMBER_ALLGATHER, .datatype = 7};
  for (uint32_t rank = 0; rank < RANKS; rank++)
    teams[rank]->is_lossy = rank_2_spoils;
  team_claim_leave(teams[2]);
  team_claim(teams[0], unit(&gather), CLAIM_STRICT);
  team_claim(teams[1], unit(&gather), CLAIM_STRICT);
  cr_assert_eq(team_poll(teams[0], &got), TEAM_REFUSED);
  cr_assert_eq(team_poll(teams[2], &got), TEAM_PARKED, "nothing to shadow");
  cr_assert_eq(team_poll(teams[1], &got), TEAM_REFUSED);
  cr_assert_eq(teams[2]->head, 9);
  /* They can go on, and join. */
  team_claim_leave(teams[0]);
  team_claim_leave(teams[1]);
  for (uint32_t rank = 0; rank < RANKS; rank++)
    cr_assert_eq(team_poll(teams[rank], &got), TEAM_LEFT);
}

Test(team, a_lossy_unit_without_strictness_is_shadowed) {
  learn_loop();
  struct unit got;
  struct member gather = {.count = 5, .root = ROOT_NONE, .kind = MEMBER_ALLGATHER, .datatype = 7};
  for (uint32_t rank = 0; rank < RANKS; rank++)
    teams[rank]->is_lossy = rank_2_spoils;
  team_claim_leave(teams[2]);
  team_claim(teams[0], unit(&gather), 0);
  team_claim(teams[1], unit(&gather), 0);
  cr_assert_eq(team_poll(teams[2], &got), TEAM_SHADOW);
}

Test(team, a_lossy_shadow_reaches_active_ranks_with_their_next_unit) {
  learn_loop();
  struct unit got;
  struct lossy_event event;
  team_claim_leave(teams[2]);
  cr_assert(team_commit(teams[0], unit(&A)));
  cr_assert_not(team_must_attend(teams[0]));
  cr_assert_eq(team_poll(teams[2], &got), TEAM_SHADOW);
  team_report_lossy(teams[2], MEMBER_ALLGATHER);
  cr_assert(team_must_attend(teams[0]));
  cr_assert_not(team_must_attend(teams[2]), "it knows");
  cr_assert(team_events(teams[0], &event));
  cr_assert_eq(event.rank, 2);
  cr_assert_eq(event.index, 8);
  cr_assert_eq(event.kind, MEMBER_ALLGATHER);
  cr_assert_not(team_events(teams[0], &event));
  cr_assert_not(team_must_attend(teams[0]));
}

Test(team, nobody_runs_further_ahead_than_the_logs_reach) {
  learn_loop();
  struct unit got;
  uint64_t committed = 0;
  while (committed < 2 * PLANE_RING && team_commit(teams[0], unit(&A)))
    committed++;
  cr_assert_eq(committed, PLANE_RUN_AHEAD);
  team_claim(teams[0], unit(&A), 0);
  cr_assert_eq(team_poll(teams[0], &got), TEAM_PARKED);
  for (uint32_t rank = 1; rank < RANKS; rank++)
    for (uint64_t i = 0; i < committed; i++)
      cr_assert(team_commit(teams[rank], unit(&A)));
  for (uint32_t rank = 1; rank < RANKS; rank++)
    cr_assert(team_commit(teams[rank], unit(&A)));
  cr_assert_eq(team_poll(teams[0], &got), TEAM_REAL);
}

/* Large groups, one deviation after the other, so that the text ring goes round many times under a
 * slow reader. */
Test(team, texts_are_kept_as_long_as_the_slowest_needs_them) {
  static struct member group[700];
  struct unit got;
  team_claim_leave(teams[2]);
  for (uint64_t i = 0; i < 200; i++) {
    uint32_t size = 1 + (uint32_t)(i * 97 % 700);
    for (uint32_t k = 0; k < size; k++)
      group[k] = member(1 + i * 1000 + k);
    struct unit large = {group, size};
    team_claim(teams[0], large, 0);
    team_claim(teams[1], large, 0);
    while (teams[0]->claimed || teams[1]->claimed) {
      for (uint32_t rank = 0; rank < 2; rank++)
        if (teams[rank]->claimed)
          team_poll(teams[rank], &got);
      if (team_poll(teams[2], &got) == TEAM_SHADOW)
        cr_assert(unit_equal(got, large), "unit %lu", i);
    }
  }
}

Test(team, a_unit_too_big_to_describe_is_issued_by_all_or_by_none) {
  static struct member group[UNIT_MEMBERS_MAX + 1];
  struct unit got, large = {group, UNIT_MEMBERS_MAX + 1};
  for (uint32_t k = 0; k < large.nmembers; k++)
    group[k] = member(1 + k);
  for (uint32_t rank = 0; rank < RANKS; rank++)
    team_claim(teams[rank], large, 0);
  for (uint32_t rank = 0; rank < RANKS; rank++)
    cr_assert_eq(team_poll(teams[rank], &got), TEAM_REAL);
  team_claim(teams[0], large, 0);
  team_claim(teams[1], large, 0);
  team_claim_leave(teams[2]);
  cr_assert_eq(team_poll(teams[2], &got), TEAM_FAILED);
  cr_assert_eq(teams[2]->failure, FAILURE_TOO_BIG);
}

Test(team, what_a_peer_published_is_checked) {
  learn_loop();
  struct unit got;
  team_claim(teams[0], unit(&C), 0);
  cr_assert(team_commit(teams[1], unit(&A)));
  atomic_fetch_xor(&plane_memory_rank(memory, 1)->logs[1]->entries[8].hash, 1);
  cr_assert_eq(team_poll(teams[0], &got), TEAM_FAILED);
  cr_assert_eq(teams[0]->failure, FAILURE_CORRUPT);
}

Test(team, nobody_is_woken_when_nobody_waits) {
  learn_loop();
  uint64_t rings = plane_memory_rings(memory);
  for (int i = 0; i < 100; i++)
    cr_assert(team_commit(teams[0], unit(&A)));
  cr_assert_eq(plane_memory_rings(memory), rings);
  struct unit got;
  cr_assert_eq(team_wait(teams[1], &got, 1), TEAM_SHADOW, "there are units to follow: no sleep");
  team_claim(teams[1], unit(&C), 0);
  while (team_poll(teams[1], &got) != TEAM_PARKED)
    ;
  rings = plane_memory_rings(memory);
  cr_assert_eq(team_wait(teams[1], &got, 1), TEAM_PARKED);
  cr_assert(team_commit(teams[0], unit(&A)));
  cr_assert_eq(plane_memory_rings(memory), rings + 1);
  cr_assert(team_commit(teams[0], unit(&A)));
  cr_assert_eq(plane_memory_rings(memory), rings + 1, "rung once for each sleep");
}

Test(team, the_rank_that_began_a_failure_is_named) {
  learn_loop();
  struct unit got;
  team_claim(teams[0], unit(&C), 0);
  team_end(teams[2], RANK_FAILED); /* it aborted because rank 1 was killed */
  plane_memory_kill(memory, 1);
  cr_assert_eq(team_poll(teams[0], &got), TEAM_FAILED);
  cr_assert_eq(teams[0]->failure_rank, 2);
  team_find_culprit(teams[0]);
  cr_assert_eq(teams[0]->failure_rank, 1);
}

Test(team, leaving_in_different_orders_is_seen) {
  learn_loop();
  team_claim_leave(teams[0]);
  team_claim_leave(teams[1]);
  cr_assert_not(team_all_leaving(teams[0]));
  team_say_leaving(teams[2], true); /* parked in another team */
  cr_assert(team_all_leaving(teams[0]));
  team_say_leaving(teams[2], false);
  cr_assert_not(team_all_leaving(teams[0]));
}

/* The claim of a rank that went on stays: the others leave with it. */
Test(team, a_rank_that_left_ahead_does_not_keep_the_others) {
  learn_loop();
  struct unit got;
  team_claim_leave(teams[0]);
  team_end(teams[0], RANK_DONE);
  team_claim_leave(teams[1]);
  cr_assert_eq(team_poll(teams[1], &got), TEAM_PARKED);
  team_claim_leave(teams[2]);
  cr_assert_eq(team_poll(teams[1], &got), TEAM_LEFT);
  cr_assert_eq(team_poll(teams[2], &got), TEAM_LEFT);
}

/* A rank that claims a unit here does not leave. */
Test(team, a_rank_that_wants_something_here_is_not_leaving) {
  units();
  team_claim_leave(teams[0]);
  team_claim(teams[1], unit(&A), 0);
  team_say_leaving(teams[2], true);
  cr_assert_not(team_all_leaving(teams[0]));
}

/* A rank waits for too long, in the moment in which rank 2 follows what rank 1 has from it. */
static bool rank_0_gives_up(void *context) {
  (void)context;
  team_give_up(teams[0]);
  return false;
}

Test(team, a_claim_given_up_while_it_is_followed_is_not_taken_for_corruption) {
  units();
  struct unit got;
  for (uint32_t rank = 0; rank < RANKS; rank++)
    team_claim(teams[rank], unit(rank == 0 ? &B : rank == 1 ? &A : &C), 0);
  cr_assert_eq(team_poll(teams[1], &got), TEAM_SHADOW, "B is larger: it goes first");
  teams[2]->is_held = rank_0_gives_up;
  cr_assert_eq(team_poll(teams[2], &got), TEAM_PARKED);
  teams[2]->is_held = NULL;
  team_end(teams[0], RANK_FAILED);
  cr_assert_eq(team_poll(teams[2], &got), TEAM_FAILED);
  cr_assert_eq(teams[2]->failure, FAILURE_RANK);
  cr_assert_eq(teams[2]->failure_rank, 0);
}

/* Groups of which two fit into the text ring, and the loop that they are: B, C and three of them.
 */
static struct member groups[3][UNIT_MEMBERS_MAX];

static struct unit large(uint32_t which) {
  return (struct unit){groups[which], UNIT_MEMBERS_MAX};
}

static void learn_loop_of_groups(void) {
  units();
  for (uint32_t i = 0; i < 3 * UNIT_MEMBERS_MAX; i++)
    groups[i / UNIT_MEMBERS_MAX][i % UNIT_MEMBERS_MAX] = member(1 + i);
  for (int i = 0; i < 12; i++) {
    struct unit got, body[] = {unit(&B), unit(&C), large(0), large(1), large(2)};
    for (int k = 0; k < 5; k++)
      for (uint32_t step = 0; step < 2 * RANKS; step++) {
        struct team *team = teams[step % RANKS];
        if (step >= RANKS && team->claimed)
          cr_assert_eq(team_poll(team, &got), TEAM_REAL);
        else if (step < RANKS && !team_commit(team, body[k]))
          team_claim(team, body[k], 0);
      }
  }
}

/* Rank 2 has read all claims at an index. Before it looks into their texts, rank 1 commits what
 * comes next, and rank 0 issues it because it claims just that. */
static bool others_go_on(void *context) {
  struct unit got;
  (void)context;
  cr_assert_eq(team_poll(teams[1], &got), TEAM_REAL);
  cr_assert_eq(team_poll(teams[0], &got), TEAM_SHADOW);
  for (uint32_t which = 0; which < 2; which++) {
    cr_assert(team_commit(teams[1], large(which)));
    cr_assert_eq(team_poll(teams[0], &got), TEAM_REAL);
    team_claim(teams[0], large(which + 1), 0);
  }
  return false;
}

Test(team, the_text_of_a_claim_that_was_expected_is_kept_for_who_settles_before_it) {
  struct unit got;
  learn_loop_of_groups();
  for (uint32_t rank = 0; rank < RANKS; rank++)
    cr_assert(team_commit(teams[rank], unit(&B)));
  for (uint32_t rank = 0; rank < RANKS; rank++)
    team_claim(teams[rank], rank == 0 ? large(0) : unit(&C), 0);
  teams[2]->is_held = others_go_on;
  cr_assert_eq(team_poll(teams[2], &got), TEAM_REAL, "failure %d", (int)teams[2]->failure);
  teams[2]->is_held = NULL;
  for (uint32_t which = 0; which < 2; which++)
    cr_assert(team_commit(teams[2], large(which)));
  team_claim(teams[2], large(2), 0);
  team_claim(teams[1], large(2), 0);
  for (uint32_t i = 0; i < RANKS; i++)
    cr_assert_eq(team_poll(teams[i], &got), TEAM_REAL);
}
