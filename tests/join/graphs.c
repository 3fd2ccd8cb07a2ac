/* Collectives in CUDA graphs: recognised, passed through as they are, and no ground for a shadow.
 */
#include "tests/join/expected.h"
#include "tests/join/run.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

enum { RANKS = 3, LAUNCHES = 4 };

static struct run *run_graph(const char *options, const char *environment) {
  return run(&(struct launch){
      .nranks = RANKS, .program = "graph", .options = options, .environment = environment});
}

static void add_loop(struct lines *lines, int rank, int place, int iterations) {
  for (int i = 0; i < iterations; i++)
    lines_add(lines, rank, "sum %d %d %u", place, i, set_of_all(RANKS));
}

/* Each launch sums what the one before has left, which is the same on all ranks. */
static struct lines *expect_even(int before, int after) {
  struct lines *lines = lines_create();
  for (int rank = 0; rank < RANKS; rank++) {
    add_loop(lines, rank, 0, before);
    unsigned value = set_of_all(RANKS);
    for (int i = 0; i < LAUNCHES; i++, value *= RANKS)
      lines_add(lines, rank, "sum 1 %d %u", i, value);
    add_loop(lines, rank, 2, after);
  }
  lines_add_left(lines, RANKS);
  return lines;
}

static int count(const char *text, const char *what) {
  int found = 0;
  for (; (text = strstr(text, what)) != NULL; text++)
    found++;
  return found;
}

static void check_even(int before, int after, const char *more, const char *environment,
                       int warnings) {
  char options[128];
  snprintf(options, sizeof options, "--before %d --after %d --launches %d %s", before, after,
           LAUNCHES, more);
  struct run *result = run_graph(options, environment);
  assert_went_well(result);
  struct lines *lines = expect_even(before, after);
  assert_results(result, lines);
  lines_free(lines);
  cr_assert_eq(count(result->errors, "is used in a CUDA graph"), warnings, "%s", result->errors);
  cr_assert_eq(count(result->errors, "WARN"), warnings, "%s", result->errors);
  run_free(result);
}

Test(graphs, one_warning_and_the_same_results) {
  check_even(2, 3, "", "", RANKS);
}
/* Nothing asks the driver about a collective that all expect. */
Test(graphs, capture_of_what_has_been_learnt) {
  check_even(75, 75, "", "", RANKS);
}
Test(graphs, capture_of_the_first_collective) {
  check_even(0, 5, "", "", RANKS);
}
Test(graphs, capture_of_a_group) {
  check_even(2, 2, "--group 1", "", RANKS);
}
Test(graphs, capture_of_a_group_that_has_been_learnt) {
  check_even(75, 75, "--group 1", "", RANKS);
}
Test(graphs, capture_that_a_static_runtime_begins) {
  check_even(0, 5, "--begin driver", "", RANKS);
}
Test(graphs, no_warning_when_off) {
  check_even(2, 3, "", "NCCL_JOIN=0", 0);
}

/* Ranks that join would have to answer for launches that nobody sees. The others wait in a kernel,
 * which hears of nobody's end: the first rank's status ends the job. */
static void check_refused(const char *options) {
  struct run *result = run_graph(options, "NCCL_JOIN_TIMEOUT=10 LOOPBACK_DEATH=hang");
  cr_assert_not(result->timed_out);
  cr_assert_neq(result->status, 0);
  cr_assert_neq(result->status, RUN_LOOPBACK_STOPPED, "%s", result->errors);
  cr_assert(run_says_in_a_line(result, "no shadow can be issued on communicator",
                               "after the capture of a CUDA graph", "as many iterations", NULL),
            "%s", result->errors);
  run_free(result);
}

Test(graphs, uneven_loop_after_a_graph_is_refused) {
  check_refused("--before 20 --after 5,9,7");
}
Test(graphs, uneven_loop_of_groups_after_a_graph_is_refused) {
  check_refused("--before 20 --after 5,9,7 --group 1");
}
/* Nor does a rank that only ends go with status 0. */
Test(graphs, uneven_loop_after_a_graph_is_refused_at_the_end_of_main) {
  check_refused("--before 20 --after 5,9,7 --end return");
}
