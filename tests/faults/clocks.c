/* The time of day jumps by hours, forwards and backwards, while ranks wait for each other: no wait
 * ends early, and none goes on for ever.
 */
#include <criterion/criterion.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/faults/watch.h"
#include "tests/join/run.h"

static double now_s(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static const char *jumping(const char *by, const char *settings) {
  static char environment[2 * PATH_MAX];
  char path[PATH_MAX], whole[PATH_MAX];
  snprintf(path, sizeof path, "%s/faults/clock_jumps.so", run_build_folder());
  cr_assert(realpath(path, whole) != NULL, "%s is missing", path);
  snprintf(environment, sizeof environment, "LD_PRELOAD=%s CLOCK_JUMPS_BY=%s CLOCK_JUMPS_MS=100 %s",
           whole, by, settings);
  return environment;
}

/* Rank 0 is parked for longer than several jumps. */
static void check_no_early_end(const char *by) {
  struct run *result = run(&(struct launch){.nranks = 3,
                                            .program = "endings",
                                            .options = "--iterations 2,60,40 --wait 10 --barrier 1",
                                            .environment = jumping(by, "NCCL_JOIN_TIMEOUT=20")});
  assert_went_well(result);
  cr_assert(result->seconds > 0.5, "over before the clock jumped");
  cr_assert(strstr(result->output, "RESULT 0 barrier 7") != NULL, "the ranks have not met\n%s",
            result->output);
  cr_assert_str_empty(result->errors);
  run_free(result);
}

Test(clocks, forwards_ends_no_wait) {
  check_no_early_end("20000");
}
Test(clocks, backwards_ends_no_wait) {
  check_no_early_end("-20000");
}

/* Rank 1 is stopped, rank 0 waits for it: for NCCL_JOIN_TIMEOUT, whatever the clock does. */
static void check_end_in_time(const char *by) {
  enum { TIMEOUT_S = 2, LATE_S = 60 };
  struct running *running =
      run_start(&(struct launch){.nranks = 2,
                                 .program = "endings",
                                 .options = "--iterations 1,1000 --wait 1 --barrier 1",
                                 .environment = jumping(by, "NCCL_JOIN_TIMEOUT=2"),
                                 .each = true});
  struct watch *watch = watch_create(2, 0);
  watch_begin(watch, running);
  while (watch_state(watch, 0) != STATE_JOINED && run_goes_on(running, 0.01))
    ;
  kill(run_process(running, 1), SIGSTOP);
  double stopped_s = now_s();
  while (watch_state(watch, 0) != STATE_GONE && now_s() < stopped_s + TIMEOUT_S + LATE_S)
    run_goes_on(running, 0.01);
  watch_free(watch);
  kill(run_process(running, 1), SIGKILL);
  struct run *result = run_finish(running);
  double waited_s = run_time(result, 0, "error") - stopped_s;
  cr_assert(strstr(result->output, "RESULT 0 error 6") != NULL,
            "rank 0 has no ncclRemoteError\n%s%s", result->output, result->errors);
  cr_assert(run_says(result, "NCCL_JOIN_TIMEOUT=2"), "nobody speaks of the timeout\n%s",
            result->errors);
  cr_assert(waited_s > TIMEOUT_S - 0.1 && waited_s < TIMEOUT_S + LATE_S, "rank 0 waited %.3f s",
            waited_s);
  run_free(result);
}

Test(clocks, forwards_keeps_the_timeout) {
  check_end_in_time("20000");
}
Test(clocks, backwards_keeps_the_timeout) {
  check_end_in_time("-20000");
}
