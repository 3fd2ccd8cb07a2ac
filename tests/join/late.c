/* Communicators made after a loop, with nothing sent on the way: who is there first waits in NCCL
 * for ranks that are still in the loop. */
#include "tests/join/expected.h"
#include "tests/join/run.h"

#include <criterion/criterion.h>
#include <stdio.h>

#define SAID "rank 0 waits inside of ncclCommInitRank"

/* What programs/late prints, where the first so many ranks make `made` communicators. */
static struct lines *expected(const struct schedule *schedule, int members, int made) {
  struct lines *lines = lines_create();
  lines_add_epoch_sums(lines, schedule);
  for (int rank = 0; rank < members; rank++)
    for (int i = 0; i < made; i++)
      lines_add(lines, rank, "made %d %d %d", i, (1 << members) - 1, members * 1000 * (i + 1));
  lines_add_left(lines, schedule->nranks);
  return lines;
}

static struct run *start(const char *options, const char *environment) {
  return run(&(struct launch){.nranks = 3,
                              .program = "late",
                              .options = options,
                              .environment = environment,
                              .limit_s = 30,
                              .enough = SAID});
}

static void check_said(const char *options, const char *environment, const char *which,
                       const char *why) {
  struct run *result = start(options, environment);
  cr_assert(
      run_says_in_a_line(result, SAID, which, why, "call nccl_join_leave after the loop", NULL),
      "%s\n%s", options, result->errors);
  run_free(result);
}

/* Nothing is said, and all comes to its end. */
static void check_even(const char *options, const struct schedule *schedule, int members,
                       int made) {
  struct run *result = start(options, "");
  assert_went_well(result);
  cr_assert(!run_says(result, "NCCL-JOIN"), "%s", result->errors);
  finish_run(result, expected(schedule, members, made));
}

Test(late, who_waits_for_ranks_in_a_loop_that_it_has_left_says_so) {
  check_said("--iterations 3,8,5", "", "of 3 ranks, to which ranks 1, 2 have not come",
             "Others are still in a loop that it has left");
}

Test(late, and_in_a_group) {
  check_said("--iterations 3,8,5 --grouped 1", "", "ranks 1, 2 have not come",
             "Others are still in a loop that it has left");
}

Test(late, and_where_it_does_not_block) {
  check_said("--iterations 3,8,5 --deferred 1", "", "ranks 1, 2 have not come",
             "Others are still in a loop that it has left");
}

Test(late, and_where_some_of_the_ranks_make_it) {
  check_said("--iterations 3,8,5 --members 2", "", "of 2 ranks, to which rank 1 has not come",
             "Others are still in a loop that it has left");
}

/* They may be in the next epoch, and then nobody is uneven. */
Test(late, and_later_in_a_loop_of_epochs) {
  check_said("--iterations 3,8,5/3,3,3 --when after", "NCCL_JOIN_STALL_WARN=6",
             "ranks 1, 2 have not come", "NCCL_JOIN_STALL_WARN has passed");
}

/* Rank 2 is in the loop meanwhile, and waits there for the two others. */
Test(late, an_even_program_is_told_nothing) {
  static const struct schedule schedule = {3, 1, {{4, 4, 4}}};
  check_even("--iterations 4 --when inside --members 2 --slow 1:2:7000", &schedule, 2, 4);
}

Test(late, nor_is_one_whose_ranks_are_an_epoch_apart) {
  static const struct schedule schedule = {3, 2, {{4, 4, 4}, {4, 4, 4}}};
  check_even("--iterations 4/4 --when after --members 2 --slow 1:0:7000", &schedule, 2, 2);
}

Test(late, nor_is_one_with_a_slow_rank) {
  static const struct schedule schedule = {3, 1, {{4, 4, 4}}};
  check_even("--iterations 4 --slow 1:0:7000", &schedule, 3, 1);
}

Test(late, without_nccl_join_it_is_stuck) {
  assert_stuck_without(3, "late", "--iterations 3,8,5");
}
