/* One all-reduce per iteration, ranks with different numbers of iterations: the heart of the
 * matter. */
#include "tests/join/expected.h"
#include "tests/join/run.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

/* Runs programs/sum with these iterations and more options, and compares every number. */
static void check_sum(const struct schedule *schedule, const char *options, int collectives) {
  char text[512];
  snprintf(text, sizeof text, "--iterations %s --collectives %d %s", schedule_text(schedule),
           collectives, options);
  struct run *result =
      run(&(struct launch){.nranks = schedule->nranks, .program = "sum", .options = text});
  assert_went_well(result);
  struct lines *lines = lines_create();
  lines_add_sum(lines, schedule, collectives);
  lines_add_left(lines, schedule->nranks);
  finish_run(result, lines);
}

/* PyTorch's own test of Join: rank r has 3 + r iterations. */
static struct schedule staircase(int nranks) {
  struct schedule schedule = {.nranks = nranks, .epochs = 1};
  for (int rank = 0; rank < nranks; rank++)
    schedule.n[0][rank] = 3 + rank;
  return schedule;
}

static void check_staircase(int nranks, int collectives) {
  struct schedule schedule = staircase(nranks);
  check_sum(&schedule, "", collectives);
}

Test(sums, two_ranks_leave_one_after_the_other) {
  check_staircase(2, 1);
}
Test(sums, three_ranks_leave_one_after_the_other) {
  check_staircase(3, 1);
}
Test(sums, five_ranks_leave_one_after_the_other) {
  check_staircase(5, 1);
}
Test(sums, eight_ranks_leave_one_after_the_other) {
  check_staircase(8, 1);
}
Test(sums, several_collectives_in_an_iteration) {
  check_staircase(4, 3);
}

/* The same with contributions of 1: rank r's results add up to 3W plus W - k for each k up to r. */
Test(sums, totals_are_those_of_the_formula) {
  enum { NRANKS = 4 };
  struct run *result = run(&(struct launch){
      .nranks = NRANKS, .program = "sum", .options = "--iterations 3+1 --value 1"});
  assert_went_well(result);
  for (int rank = 0, total = 3 * NRANKS; rank < NRANKS; rank++) {
    char line[64];
    total += rank > 0 ? NRANKS - rank : 0;
    snprintf(line, sizeof line, "RESULT %d total %d\n", rank, total);
    cr_assert(strstr(result->output, line) != NULL, "no %s in\n%s", line, result->output);
  }
  run_free(result);
}

/* Averages are over the number of ranks at the start, as PyTorch's and Horovod's default is: 50,
 * and from the fourth iteration on 50 (W - 1) / W. */
static void check_average(int nranks) {
  struct run *result =
      run(&(struct launch){.nranks = nranks,
                           .program = "sum",
                           .options = "--iterations 3,5 --reduction avg --value 50"});
  assert_went_well(result);
  struct lines *lines = lines_create();
  for (int rank = 0; rank < nranks; rank++) {
    double total = 0;
    for (int i = 0; i < (rank == 0 ? 3 : 5); i++) {
      double share = i < 3 ? 1 : (double)(nranks - 1) / nranks;
      lines_add(lines, rank, "sum 0 %d 0 %.9g %.9g", i, 50 * share, (i + 1) * share);
      total += 50 * share;
    }
    lines_add(lines, rank, "total %.9g", total);
  }
  lines_add_left(lines, nranks);
  finish_run(result, lines);
}

Test(sums, averages_divide_by_the_initial_number_of_two) {
  check_average(2);
}
Test(sums, averages_divide_by_the_initial_number_of_four) {
  check_average(4);
}

/* Skews around five iterations: who leaves early, how much later the others. */
Test(sums, first_rank_leaves_two_iterations_early) {
  check_sum(&(struct schedule){3, 1, {{5, 7, 7}}}, "", 1);
}
Test(sums, first_rank_leaves_three_iterations_early) {
  check_sum(&(struct schedule){3, 1, {{5, 8, 8}}}, "", 1);
}
Test(sums, first_rank_leaves_ten_iterations_early) {
  check_sum(&(struct schedule){3, 1, {{5, 15, 15}}}, "", 1);
}
Test(sums, last_rank_leaves_early) {
  check_sum(&(struct schedule){4, 1, {{15, 15, 15, 5}}}, "", 1);
}
Test(sums, rank_in_the_middle_leaves_early) {
  check_sum(&(struct schedule){4, 1, {{12, 12, 5, 12}}}, "", 1);
}
Test(sums, only_one_rank_stays) {
  check_sum(&(struct schedule){4, 1, {{4, 4, 20, 4}}}, "", 1);
}

Test(sums, two_ranks_leave_early_at_different_times) {
  check_sum(&(struct schedule){4, 1, {{5, 10, 15, 15}}}, "", 1);
}
Test(sums, two_ranks_of_three_leave_early_at_different_times) {
  check_sum(&(struct schedule){3, 1, {{5, 6, 8}}}, "", 1);
}

/* A rank with nothing to do has learnt nothing. */
Test(sums, rank_without_iterations) {
  check_sum(&(struct schedule){2, 1, {{0, 2}}}, "", 1);
}
Test(sums, ranks_without_iterations) {
  check_sum(&(struct schedule){5, 1, {{3, 0, 10, 0, 10}}}, "", 1);
}
Test(sums, only_one_rank_has_iterations) {
  check_sum(&(struct schedule){3, 1, {{0, 10, 0}}}, "", 2);
}

/* Ranks that run ahead of their devices: the host waits only at the end. */
Test(sums, hosts_that_run_ahead) {
  check_sum(&(struct schedule){4, 1, {{40, 300, 200, 300}}}, "--sync end", 1);
}
Test(sums, hosts_that_run_ahead_with_several_collectives) {
  check_sum(&(struct schedule){3, 1, {{100, 30, 7}}}, "--sync end --count 100", 3);
}

/* Counts at the edges: two elements, an odd number of many, more than a shadow buffer's first
 * guess. */
Test(sums, two_elements) {
  check_sum(&(struct schedule){3, 1, {{3, 4, 5}}}, "--count 2", 1);
}
Test(sums, large_buffers) {
  check_sum(&(struct schedule){2, 1, {{3, 8}}}, "--count 262145", 1);
}

Test(sums, long_skew) {
  check_sum(&(struct schedule){2, 1, {{5, 1200}}}, "--sync end --count 8", 1);
}

/* ---- NCCL_JOIN_SHADOW_MEMORY ---- */

/* The program's buffers have 16 MiB; a shadow of the same size would need as much again. */
#define LARGE "--count 2097152"
#define LITTLE_MEMORY "LOOPBACK_DEVICE_MEMORY_MB=24 "

Test(sums, aliased_shadows_need_little_memory) {
  struct schedule schedule = {.nranks = 3, .epochs = 1, .n = {{3, 8, 0}}};
  char text[512];
  snprintf(text, sizeof text, "--iterations %s " LARGE, schedule_text(&schedule));
  struct run *result =
      run(&(struct launch){.nranks = schedule.nranks,
                           .program = "sum",
                           .options = text,
                           .environment = LITTLE_MEMORY "NCCL_JOIN_SHADOW_MEMORY=alias"});
  assert_went_well(result);
  struct lines *lines = lines_create();
  lines_add_sum(lines, &schedule, 1);
  lines_add_left(lines, schedule.nranks);
  finish_run(result, lines);
}

Test(sums, plain_shadows_need_as_much_memory_as_the_buffers) {
  struct run *result = run(&(struct launch){.nranks = 2,
                                            .program = "sum",
                                            .options = "--iterations 3,5 " LARGE,
                                            .environment = LITTLE_MEMORY "NCCL_JOIN_TIMEOUT=5"});
  cr_assert(run_says(result, "cannot allocate 8388608 bytes"), "%s", result->errors);
  run_free(result);
}
