/* The line at the end of a run whose inputs were uneven (NCCL_JOIN_REPORT), which other tests
 * switch off. */
#include "tests/join/run.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <glob.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

TestSuite(summary, .timeout = 300);

static struct run *run_program(int nranks, const char *program, const char *options,
                               const char *environment) {
  return run(&(struct launch){
      .nranks = nranks, .program = program, .options = options, .environment = environment});
}

static struct run *sum(const char *options, const char *environment) {
  return run_program(3, "sum", options, environment);
}

/* How many lines say it. */
static int lines(const struct run *run) {
  int count = 0;
  for (const char *at = run->errors; (at = strstr(at, "inputs were uneven: ")) != NULL; at++)
    count++;
  return count;
}

Test(summary, one_rank_says_who_shadowed_how_much_and_what_it_cost) {
  struct run *result = sum("--iterations 10,20,30/5,10,7", "NCCL_JOIN_REPORT=line");
  assert_went_well(result);
  cr_expect_eq(lines(result), 1, "%s", result->errors);
  cr_expect(run_says_in_a_line(result,
                               " NCCL-JOIN INFO inputs were uneven: rank 2 had the most data",
                               ". Of 37 collectives rank 0 answered 22 without data (59 %, ",
                               "s), rank 1 7 (19 %, ", " % of the time of all ranks (3 x ",
                               " rank 0 nranks 3 tag ", NULL),
            "%s", result->errors);
  run_free(result);
}

/* Where there are traces it names their folder. */
Test(summary, it_says_what_tells_more) {
  char folder[] = "/tmp/join-summary-XXXXXX", environment[128], command[160];
  cr_assert_not_null(mkdtemp(folder));
  snprintf(environment, sizeof environment, "NCCL_JOIN_REPORT=line NCCL_JOIN_TRACE=%s", folder);
  struct run *traced = sum("--iterations 3,8,5", environment),
             *plain = sum("--iterations 3,8,5", "NCCL_JOIN_REPORT=line");
  snprintf(command, sizeof command, "Where: nccl-join report %s. NCCL_JOIN_REPORT=off", folder);
  cr_expect(run_says(traced, command), "%s", traced->errors);
  cr_expect(run_says(plain, "Where: NCCL_JOIN_TRACE and nccl-join report. NCCL_JOIN_REPORT=off"),
            "%s", plain->errors);
  run_free(traced);
  run_free(plain);
  snprintf(command, sizeof command, "rm -r %s", folder);
  cr_expect_eq(system(command), 0);
}

Test(summary, answers_to_sends_are_no_collectives) {
  struct run *result = run_program(3, "exchange", "--mode ring --iterations 4,6,8",
                                   "NCCL_JOIN_REPORT=line NCCL_JOIN_LOSSY=send:zero");
  assert_went_well(result);
  cr_expect(run_says_in_a_line(result, ". Of 8 collectives rank 0 answered 4 without data (50 %, ",
                               "s), rank 1 2 (25 %, ", NULL),
            "%s", result->errors);
  run_free(result);
}

Test(summary, what_nccl_join_itself_passes_is_no_collective) {
  static const char *const says[] = {"--say none", "--say leave --state weights",
                                     "--say both --state all"};
  for (size_t i = 0; i < sizeof says / sizeof says[0]; i++) {
    char options[128];
    snprintf(options, sizeof options, "--iterations 3,5 %s", says[i]);
    struct run *result = run_program(2, "annotations", options, "NCCL_JOIN_REPORT=line");
    assert_went_well(result);
    cr_expect(run_says(result, ". Of 6 collectives rank 0 answered 2 without data (33 %, "),
              "%s: %s", says[i], result->errors);
    run_free(result);
  }
}

Test(summary, even_inputs_are_not_worth_a_line) {
  struct run *result = sum("--iterations 10,10,10/7,7,7", "NCCL_JOIN_REPORT=line");
  assert_went_well(result);
  cr_expect_str_empty(result->errors);
  run_free(result);
}

Test(summary, nothing_is_said_if_it_is_off_or_only_errors_are_logged) {
  static const char *const environments[] = {"NCCL_JOIN_REPORT=off",
                                             "NCCL_JOIN_REPORT=line NCCL_JOIN_DEBUG=ERROR"};
  for (size_t i = 0; i < 2; i++) {
    struct run *result = sum("--iterations 3,8,5", environments[i]);
    assert_went_well(result);
    cr_expect_str_empty(result->errors);
    run_free(result);
  }
}

Test(summary, there_is_one_however_the_ranks_leave) {
  static const char *const ends[] = {"finalize", "destroy", "abort",
                                     "return",   "exit",    "finalize,return,exit"};
  for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
    char options[96];
    snprintf(options, sizeof options, "--iterations 3,8,5 --end %s", ends[i]);
    struct run *result = sum(options, "NCCL_JOIN_REPORT=line");
    assert_went_well(result);
    cr_expect_eq(lines(result), 1, "%s: %s", ends[i], result->errors);
    run_free(result);
  }
}

Test(summary, communicators_of_the_same_ranks_have_one_line) {
  struct run *result = sum("--iterations 3,8,5 --communicators 3", "NCCL_JOIN_REPORT=line");
  assert_went_well(result);
  cr_expect_eq(lines(result), 1, "%s", result->errors);
  cr_expect(run_says(result, "Of 24 collectives rank 0 answered 15 without data (63 %"), "%s",
            result->errors);
  run_free(result);
}

Test(summary, all_to_alls_of_sends_and_receives_are_collectives) {
  struct run *result = run_program(3, "experts", "--iterations 4,6,8",
                                   "NCCL_JOIN_REPORT=line NCCL_JOIN_LOSSY=send:zero");
  assert_went_well(result);
  cr_expect(run_says_in_a_line(result, ". Of 17 collectives rank 0 answered 8 without data (47 %, ",
                               "s), rank 1 4 (24 %, ", NULL),
            "%s", result->errors);
  run_free(result);
}

Test(summary, communicators_of_some_of_the_ranks_are_told_of_with_that_of_all) {
  struct run *result =
      run_program(4, "teams", "--iterations 4,6,8,5/3,4,5,6", "NCCL_JOIN_REPORT=line");
  assert_went_well(result);
  cr_expect_eq(lines(result), 1, "%s", result->errors);
  cr_expect(run_says_in_a_line(result,
                               "inputs were uneven: in 4 communicators of some of these "
                               "ranks, which answered 16 collectives there without data. ",
                               " nranks 4 ", NULL),
            "%s", result->errors);
  run_free(result);
  result = run_program(4, "teams", "--iterations 3,9,9,9 --metric 2", "NCCL_JOIN_REPORT=line");
  assert_went_well(result);
  cr_expect_eq(lines(result), 1, "%s", result->errors);
  cr_expect(run_says_in_a_line(result, "inputs were uneven: rank 1 and 2 more had the most data. ",
                               ". Besides, in 2 communicators of some of these ranks they answered "
                               "12 collectives without data. ",
                               NULL),
            "%s", result->errors);
  run_free(result);
}

/* Nobody is waited for: what the others have counted is not known to be all. */
Test(summary, after_a_death_there_is_none) {
  struct run *result = run(&(struct launch){.nranks = 3,
                                            .program = "endings",
                                            .options = "--iterations 3,20,20 --break 1:12:kill",
                                            .environment = "NCCL_JOIN_REPORT=line",
                                            .each = true});
  cr_expect_not(result->timed_out);
  cr_expect_eq(result->rank_status[1], 128 + SIGKILL);
  cr_expect_eq(lines(result), 0, "%s", result->errors);
  run_free(result);
}

/* ---- for programs ---- */

Test(summary, a_folder_gets_it_as_json) {
  char folder[] = "/tmp/nccl-join-summary-XXXXXX", environment[96], pattern[96], text[1024] = "";
  cr_assert_not_null(mkdtemp(folder));
  snprintf(environment, sizeof environment, "NCCL_JOIN_REPORT=%s/made/here", folder);
  struct run *result = sum("--iterations 3,8,5", environment);
  assert_went_well(result);
  cr_expect_eq(lines(result), 1, "%s", result->errors);
  run_free(result);
  snprintf(pattern, sizeof pattern, "%s/made/here/report-*.json", folder);
  glob_t found;
  cr_assert_eq(glob(pattern, 0, NULL, &found), 0);
  cr_assert_eq(found.gl_pathc, 1);
  int file = open(found.gl_pathv[0], O_RDONLY);
  cr_assert_gt(read(file, text, sizeof text - 1), 0);
  close(file);
  cr_expect(strstr(text, "{\"format\":\"nccl-join-report\",\"version\":1,\"communicator\":\"") ==
                text,
            "%s", text);
  cr_expect(strstr(text, "\"ranks\":3,\"collectives\":8,\"run_ms\":") != NULL, "%s", text);
  cr_expect(strstr(text, "\"joined\":[{\"rank\":0,\"shadows\":5,\"joined_ms\":") != NULL, "%s",
            text);
  cr_expect(strstr(text, "{\"rank\":1,\"shadows\":0,\"joined_ms\":0}]}\n") != NULL, "%s", text);
  unlink(found.gl_pathv[0]);
  globfree(&found);
  snprintf(pattern, sizeof pattern, "%s/made/here", folder);
  for (int i = 0; i < 3; i++, *strrchr(pattern, '/') = '\0')
    rmdir(pattern);
}

Test(summary, a_folder_that_cannot_be_written_to_is_told) {
  struct run *result = sum("--iterations 3,8,5", "NCCL_JOIN_REPORT=/proc/none");
  assert_went_well(result);
  cr_expect(run_says_in_a_line(result, "NCCL-JOIN WARN cannot write /proc/none/report-",
                               "Set NCCL_JOIN_REPORT to a folder", NULL),
            "%s", result->errors);
  run_free(result);
}
