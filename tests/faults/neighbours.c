/* Several jobs on one machine at once: of one user, and of two.
 */
#include <criterion/criterion.h>
#include <grp.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/faults/place.h"
#include "tests/faults/watch.h"
#include "tests/join/expected.h"

enum { NOBODY = 65534, JOBS = 3, SLOWER_US = 20000 };

static const struct schedule schedules[JOBS] = {
    {3, 1, {{3, 20, 11}}}, {4, 1, {{15, 4, 9, 0}}}, {2, 1, {{7, 30}}}};

/* The ranks of a job take their time to come together, so that jobs do so at the same time. */
static struct running *start_job(int job, const struct watch *watch) {
  char options[128];
  snprintf(options, sizeof options, "--iterations %s", schedule_text(&schedules[job]));
  return run_start(&(struct launch){.nranks = schedules[job].nranks,
                                    .program = "sum",
                                    .options = options,
                                    .environment = watch_environment(watch),
                                    .each = true});
}

static void check_job(int job, const struct run *result) {
  assert_went_well(result);
  struct lines *lines = lines_create();
  lines_add_sum(lines, &schedules[job], 1);
  lines_add_left(lines, schedules[job].nranks);
  assert_results(result, lines);
  cr_assert_str_empty(result->errors);
  lines_free(lines);
}

static void finish_job(int job, struct running *running) {
  struct run *result = run_finish(running);
  check_job(job, result);
  run_free(result);
}

Test(neighbours, jobs_of_one_user_do_not_meet, .timeout = 300) {
  place_try();
  struct watch *watch = watch_create(RUN_RANKS_MAX, SLOWER_US);
  for (int times = place_times(3, 30); times > 0; times--) {
    struct running *running[JOBS];
    for (int job = 0; job < JOBS; job++)
      running[job] = start_job(job, watch);
    for (int job = 0; job < JOBS; job++)
      finish_job(job, running[job]);
  }
  watch_free(watch);
  cr_assert(place_segments() == 0, "segments are left");
}

/* What a process of another user has seen of its job. */
struct report {
  int status;
  bool may_run; /* that user may run what is in the build folder */
  char output[65536], errors[4096];
};

static void run_as_nobody(int job, const struct watch *watch, struct report *report) {
  char launcher[PATH_MAX];
  snprintf(launcher, sizeof launcher, "%s/tools/nccl-join", run_build_folder());
  if (setgroups(0, NULL) != 0 || setgid(NOBODY) != 0 || setuid(NOBODY) != 0 ||
      access(launcher, X_OK) != 0)
    return;
  report->may_run = true;
  struct run *result = run_finish(start_job(job, watch));
  report->status = result->timed_out ? -1 : result->status;
  snprintf(report->output, sizeof report->output, "%s", result->output);
  snprintf(report->errors, sizeof report->errors, "%s", result->errors);
}

static void check_report(int job, struct report *report) {
  if (!report->may_run)
    place_skip("user %d may not run what is in %s", NOBODY, run_build_folder());
  struct run result = {
      .status = report->status, .output = report->output, .errors = report->errors};
  cr_assert(report->status >= 0, "the job of the other user hangs");
  check_job(job, &result);
}

Test(neighbours, jobs_of_two_users_do_not_meet, .timeout = 300) {
  if (geteuid() != 0)
    place_skip("two users at once need root");
  place_try();
  struct report *report =
      mmap(NULL, sizeof *report, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  cr_assert(report != MAP_FAILED);
  struct watch *watch = watch_create(RUN_RANKS_MAX, SLOWER_US);
  for (int times = place_times(3, 30); times > 0; times--) {
    pid_t other = fork();
    if (other == 0) {
      run_as_nobody(1, watch, report);
      _exit(0);
    }
    struct running *ours_running = start_job(0, watch);
    waitpid(other, NULL, 0); /* first: whoever is left when a run is finished is killed */
    struct run *ours = run_finish(ours_running);
    check_job(0, ours);
    check_report(1, report);
    run_free(ours);
  }
  watch_free(watch);
  cr_assert(place_segments() == 0, "segments are left");
}
