/* What averages divide by, NCCL_JOIN_DIVISOR: all ranks, or those that are active. */
#include "tests/join/expected.h"
#include "tests/join/run.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static const char active[] = "NCCL_JOIN_DIVISOR=active",
                  active_sum[] = "NCCL_JOIN_DIVISOR=active-sum";

static struct run *run_sum(const struct schedule *schedule, const char *options,
                           const char *environment) {
  char text[512];
  snprintf(text, sizeof text, "--iterations %s %s", schedule_text(schedule), options);
  return run(&(struct launch){
      .nranks = schedule->nranks, .program = "sum", .options = text, .environment = environment});
}

/* n ranks contribute x times factor, in float32, as the hardware does it. */
static float sum_of(int n, float x, float factor) {
  float sum = 0, part = x * factor;
  for (; n > 0; n--)
    sum += part;
  return sum;
}

/* The first number of each line of programs/sum with one collective: by how many are active. */
typedef float expected_value(int active, int nranks, float x);

static void check_values(const struct run *run, const struct schedule *schedule, float x,
                         expected_value *value) {
  for (int rank = 0; rank < schedule->nranks; rank++)
    for (int i = 0; i < schedule->n[0][rank]; i++) {
      char line[128];
      int n = set_size(schedule_active(schedule, 0, i));
      snprintf(line, sizeof line, "RESULT %d sum 0 %d 0 %.9g ", rank, i,
               (double)value(n, schedule->nranks, x));
      cr_assert(strstr(run->output, line) != NULL, "no %s in\n%s%s", line, run->output,
                run->errors);
    }
}

static void check_sum(const struct schedule *schedule, const char *options, const char *environment,
                      float x, expected_value *value) {
  struct run *result = run_sum(schedule, options, environment);
  assert_went_well(result);
  check_values(result, schedule, x, value);
  run_free(result);
}

/* Rank 0 has 3 iterations, all others 5. */
static struct schedule early(int nranks) {
  struct schedule schedule = {.nranks = nranks, .epochs = 1, .n = {{3}}};
  for (int rank = 1; rank < nranks; rank++)
    schedule.n[0][rank] = 5;
  return schedule;
}

/* ---- averages ---- */

static float over_active(int n, int nranks, float x) {
  (void)nranks;
  return sum_of(n, x, 1.0f / (float)n);
}

static float over_all(int n, int nranks, float x) {
  return sum_of(n, x, 1.0f / (float)nranks);
}

/* PyTorch's own test of its divisor: gradients of 50 stay 50. */
Test(divisor, averages_are_over_the_active_ranks) {
  for (int nranks = 2; nranks <= 5; nranks++) {
    const struct schedule schedule = early(nranks);
    check_sum(&schedule, "--reduction avg --value 50", active, 50, over_active);
  }
}
Test(divisor, averages_are_over_all_ranks_by_default) {
  const struct schedule schedule = early(3);
  check_sum(&schedule, "--reduction avg --value 50", "", 50, over_all);
}

/* A spare that never takes part: the divisor is that of the participants, as torchft's is. */
Test(divisor, spares_do_not_count) {
  check_sum(&(struct schedule){4, 1, {{6, 0, 6, 0}}}, "--reduction avg --value 12", active, 12,
            over_active);
}

/* Each rank leaves at another time, from a loop that has been learnt. */
Test(divisor, ranks_that_leave_one_after_the_other) {
  check_sum(&(struct schedule){4, 1, {{9, 14, 11, 20}}}, "--reduction avg --value 3 --sync end",
            active, 3, over_active);
}

/* Two epochs: at the beginning of the second all are active again. Two or four: averages of whole
 * numbers are exact then, in whatever order NCCL adds. */
Test(divisor, ranks_that_come_back_count_again) {
  const struct schedule schedule = {4, 2, {{3, 6, 6, 3}, {6, 4, 4, 6}}};
  struct run *result = run_sum(&schedule, "--reduction avg --value 6", active);
  assert_went_well(result);
  check_values(result, &schedule, 6, over_active);
  cr_assert(strstr(result->output, "RESULT 1 sum 1 3 0 6 ") != NULL, "%s", result->output);
  cr_assert(strstr(result->output, "RESULT 0 sum 1 5 0 6 ") != NULL, "%s", result->output);
  run_free(result);
}

/* ---- sums ---- */

static float scaled(int n, int nranks, float x) {
  return n == nranks ? sum_of(n, x, 1) : sum_of(n, x, (float)nranks / (float)n);
}

static float not_scaled(int n, int nranks, float x) {
  (void)nranks;
  return sum_of(n, x, 1);
}

/* What DistributedDataParallel does: it divides by all ranks, and sums. The gradient stays. */
Test(divisor, gradients_that_were_divided_before_are_over_the_active_ranks) {
  const struct schedule schedule = early(4);
  struct run *result = run_sum(&schedule, "--value 12.5", active_sum);
  assert_went_well(result);
  check_values(result, &schedule, 12.5f, scaled);
  cr_assert(strstr(result->output, "RESULT 1 sum 0 1 0 50 ") != NULL, "%s", result->output);
  run_free(result);
  const struct schedule half = {4, 1, {{3, 5, 3, 5}}};
  result = run_sum(&half, "--value 12.5", active_sum);
  assert_went_well(result);
  cr_assert(strstr(result->output, "RESULT 1 sum 0 4 0 50 ") != NULL, "%s", result->output);
  run_free(result);
}

Test(divisor, averages_are_over_the_active_ranks_with_sums_too) {
  const struct schedule schedule = early(3);
  check_sum(&schedule, "--reduction avg --value 50", active_sum, 50, over_active);
}

/* Counters and metrics, and bitmaps, are not gradients. */
Test(divisor, small_sums_are_spared) {
  const struct schedule schedule = early(3);
  check_sum(&schedule, "--value 6 --count 1023", active_sum, 6, not_scaled);
  check_sum(&schedule, "--value 6 --count 1024", active_sum, 6, scaled);
}
Test(divisor, sums_of_integers_are_spared) {
  const struct schedule schedule = early(3);
  check_sum(&schedule, "--value 6 --datatype int32", active_sum, 6, not_scaled);
  check_sum(&schedule, "--value 6 --datatype uint8", active_sum, 6, not_scaled);
}
Test(divisor, how_small_can_be_set) {
  const struct schedule schedule = early(3);
  check_sum(&schedule, "--value 6 --count 16",
            "NCCL_JOIN_DIVISOR=active-sum NCCL_JOIN_DIVISOR_MIN=16", 6, scaled);
  check_sum(&schedule, "--value 6 --count 15",
            "NCCL_JOIN_DIVISOR=active-sum NCCL_JOIN_DIVISOR_MIN=16", 6, not_scaled);
}
Test(divisor, sums_are_left_alone_without_the_word) {
  const struct schedule schedule = early(3);
  check_sum(&schedule, "--value 6", active, 6, not_scaled);
}

/* A gradient and a counter in one group. */
Test(divisor, members_of_a_group_are_scaled_one_by_one) {
  const struct schedule schedule = {4, 1, {{3, 12, 3, 12}}};
  struct run *result =
      run_sum(&schedule, "--value 6 --collectives 2 --count 1024,8 --group 1", active_sum);
  assert_went_well(result);
  for (int i = 3; i < 12; i++) {
    char line[64];
    snprintf(line, sizeof line, "RESULT 1 sum 0 %d 0 24 ", i);
    cr_assert(strstr(result->output, line) != NULL, "no %s in\n%s", line, result->output);
    snprintf(line, sizeof line, "RESULT 1 sum 0 %d 1 12 ", i);
    cr_assert(strstr(result->output, line) != NULL, "no %s in\n%s", line, result->output);
  }
  run_free(result);
}

/* ---- every format ---- */

static const char *const floats[] = {"float16",  "float32",    "float64",
                                     "bfloat16", "float8e4m3", "float8e5m2"};
enum { FLOATS = sizeof floats / sizeof *floats };

/* The contributions of programs/reductions: 1 or 2 by rank. Scales are powers of two, so that every
 * format holds what comes out. */
static void add_reduced(struct lines *lines, int rank, int i, unsigned ranks, int nranks,
                        bool with_sums) {
  double sum = 0, product = 1, largest = 1, smallest = 2;
  double scale = (double)nranks / set_size(ranks);
  int odd = 0;
  for (unsigned left = ranks; left != 0; left &= left - 1) {
    double x = 1 + set_lowest(left) % 2;
    sum += x;
    product *= x;
    odd += x == 2;
    largest = x > largest ? x : largest;
    smallest = x < smallest ? x : smallest;
  }
  double negative = set_size(ranks) % 2 == 0 ? product : -product;
  double sums = with_sums ? scale * sum : sum;
  for (int d = 0; d < FLOATS; d++) {
    const char *name = floats[d];
    lines_add(lines, rank, "reduced %d %s sum %.9g %.9g", i, name, sums, -sums);
    lines_add(lines, rank, "reduced %d %s prod %.9g %.9g", i, name, product, negative);
    lines_add(lines, rank, "reduced %d %s max %.9g %.9g", i, name, largest, -smallest);
    lines_add(lines, rank, "reduced %d %s min %.9g %.9g", i, name, smallest, -largest);
    lines_add(lines, rank, "reduced %d %s avg %.9g %.9g", i, name, scale * sum, -scale * sum);
    lines_add(lines, rank, "reduced %d %s premulsum %.9g %.9g", i, name, 2 * sums, -2 * sums);
  }
}

static void check_formats(const struct schedule *schedule, const char *options,
                          const char *environment, bool with_sums, int root) {
  char text[256];
  snprintf(text, sizeof text,
           "--iterations %s --float8 1 --datatypes "
           "float16/float32/float64/bfloat16/float8e4m3/float8e5m2 %s",
           schedule_text(schedule), options);
  struct run *result = run(&(struct launch){.nranks = schedule->nranks,
                                            .program = "reductions",
                                            .options = text,
                                            .environment = environment});
  assert_went_well(result);
  struct lines *lines = lines_create();
  for (int rank = 0; rank < schedule->nranks; rank++)
    for (int i = 0; i < schedule->n[0][rank]; i++)
      if (root < 0 || rank == root)
        add_reduced(lines, rank, i, schedule_active(schedule, 0, i), schedule->nranks, with_sums);
  lines_add_left(lines, schedule->nranks);
  finish_run(result, lines);
}

static const struct schedule halves = {4, 1, {{2, 5, 2, 6}}};

Test(divisor, averages_in_every_format) {
  check_formats(&halves, "", active, false, -1);
}
Test(divisor, sums_and_operators_in_every_format) {
  check_formats(&halves, "", "NCCL_JOIN_DIVISOR=active-sum NCCL_JOIN_DIVISOR_MIN=64", true, -1);
}
Test(divisor, a_reduce_is_scaled) {
  check_formats(&halves, "--collective reduce --root 3",
                "NCCL_JOIN_DIVISOR=active-sum NCCL_JOIN_DIVISOR_MIN=64", true, 3);
}

/* 64 elements for each of four ranks: a rank contributes 256. */
Test(divisor, a_reduce_scatter_counts_what_a_rank_contributes) {
  check_formats(&halves, "--collective reducescatter",
                "NCCL_JOIN_DIVISOR=active-sum NCCL_JOIN_DIVISOR_MIN=256", true, -1);
  check_formats(&halves, "--collective reducescatter",
                "NCCL_JOIN_DIVISOR=active-sum NCCL_JOIN_DIVISOR_MIN=257", false, -1);
}

/* ---- what cannot be divided ---- */

/* No active rank gets it, nor the rest of its group, and all go on in step. */
static void check_refused(const char *options) {
  struct run *result = run(
      &(struct launch){.nranks = 3, .program = "lossy", .options = options, .environment = active});
  assert_went_well(result);
  cr_assert(run_says_in_a_line(result, "integers", "2 of 3", "NCCL_JOIN_DIVISOR=initial", NULL),
            "%s", result->errors);
  struct lines *lines = lines_create();
  for (int rank = 0; rank < 3; rank++) {
    for (int i = 0; i < 2; i++) {
      lines_add(lines, rank, "sum %d 7 %d", i, 3 * (i + 1));
      lines_add(lines, rank, "got %d 200 %d", i, i + 1);
    }
    for (int step = 0; step < 3 && rank != 0; step++)
      lines_add(lines, rank, "after %d 6 %d", step, 2 * (step + 1));
    if (rank == 0)
      continue;
    lines_add(lines, rank, "sum 2 6 6");
    lines_add(lines, rank, "refused average");
  }
  lines_add_left(lines, 3);
  finish_run(result, lines);
}

Test(divisor, an_average_of_integers_is_refused_once_a_rank_has_joined) {
  check_refused("--iterations 2,6 --collective average");
}
Test(divisor, a_group_with_an_average_of_integers_is_refused_whole) {
  check_refused("--iterations 2,6 --collective average --group 1");
}

static float itself(int n, int nranks, float x) {
  (void)n, (void)nranks;
  return x;
}

Test(divisor, an_average_of_integers_over_all_ranks_is_one_as_ever) {
  check_sum(&(struct schedule){3, 1, {{8, 8, 8}}}, "--reduction avg --value 7 --datatype int64",
            active_sum, 7, itself);
}

/* Only the device knows the factor. Every rank is told, with the call, and nobody hangs. */
Test(divisor, an_operator_with_its_scalar_on_the_device_is_an_error) {
  static const char options[] = "--iterations 2,5 --datatypes float64 --scalar device";
  struct launch launch = {.nranks = 3, .program = "reductions", .options = options, .each = true};
  launch.environment = "NCCL_JOIN_DIVISOR=active-sum NCCL_JOIN_DIVISOR_MIN=64";
  struct run *result = run(&launch);
  cr_assert(!result->timed_out, "%s%s", result->output, result->errors);
  cr_assert(run_says_in_a_line(result, "device memory", "NCCL_JOIN_DIVISOR=active", NULL), "%s",
            result->errors);
  for (int rank = 1; rank < 3; rank++) {
    char line[64];
    snprintf(line, sizeof line, "RESULT %d error 5 ncclAllReduce", rank); /* ncclInvalidUsage */
    cr_assert(strstr(result->output, line) != NULL, "no %s in\n%s%s", line, result->output,
              result->errors);
  }
  run_free(result);
  launch.environment = active;
  result = run(&launch);
  assert_went_well(result);
  cr_assert(strstr(result->output, "RESULT 1 reduced 4 float64 premulsum 6 -6") != NULL, "%s",
            result->output);
  run_free(result);
}

/* ---- nothing changes where inputs are even ---- */

Test(divisor, even_inputs_are_bit_for_bit_the_same) {
  static const char *const programs[][2] = {
      {"reductions", "--iterations 5 --float8 1"},
      {"sum", "--iterations 9 --reduction avg --value 7.7 --sync end"},
      {"sum", "--iterations 9 --value 7.7 --collectives 2 --count 4096,3 --group 1"}};
  static const char *const modes[] = {active, active_sum};
  for (int p = 0; p < 3; p++)
    for (int m = 0; m < 2; m++) {
      struct launch launch = {.nranks = 3, .program = programs[p][0], .options = programs[p][1]};
      struct run *plain = run(&launch);
      launch.environment = modes[m];
      struct run *other = run(&launch);
      assert_went_well(other);
      assert_same_results(plain, other);
      run_free(plain);
      run_free(other);
    }
}

/* A rank that waits for who is active hears of a failure. */
Test(divisor, a_rank_that_fails_frees_those_that_wait_for_it) {
  struct run *result =
      run(&(struct launch){.nranks = 3,
                           .program = "sum",
                           .options = "--iterations 20,6,20 --reduction avg --end finalize,fail",
                           .environment = active,
                           .each = true});
  cr_assert(!result->timed_out, "somebody waits for ever\n%s%s", result->output, result->errors);
  cr_assert(strstr(result->output, "RESULT 0 error 6 ncclAllReduce") != NULL, "%s%s",
            result->output, result->errors); /* ncclRemoteError */
  cr_assert(run_says(result, "rank 1 failed"), "%s", result->errors);
  run_free(result);
}
