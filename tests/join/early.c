/* Early termination, NCCL_JOIN_EARLY_EXIT=throw: when the first rank leaves, all stop at the same
 * unit. */
#include "tests/join/expected.h"
#include "tests/join/run.h"

#include <criterion/criterion.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char throws[] = "NCCL_JOIN_EARLY_EXIT=throw";

/* How programs/early is run. */
struct early {
  int buckets, then; /* 0 buckets: 3 */
  bool barrier, group;
  const char *end;  /* of all ranks; NULL: finalize */
  const char *more; /* options; may be NULL */
};

static struct run *run_early(const struct schedule *schedule, const struct early *early,
                             const char *environment) {
  char text[512];
  snprintf(text, sizeof text,
           "--iterations %s --buckets %d --barrier %d --group %d --then %d --end %s %s",
           schedule_text(schedule), early->buckets ? early->buckets : 3, early->barrier,
           early->group, early->then, early->end ? early->end : "finalize",
           early->more ? early->more : "");
  return run(&(struct launch){.nranks = schedule->nranks,
                              .program = "early",
                              .options = text,
                              .environment = environment,
                              .each = true});
}

static int fewest(const struct schedule *schedule, int epoch) {
  int least = schedule->n[epoch][0];
  for (int rank = 1; rank < schedule->nranks; rank++)
    if (schedule->n[epoch][rank] < least)
      least = schedule->n[epoch][rank];
  return least;
}

static bool is_even(const struct schedule *schedule, int epoch) {
  for (int rank = 1; rank < schedule->nranks; rank++)
    if (schedule->n[epoch][rank] != schedule->n[epoch][0])
      return false;
  return true;
}

/* Whether the program has nobody to tell: it ends, with status 1. */
static bool ends_silently(const struct early *early) {
  return early->end != NULL &&
         (strcmp(early->end, "return") == 0 || strcmp(early->end, "exit") == 0);
}

static void add_buckets(struct lines *lines, const struct schedule *schedule,
                        const struct early *early, int epoch, int iterations) {
  int nranks = schedule->nranks;
  for (int rank = 0; rank < nranks; rank++) {
    for (int i = 0; i < iterations; i++)
      for (int b = 0; b < (early->buckets ? early->buckets : 3); b++)
        lines_add(lines, rank, "bucket %d %d %d %u %d", epoch, i, b, set_of_all(nranks),
                  nranks * (i + 1));
  }
}

/* What is printed from where the first rank is missed: the fewest iterations have been done by all
 * ranks, and no more. */
static void add_stop(struct lines *lines, const struct schedule *schedule,
                     const struct early *early, int epoch) {
  int nranks = schedule->nranks, least = fewest(schedule, epoch);
  for (int rank = 0; rank < nranks; rank++) {
    bool leaves = schedule->n[epoch][rank] == least;
    if (leaves && !early->barrier && ends_silently(early))
      continue;
    if (!leaves)
      lines_add(lines, rank, "stopped %d %d 0", epoch, least);
    else if (early->barrier)
      lines_add(lines, rank, "stopped barrier %d", epoch);
    else
      lines_add(lines, rank, "stopped leaving");
    bool gone = leaves && !early->barrier && early->end && strcmp(early->end, "finalize") != 0;
    if (gone)
      continue;
    lines_add(lines, rank, "idle");
    for (int step = 0; step < early->then; step++)
      lines_add(lines, rank, "after %d %u %d", step, set_of_all(nranks), nranks * (step + 1));
    if (!ends_silently(early))
      lines_add(lines, rank, "left");
  }
}

/* Each rank that has left says so, and each other names one of them. */
static void check_messages(const struct run *run, const struct schedule *schedule, int epoch) {
  int least = fewest(schedule, epoch), first = 0;
  while (schedule->n[epoch][first] != least)
    first++;
  for (int rank = 0; rank < schedule->nranks; rank++) {
    char own[64], named[64];
    if (schedule->n[epoch][rank] == least) {
      snprintf(own, sizeof own, "Rank %d exhausted all inputs.", rank);
      cr_assert(run_says(run, own), "no %s in\n%s", own, run->errors);
      continue;
    }
    snprintf(own, sizeof own, "of rank %d is not issued", rank);
    snprintf(named, sizeof named, "rank %d has left its loop", first);
    cr_assert(run_says_in_a_line(run, "Detected at least one rank that exhausted inputs.", named,
                                 own, NULL),
              "rank %d does not name rank %d\n%s", rank, first, run->errors);
  }
}

static void check_status(const struct run *run, const struct schedule *schedule,
                         const struct early *early, int epoch) {
  cr_assert(!run->timed_out, "somebody stays for ever\n%s%s", run->output, run->errors);
  cr_assert(!run_says(run, "loopback"), "%s", run->errors);
  for (int rank = 0; rank < schedule->nranks; rank++) {
    bool leaves = schedule->n[epoch][rank] == fewest(schedule, epoch);
    int status = leaves && !early->barrier && ends_silently(early) ? 1 : 0;
    cr_assert_eq(run->rank_status[rank], status, "rank %d ended with %d\n%s%s", rank,
                 run->rank_status[rank], run->output, run->errors);
  }
}

/* All epochs are even but the last. */
static void check_stop(const struct schedule *schedule, struct early early) {
  struct run *result = run_early(schedule, &early, throws);
  int last = schedule->epochs - 1;
  check_status(result, schedule, &early, last);
  struct lines *lines = lines_create();
  for (int epoch = 0; epoch <= last; epoch++) {
    add_buckets(lines, schedule, &early, epoch, fewest(schedule, epoch));
    for (int rank = 0; epoch < last && early.barrier && rank < schedule->nranks; rank++)
      lines_add(lines, rank, "barrier %d %u", epoch, set_of_all(schedule->nranks));
  }
  cr_assert(!is_even(schedule, last));
  add_stop(lines, schedule, &early, last);
  assert_results(result, lines);
  check_messages(result, schedule, last);
  lines_free(lines);
  run_free(result);
}

static const struct schedule learnt = {3, 1, {{20, 14, 20}}},
                             learnt_by_four = {4, 1, {{20, 14, 20, 20}}};

/* ---- all stop, after the fewest iterations ---- */

Test(early, all_stop_when_the_first_rank_leaves) {
  check_stop(&(struct schedule){3, 1, {{5, 2, 5}}}, (struct early){.then = 3});
}
Test(early, all_stop_once_the_loop_is_learnt) {
  check_stop(&(struct schedule){3, 1, {{30, 30, 21}}}, (struct early){.then = 3});
}
Test(early, all_stop_with_a_rank_without_iterations) {
  check_stop(&(struct schedule){4, 1, {{6, 0, 3, 6}}}, (struct early){.then = 2});
}
Test(early, two_ranks_leave_at_once) {
  check_stop(&(struct schedule){4, 1, {{12, 15, 12, 20}}}, (struct early){.then = 2});
}
Test(early, one_iteration_less) {
  check_stop(&(struct schedule){2, 1, {{40, 39}}}, (struct early){.then = 2});
  check_stop(&(struct schedule){2, 1, {{40, 41}}}, (struct early){.then = 2});
}
Test(early, a_body_of_one_collective) {
  check_stop(&(struct schedule){3, 1, {{30, 21, 30}}}, (struct early){.buckets = 1, .then = 2});
}
Test(early, a_body_that_is_one_group) {
  check_stop(&(struct schedule){3, 1, {{30, 21, 30}}}, (struct early){.group = true, .then = 2});
}
/* Nothing of the group is issued, or the device would never be done. */
Test(early, sends_and_receives_of_the_group_are_not_issued_either) {
  check_stop(&(struct schedule){3, 1, {{30, 21, 30}}},
             (struct early){.group = true, .then = 2, .more = "--ring 1"});
}

/* Stopped in one of two communicators, a rank requests nothing more of its group in the other; and
 * all go on in step. Who is in neither the one nor the other with the rank that has left hears of
 * it from those who are. */
Test(early, a_group_over_two_communicators) {
  for (int i = 0; i < 3; i++) { /* which communicator comes first in the group is chance */
    struct run *result = run_early(
        &learnt_by_four, &(struct early){.group = true, .then = 3, .more = "--pairs 1"}, throws);
    cr_assert(!result->timed_out, "%s%s", result->output, result->errors);
    for (int rank = 0; rank < 4; rank++) {
      char line[64];
      cr_assert_eq(result->rank_status[rank], 0, "%s%s", result->output, result->errors);
      snprintf(line, sizeof line, "RESULT %d after 2 15 12\n", rank);
      cr_assert(strstr(result->output, line) != NULL, "no %s in\n%s", line, result->output);
    }
    cr_assert(strstr(result->output, "bucket 0 14 ") == NULL, "%s", result->output);
    run_free(result);
  }
}
Test(early, a_program_that_runs_ahead_of_its_device) {
  check_stop(&(struct schedule){3, 1, {{60, 41, 60}}},
             (struct early){.then = 2, .more = "--sync end"});
}

/* The all-reduce before the loop is like the last one of its body. */
Test(early, a_unit_before_the_loop_like_its_last_one) {
  check_stop(&(struct schedule){3, 1, {{12, 9, 12}}}, (struct early){.more = "--before 1"});
}

/* Epochs that are even end as ever. */
Test(early, the_first_uneven_epoch_ends_it) {
  check_stop(&(struct schedule){3, 3, {{8, 8, 8}, {8, 8, 8}, {8, 6, 8}}},
             (struct early){.barrier = true, .then = 2});
}

/* What the learner takes for the body is a whole epoch then: its iterations begin in the middle of
 * it. */
Test(early, the_first_uneven_one_of_epochs_that_are_all_learnt) {
  check_stop(&(struct schedule){3, 5, {{5, 5, 5}, {5, 5, 5}, {5, 5, 5}, {5, 5, 5}, {5, 2, 5}}},
             (struct early){.buckets = 2, .barrier = true, .then = 2, .more = "--begin 6"});
}

/* ---- the ways of leaving ---- */

Test(early, by_a_barrier) {
  check_stop(&learnt, (struct early){.barrier = true, .then = 3});
}
Test(early, by_destroy) {
  check_stop(&learnt, (struct early){.end = "destroy"});
}
/* As NCCL 2.32, whose ncclCommDestroy waits for all: nobody's may become an abort. */
Test(early, by_destroy_that_waits_for_all) {
  setenv("LOOPBACK_DESTROY", "meet", 1);
  check_stop(&learnt, (struct early){.end = "destroy"});
  unsetenv("LOOPBACK_DESTROY");
}
Test(early, by_abort) {
  check_stop(&learnt, (struct early){.end = "abort"});
}
Test(early, by_return_from_main_with_status_1) {
  check_stop(&learnt, (struct early){.end = "return"});
}
Test(early, by_exit_with_status_1) {
  check_stop(&learnt, (struct early){.end = "exit"});
}

/* ---- devices ---- */

/* Rank 0 ends where it is stopped, while its device has not come to what it has issued: a rank that
 * catches the error, and waits for its own device, must not wait for ever. */
Test(early, a_rank_that_ends_at_once_takes_nothing_with_it) {
  struct run *result =
      run(&(struct launch){.nranks = 3,
                           .program = "early",
                           .options = "--iterations 20,14,20 --barrier 1 --sync end --slow 13 "
                                      "--caught 0,1",
                           .environment = "NCCL_JOIN_EARLY_EXIT=throw LOOPBACK_DEATH=hang",
                           .each = true});
  cr_assert(!result->timed_out, "%s%s", result->output, result->errors);
  cr_assert_eq(result->rank_status[0], 1, "%s", result->errors);
  for (int rank = 1; rank < 3; rank++) {
    char line[64];
    snprintf(line, sizeof line, "RESULT %d bucket 0 13 2 7 42\n", rank);
    cr_assert(strstr(result->output, line) != NULL, "no %s in\n%s%s", line, result->output,
              result->errors);
    snprintf(line, sizeof line, "RESULT %d idle\n", rank);
    cr_assert(strstr(result->output, line) != NULL, "no %s in\n%s%s", line, result->output,
              result->errors);
  }
  run_free(result);
}

/* A device that is not done in time keeps nobody for ever. */
Test(early, a_device_that_is_not_done_is_told_of) {
  struct run *result =
      run(&(struct launch){.nranks = 3,
                           .program = "early",
                           .options = "--iterations 20,14,20 --barrier 1 --sync end --held 13",
                           .environment = "NCCL_JOIN_EARLY_EXIT=throw NCCL_JOIN_TIMEOUT=5",
                           .each = true});
  assert_went_well(result);
  cr_assert(run_says(result, "is told to stop before its device is done"), "%s", result->errors);
  run_free(result);
}

/* ---- what does not stop ---- */

/* The same numbers, bit for bit, and the same ending. */
Test(early, even_inputs_are_bit_for_bit_the_same) {
  static const char *const programs[][2] = {
      {"early", "--iterations 12/9 --barrier 1"},
      {"early", "--iterations 12/9 --end return"},
      {"reductions", "--iterations 5 --float8 1"},
      {"sum", "--iterations 9 --value 7.7 --collectives 2 --count 4096,3 --group 1"},
      {"teams", "--iterations 12/9 --metric 3"},
      {"annotations", "--iterations 8/9 --say both --state all"}};
  for (int p = 0; p < 6; p++) {
    struct launch launch = {.nranks = 4, .program = programs[p][0], .options = programs[p][1]};
    struct run *plain = run(&launch);
    assert_went_well(plain);
    launch.environment = throws;
    struct run *other = run(&launch);
    assert_went_well(other);
    assert_same_results(plain, other);
    cr_assert(!run_says(other, "exhausted"), "%s", other->errors);
    run_free(plain);
    run_free(other);
  }
}

/* By default the same program joins. */
Test(early, without_the_setting_ranks_join) {
  struct early early = {.barrier = true};
  struct run *result = run_early(&learnt, &early, "");
  cr_assert(!result->timed_out);
  cr_assert(strstr(result->output, "RESULT 0 bucket 0 19 2 5 40\n") != NULL, "%s", result->output);
  cr_assert(strstr(result->output, "stopped") == NULL, "%s", result->output);
  run_free(result);
}

/* A failure is none of this. */
Test(early, a_rank_that_fails_is_a_failure) {
  struct run *result = run(&(struct launch){.nranks = 3,
                                            .program = "endings",
                                            .options = "--iterations 20 --break 1:14:kill",
                                            .environment = throws,
                                            .each = true});
  cr_assert(!result->timed_out, "somebody stays for ever\n%s%s", result->output, result->errors);
  cr_assert(run_says(result, "rank 1 failed"), "%s", result->errors);
  cr_assert(!run_says(result, "exhausted"), "%s", result->errors);
  run_free(result);
}

/* ---- programs that end with the first error ---- */

/* Every rank gets it with the call it is in, whoever ends first, and ends with status 1. No rank
 * has this result, which is one of an iteration beyond the fewest. */
static void check_errors(const char *program, const char *options, int nranks, const char *beyond) {
  struct run *result = run(&(struct launch){.nranks = nranks,
                                            .program = program,
                                            .options = options,
                                            .environment = throws,
                                            .each = true});
  cr_assert(!result->timed_out, "somebody stays for ever\n%s%s", result->output, result->errors);
  for (int rank = 0; rank < nranks; rank++) {
    char line[64];
    snprintf(line, sizeof line, "RESULT %d error 5 ", rank); /* ncclInvalidUsage */
    cr_assert(strstr(result->output, line) != NULL, "no %s in\n%s%s", line, result->output,
              result->errors);
    cr_assert_eq(result->rank_status[rank], 1, "rank %d\n%s", rank, result->errors);
  }
  cr_assert(strstr(result->output, beyond) == NULL, "%s%s", result->output, result->errors);
  cr_assert(!run_says(result, "a failure, not a join"), "%s", result->errors);
  run_free(result);
}

Test(early, every_rank_is_told_whoever_ends_first) {
  for (int i = 0; i < 3; i++)
    check_errors("sum", "--iterations 30,21 --sync end", 4, " sum 0 21 ");
}
Test(early, a_training_with_buffers_and_metrics) {
  check_errors("ddp", "--iterations 20,14 --buffers 1 --metric-every 4 --after barrier", 3,
               " bucket 0 14 ");
}
Test(early, a_training_that_sums_every_third_gradient) {
  check_errors("ddp", "--iterations 30,21 --sync-every 3 --after barrier", 3, " bucket 0 21 ");
}

Test(early, a_program_that_says_where_its_loop_ends) {
  check_errors("annotations", "--iterations 20,14 --say leave", 2, " step 0 14 ");
}

/* A rank is stopped in all its communicators. Ranks that share none with the one that has left may
 * still begin an iteration, up to the first collective that they share with one that was stopped.
 */
Test(early, tensor_and_data_parallel_groups) {
  check_errors("teams", "--iterations 20,14,20 --after all", 4, " data 0 14 ");
}
Test(early, tensor_and_data_parallel_groups_without_a_barrier) {
  check_errors("teams", "--iterations 20,20,14,20 --after none", 4, " data 0 14 ");
}
Test(early, tensor_and_data_parallel_groups_in_one_group) {
  check_errors("teams", "--iterations 20,14,20 --mode group", 4, " data 0 15 ");
}
Test(early, groups_of_neighbours) {
  check_errors("teams", "--iterations 20,14,20 --mode halves", 4, " data 0 20 ");
}
