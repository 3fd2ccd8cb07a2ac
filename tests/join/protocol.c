/* The program of the DDP benchmark: its sums are right in all the ways in which the benchmark runs
 * it, and it would say so if they were not. */
#include "tests/join/run.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#define WARM_UP 10

/* What each rank says of itself. */
struct figures {
  int iterations[RUN_RANKS_MAX], collectives[RUN_RANKS_MAX], reads[RUN_RANKS_MAX];
};

static struct run *start(int nranks, bool with_join, const char *format, const char *join,
                         const char *iterations) {
  char options[256];
  snprintf(options, sizeof options, format, WARM_UP, join, iterations);
  return run(&(struct launch){.nranks = nranks,
                              .program = "../bench/ddp-train",
                              .options = options,
                              .environment = "NCCL_JOIN_TIMEOUT=10",
                              .without = with_join ? 0 : RUN_ALL_RANKS});
}

/* A run in which nothing is wrong. */
static struct figures figures_of(int nranks, bool with_join, const char *join,
                                 const char *iterations) {
  struct run *result =
      start(nranks, with_join, "--warm-up %d --join %s --iterations %s", join, iterations);
  assert_went_well(result);
  struct figures figures = {0};
  int found = 0;
  for (const char *line = result->output; (line = strstr(line, "RESULT ")) != NULL; line++) {
    int rank, i, collectives, reads;
    double seconds, processor;
    if (sscanf(line, "RESULT %d seconds %lf processor %lf iterations %d collectives %d reads %d",
               &rank, &seconds, &processor, &i, &collectives, &reads) != 6)
      continue;
    cr_assert(rank >= 0 && rank < nranks && seconds > 0 && processor > 0, "%s", line);
    figures.iterations[rank] = i;
    figures.collectives[rank] = collectives;
    figures.reads[rank] = reads;
    found++;
  }
  cr_assert_eq(found, nranks, "%s", result->output);
  cr_assert_null(strstr(result->output, "wrong"), "%s%s", result->output, result->errors);
  run_free(result);
  return figures;
}

static void check_iterations(struct figures figures, int nranks, const int *expected) {
  for (int rank = 0; rank < nranks; rank++)
    cr_assert_eq(figures.iterations[rank], expected[rank], "rank %d: %d", rank,
                 figures.iterations[rank]);
}

/* Two broadcasts of buffers and four buckets; what the protocol adds is in PyTorch's source. */
static void check_counts(struct figures figures, int collectives, int reads) {
  for (int rank = 0; rank < 2; rank++) {
    cr_assert_eq(figures.collectives[rank], collectives * figures.iterations[rank]);
    cr_assert_eq(figures.reads[rank], reads * figures.iterations[rank]);
  }
}

Test(protocol, even_ranks_issue_what_pytorch_issues) {
  static const int all[] = {20, 20};
  struct figures plain = figures_of(2, false, "none", "30"),
                 join = figures_of(2, true, "none", "30"),
                 initial = figures_of(2, false, "initial", "30"),
                 active = figures_of(2, false, "active", "30"),
                 stopping = figures_of(2, false, "throw", "30");
  check_iterations(plain, 2, all);
  check_iterations(stopping, 2, all);
  check_counts(plain, 6, 0);
  check_counts(join, 6, 0);
  check_counts(initial, 9, 1);
  check_counts(active, 9, 2);
  check_counts(stopping, 10, 2);
}

Test(protocol, uneven_ranks_get_right_sums_buffers_and_parameters) {
  static const int each[] = {10, 20, 30, 40};
  check_iterations(figures_of(4, true, "none", "20,30,40,50"), 4, each);
  check_iterations(figures_of(4, false, "initial", "20,30,40,50"), 4, each);
  check_iterations(figures_of(4, false, "active", "20,30,40,50"), 4, each);
}

Test(protocol, throwing_stops_all_where_the_first_has_no_data) {
  static const int shortest[] = {10, 10, 10, 10};
  check_iterations(figures_of(4, false, "throw", "20,30,40,50"), 4, shortest);
  check_iterations(figures_of(4, false, "throw", "50,30,20,40"), 4, shortest);
}

/* Rank 1 takes rank 0 to be in the loop longer than it is. */
Test(protocol, a_wrong_sum_is_said) {
  struct run *result =
      start(2, true, "--warm-up %d --join %s --iterations %s --expect 25,30", "none", "20,30");
  cr_assert_not(result->timed_out);
  cr_assert_neq(result->status, 0);
  cr_assert_not_null(strstr(result->output, "wrong"), "%s", result->output);
  cr_assert(run_says(result, "iteration 20: who took part is 1, not 1.5"), "%s", result->errors);
  run_free(result);
}
