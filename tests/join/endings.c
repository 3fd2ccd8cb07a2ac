/* Ways to leave, and ways to fail. */
#include "tests/join/expected.h"
#include "tests/join/run.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

enum { BUCKETS = 3, REMOTE_ERROR = 6 /* ncclRemoteError */ };

/* Expects programs/endings' buckets, up to a rank's last. */
static void add_buckets(struct lines *lines, const struct schedule *schedule) {
  for (int rank = 0; rank < schedule->nranks; rank++)
    for (int i = 0; i < schedule->n[0][rank]; i++)
      for (int b = 0; b < BUCKETS; b++) {
        unsigned active = schedule_active(schedule, 0, i);
        lines_add(lines, rank, "bucket %d %d %u %d", i, b, active, set_size(active) * (i + 1));
      }
}

/* The ways of ending, one for each rank; those that come back from it say so. */
static void check_ending(const struct schedule *schedule, const char *endings) {
  char text[256];
  snprintf(text, sizeof text, "--iterations %s --end %s", schedule_text(schedule), endings);
  struct run *result =
      run(&(struct launch){.nranks = schedule->nranks, .program = "endings", .options = text});
  assert_went_well(result);
  struct lines *lines = lines_create();
  add_buckets(lines, schedule);
  const char *ending = endings;
  for (int rank = 0; rank < schedule->nranks; rank++) {
    if (strncmp(ending, "return", 6) != 0 && strncmp(ending, "exit", 4) != 0)
      lines_add(lines, rank, "left");
    const char *comma = strchr(ending, ',');
    ending = comma != NULL ? comma + 1 : ending;
  }
  assert_results(result, lines);
  lines_free(lines);
  run_free(result);
}

static const struct schedule uneven = {3, 1, {{4, 9, 7}}};

Test(endings, finalize_and_destroy) {
  check_ending(&uneven, "finalize");
}
Test(endings, destroy_only) {
  check_ending(&uneven, "destroy");
}
Test(endings, abort_at_the_end_of_the_loop) {
  check_ending(&uneven, "abort");
}
Test(endings, return_from_main) {
  check_ending(&uneven, "return");
}
Test(endings, exit_with_status_0) {
  check_ending(&uneven, "exit");
}
Test(endings, each_rank_in_its_own_way) {
  check_ending(&uneven, "return,finalize,abort");
}
Test(endings, each_rank_in_another_way) {
  check_ending(&uneven, "exit,destroy,return");
}
Test(endings, abort_of_a_rank_without_iterations) {
  check_ending(&(struct schedule){3, 1, {{5, 0, 5}}}, "abort");
}

/* Rank 0 has long left its loop; rank 1 fails in the middle of iteration 8; rank 2 is active.
 * Nobody takes rank 1's place. Rank 0 is freed within a second and says who failed. */
static void check_failure(const char *how, const char *first_ends, int status) {
  const struct schedule schedule = {3, 1, {{4, 20, 20}}};
  enum { FAILS_IN = 8 };
  char text[256];
  snprintf(text, sizeof text, "--iterations %s --break 1:%d:%s --end %s", schedule_text(&schedule),
           FAILS_IN, how, first_ends);
  struct run *result = run(&(struct launch){
      .nranks = 3, .program = "endings", .options = text, .each = true, .limit_s = 20});
  cr_assert(!result->timed_out, "somebody stays for ever\n%s%s", result->output, result->errors);
  cr_assert(result->rank_status[1] == status, "rank 1 ended with %d\n%s", result->rank_status[1],
            result->errors);
  cr_assert(run_says_in_a_line(result, "rank 1", "fail", NULL),
            "nobody says that rank 1 failed:\n%s", result->errors);

  char error[64];
  snprintf(error, sizeof error, "RESULT 0 error %d", REMOTE_ERROR);
  cr_assert(strstr(result->output, error) != NULL, "rank 0 has no error %d\n%s%s", REMOTE_ERROR,
            result->output, result->errors);
  double freed = run_time(result, 0, "error") - run_time(result, 1, "leave");
  cr_assert(freed > 0 && freed < 1, "rank 0 is freed after %.3f s", freed);

  char bucket[64];
  snprintf(bucket, sizeof bucket, "RESULT 2 bucket %d 1 ", FAILS_IN);
  cr_assert(strstr(result->output, bucket) == NULL, "rank 1 was shadowed\n%s", result->output);
  run_free(result);
}

Test(failures, exit_with_status_1_inside_the_loop) {
  check_failure("fail", "finalize", 1);
}
Test(failures, killed_inside_the_loop) {
  check_failure("kill", "finalize", 128 + 9);
}
Test(failures, abort_inside_the_loop) {
  check_failure("abort", "finalize", 0);
}
Test(failures, killed_while_another_destroys) {
  check_failure("kill", "destroy", 128 + 9);
}

/* A rank parked in its exit has nobody to return an error to: it ends, as if alone. */
Test(failures, killed_while_another_returns_from_main) {
  struct run *result =
      run(&(struct launch){.nranks = 3,
                           .program = "endings",
                           .options = "--iterations 4,20,20 --break 1:8:kill --end return",
                           .each = true,
                           .limit_s = 20});
  cr_assert(!result->timed_out, "somebody stays for ever\n%s%s", result->output, result->errors);
  cr_assert(run_says_in_a_line(result, "rank 1", "fail", NULL),
            "nobody says that rank 1 failed:\n%s", result->errors);
  run_free(result);
}

/* A failure while the others wait for each other in a barrier, not in leaving. */
Test(failures, killed_while_another_waits_in_a_collective) {
  struct run *result = run(&(struct launch){
      .nranks = 3,
      .program = "ddp",
      .options = "--iterations 4,9,12 --after barrier --end finalize,fail,finalize",
      .each = true,
      .limit_s = 20});
  /* All meet in the barrier before rank 1 fails: rank 0 and 2 then leave while a rank has failed.
   */
  cr_assert(!result->timed_out, "somebody stays for ever\n%s%s", result->output, result->errors);
  cr_assert(result->rank_status[1] == 1);
  run_free(result);
}

/* The launcher's status is the failing rank's, and it ends the others. */
Test(failures, launcher_reports_the_failing_rank) {
  struct run *result = run(&(struct launch){.nranks = 3,
                                            .program = "endings",
                                            .options = "--iterations 4,20,20 --break 2:8:fail",
                                            .limit_s = 20});
  cr_assert(!result->timed_out, "the launcher waits for ever\n%s%s", result->output,
            result->errors);
  cr_assert(result->status == 1, "status %d\n%s", result->status, result->errors);
  run_free(result);
}
