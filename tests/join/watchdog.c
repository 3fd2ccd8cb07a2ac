/* Long skews, ranks that stall, and ranks that are only slow. */
#include "tests/join/expected.h"
#include "tests/join/run.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* Lines of stderr with the text. */
static int count_lines(const struct run *run, const char *text) {
  int n = 0;
  for (const char *at = run->errors; (at = strstr(at, text)) != NULL; n++)
    at += strcspn(at, "\n");
  return n;
}

/* ---- long skew ---- */

/* Runs sum with hosts that run ahead; all numbers are right, and each of these ranks (a mask) warns
 * once and nobody else does. */
static void check_skew(const struct schedule *schedule, int collectives, const char *environment,
                       unsigned warned) {
  char text[256], line[64];
  snprintf(text, sizeof text, "--iterations %s --collectives %d --sync end --count 8,9,10",
           schedule_text(schedule), collectives);
  struct run *result = run(&(struct launch){
      .nranks = schedule->nranks, .program = "sum", .options = text, .environment = environment});
  assert_went_well(result);
  struct lines *lines = lines_create();
  lines_add_sum(lines, schedule, collectives);
  lines_add_left(lines, schedule->nranks);
  assert_results(result, lines);
  lines_free(lines);
  for (int rank = 0; rank < schedule->nranks; rank++) {
    snprintf(line, sizeof line, "rank %d has been joined for more than", rank);
    int warns = (int)(warned >> rank & 1);
    cr_assert_eq(count_lines(result, line), warns, "rank %d\n%s", rank, result->errors);
    cr_assert(!warns ||
                  run_says_in_a_line(result, line,
                                     " iterations, parked in the call by which it leaves", NULL),
              "%s", result->errors);
  }
  cr_assert_eq(count_lines(result, "NCCL-JOIN"), set_size(warned), "%s", result->errors);
  run_free(result);
}

TestSuite(watchdog, .timeout = 600);

Test(watchdog, more_than_1000_shadow_iterations_warn_once) {
  check_skew(&(struct schedule){3, 1, {{5, 3000, 3000}}}, 1, "", 1u << 0);
}
Test(watchdog, each_rank_warns_for_itself) {
  check_skew(&(struct schedule){3, 1, {{20, 1900, 400}}}, 1, "", 1u << 0 | 1u << 2);
}
Test(watchdog, fewer_than_1000_shadow_iterations_say_nothing) {
  check_skew(&(struct schedule){2, 1, {{5, 1000}}}, 1, "", 0);
}
/* 1,500 collectives, but 500 iterations. */
Test(watchdog, iterations_are_counted_not_collectives) {
  check_skew(&(struct schedule){2, 1, {{20, 520}}}, 3, "", 0);
}
Test(watchdog, limit_is_a_setting) {
  check_skew(&(struct schedule){2, 1, {{20, 40}}}, 3, "NCCL_JOIN_SKEW_WARN=10", 1u << 0);
}
Test(watchdog, no_limit) {
  check_skew(&(struct schedule){2, 1, {{5, 1500}}}, 1, "NCCL_JOIN_SKEW_WARN=0", 0);
}

/* ---- late ranks ---- */

enum { BUCKETS = 3, REMOTE_ERROR = 6 /* ncclRemoteError */ };

/* Rank 0 leaves its loop early. Rank 1 sleeps in the middle of its own, and rank 2 waits for it in
 * NCCL. */
static const struct schedule late = {3, 1, {{4, 20, 20}}};
enum { SLEEPS_IN = 10 };

static struct run *run_late(int sleep_ms, const char *more, const char *environment) {
  char text[256];
  snprintf(text, sizeof text, "--iterations %s --sleep 1:%d:%d %s", schedule_text(&late), SLEEPS_IN,
           sleep_ms, more);
  return run(&(struct launch){.nranks = late.nranks,
                              .program = "endings",
                              .options = text,
                              .environment = environment,
                              .each = true});
}

/* What the ranks print up to an iteration. */
static void add_buckets(struct lines *lines, int iterations) {
  for (int rank = 0; rank < late.nranks; rank++)
    for (int i = 0; i < iterations && i < late.n[0][rank]; i++)
      for (int b = 0; b < BUCKETS; b++) {
        unsigned active = schedule_active(&late, 0, i);
        lines_add(lines, rank, "bucket %d %d %u %d", i, b, active, set_size(active) * (i + 1));
      }
}

static void check_patience(int sleep_ms, const char *more, const char *environment) {
  struct run *result = run_late(sleep_ms, more, environment);
  assert_went_well(result);
  struct lines *lines = lines_create();
  add_buckets(lines, 20);
  lines_add_left(lines, late.nranks);
  assert_results(result, lines);
  lines_free(lines);
  cr_assert_str_empty(result->errors);
  run_free(result);
}

Test(watchdog, late_rank_is_waited_for) {
  check_patience(2000, "--end finalize", "NCCL_JOIN_TIMEOUT=30");
}
Test(watchdog, late_rank_is_waited_for_on_exit) {
  struct run *result = run_late(2000, "--end return", "NCCL_JOIN_TIMEOUT=30");
  assert_went_well(result);
  struct lines *lines = lines_create();
  add_buckets(lines, 20);
  assert_results(result, lines);
  lines_free(lines);
  cr_assert_str_empty(result->errors);
  run_free(result);
}

/* Rank 0 is parked for longer than NCCL_JOIN_TIMEOUT in all, while the others get on slowly. */
Test(watchdog, slow_ranks_are_waited_for_as_long_as_they_get_on) {
  check_patience(0, "--wait 150 --end finalize", "NCCL_JOIN_TIMEOUT=2");
}

/* PyTorch counts the time that a rank is parked in a collective, and in a program without Python
 * nothing moves that: from a time on that depends on NCCL_JOIN_TIMEOUT a line says what to set. Not
 * where ranks wait to leave. With Python: tests/pytorch/scripts/slow.py. */
static void check_pytorch(const char *options, const char *library, bool said) {
  char environment[512];
  snprintf(environment, sizeof environment, "NCCL_JOIN_TIMEOUT=60 LD_PRELOAD=%s/%s",
           run_build_folder(), library);
  struct run *result = run_late(2500, options, environment);
  assert_went_well(result);
  cr_assert_eq(run_says_in_a_line(result, "NCCL-JOIN WARN", "rank 0", "PyTorch counts that",
                                  "timeout", NULL),
               said, "%s %s\n%s", options, library, result->errors);
  run_free(result);
}

Test(watchdog, parked_rank_says_that_pytorch_counts) {
  check_pytorch("--barrier 1", "plugins/libtorch_cuda.so", true);
  check_pytorch("--barrier 1", "plugins/no_plugin.so", false);
  check_pytorch("--end destroy", "plugins/libtorch_cuda.so", false);
}

/* A rank that is parked in a collective gives up after NCCL_JOIN_TIMEOUT, not before: it says who
 * is where, and the call returns ncclRemoteError. */
Test(watchdog, parked_rank_gives_up_after_the_timeout) {
  struct run *result = run_late(4000, "--barrier 1", "NCCL_JOIN_TIMEOUT=1");
  cr_assert(!result->timed_out, "somebody stays for ever\n%s%s", result->output, result->errors);
  cr_assert(run_says_in_a_line(result, "NCCL-JOIN WARN",
                               "rank 0 has waited for NCCL_JOIN_TIMEOUT=1 s",
                               "allreduce(sum, float32, 1)", "ncclRemoteError", NULL),
            "%s", result->errors);
  cr_assert(run_says_in_a_line(result, "rank 0: 33 collectives issued, parked", NULL), "%s",
            result->errors);
  cr_assert(run_says_in_a_line(result, "rank 1: 30 collectives issued, running its program", NULL),
            "%s", result->errors);
  char line[64];
  snprintf(line, sizeof line, "RESULT 0 error %d ncclAllReduce\n", REMOTE_ERROR);
  cr_assert(strstr(result->output, line) != NULL, "no %s in\n%s", line, result->output);
  cr_assert_eq(result->rank_status[0], 1);
  double waited = run_time(result, 0, "error") - run_time(result, 1, "sleep");
  cr_assert(waited > 0.95 && waited < 3.9, "rank 0 has waited for %.3f s", waited);
  cr_assert(strstr(result->output, "RESULT 1 bucket 10 ") == NULL, "rank 0 was shadowed\n%s",
            result->output);
  run_free(result);
}

/* A rank that wants to leave goes, with a word about it: the program gets no error from that. */
Test(watchdog, rank_that_leaves_goes_after_the_timeout) {
  struct run *result = run_late(4000, "--end destroy", "NCCL_JOIN_TIMEOUT=1");
  cr_assert(!result->timed_out, "somebody stays for ever\n%s%s", result->output, result->errors);
  cr_assert(run_says_in_a_line(result, "NCCL-JOIN WARN",
                               "rank 0 has waited for NCCL_JOIN_TIMEOUT=1 s", "it goes on", NULL),
            "%s", result->errors);
  cr_assert(strstr(result->output, "RESULT 0 left\n") != NULL, "%s", result->output);
  cr_assert_eq(result->rank_status[0], 0);
  run_free(result);
}

/* ---- stalls ---- */

/* Rank 0 waits for rank 1, which sleeps: one rank says so, once, with who is where. The run goes on
 * all the same. */
Test(watchdog, that_nothing_moves_is_said_once) {
  struct run *result = run_late(4000, "--barrier 1", "NCCL_JOIN_STALL_WARN=1");
  assert_went_well(result);
  cr_assert_eq(count_lines(result, "nothing has moved in communicator"), 1, "%s", result->errors);
  cr_assert(run_says_in_a_line(result, "nothing has moved in communicator", " s: rank 0 waits in",
                               "allreduce(sum, float32, 1)",
                               " while ranks 1, 2 run their programs. ", NULL),
            "%s", result->errors);
  cr_assert(run_says_in_a_line(result,
                               "rank 0: 33 collectives issued, parked in allreduce(sum, "
                               "float32, 1)",
                               " for ", " s", NULL),
            "%s", result->errors);
  cr_assert(
      run_says_in_a_line(result, "rank 1: 30 collectives issued, running its program after", NULL),
      "%s", result->errors);
  run_free(result);
}
/* Until nccl-join status says one of two things of the communicators of rank 0. */
static void wait_for_status(struct running *running, const char *this, const char *that) {
  char pid[16];
  snprintf(pid, sizeof pid, "%d", (int)run_process(running, 0));
  for (bool said = false; !said;) {
    struct run *status = run_tool("tools/nccl-join-status", pid);
    said = strstr(status->output, this) != NULL || strstr(status->output, that) != NULL;
    bool goes_on = said || run_goes_on(running, 0.1);
    cr_assert(goes_on, "the job has ended without '%s'; at last:\n%s", this, status->output);
    run_free(status);
  }
}

/* All are stopped together, as by Ctrl-Z, for longer than NCCL_JOIN_TIMEOUT: nobody has waited
 * then. Rank 0, which waits for the others, goes on first. */
Test(watchdog, time_in_which_a_job_was_stopped_does_not_count, .timeout = 300) {
  struct running *running =
      run_start(&(struct launch){.nranks = 3,
                                 .program = "endings",
                                 .options = "--iterations 4,20,20 --sleep 1:10:4000 --barrier 1",
                                 .environment = "NCCL_JOIN_TIMEOUT=6 NCCL_JOIN_STALL_WARN=5",
                                 .each = true});
  wait_for_status(running, " 0 s  waits in", " 1 s  waits in");
  for (int rank = 0; rank < 3; rank++)
    kill(run_process(running, rank), SIGSTOP);
  run_goes_on(running, 7);
  for (int rank = 0; rank < 3; rank++) {
    kill(run_process(running, rank), SIGCONT);
    run_goes_on(running, 0.3);
  }
  struct run *result = run_finish(running);
  assert_went_well(result);
  cr_expect_str_empty(result->errors);
  run_free(result);
}

/* One is stopped: the line says so, and not that its program goes on. */
Test(watchdog, a_stopped_rank_is_not_said_to_run_its_program, .timeout = 300) {
  struct running *running =
      run_start(&(struct launch){.nranks = 2,
                                 .program = "endings",
                                 .options = "--iterations 4,150 --wait 20 --barrier 1",
                                 .environment = "NCCL_JOIN_STALL_WARN=1",
                                 .each = true});
  wait_for_status(running, "; joined since", "; joined since");
  kill(run_process(running, 1), SIGSTOP);
  wait_for_status(running, "last WARN of rank 0", "last WARN of rank 0");
  kill(run_process(running, 1), SIGCONT);
  struct run *result = run_finish(running);
  assert_went_well(result);
  cr_expect(
      run_says_in_a_line(result, "nothing has moved in communicator",
                         ", and rank 1 is stopped (SIGSTOP, Ctrl-Z or a debugger; kill -CONT lets "
                         "it go on). ",
                         NULL),
      "%s", result->errors);
  cr_expect(run_says_in_a_line(result, "rank 1: ",
                               " collectives issued, stopped (SIGSTOP, Ctrl-Z or a debugger) after",
                               NULL),
            "%s", result->errors);
  run_free(result);
}

Test(watchdog, that_nothing_moves_need_not_be_said) {
  struct run *result = run_late(3000, "--barrier 1", "NCCL_JOIN_STALL_WARN=0");
  assert_went_well(result);
  cr_assert_str_empty(result->errors);
  run_free(result);
}
