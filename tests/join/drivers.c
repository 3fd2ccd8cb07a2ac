/* Threads in all shapes: who makes communicators, who uses them and who gives them up. What works
 * without the preload works with it, and gives the same. */
#include "tests/join/expected.h"
#include "tests/join/run.h"

#include <criterion/criterion.h>
#include <stdio.h>

/* Threads differ from run to run. */
enum { RUNS = 5 };

/* ---- one process, a thread for some of its devices ---- */

static struct run *run_drivers(const char *options, bool without) {
  return run(&(struct launch){.nranks = 1,
                              .program = "drivers",
                              .options = options,
                              .environment = "NCCL_JOIN_TIMEOUT=30",
                              .without = without ? RUN_ALL_RANKS : 0});
}

static void check_even(const char *options) {
  struct run *without = run_drivers(options, true);
  assert_went_well(without);
  for (int i = 0; i < RUNS; i++) {
    struct run *result = run_drivers(options, false);
    assert_went_well(result);
    assert_same_results(result, without);
    run_free(result);
  }
  run_free(without);
}

Test(drivers, main_destroys) {
  check_even("--destroy main");
}
Test(drivers, main_destroys_in_a_group) {
  check_even("--destroy group --drivers 3");
}
Test(drivers, main_destroys_the_last_one_first) {
  check_even("--destroy reverse --drivers 3 --iterations 40,40,40");
}
Test(drivers, main_finalizes) {
  check_even("--destroy finalize");
}
Test(drivers, another_thread_destroys) {
  check_even("--destroy another --create each");
}
Test(drivers, main_is_one_of_them) {
  check_even("--destroy self --main 1");
}
Test(drivers, main_is_one_of_them_and_destroys) {
  check_even("--destroy main --main 1 --drivers 3");
}
Test(drivers, several_devices_each_as_in_nccl_tests) {
  check_even("--create group --devices 2 --main 1 --destroy main");
}
Test(drivers, several_devices_each_which_destroy_their_own) {
  check_even("--create group --devices 2 --main 1 --destroy self");
}
Test(drivers, several_devices_each_not_destroyed) {
  check_even("--create group --devices 2 --main 1 --destroy none");
}
Test(drivers, communicators_made_by_threads_at_the_same_time) {
  check_even("--create each --destroy self --drivers 4");
}
Test(drivers, threads_of_an_epoch) {
  check_even("--threads epoch --iterations 5,5/3,3/40,40");
}
Test(drivers, threads_of_an_epoch_not_destroyed) {
  check_even("--threads epoch --iterations 5,5/3,3/40,40 --destroy none");
}

/* The pool's threads are alive, and do nothing: after a while that is known. */
Test(drivers, pool_hands_devices_over_and_main_destroys, .timeout = 300) {
  const char *options = "--threads pool --iterations 5,5,5/3,3,3/7,7,7 --drivers 3";
  struct run *without = run_drivers(options, true), *result = run_drivers(options, false);
  assert_went_well(result);
  assert_same_results(result, without);
  cr_assert_lt(result->seconds, 100 * run_slowness());
  cr_expect_not(run_says(result, "NCCL_JOIN_TIMEOUT"), "%s", result->errors);
  run_free(result);
  run_free(without);
}

static void check_uneven(const char *more, const struct schedule *schedule) {
  char options[256];
  snprintf(options, sizeof options, "--iterations %s --drivers %d --destroy self %s",
           schedule_text(schedule), schedule->nranks, more);
  struct lines *lines = lines_create();
  for (int rank = 0; rank < schedule->nranks; rank++)
    for (int k = 0; k < schedule->n[0][rank]; k++)
      lines_add(lines, rank, "sum 0 %d %u", k, schedule_active(schedule, 0, k) * (unsigned)(k + 1));
  lines_add(lines, 0, "end");
  for (int i = 0; i < RUNS; i++) {
    struct run *result = run_drivers(options, false);
    assert_went_well(result);
    assert_results(result, lines);
    run_free(result);
  }
  lines_free(lines);
}

Test(drivers, uneven_threads) {
  check_uneven("", &(struct schedule){3, 1, {{5, 40, 2}}});
}
Test(drivers, uneven_threads_that_make_their_own) {
  check_uneven("--create each", &(struct schedule){3, 1, {{5, 40, 2}}});
}
Test(drivers, uneven_and_main_is_one_of_them) {
  check_uneven("--main 1", &(struct schedule){3, 1, {{5, 2, 40}}});
}
Test(drivers, uneven_and_main_is_the_longest) {
  check_uneven("--main 1", &(struct schedule){3, 1, {{40, 2, 5}}});
}
/* The others wait in ncclCommDestroy for as long as it takes. */
Test(drivers, uneven_and_one_is_slow) {
  check_uneven("--pause 1500", &(struct schedule){3, 1, {{5, 2, 2}}});
}

/* ---- two threads of a rank ---- */

static void check_concurrent(const char *options) {
  const struct launch with = {.nranks = 3, .program = "concurrent", .options = options};
  struct launch launch = with;
  launch.without = RUN_ALL_RANKS;
  struct run *without = run(&launch);
  assert_went_well(without);
  for (int i = 0; i < RUNS; i++) {
    struct run *result = run(&with);
    assert_went_well(result);
    assert_same_results(result, without);
    run_free(result);
  }
  run_free(without);
}

Test(drivers, two_threads_that_take_no_turns) {
  check_concurrent("--iterations 20 --others 20");
}
Test(drivers, two_threads_that_take_no_turns_after_learning) {
  check_concurrent("--iterations 300 --others 100 --others-pause 500");
}
Test(drivers, two_threads_of_which_one_is_slow) {
  check_concurrent("--iterations 6 --others 40 --pause 100000,50000,90000 --others-pause 1000");
}
Test(drivers, two_threads_of_which_one_comes_later_on_one_rank) {
  check_concurrent("--iterations 20 --others 3 --pause 0 --others-pause 1,300000,1");
}
/* No rank has both threads in a call at first: each waits for its own other one before it shadows.
 */
Test(drivers, two_threads_of_which_another_comes_first_on_each_rank) {
  check_concurrent("--late 0,100000,0 --others-late 100000,0,100000");
}

/* Of the communicators that come and go, each rank would share another's team with others that it
 * has left already. */
Test(drivers, two_threads_that_split_and_destroy_as_they_come) {
  check_concurrent("--children 1 --iterations 60 --others 60 --pause 0 --others-pause 0");
}

/* ---- waits that are the program's own ---- */

/* In an even program nobody has joined: a rank may take as long as it likes. */
Test(drivers, slow_rank_of_an_even_program_is_waited_for) {
  struct run *result = run(&(struct launch){.nranks = 3,
                                            .program = "endings",
                                            .options = "--iterations 3 --sleep 0:1:2500",
                                            .environment = "NCCL_JOIN_TIMEOUT=1"});
  assert_went_well(result);
  cr_assert(!run_says(result, "WARN"), "%s", result->errors);
  run_free(result);
}

static void check_watchdog(const char *options) {
  struct run *result =
      run(&(struct launch){.nranks = 2, .program = "watchdog", .options = options, .each = true});
  double aborting = run_time(result, 1, "aborting"), aborted = run_time(result, 1, "aborted");
  cr_assert(aborting > 0 && aborted > 0, "%s", result->errors);
  cr_assert_lt(aborted - aborting, run_slowness());
  run_free(result);
}

Test(drivers, watchdog_aborts_while_a_peer_hangs_in_its_loop) {
  check_watchdog("--hang loop");
}
Test(drivers, watchdog_aborts_while_a_peer_hangs_before_a_barrier) {
  check_watchdog("--hang barrier");
}
