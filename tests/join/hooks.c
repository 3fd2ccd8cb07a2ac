/* Plug-ins (NCCL_JOIN_HOOK): what they are called with, what they can do, and what is said of those
 * that are wrong. tests/join/plugins has them; programs/annotations is what they are plugged into.
 * */
#include "tests/join/expected.h"
#include "tests/join/run.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Paths of plug-ins in the build folder, by names separated by commas, after NCCL_JOIN_HOOK=. */
static const char *hooks(const char *names) {
  static char text[1024];
  char copy[256], *rest = copy;
  snprintf(copy, sizeof copy, "%s", names);
  strcpy(text, "NCCL_JOIN_HOOK=");
  for (char *name; (name = strsep(&rest, ",")) != NULL;) {
    size_t length = strlen(text);
    snprintf(text + length, sizeof text - length, "%s%s/%s.so",
             length > strlen("NCCL_JOIN_HOOK=") ? "," : "", run_build_folder(), name);
  }
  return text;
}

static struct run *run_hooked(const char *names, const char *options, const char *more) {
  char environment[1400];
  snprintf(environment, sizeof environment, "%s %s", hooks(names), more);
  return run(&(struct launch){
      .nranks = 3, .program = "annotations", .options = options, .environment = environment});
}

static int count_lines(const struct run *run, const char *text) {
  int count = 0;
  for (const char *at = run->output; (at = strstr(at, text)) != NULL; at++)
    count++;
  return count;
}

#define assert_printed(run, text)                                                                  \
  cr_assert(strstr((run)->output, text) != NULL, "no \"%s\" in\n%s%s", text, (run)->output,        \
            (run)->errors)

static const char uneven[] = "--iterations 3,6,4";

Test(hooks, main_hook_sees_every_shadow_and_post_hook_the_end) {
  struct run *result = run_hooked("plugins/first", uneven, "");
  assert_went_well(result);
  for (int index = 3; index < 6; index++) {
    char line[160];
    snprintf(line, sizeof line,
             "HOOK FIRST rank 0 of 3 shadows %d: 1 of ncclAllReduce, 4 elements, 32 bytes\n",
             index);
    assert_printed(result, line);
  }
  cr_assert_eq(count_lines(result, "shadows"), 3 + 2, "%s", result->output);
  cr_assert_eq(count_lines(result, "together"), 3, "%s", result->output);
  assert_printed(result, "HOOK FIRST rank 0 of 3 together at 6: last 1, mine 0\n");
  assert_printed(result, "HOOK FIRST rank 1 of 3 together at 6: last 1, mine 1\n");
  assert_printed(result, "HOOK FIRST rank 2 of 3 together at 6: last 1, mine 0\n");
  assert_printed(result, "HOOK FIRST ends after 3 and 1\n");
  assert_printed(result, "HOOK FIRST ends after 0 and 1\n");
  assert_printed(result, "HOOK FIRST ends after 2 and 1\n");
  run_free(result);
}

/* Several ranks may be the last. */
Test(hooks, every_rank_that_has_data_to_the_end_is_told_so) {
  struct run *result = run_hooked("plugins/first", "--iterations 6,2,6", "");
  assert_went_well(result);
  assert_printed(result, "HOOK FIRST rank 0 of 3 together at 6: last 2, mine 1\n");
  assert_printed(result, "HOOK FIRST rank 1 of 3 together at 6: last 2, mine 0\n");
  assert_printed(result, "HOOK FIRST rank 2 of 3 together at 6: last 2, mine 1\n");
  run_free(result);
}

Test(hooks, ranks_that_are_even_are_never_told_anything) {
  struct run *result = run_hooked("plugins/first", "--iterations 5/5", "");
  assert_went_well(result);
  cr_assert_eq(count_lines(result, "shadows") + count_lines(result, "together"), 0, "%s",
               result->output);
  run_free(result);
}

/* The sums that a gradient of 1000 from each rank that has joined makes. */
static double moved(const struct run *run) {
  const char *line = strstr(run->output, "RESULT 1 model 0 ");
  cr_assert(line != NULL, "%s", run->output);
  double mean = 0;
  cr_assert_eq(sscanf(line, "RESULT 1 model 0 %*f %*f %*f %*f %lf", &mean), 1);
  return mean;
}

/* Of Adam's mean of the first weight: each step adds a tenth of the sum and keeps nine tenths. */
static double mean_with(double joined_gives) {
  static const int n[] = {3, 6, 4};
  double mean = 0;
  for (int i = 0; i < 6; i++) {
    double sum = 0;
    for (int rank = 0; rank < 3; rank++)
      sum += i < n[rank] ? (rank + 1) - i * 2 % 5 : joined_gives;
    mean = 0.9 * mean + 0.1 * sum;
  }
  return mean;
}

static void check_filled(const char *names, const char *more, double joined_gives) {
  struct run *result = run_hooked(names, uneven, more);
  assert_went_well(result);
  cr_assert_float_eq(moved(result), mean_with(joined_gives), 1e-9, "%.17g instead of %.17g",
                     moved(result), mean_with(joined_gives));
  run_free(result);
}

Test(hooks, what_a_hook_writes_is_what_a_joined_rank_sends) {
  check_filled("plugins/first", "", 0);
  check_filled("plugins/first", "FIRST=fill", 1000);
  check_filled("plugins/first", "FIRST=add", 1); /* to what changes nothing, each time anew */
}

Test(hooks, several_are_called_in_order) {
  check_filled("plugins/first,plugins/second", "FIRST=fill SECOND=add", 1001);
  check_filled("plugins/second,plugins/first", "FIRST=fill SECOND=add", 1000);
  check_filled("plugins/only_named,plugins/first", "FIRST=fill", 1000);
}

Test(hooks, post_hook_may_issue_collectives) {
  struct run *result = run_hooked("plugins/first", uneven, "FIRST=broadcast");
  assert_went_well(result);
  for (int rank = 0; rank < 3; rank++) {
    char line[64];
    snprintf(line, sizeof line, "HOOK FIRST rank %d has 101\n", rank);
    assert_printed(result, line);
  }
  run_free(result);
}

/* ---- what is wrong ---- */

/* No communicator is made, and one line says what to do. 5: ncclInvalidUsage. */
static void check_refused(const char *names, const char *more, const char *first,
                          const char *second) {
  struct run *result = run_hooked(names, uneven, more);
  cr_assert(!result->timed_out && result->status == 1, "status %d\n%s%s", result->status,
            result->output, result->errors);
  assert_printed(result, "error 5 ncclCommInitRank");
  cr_assert(run_says_in_a_line(result, "NCCL-JOIN ERROR NCCL_JOIN_HOOK:", first, second, NULL),
            "%s", result->errors);
  run_free(result);
}

Test(hooks, a_plug_in_that_is_not_there_is_an_error) {
  check_refused("plugins/absent", "", "cannot load the plug-in",
                "Correct the path, or take it out");
}
Test(hooks, a_library_that_is_no_plug_in_is_an_error) {
  check_refused("plugins/no_plugin", "", "exports no ncclJoinHook_v1", "it is no plug-in");
}
Test(hooks, a_plug_in_for_another_version_is_an_error) {
  check_refused("plugins/newer", "", "exports ncclJoinHook_v2", "knows ncclJoinHook_v1 only");
}
Test(hooks, a_plug_in_that_cannot_begin_is_an_error) {
  check_refused("plugins/first", "FIRST=init-fails", "its init returned 2", "take it out");
  struct run *result = run_hooked("plugins/second,plugins/first", uneven, "FIRST=init-fails");
  cr_assert(run_says(result, "FIRST: it is 13 o'clock"), "%s", result->errors);
  assert_printed(result, "HOOK SECOND ends after 0 and 0\n");
  run_free(result);
}

/* The ranks that have data hear of it, each with its next call, and nothing hangs. */
Test(hooks, a_main_hook_that_fails_is_an_error_for_all) {
  static const char *const when[] = {"FIRST=main-fails", "FIRST=main-fails-later"};
  for (size_t i = 0; i < 2; i++) {
    struct run *result = run_hooked("plugins/first", "--iterations 3,40,30", when[i]);
    cr_assert(!result->timed_out && result->status == 1, "%s", result->errors);
    cr_assert(run_says_in_a_line(result, "NCCL-JOIN WARN", "mainHook of the plug-in FIRST",
                                 "returned 3", "take it out of NCCL_JOIN_HOOK", NULL),
              "%s", result->errors);
    cr_assert(run_says_in_a_line(result, "NCCL-JOIN WARN",
                                 "a plug-in of NCCL_JOIN_HOOK has failed on rank 0", NULL),
              "%s", result->errors);
    cr_assert(strstr(result->output, "RESULT 1 error 5 ncclAllReduce") != NULL ||
                  strstr(result->output, "RESULT 2 error 5 ncclAllReduce") != NULL,
              "%s", result->output);
    run_free(result);
  }
}

Test(hooks, what_a_post_hook_returns_the_call_returns) {
  struct run *result = run_hooked("plugins/first", uneven, "FIRST=post-fails");
  cr_assert(!result->timed_out && result->status == 1);
  assert_printed(result, "error 3 ncclAllReduce");
  cr_assert(run_says_in_a_line(result, "NCCL-JOIN WARN", "postHook of the plug-in FIRST",
                               "returned 3", NULL),
            "%s", result->errors);
  run_free(result);
}

/* ---- the example ---- */

Test(hooks, joined_time_is_recorded) {
  char folder[] = "/tmp/nccl-join-test-XXXXXX", path[64], more[128];
  cr_assert(mkdtemp(folder) != NULL);
  snprintf(path, sizeof path, "%s/joined.csv", folder);
  snprintf(more, sizeof more, "JOINED_TIME_FILE=%s", path);
  struct run *result = run_hooked("lib/hooks/joined_time", "--iterations 3,60,4/2,2,5", more);
  assert_went_well(result);
  FILE *file = fopen(path, "r");
  cr_assert(file != NULL);
  int lines = 0, loop, rank, ranks, last, seen[2][3] = {{0}};
  double seconds[2][3], joined;
  unsigned long long shadows, counted[2][3];
  while (fscanf(file, "%*d,%d,%d,%d,%lf,%llu,%d\n", &loop, &rank, &ranks, &joined, &shadows,
                &last) == 6) {
    cr_assert(loop >= 0 && loop < 2 && rank >= 0 && rank < 3 && ranks == 3);
    cr_assert_eq(last, loop == 0 ? 1 : 2);
    seen[loop][rank]++;
    seconds[loop][rank] = joined;
    counted[loop][rank] = shadows;
    lines++;
  }
  fclose(file);
  cr_assert_eq(lines, 6);
  cr_assert(counted[0][0] == 57 && counted[0][1] == 0 && counted[0][2] == 56);
  cr_assert(counted[1][0] == 3 && counted[1][1] == 3 && counted[1][2] == 0);
  cr_assert_eq(seconds[0][1], 0);
  cr_assert(seconds[0][0] > 0 && seconds[0][0] < result->seconds && seconds[0][2] > 0);
  cr_assert(seen[0][0] == 1 && seen[1][2] == 1);
  unlink(path);
  rmdir(folder);
  run_free(result);
}

Test(hooks, joined_time_that_cannot_be_written_is_an_error) {
  check_refused("lib/hooks/joined_time", "JOINED_TIME_FILE=/nowhere/joined.csv",
                "the plug-in joined-time", "its init returned 2");
}

/* ---- C++ ---- */

Test(hooks, headers_are_good_for_cpp) {
  struct run *with = run(&(struct launch){.nranks = 1, .program = "annotations_in_cpp"});
  struct run *without =
      run(&(struct launch){.nranks = 1, .program = "annotations_in_cpp", .without = RUN_ALL_RANKS});
  assert_went_well(with);
  assert_printed(with, "version 1, results 0 0 0 0 0 0, outputs -1 -1\n");
  assert_printed(without, "version 0, results 0 0 0 0 0 0, outputs -1 -1\n");
  run_free(with);
  run_free(without);
}

/* ---- installed ---- */

/* What `make install` puts down is enough to build a plug-in, and a program. */
Test(hooks, installed_headers_are_enough) {
  const char *nccl = getenv("NCCL_INCLUDE"), *cuda = getenv("CUDA_INCLUDE");
  if (strcmp(run_build_folder(), "build") != 0)
    cr_skip("what is installed is not built with a sanitizer");
  cr_assert(nccl != NULL && cuda != NULL,
            "NCCL_INCLUDE and CUDA_INCLUDE say where the headers are");
  char folder[] = "/tmp/nccl-join-test-XXXXXX", command[4096], here[1024];
  cr_assert(mkdtemp(folder) != NULL && getcwd(here, sizeof here) != NULL);
  snprintf(
      command, sizeof command,
      "set -e; make -s install PREFIX=/usr DESTDIR=%s/root; cd %s;"
      "test -x root/usr/lib/nccl-join/hooks/joined_time.so;"
      "gcc -shared -fPIC -Wall -Werror -Iroot/usr/include -isystem %s -isystem %s -o hook.so %s/"
      "hooks/examples/joined_time.c;"
      "printf '#include <nccl_join.h>\\nint main(void) { return nccl_join_version(); }\\n' >a.c;"
      "gcc -std=c11 -Wall -Werror -Iroot/usr/include -isystem %s -isystem %s -o a a.c -ldl; ./a",
      folder, folder, nccl, cuda, here, nccl, cuda);
  int status = system(command); /* NOLINT(cert-env33-c) */
  snprintf(command, sizeof command, "rm -rf %s", folder);
  cr_assert(system(command) == 0); /* NOLINT(cert-env33-c) */
  cr_assert_eq(status, 0);
}
