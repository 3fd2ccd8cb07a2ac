/* A rank that fails, and destroys its communicators on the way out, has not run out of data
 * (interpose/park/failing.c). */
#include "tests/join/run.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FAILURE "with an exception under way (Failure"

/* Where its ranks have these lengths. */
static struct run *run_failing(bool python, const char *how, const char *lengths) {
  if (python)
    run_needs_python();
  char options[64];
  snprintf(options, sizeof options, "%s %s", how, lengths);
  return run(
      &(struct launch){.nranks = 2,
                       .program = python ? "../../tests/join/python/failing.py" : "failing_in_cpp",
                       .options = options,
                       .each = true,
                       .limit_s = 60});
}

static bool has_result(const struct run *result, const char *line) {
  char text[64];
  snprintf(text, sizeof text, "RESULT %s\n", line);
  return strstr(result->output, text) != NULL;
}

/* Rank 0 fails after 2: nobody gets a sum without it (the stand-in may let a collective that is
 * lost be, and then its result is -1), and both end. */
static void check_fails(bool python, const char *how, int status) {
  struct run *result = run_failing(python, how, "2,4");
  cr_assert(!result->timed_out, "%s: somebody stays for ever\n%s", how, result->errors);
  cr_expect(result->rank_status[0] == status && result->rank_status[1] != 0, "%s: %d, %d\n%s", how,
            result->rank_status[0], result->rank_status[1], result->errors);
  cr_expect(run_says_in_a_line(result, "rank 0 leaves",
                               status == 3 && python ? "(SystemExit at" : FAILURE,
                               "a failure, not a join", NULL),
            "%s:\n%s", how, result->errors);
  cr_expect(has_result(result, "0 sum 1 2"), "%s:\n%s", how, result->output);
  cr_expect(!has_result(result, "1 sum 2 1"), "%s: rank 0 is answered for\n%s", how,
            result->output);
  run_free(result);
}

/* What is raised is no failure of the rank, or nobody wants anything more of it: it is as if it had
 * raised nothing. */
static void check_joins(bool python, const char *how, const char *lengths, int status) {
  struct run *result = run_failing(python, how, lengths);
  cr_expect(!result->timed_out && result->status == status, "%s %s: %d\n%s", how, lengths,
            result->status, result->errors);
  cr_expect(!run_says(result, "an exception under way"), "%s %s:\n%s", how, lengths,
            result->errors);
  char sum[32];
  snprintf(sum, sizeof sum, "1 sum 3 %d", lengths[0] == '2' ? 1 : 2);
  cr_expect(has_result(result, sum), "%s %s:\n%s", how, lengths, result->output);
  run_free(result);
}

Test(failing, an_exception_of_python_on_its_way_through_a_destroy) {
  check_fails(true, "finally", 1);
  check_fails(true, "with", 1);
  check_fails(true, "exit", 3);
}
/* Python has printed the exception by then. */
Test(failing, an_exception_of_python_before_a_destroy_at_the_end_of_the_process) {
  check_fails(true, "atexit", 1);
}
/* Rank 0 comes through: that its peer ends is what it has done. */
Test(failing, an_exception_of_python_that_is_handled_by_a_destroy) {
  struct run *result = run_failing(true, "except", "2,4");
  cr_expect(!result->timed_out && result->status != 0, "%s", result->errors);
  cr_expect(run_says_in_a_line(result, "rank 0 leaves", FAILURE, NULL), "%s", result->errors);
  cr_expect(has_result(result, "0 destroyed") && !has_result(result, "1 sum 2 1"), "%s",
            result->output);
  run_free(result);
}
Test(failing, an_exception_of_python_that_says_that_there_is_no_more_data) {
  check_joins(true, "data", "2,4", 0);
  check_joins(true, "iterator", "2,4", 0);
}
/* `except ImportError: main()`. */
Test(failing, an_exception_of_python_that_is_older_than_the_last_collective) {
  check_joins(true, "older", "2,4", 0);
}
Test(failing, an_exception_of_python_on_all_ranks_at_once) {
  check_joins(true, "all", "4,4", 1);
}

/* It may be what the program does when its data ends: told. */
Test(failing, a_collective_in_a_finally) {
  struct run *result = run_failing(true, "barrier", "2,4");
  cr_expect(!result->timed_out && result->rank_status[0] == 1, "%d\n%s", result->rank_status[0],
            result->errors);
  cr_expect(run_says_in_a_line(result, "rank 0 comes to allreduce", FAILURE,
                               "counts as out of data", NULL),
            "%s", result->errors);
  cr_expect(has_result(result, "1 sum 3 1") && has_result(result, "0 last 2"), "%s",
            result->output);
  run_free(result);
}

Test(failing, an_exception_of_cpp) {
  check_fails(false, "catch", 3);
  check_joins(false, "handled", "2,4", 0);
}
/* Its type is not to be seen while the stack is unwound. */
Test(failing, an_exception_of_cpp_that_unwinds_the_stack) {
  struct run *result = run_failing(false, "destructor", "2,4");
  cr_expect(!result->timed_out && result->rank_status[0] == 3, "%d\n%s", result->rank_status[0],
            result->errors);
  cr_expect(run_says_in_a_line(result, "rank 0 leaves", "(an exception of C++)", NULL), "%s",
            result->errors);
  cr_expect(has_result(result, "0 destroyed 0") && !has_result(result, "1 sum 2 1"), "%s",
            result->output);
  run_free(result);
}
