/* What ends or limits the agreed sequence: failures, lossy units, the room in logs and texts, units
 * too big, and leaving in different orders. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "tests/unit/trio.h"

TestSuite(team_limits, .init = trio_start, .fini = trio_stop);

Test(team_limits, a_failure_frees_who_is_parked) {
  learn_loop();
  struct unit got;
  team_claim(teams[0], unit(&C), 0, NULL);
  cr_assert_eq(team_poll(teams[0], &got), TEAM_PARKED);
  team_end(teams[2], RANK_FAILED);
  cr_assert_eq(team_poll(teams[0], &got), TEAM_FAILED);
  cr_assert_eq(teams[0]->failed.how, FAILURE_RANK);
  cr_assert_eq(teams[0]->failed.rank, 2);
  cr_assert_eq(teams[0]->failed.index, 8);
}

Test(team_limits, a_dead_process_is_a_failure) {
  learn_loop();
  struct unit got;
  team_claim(teams[0], unit(&C), 0, NULL);
  planes_kill(memory, 1);
  cr_assert_eq(team_poll(teams[0], &got), TEAM_PARKED);
  team_look_for_the_dead(teams[0]);
  cr_assert_eq(team_poll(teams[0], &got), TEAM_FAILED);
  cr_assert_eq(teams[0]->failed.rank, 1);
}

/* What is known of it from elsewhere counts as long as it is not there. */
Test(team_limits, a_rank_that_ends_before_it_comes_is_a_failure) {
  struct unit got;
  team_claim(teams[0], unit(&C), 0, NULL);
  team_end_absent(teams[0], 1, RANK_FAILED);
  cr_assert_eq(team_poll(teams[0], &got), TEAM_PARKED, "it is there");
  log_end(teams[1]->own, RANK_ABSENT, 0);
  team_end_absent(teams[0], 1, RANK_FAILED);
  cr_assert_eq(team_poll(teams[0], &got), TEAM_FAILED);
  cr_assert_eq(teams[0]->failed.rank, 1);
}

Test(team_limits, a_rank_that_is_done_is_not_dead) {
  learn_loop();
  struct unit got;
  for (uint32_t rank = 0; rank < RANKS; rank++)
    team_claim_leave(teams[rank]);
  cr_assert_eq(team_poll(teams[1], &got), TEAM_LEFT);
  team_end(teams[1], RANK_DONE);
  planes_kill(memory, 1);
  team_look_for_the_dead(teams[0]);
  cr_assert_eq(team_poll(teams[0], &got), TEAM_LEFT);
  team_claim(teams[0], unit(&A), 0, NULL);
  cr_assert_eq(team_poll(teams[0], &got), TEAM_FAILED, "rank 1 will never come");
  cr_assert_eq(teams[0]->failed.how, FAILURE_ENDED);
}

static bool rank_2_spoils(void *context, struct unit of, uint32_t rank) {
  (void)context;
  return of.members[0].kind == MEMBER_ALLGATHER && rank == 2;
}

Test(team_limits, a_lossy_unit_is_refused_by_all_where_it_is_known_in_time) {
  learn_loop();
  struct unit got;
  struct member gather = {.count = 5, .root = ROOT_NONE, .kind = MEMBER_ALLGATHER, .datatype = 7};
  for (uint32_t rank = 0; rank < RANKS; rank++)
    teams[rank]->owner.is_lossy = rank_2_spoils;
  team_claim_leave(teams[2]);
  team_claim(teams[0], unit(&gather), CLAIM_STRICT, NULL);
  team_claim(teams[1], unit(&gather), CLAIM_STRICT, NULL);
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

Test(team_limits, a_lossy_unit_without_strictness_is_shadowed) {
  learn_loop();
  struct unit got;
  struct member gather = {.count = 5, .root = ROOT_NONE, .kind = MEMBER_ALLGATHER, .datatype = 7};
  for (uint32_t rank = 0; rank < RANKS; rank++)
    teams[rank]->owner.is_lossy = rank_2_spoils;
  team_claim_leave(teams[2]);
  team_claim(teams[0], unit(&gather), 0, NULL);
  team_claim(teams[1], unit(&gather), 0, NULL);
  cr_assert_eq(team_poll(teams[2], &got), TEAM_SHADOW);
}

Test(team_limits, a_lossy_shadow_reaches_active_ranks_with_their_next_unit) {
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
  cr_assert(team_find_event(teams[0], &event));
  cr_assert_eq(event.rank, 2);
  cr_assert_not(team_find_event(teams[2], &event));
  cr_assert(team_events(teams[0], &event));
  cr_assert_eq(event.rank, 2);
  cr_assert_eq(event.index, 8);
  cr_assert_eq(event.kind, MEMBER_ALLGATHER);
  cr_assert_not(team_events(teams[0], &event));
  cr_assert_not(team_find_event(teams[0], &event));
  cr_assert_not(team_must_attend(teams[0]));
}

Test(team_limits, events_of_sends_and_receives_name_both_ranks) {
  struct lossy_event event;
  team_report_lossy_post(teams[0], MEMBER_SEND, 2);
  cr_assert(team_events(teams[1], &event));
  cr_assert_eq(event.rank, 0);
  cr_assert_eq(event.peer, 2);
  cr_assert_eq(event.kind, MEMBER_SEND);
}

Test(team_limits, nobody_runs_further_ahead_than_the_logs_reach) {
  learn_loop();
  struct unit got;
  uint64_t committed = 0;
  while (committed < 2 * PLANE_RING && team_commit(teams[0], unit(&A)))
    committed++;
  cr_assert_eq(committed, PLANE_RUN_AHEAD);
  team_claim(teams[0], unit(&A), 0, NULL);
  cr_assert_eq(team_poll(teams[0], &got), TEAM_PARKED);
  for (uint32_t rank = 1; rank < RANKS; rank++)
    for (uint64_t i = 0; i < committed; i++)
      cr_assert(team_commit(teams[rank], unit(&A)));
  for (uint32_t rank = 1; rank < RANKS; rank++)
    cr_assert(team_commit(teams[rank], unit(&A)));
  cr_assert_eq(team_poll(teams[0], &got), TEAM_REAL);
}

/* The slowest may wait for this rank outside of NCCL, behind its next unit: it need not come to the
 * index first. */
Test(team_limits, who_had_no_room_goes_on_as_soon_as_there_is) {
  learn_loop();
  struct unit got;
  while (team_commit(teams[0], unit(&A)))
    ;
  uint64_t head = teams[0]->head;
  team_claim(teams[0], unit(&A), 0, NULL);
  cr_assert_eq(team_poll(teams[0], &got), TEAM_PARKED);
  cr_assert_not(log_claims(teams[0]->own, head), "nobody is to count on it");
  for (uint32_t rank = 1; rank < RANKS; rank++)
    cr_assert(team_commit(teams[rank], unit(&A)));
  cr_assert_eq(team_poll(teams[0], &got), TEAM_REAL);
  cr_assert(unit_equal(got, unit(&A)));
  cr_assert_not(teams[0]->claim.open);
  cr_assert_eq(teams[0]->head, head + 1);
  for (uint32_t rank = 1; rank < RANKS; rank++)
    for (uint64_t i = teams[rank]->head; i <= head; i++)
      cr_assert(team_commit(teams[rank], unit(&A)));
  cr_assert(team_commit(teams[0], unit(&A)));
}

/* A unit that must be agreed on is claimed, however far behind the others are. */
Test(team_limits, without_room_another_unit_is_claimed) {
  learn_loop();
  struct unit got;
  while (team_commit(teams[0], unit(&A)))
    ;
  cr_assert_not(team_commit(teams[0], unit(&B)));
  team_claim(teams[0], unit(&B), 0, NULL);
  cr_assert_eq(team_poll(teams[0], &got), TEAM_PARKED);
  cr_assert(log_claims(teams[0]->own, teams[0]->head));
}

/* Large groups, one deviation after the other, so that the text ring goes round many times under a
 * slow reader. */
Test(team_limits, texts_are_kept_as_long_as_the_slowest_needs_them) {
  static struct member group[700];
  struct unit got;
  team_claim_leave(teams[2]);
  for (uint64_t i = 0; i < 200; i++) {
    uint32_t size = 1 + (uint32_t)(i * 97 % 700);
    for (uint32_t k = 0; k < size; k++)
      group[k] = member(1 + i * 1000 + k);
    struct unit large = {group, size};
    team_claim(teams[0], large, 0, NULL);
    team_claim(teams[1], large, 0, NULL);
    while (teams[0]->claim.open || teams[1]->claim.open) {
      for (uint32_t rank = 0; rank < 2; rank++)
        if (teams[rank]->claim.open)
          team_poll(teams[rank], &got);
      if (team_poll(teams[2], &got) == TEAM_SHADOW)
        cr_assert(unit_equal(got, large), "unit %lu", i);
    }
  }
}

Test(team_limits, a_unit_too_big_to_describe_is_issued_by_all_or_by_none) {
  static struct member group[UNIT_MEMBERS_MAX + 1];
  struct unit got, large = {group, UNIT_MEMBERS_MAX + 1};
  for (uint32_t k = 0; k < large.nmembers; k++)
    group[k] = member(1 + k);
  for (uint32_t rank = 0; rank < RANKS; rank++)
    team_claim(teams[rank], large, 0, NULL);
  for (uint32_t rank = 0; rank < RANKS; rank++)
    cr_assert_eq(team_poll(teams[rank], &got), TEAM_REAL);
  team_claim(teams[0], large, 0, NULL);
  team_claim(teams[1], large, 0, NULL);
  team_claim_leave(teams[2]);
  cr_assert_eq(team_poll(teams[2], &got), TEAM_FAILED);
  cr_assert_eq(teams[2]->failed.how, FAILURE_TOO_BIG);
}

Test(team_limits, what_a_peer_published_is_checked) {
  learn_loop();
  struct unit got;
  team_claim(teams[0], unit(&C), 0, NULL);
  cr_assert(team_commit(teams[1], unit(&A)));
  atomic_fetch_xor(&planes_rank(memory, 1)->logs[1]->entries[8].hash, 1);
  cr_assert_eq(team_poll(teams[0], &got), TEAM_FAILED);
  cr_assert_eq(teams[0]->failed.how, FAILURE_CORRUPT);
}

Test(team_limits, nobody_is_woken_when_nobody_waits) {
  learn_loop();
  uint64_t rings = planes_rings(memory);
  for (int i = 0; i < 100; i++)
    cr_assert(team_commit(teams[0], unit(&A)));
  cr_assert_eq(planes_rings(memory), rings);
  struct unit got;
  cr_assert_eq(team_wait(teams[1], &got, 1), TEAM_SHADOW, "there are units to follow: no sleep");
  team_claim(teams[1], unit(&C), 0, NULL);
  while (team_poll(teams[1], &got) != TEAM_PARKED)
    ;
  rings = planes_rings(memory);
  cr_assert_eq(team_wait(teams[1], &got, 1), TEAM_PARKED);
  cr_assert(team_commit(teams[0], unit(&A)));
  cr_assert_eq(planes_rings(memory), rings + 1);
  cr_assert(team_commit(teams[0], unit(&A)));
  cr_assert_eq(planes_rings(memory), rings + 1, "rung once for each sleep");
}

Test(team_limits, the_rank_that_began_a_failure_is_named) {
  learn_loop();
  struct unit got;
  team_claim(teams[0], unit(&C), 0, NULL);
  team_end(teams[2], RANK_FAILED); /* it aborted because rank 1 was killed */
  planes_kill(memory, 1);
  cr_assert_eq(team_poll(teams[0], &got), TEAM_FAILED);
  cr_assert_eq(teams[0]->failed.rank, 2);
  team_find_culprit(teams[0]);
  cr_assert_eq(teams[0]->failed.rank, 1);
}

/* It has issued more than the one that failed because of it, whose process is gone before its own.
 */
Test(team_limits, the_rank_that_failed_first_is_named) {
  learn_loop();
  struct unit got;
  team_claim(teams[0], unit(&C), 0, NULL);
  cr_assert(team_commit(teams[1], unit(&A)));
  team_end(teams[1], RANK_FAILED);
  team_end(teams[2], RANK_FAILED);
  team_end(teams[1], RANK_FAILED); /* as its process ends, too: it was the first */
  planes_kill(memory, 2);
  cr_assert_eq(team_poll(teams[0], &got), TEAM_FAILED);
  team_find_culprit(teams[0]);
  cr_assert_eq(teams[0]->failed.rank, 1);
}

/* What another rank has failed before is waited for in vain; what it has issued is not. */
Test(team_limits, who_failed_before_what_this_rank_has_issued_is_found) {
  uint32_t rank = RANKS;
  uint64_t issued = 0;
  learn_loop();
  uint64_t before = team_passed(teams[0]);
  cr_assert(team_commit(teams[1], unit(&A)));
  team_end(teams[1], RANK_FAILED);
  cr_assert_not(team_find_lost(teams[0], team_passed(teams[0]), &rank, &issued));
  cr_assert(team_commit(teams[0], unit(&A)));
  cr_assert_not(team_find_lost(teams[0], team_passed(teams[0]), &rank, &issued));
  cr_assert(team_find_lost(teams[0], UINT64_MAX, &rank, &issued),
            "its device may not have done it");
  cr_assert_eq(rank, 1);
  planes_kill(memory, 2);
  cr_assert_not(team_find_lost(teams[0], team_passed(teams[0]), &rank, &issued),
                "nobody has looked");
  team_look_for_the_dead(teams[0]);
  cr_assert(team_find_lost(teams[0], team_passed(teams[0]), &rank, &issued));
  cr_assert_eq(rank, 2);
  cr_assert_eq(issued, before);
}

Test(team_limits, who_died_is_named_and_not_who_failed_of_it) {
  uint32_t rank = RANKS;
  uint64_t issued = 0;
  learn_loop();
  team_end(teams[1], RANK_FAILED); /* it aborted because rank 2 was killed */
  cr_assert(team_commit(teams[0], unit(&A)));
  cr_assert(team_find_lost(teams[0], team_passed(teams[0]), &rank, &issued));
  cr_assert_eq(rank, 1);
  planes_kill(memory, 2);
  team_look_for_the_dead(teams[0]);
  cr_assert(team_find_lost(teams[0], team_passed(teams[0]), &rank, &issued));
  cr_assert_eq(rank, 2);
  planes_kill(memory, 1); /* it has ended meanwhile */
  team_look_for_the_dead(teams[0]);
  cr_assert(team_find_lost(teams[0], team_passed(teams[0]), &rank, &issued));
  cr_assert_eq(rank, 2);
}

Test(team_limits, who_could_not_issue_what_it_passed_is_found) {
  uint32_t rank = RANKS;
  uint64_t issued = 0;
  learn_loop();
  uint64_t before = team_passed(teams[0]);
  for (uint32_t i = 0; i < RANKS; i++)
    cr_assert(team_commit(teams[i], unit(&A)));
  cr_assert_not(team_find_lost(teams[0], team_passed(teams[0]), &rank, &issued));
  team_end_short(teams[1]);
  cr_assert(team_find_lost(teams[0], team_passed(teams[0]), &rank, &issued));
  cr_assert_eq(rank, 1);
  cr_assert_eq(issued, before);
  cr_assert_not(team_find_lost(teams[1], team_passed(teams[1]), &rank, &issued),
                "nor is itself the one");
}

Test(team_limits, leaving_in_different_orders_is_seen) {
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
Test(team_limits, a_rank_that_left_ahead_does_not_keep_the_others) {
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
Test(team_limits, a_rank_that_wants_something_here_is_not_leaving) {
  units();
  team_claim_leave(teams[0]);
  team_claim(teams[1], unit(&A), 0, NULL);
  team_say_leaving(teams[2], true);
  cr_assert_not(team_all_leaving(teams[0]));
}

/* A rank waits for too long, in the moment in which rank 2 follows what rank 1 has from it. */
static bool rank_0_gives_up(void *context) {
  (void)context;
  team_give_up(teams[0]);
  return false;
}

Test(team_limits, a_claim_given_up_while_it_is_followed_is_not_taken_for_corruption) {
  units();
  struct unit got;
  for (uint32_t rank = 0; rank < RANKS; rank++)
    team_claim(teams[rank], unit(rank == 0 ? &B : rank == 1 ? &A : &C), 0, NULL);
  cr_assert_eq(team_poll(teams[1], &got), TEAM_SHADOW, "B is larger: it goes first");
  teams[2]->owner.is_held = rank_0_gives_up;
  cr_assert_eq(team_poll(teams[2], &got), TEAM_PARKED);
  teams[2]->owner.is_held = NULL;
  team_end(teams[0], RANK_FAILED);
  cr_assert_eq(team_poll(teams[2], &got), TEAM_FAILED);
  cr_assert_eq(teams[2]->failed.how, FAILURE_RANK);
  cr_assert_eq(teams[2]->failed.rank, 0);
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
        if (step >= RANKS && team->claim.open)
          cr_assert_eq(team_poll(team, &got), TEAM_REAL);
        else if (step < RANKS && !team_commit(team, body[k]))
          team_claim(team, body[k], 0, NULL);
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
    team_claim(teams[0], large(which + 1), 0, NULL);
  }
  return false;
}

Test(team_limits, the_text_of_a_claim_that_was_expected_is_kept_for_who_settles_before_it) {
  struct unit got;
  learn_loop_of_groups();
  for (uint32_t rank = 0; rank < RANKS; rank++)
    cr_assert(team_commit(teams[rank], unit(&B)));
  for (uint32_t rank = 0; rank < RANKS; rank++)
    team_claim(teams[rank], rank == 0 ? large(0) : unit(&C), 0, NULL);
  teams[2]->owner.is_held = others_go_on;
  cr_assert_eq(team_poll(teams[2], &got), TEAM_REAL, "failure %d", (int)teams[2]->failed.how);
  teams[2]->owner.is_held = NULL;
  for (uint32_t which = 0; which < 2; which++)
    cr_assert(team_commit(teams[2], large(which)));
  team_claim(teams[2], large(2), 0, NULL);
  team_claim(teams[1], large(2), 0, NULL);
  for (uint32_t i = 0; i < RANKS; i++)
    cr_assert_eq(team_poll(teams[i], &got), TEAM_REAL);
}
