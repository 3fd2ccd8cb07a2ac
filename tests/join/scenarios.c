/* What PyTorch's and Horovod's tests of join do, and what their users report: patterns of
 * collectives in a loop that ranks leave one after the other. Each is also run without the preload,
 * where it hangs, or the loopback stops it.
 *
 * docs/scenarios.md has the list, and says where each comes from.
 */
#include "tests/join/expected.h"
#include "tests/join/run.h"

#include <criterion/criterion.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* Runs the program, and compares every number; the lines are freed. */
static void check_lines(int nranks, const char *program, const char *options, struct lines *lines) {
  struct run *result =
      run(&(struct launch){.nranks = nranks, .program = program, .options = options});
  assert_went_well(result);
  lines_add_left(lines, nranks);
  finish_run(result, lines);
}

static void check_ddp(const struct schedule *schedule, const struct ddp *ddp) {
  struct lines *lines = lines_create();
  lines_add_ddp(lines, schedule, ddp);
  check_lines(schedule->nranks, "ddp", ddp_text(schedule, ddp), lines);
}

static void check_stuck(const struct schedule *schedule, const struct ddp *ddp) {
  assert_stuck_without(schedule->nranks, "ddp", ddp_text(schedule, ddp));
}

/* ---- patterns in which PyTorch's Join hangs ---- */

static const struct ddp two_forwards = {.buffers = true, .forwards = 2};

Test(pytorch_hangs, two_forward_passes_and_one_backward) {
  check_ddp(&(struct schedule){3, 1, {{4, 9, 12}}}, &two_forwards);
  check_ddp(&(struct schedule){3, 1, {{12, 30, 21}}}, &two_forwards);
  check_stuck(&(struct schedule){3, 1, {{4, 9, 12}}}, &two_forwards);
}

static const struct ddp forward_only = {.buffers = true, .layer = true, .forward_only_every = 3};

Test(pytorch_hangs, forward_without_backward_in_every_third_iteration) {
  check_ddp(&(struct schedule){3, 1, {{5, 12, 9}}}, &forward_only);
  check_ddp(&(struct schedule){3, 1, {{31, 23, 40}}}, &forward_only);
  check_stuck(&(struct schedule){3, 1, {{5, 12, 9}}}, &forward_only);
}

static const struct ddp loss = {.buffers = true, .loss = true};

Test(pytorch_hangs, loss_that_sums_over_all_ranks) {
  check_ddp(&(struct schedule){3, 1, {{4, 9, 12}}}, &loss);
  check_ddp(&(struct schedule){2, 1, {{20, 8}}}, &loss);
  check_ddp(&(struct schedule){3, 1, {{0, 9, 9}}}, &loss);
  check_stuck(&(struct schedule){3, 1, {{4, 9, 12}}}, &loss);
}

static const struct ddp layer = {.layer = true};

/* PyTorch tests it with an error only: Join cannot go on. */
Test(pytorch_hangs, layer_that_sums_over_all_ranks) {
  check_ddp(&(struct schedule){3, 1, {{10, 5, 5}}}, &layer);
  check_ddp(&(struct schedule){3, 1, {{5, 10, 10}}}, &layer);
  check_stuck(&(struct schedule){3, 1, {{10, 5, 5}}}, &layer);
}

Test(pytorch_hangs, all_of_them_and_a_metric_over_two_epochs) {
  const struct ddp all = {.buffers = true,
                          .forwards = 2,
                          .forward_only_every = 4,
                          .layer = true,
                          .loss = true,
                          .metric_every = 4,
                          .batches = 3};
  const struct schedule schedule = {4, 2, {{12, 16, 8, 16}, {16, 12, 16, 8}}};
  check_ddp(&schedule, &all);
  check_stuck(&schedule, &all);
}

/* ---- what PyTorch's Join can do ---- */

/* Rank r's results add up to 3W plus W - k for each k up to r, for each collective of an iteration.
 */
static void check_totals(const char *options, int each) {
  enum { NRANKS = 4 };
  char text[256];
  snprintf(text, sizeof text, "--iterations 3+1 --value 1 %s", options);
  struct run *result = run(&(struct launch){.nranks = NRANKS, .program = "sum", .options = text});
  assert_went_well(result);
  for (int rank = 0, total = 3 * NRANKS; rank < NRANKS; rank++) {
    char line[64];
    total += rank > 0 ? NRANKS - rank : 0;
    snprintf(line, sizeof line, "RESULT %d total %d\n", rank, each * total);
    cr_assert(strstr(result->output, line) != NULL, "no %s in\n%s", line, result->output);
  }
  run_free(result);
  assert_stuck_without(NRANKS, "sum", text);
}

Test(pytorch, two_collectives_in_an_iteration) {
  check_totals("--collectives 2", 2);
}
Test(pytorch, three_collectives_in_an_iteration) {
  check_totals("--collectives 3", 3);
}

/* Three that are joined in one context, each with a communicator of its own. */
Test(pytorch, three_communicators) {
  check_totals("--communicators 3", 3);
  const struct schedule schedule = {3, 1, {{25, 0, 40}}};
  struct lines *lines = lines_create();
  lines_add_sum(lines, &schedule, 6);
  check_lines(3, "sum", "--iterations 25,0,40 --communicators 3 --collectives 2", lines);
}

static const struct ddp unused = {.unused = true};

/* Odd ranks leave parameters unused; the sum of the maps of use is a count, never scaled. */
Test(pytorch, parameters_that_the_early_rank_does_not_use) {
  check_ddp(&(struct schedule){2, 1, {{9, 5}}}, &unused);
  check_ddp(&(struct schedule){4, 1, {{20, 5, 20, 12}}}, &unused);
  check_stuck(&(struct schedule){2, 1, {{9, 5}}}, &unused);
}

/* From then on nobody uses them, which shows as 0. */
Test(pytorch, parameters_that_the_rank_that_stays_does_not_use) {
  check_ddp(&(struct schedule){2, 1, {{5, 9}}}, &unused);
  check_ddp(&(struct schedule){4, 1, {{3, 20, 8, 12}}}, &unused);
  check_stuck(&(struct schedule){2, 1, {{5, 9}}}, &unused);
}

static const struct ddp float16 = {.hook = "float16"};

Test(pytorch, gradients_compressed_to_float16) {
  check_ddp(&(struct schedule){3, 1, {{5, 8, 8}}}, &float16);
  check_ddp(&(struct schedule){4, 1, {{30, 12, 0, 20}}}, &float16);
  check_stuck(&(struct schedule){3, 1, {{5, 8, 8}}}, &float16);
}

/* Whole buckets at first, then three parts of each: ranks leave before the change, at it, and
 * later. */
Test(pytorch, gradients_compressed_by_powersgd) {
  const struct ddp powersgd = {.hook = "powersgd"};
  const struct schedule schedules[] = {{3, 1, {{1, 8, 8}}},
                                       {3, 1, {{8, 2, 8}}},
                                       {3, 1, {{3, 8, 5}}},
                                       {4, 1, {{0, 10, 10, 10}}},
                                       {4, 1, {{30, 12, 30, 20}}}};
  for (size_t i = 0; i < sizeof schedules / sizeof *schedules; i++)
    check_ddp(&schedules[i], &powersgd);
  check_stuck(&schedules[2], &powersgd);
}

/* ---- Horovod ---- */

enum { NRANKS = 3, FEW = 4, MANY = 9 };

/* All ranks do `many` iterations but one, which does `few`. */
static struct schedule one_leaves(int nranks, int joiner, int few, int many) {
  struct schedule schedule = {.nranks = nranks, .epochs = 1};
  for (int rank = 0; rank < nranks; rank++)
    schedule.n[0][rank] = rank == joiner ? few : many;
  return schedule;
}

/* What sum prints when every rank contributes x: x for each active rank, over the number of ranks
 * at the start if it is an average; integers are truncated. */
static void add_multiples(struct lines *lines, const struct schedule *schedule, int x, bool average,
                          bool integers) {
  int nranks = schedule->nranks;
  for (int rank = 0; rank < nranks; rank++) {
    double total = 0;
    for (int i = 0; i < schedule->n[0][rank]; i++) {
      int active = set_size(schedule_active(schedule, 0, i));
      int sums[2] = {active * x, active * (i + 1)};
      double even = sums[0], odd = sums[1];
      if (average) {
        even = integers ? sums[0] / nranks : even / nranks;
        odd = integers ? sums[1] / nranks : odd / nranks;
      }
      lines_add(lines, rank, "sum 0 %d 0 %.9g %.9g", i, even, odd);
      total += even;
    }
    lines_add(lines, rank, "total %.9g", total);
  }
}

/* Each rank in turn joins first, before it has seen a collective and after it has learnt them. */
static void check_each_first(const char *datatype, bool integers, int x, bool average) {
  for (int joiner = 0; joiner < NRANKS; joiner++)
    for (int few = 0; few <= FEW; few += FEW) {
      const struct schedule schedule = one_leaves(NRANKS, joiner, few, MANY);
      char text[256];
      snprintf(text, sizeof text, "--iterations %s --datatype %s --value %d --reduction %s",
               schedule_text(&schedule), datatype, x, average ? "avg" : "sum");
      struct lines *lines = lines_create();
      add_multiples(lines, &schedule, x, average, integers);
      check_lines(NRANKS, "sum", text, lines);
    }
}

/* 7 (W - 1) / W is no integer for W = 3: 14 / 3 becomes 4, and -14 / 3 becomes -4. */
Test(horovod, average_of_int32) {
  check_each_first("int32", true, 7, true);
}
Test(horovod, average_of_negative_int64) {
  check_each_first("int64", true, -7, true);
}
Test(horovod, average_of_float64) {
  check_each_first("float64", false, 12, true);
}
Test(horovod, sum_of_int32) {
  check_each_first("int32", true, -99, false);
}
Test(horovod, sum_of_float16) {
  check_each_first("float16", false, 99, false);
}
Test(horovod, averages_hang_without_join) {
  assert_stuck_without(3, "sum", "--iterations 4,9 --datatype int32 --value 7 --reduction avg");
}

/* Two tensors of 5^d and 17^d elements, one after the other and as one. */
static void check_two_sizes(const char *counts, const char *more) {
  for (int joiner = 0; joiner < NRANKS; joiner++) {
    const struct schedule schedule = one_leaves(NRANKS, joiner, FEW, MANY);
    char text[256];
    snprintf(text, sizeof text, "--iterations %s --collectives 2 --count %s %s",
             schedule_text(&schedule), counts, more);
    struct lines *lines = lines_create();
    lines_add_sum(lines, &schedule, 2);
    check_lines(NRANKS, "sum", text, lines);
  }
}

Test(horovod, two_tensors_in_flight) {
  check_two_sizes("5,17", "--sync end");
  check_two_sizes("25,289", "--sync end");
  check_two_sizes("125,4913", "--sync end");
}
Test(horovod, two_tensors_fused) {
  check_two_sizes("5,17", "--group 1");
  check_two_sizes("25,289", "--group 1");
  check_two_sizes("125,4913", "--group 1");
  assert_stuck_without(NRANKS, "sum", "--iterations 4,9 --collectives 2 --count 5,17 --group 1");
}

/* Sizes change once the loop has been learnt: a rank leaves long before, right there, while the
 * loop is being learnt anew, and after. */
Test(horovod, sizes_change_after_they_have_been_learnt) {
  static const char options[] = "--collectives 2 --longer-from 20";
  static const int leaves[] = {0, 12, 19, 20, 21, 22, 30};
  for (size_t i = 0; i < sizeof leaves / sizeof *leaves; i++) {
    const struct schedule schedule = one_leaves(NRANKS, (int)i % NRANKS, leaves[i], 40);
    char text[256];
    snprintf(text, sizeof text, "--iterations %s %s", schedule_text(&schedule), options);
    struct lines *lines = lines_create();
    lines_add_sum(lines, &schedule, 2);
    check_lines(NRANKS, "sum", text, lines);
  }
  assert_stuck_without(NRANKS, "sum", "--iterations 20,40 --collectives 2 --longer-from 20");
}

/* Four and more processes with broadcasts in the loop, where Horovod once stalled: each rank in
 * turn is the first to join, then several are at once, and all meet again. */
static const struct ddp broadcasts = {.buffers = true, .barrier = true};

static void check_two_epochs(struct schedule schedule) {
  schedule.epochs = 2;
  memcpy(schedule.n[1], schedule.n[0], sizeof schedule.n[0]);
  check_ddp(&schedule, &broadcasts);
}

Test(horovod, each_of_four_joins_first) {
  for (int joiner = 0; joiner < 4; joiner++)
    check_two_epochs(one_leaves(4, joiner, 3, 8));
}
Test(horovod, each_of_five_joins_before_the_first_collective) {
  for (int joiner = 0; joiner < 5; joiner++) {
    const struct schedule schedule = one_leaves(5, joiner, 0, 6);
    check_ddp(&schedule, &broadcasts);
  }
}
Test(horovod, several_join_first_at_once) {
  check_two_epochs((struct schedule){4, 1, {{3, 8, 3, 8}}});
  check_two_epochs((struct schedule){4, 1, {{8, 3, 3, 3}}});
  check_two_epochs((struct schedule){6, 1, {{3, 3, 3, 3, 3, 8}}});
  check_stuck(&(struct schedule){4, 1, {{3, 8, 3, 8}}}, &broadcasts);
}
