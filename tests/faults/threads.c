/* What other threads of a rank do while one is parked: fork, look for errors, give up.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "tests/faults/place.h"
#include "tests/join/expected.h"
#include "tests/join/run.h"

enum { RANKS = 3, HELPS = 40 };
static const double promptly_s = 20;

/* Rank 0 is parked for most of it. */
static const struct schedule uneven = {RANKS, 1, {{2, 60, 30}}};

/* The numbers are those of a program without such a thread, and it has come as often as it wanted
 * to. */
static void check_undisturbed(const char *helper) {
  char options[256];
  snprintf(options, sizeof options, "--iterations %s --wait 2 --helps %d --helper %s",
           schedule_text(&uneven), HELPS, helper);
  /* Under AddressSanitizer a forked child that exits would look for leaks, and stumble over threads
   * that it does not have. */
  struct run *result =
      run(&(struct launch){.nranks = RANKS,
                           .program = "helpers",
                           .options = options,
                           .environment = "ASAN_OPTIONS=verify_asan_link_order=0:detect_leaks=0"});
  assert_went_well(result);
  struct lines *lines = lines_create();
  for (int rank = 0; rank < RANKS; rank++) {
    for (int i = 0; i < uneven.n[0][rank]; i++) {
      unsigned active = schedule_active(&uneven, 0, i);
      lines_add(lines, rank, "sum %d %u %d", i, active, set_size(active) * (i + 1));
    }
    lines_add(lines, rank, "barrier 0 %u", set_of_all(RANKS));
    lines_add(lines, rank, "helped %d", HELPS);
  }
  lines_add_left(lines, RANKS);
  assert_results(result, lines);
  cr_assert_str_empty(result->errors, "somebody says: %s", result->errors);
  cr_assert(result->left_behind == 0, "%d processes are left", result->left_behind);
  lines_free(lines);
  run_free(result);
}

Test(threads, fork_children_that_are_killed) {
  check_undisturbed("fork --child nothing");
}
Test(threads, fork_children_that_end_at_once) {
  check_undisturbed("fork --child _exit");
}
Test(threads, fork_children_that_exit) {
  check_undisturbed("fork --child exit");
}
/* What another thread holds of the dynamic linker at a fork is held in the child for ever. */
Test(threads, fork_children_that_exit_while_objects_are_listed) {
  check_undisturbed("fork --child exit --walk 1");
}
Test(threads, fork_children_that_become_another_program) {
  check_undisturbed("fork --child exec");
}
Test(threads, fork_children_that_call_nccl) {
  check_undisturbed("fork --child call");
}
Test(threads, look_for_errors) {
  check_undisturbed("poll");
}

/* Between two times that a rank has printed. */
static double took(const struct run *run, int rank, const char *from, const char *to) {
  double begin = run_time(run, rank, from), end = run_time(run, rank, to);
  return begin < 0 || end < 0 ? -1 : end - begin;
}

/* A watchdog of rank 0, which is parked or shadowing, gives the communicator up: that returns at
 * once, and so does the parked call, with an error; the others hear of it. */
static void abort_once(void) {
  char options[256];
  snprintf(options, sizeof options,
           "--iterations 2,500,300 --wait 2 --helper abort,none --after %d",
           300 + (int)place_random(300)); /* its two iterations are over, and the others' are not */
  struct run *result = run(
      &(struct launch){.nranks = RANKS, .program = "helpers", .options = options, .each = true});
  cr_assert(!result->timed_out, "somebody stays\n%s%s", result->output, result->errors);
  for (int rank = 0; rank < RANKS; rank++)
    cr_assert(result->rank_status[rank] == 1, "rank %d ends with status %d\n%s%s", rank,
              result->rank_status[rank], result->output, result->errors);
  double aborted = took(result, 0, "aborting", "aborted");
  double interrupted = took(result, 0, "aborting", "interrupted");
  cr_assert(aborted >= 0 && aborted < promptly_s, "ncclCommAbort took %.3f s\n%s%s", aborted,
            result->output, result->errors);
  cr_assert(interrupted >= 0 && interrupted < promptly_s,
            "the parked call returned after %.3f s\n%s%s", interrupted, result->output,
            result->errors);
  cr_assert(strstr(result->output, "RESULT 0 interrupted 0") == NULL);
  for (int rank = 1; rank < RANKS; rank++) {
    char error[64];
    snprintf(error, sizeof error, "RESULT %d error 6", rank);
    cr_assert(strstr(result->output, error) != NULL, "rank %d has no ncclRemoteError\n%s%s", rank,
              result->output, result->errors);
  }
  run_free(result);
}

Test(threads, abort_while_another_is_parked, .timeout = 600) {
  place_try();
  for (int times = place_times(4, 60); times > 0; times--)
    abort_once();
  cr_assert(place_segments() == 0, "segments are left");
}
