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
    if (strncmp(ending, "return", 6) != 0 && strncmp(ending, "exit", 4) != 0 &&
        strncmp(ending, "vanish", 6) != 0)
      lines_add(lines, rank, "left");
    const char *comma = strchr(ending, ',');
    ending = comma != NULL ? comma + 1 : ending;
  }
  finish_run(result, lines);
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
/* As Python's os._exit, and with it what multiprocessing has forked. */
Test(endings, underscore_exit_with_status_0) {
  check_ending(&uneven, "vanish");
}
Test(endings, underscore_exit_and_other_ways) {
  check_ending(&uneven, "vanish,exit,finalize");
}
Test(endings, underscore_exit_inside_an_iteration_is_named) {
  struct run *result = run(&(struct launch){.nranks = 3,
                                            .program = "endings",
                                            .options = "--iterations 20 --break 1:12:vanish",
                                            .each = true});
  cr_assert(run_says(result, "rank 1 ends by _exit inside an iteration"), "%s", result->errors);
  cr_assert_neq(result->status, 0);
  run_free(result);
}
/* ncclGetLastError, which the program prints, and PyTorch. An error of NCCL's own that comes later
 * is the last one: the stand-in has none of the death of a rank. */
Test(endings, last_error_is_the_sentence_of_the_log) {
  struct run *result =
      run(&(struct launch){.nranks = 3,
                           .program = "endings",
                           .options = "--iterations 3,20,20 --barrier 1 --break 1:12:kill",
                           .environment = "LOOPBACK_DEATH=hang",
                           .each = true});
  cr_assert(run_says_in_a_line(result, "ncclAllReduce", "(nccl-join: rank 1 failed after", NULL),
            "%s", result->errors);
  run_free(result);
}
/* Each rank has the device of its number on its machine, which stands in front. */
Test(endings, lines_of_the_log_name_rank_and_communicator) {
  struct run *result = run(&(struct launch){.nranks = 3,
                                            .program = "sum",
                                            .options = "--iterations 3,5,4",
                                            .environment = "NCCL_JOIN_DEBUG=INFO"});
  unsigned first = 0, lines = 0;
  for (char *rest = result->errors, *line; (line = strsep(&rest, "\n")) != NULL;) {
    int of = -1, rank = -1, nranks = 0;
    unsigned tag = 0;
    void *comm = NULL;
    if (strstr(line, "NCCL-JOIN") == NULL || strstr(line, "INFO in front of") != NULL)
      continue;
    const char *named = strrchr(line, '[');
    sscanf(strchr(line, '['), "[%d]", &of);
    cr_assert_eq(sscanf(named, "[comm %p rank %d nranks %d tag %8x]", &comm, &rank, &nranks, &tag),
                 4, "%s", line);
    first = first == 0 ? tag : first;
    cr_expect(comm != NULL && nranks == 3 && tag == first && of == run_local_rank(3, rank), "%s",
              line);
    lines++;
  }
  cr_expect_geq(lines, 9, "joins, leaves and comes back: %u lines", lines);
  run_free(result);
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

/* Rank 0 has long left its loop and waits in a call; rank 1 fails in the middle of iteration 8;
 * rank 2 is active. Nobody takes rank 1's place. Rank 0 is freed before long, by an error of
 * that call, and a line says who failed. */
static void check_failure(const char *how, int status, const char *more, const char *call) {
  const struct schedule schedule = {3, 1, {{4, 20, 20}}};
  enum { FAILS_IN = 8 };
  char text[256];
  snprintf(text, sizeof text, "--iterations %s --break 1:%d:%s %s", schedule_text(&schedule),
           FAILS_IN, how, more);
  struct run *result =
      run(&(struct launch){.nranks = 3, .program = "endings", .options = text, .each = true});
  cr_assert(!result->timed_out, "somebody stays for ever\n%s%s", result->output, result->errors);
  cr_assert(result->rank_status[1] == status, "rank 1 ended with %d\n%s", result->rank_status[1],
            result->errors);
  cr_assert(run_says_in_a_line(result, "rank 1 failed", NULL),
            "nobody says that rank 1 failed:\n%s", result->errors);
  char bucket[64];
  snprintf(bucket, sizeof bucket, "RESULT 2 bucket %d 1 ", FAILS_IN);
  cr_assert(strstr(result->output, bucket) == NULL, "rank 1 was shadowed\n%s", result->output);
  if (call != NULL) {
    char error[64];
    snprintf(error, sizeof error, "RESULT 0 error %d %s", REMOTE_ERROR, call);
    cr_assert(strstr(result->output, error) != NULL, "rank 0 has no error %d of %s\n%s%s",
              REMOTE_ERROR, call, result->output, result->errors);
    double freed = run_time(result, 0, "error") - run_time(result, 1, "leave");
    cr_assert(freed > 0 && freed < 60, "rank 0 is freed after %.3f s", freed);
  }
  run_free(result);
}

enum { KILLED = 128 + 9 };

Test(failures, exit_with_status_1_while_another_finalizes) {
  check_failure("fail", 1, "--end finalize", "ncclComm");
}
Test(failures, killed_while_another_finalizes) {
  check_failure("kill", KILLED, "--end finalize", "ncclComm");
}
Test(failures, abort_inside_the_loop_while_another_finalizes) {
  check_failure("abort", 0, "--end finalize", "ncclComm");
}
Test(failures, killed_while_another_destroys) {
  check_failure("kill", KILLED, "--end destroy", "ncclCommDestroy");
}
Test(failures, exit_with_status_1_while_another_waits_in_a_barrier) {
  check_failure("fail", 1, "--barrier 1", "ncclAllReduce");
}
Test(failures, killed_while_another_waits_in_a_barrier) {
  check_failure("kill", KILLED, "--barrier 1", "ncclAllReduce");
}
Test(failures, abort_inside_the_loop_while_another_waits_in_a_barrier) {
  check_failure("abort", 0, "--barrier 1", "ncclAllReduce");
}

/* A rank that waits in its exit, or in an abort, has nobody to return an error to: it ends. */
Test(failures, killed_while_another_returns_from_main) {
  check_failure("kill", KILLED, "--end return", NULL);
}
Test(failures, killed_while_another_aborts) {
  check_failure("kill", KILLED, "--end abort", NULL);
}

/* The launcher's status is the failing rank's, and it ends the others. */
Test(failures, launcher_reports_the_failing_rank) {
  struct run *result = run(&(struct launch){
      .nranks = 3, .program = "endings", .options = "--iterations 4,20,20 --break 2:8:fail"});
  cr_assert(!result->timed_out, "the launcher waits for ever\n%s%s", result->output,
            result->errors);
  cr_assert(result->status == 1, "status %d\n%s", result->status, result->errors);
  run_free(result);
}

/* The others fail because of it, and their processes end before its own. */
Test(failures, launcher_names_the_rank_that_failed_first) {
  struct run *result =
      run(&(struct launch){.nranks = 3,
                           .program = "endings",
                           .here = true,
                           .options = "--iterations 20 --break 1:8:fail --linger 1"});
  cr_assert(!result->timed_out, "%s", result->errors);
  cr_expect(run_says(result, "nccl-join: rank 1 ended with status 1"), "%s", result->errors);
  run_free(result);
}

/* How it has ended, and what it had done, stands in the line of each other rank: killed in
 * iteration 8 of rank 1, behind the sums of that. */
static void check_how(const char *how, const char *says) {
  char text[128];
  snprintf(text, sizeof text, "--iterations 4,20,20 --barrier 1 --break 1:8:%s", how);
  struct run *result =
      run(&(struct launch){.nranks = 3, .program = "endings", .options = text, .each = true});
  cr_assert(run_says_in_a_line(result, "rank 1 failed after", says, "after allreduce(sum, float32,",
                               "; rank 0, parked in", NULL),
            "%s", result->errors);
  run_free(result);
}
Test(failures, a_rank_that_was_killed_is_named_with_the_signal) {
  check_how("kill", "collectives, killed by signal 9 (SIGKILL: somebody, its launcher, or");
}
Test(failures, a_rank_that_has_ended_is_named_with_its_status) {
  check_how("fail", "collectives, ended with status 1");
}
Test(failures, a_rank_that_has_vanished_is_named_with_its_status) {
  check_how("vanish", "collectives, ended with status 0");
}
Test(failures, a_rank_that_has_aborted_is_still_there) {
  check_how("abort", "collectives, ");
}
