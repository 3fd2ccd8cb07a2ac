/* Ranks that go on without one of them: the smaller communicator has a team of its own, and join
 * works there as anywhere. */
#include "tests/join/expected.h"
#include "tests/join/run.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>

static struct run *run_shrink(const struct schedule *schedule, int at, int without,
                              const char *how) {
  char options[128];
  snprintf(options, sizeof options, "--iterations %s --at %d --without %d --how %s",
           schedule_text(schedule), at, without, how);
  return run(&(struct launch){.nranks = schedule->nranks,
                              .program = "shrink",
                              .options = options,
                              .environment = "NCCL_JOIN_TIMEOUT=10 LOOPBACK_DEATH=hang",
                              .each = true});
}

/* Of the ranks but the one that is left out. */
static void add_rank(struct lines *lines, const struct schedule *schedule, int rank, int at,
                     int without) {
  unsigned rest = set_of_all(schedule->nranks) & ~(1u << without);
  for (int i = 0; i < schedule->n[0][rank]; i++)
    lines_add(lines, rank, "sum %d %u", i,
              schedule_active(schedule, 0, i) & (i < at ? rest | 1u << without : rest));
  lines_add(lines, rank, "made %d %d", set_size(rest & ((1u << rank) - 1)), set_size(rest));
}

static void check(const struct schedule *schedule, int at, int without) {
  struct run *result = run_shrink(schedule, at, without, "joined");
  assert_went_well(result);
  struct lines *lines = lines_create();
  for (int rank = 0; rank < schedule->nranks; rank++)
    if (rank != without)
      add_rank(lines, schedule, rank, at, without);
  for (int i = 0; i < schedule->n[0][without]; i++)
    lines_add(lines, without, "sum %d %u", i, schedule_active(schedule, 0, i));
  lines_add_left(lines, schedule->nranks);
  finish_run(result, lines);
}

Test(shrink, without_a_rank_that_has_joined) {
  check(&(struct schedule){3, 1, {{8, 3, 8}}}, 5, 1);
}
Test(shrink, and_uneven_loops_afterwards) {
  check(&(struct schedule){4, 1, {{9, 14, 3, 8}}}, 5, 2);
}
Test(shrink, after_learning) {
  check(&(struct schedule){3, 1, {{22, 45, 39}}}, 30, 0);
}

/* The team that has failed is no hindrance: neither for the new one, nor for the end. Over shared
 * memory NCCL does not see that a rank has died: nccl-join does. */
static void check_killed(const struct schedule *schedule, int at, int without) {
  struct run *result = run_shrink(schedule, at, without, "killed");
  cr_assert_not(result->timed_out, "%s%s", result->output, result->errors);
  struct lines *lines = lines_create();
  for (int rank = 0; rank < schedule->nranks; rank++) {
    cr_assert_eq(result->rank_status[rank], rank == without ? 128 + SIGKILL : 0,
                 "rank %d: %d\n%s%s", rank, result->rank_status[rank], result->output,
                 result->errors);
    if (rank == without)
      for (int i = 0; i < at; i++)
        lines_add(lines, rank, "sum %d %u", i, schedule_active(schedule, 0, i));
    else
      add_rank(lines, schedule, rank, at, without);
    if (rank != without)
      lines_add(lines, rank, "left");
  }
  finish_run(result, lines);
}

Test(shrink, after_a_rank_has_been_killed) {
  check_killed(&(struct schedule){3, 1, {{12, 12, 12}}}, 5, 1);
}
Test(shrink, after_a_rank_has_been_killed_and_uneven_loops) {
  check_killed(&(struct schedule){4, 1, {{29, 35, 26, 40}}}, 21, 0);
}

/* A communicator of the same ranks: not in the team of the one that was given up. */
Test(shrink, no_further_than_to_a_split_after_a_revocation) {
  const struct schedule schedule = {3, 1, {{9, 13, 7}}};
  struct run *result = run_shrink(&schedule, 5, 0, "revoked");
  assert_went_well(result);
  struct lines *lines = lines_create();
  for (int rank = 0; rank < schedule.nranks; rank++) {
    for (int i = 0; i < schedule.n[0][rank]; i++)
      lines_add(lines, rank, "sum %d %u", i, schedule_active(&schedule, 0, i));
    lines_add(lines, rank, "made %d %d", rank, schedule.nranks);
  }
  lines_add_left(lines, schedule.nranks);
  finish_run(result, lines);
}

Test(shrink, uneven_loops_hang_without_join) {
  assert_stuck_without(3, "shrink", "--iterations 8,3,8 --at 5 --without 1");
}
