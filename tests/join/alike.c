/* Ranks whose settings, or whose nccl-join, are not the same: the first communicator says so on
 * every rank, and nothing is summed. */
#include "tests/join/expected.h"
#include "tests/join/run.h"

#include <criterion/criterion.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct run *run_odd(const char *program, const char *options, int odd,
                           const char *environment) {
  return run(&(struct launch){.nranks = 3,
                              .program = program,
                              .options = options,
                              .environment = "NCCL_JOIN_MACHINES_WAIT=3",
                              .each = true,
                              .odd = odd,
                              .odd_environment = environment});
}

/* Every rank has got ncclInvalidUsage (5) from a function, and none has done anything more. */
static void assert_refused_by(const struct run *run, const char *function) {
  cr_assert_not(run->timed_out, "%s", run->errors);
  for (int rank = 0; rank < 3; rank++) {
    char line[64];
    snprintf(line, sizeof line, "RESULT %d error 5 %s", rank, function);
    cr_assert(strstr(run->output, line) != NULL, "no '%s' in\n%s%s", line, run->output,
              run->errors);
    cr_assert_eq(run->rank_status[rank], 1, "rank %d: %d", rank, run->rank_status[rank]);
  }
  cr_assert_null(strstr(run->output, " sum "), "%s", run->output);
}

/* As many lines as ranks have each of the texts. */
static void assert_each_says(const struct run *run, const char *text) {
  int times = 0;
  for (const char *at = run->errors; (at = strstr(at, text)) != NULL; at++)
    times++;
  cr_assert_geq(times, 3, "'%s' is there %d times in\n%s", text, times, run->errors);
}

static void check_refused(const char *setting, const char *says) {
  struct run *result = run_odd("lossy", "--iterations 2,5,5 --collective allgather", 0, setting);
  assert_refused_by(result, "ncclCommInitRank");
  assert_each_says(result, says);
  /* And as NCCL's last error, which PyTorch prints. */
  cr_assert(run_says_in_a_line(result, "(nccl-join: ranks of communicator", says, NULL), "%s",
            result->errors);
  run_free(result);
}

#define REFUSED(name, setting, says)                                                               \
  Test(alike, name) {                                                                              \
    check_refused(setting, says);                                                                  \
  }
REFUSED(what_joined_ranks_send, "NCCL_JOIN_LOSSY=zero",
        "NCCL_JOIN_LOSSY set differently: zero on rank 0; error on ranks 1, 2.")
REFUSED(what_joined_ranks_send_by_kind, "NCCL_JOIN_LOSSY=send:last,allgather:zero",
        "set differently: allgather:zero,send:last on rank 0; error on ranks 1, 2.")
REFUSED(early_termination, "NCCL_JOIN_EARLY_EXIT=throw",
        "NCCL_JOIN_EARLY_EXIT set differently: throw on")
REFUSED(divisors, "NCCL_JOIN_DIVISOR=active", "NCCL_JOIN_DIVISOR set differently: active on")
REFUSED(what_divisors_scale, "NCCL_JOIN_DIVISOR_MIN=77",
        "NCCL_JOIN_DIVISOR_MIN set differently: 77 on")
REFUSED(resynchronised_buffers, "NCCL_JOIN_RESYNC=broadcasts",
        "NCCL_JOIN_RESYNC set differently: broadcasts on")
REFUSED(places, "NCCL_JOIN_PLACES=0", "NCCL_JOIN_PLACES set differently: 0 on rank 0; 1 on")
REFUSED(what_is_done_where_nothing_is_sure, "NCCL_JOIN_UNSURE=stop",
        "NCCL_JOIN_UNSURE set differently: stop on")
REFUSED(exit_points, "NCCL_JOIN_EXIT_ON=finish",
        "NCCL_JOIN_EXIT_ON set differently: finish on rank 0; nothing on ranks 1, 2.")
#undef REFUSED

/* Written differently, it is the same. */
Test(alike, the_same_in_other_words_is_alike) {
  struct run *result = run_odd("lossy", "--iterations 5,5,5 --collective allgather", 1,
                               "NCCL_JOIN_LOSSY=Send:error NCCL_JOIN_DIVISOR_MIN=001024 "
                               "NCCL_JOIN_EXIT_ON= NCCL_JOIN_PLACES=1");
  assert_went_well(result);
  cr_assert_str_empty(result->errors);
  run_free(result);
}

/* These are each rank's own matter. */
Test(alike, what_ranks_may_have_to_themselves) {
  struct run *result = run_odd("sum", "--iterations 2,5,5", 1,
                               "NCCL_JOIN_TIMEOUT=1000 NCCL_JOIN_SKEW_WARN=7 "
                               "NCCL_JOIN_SHADOW_MEMORY=plain NCCL_JOIN_DEBUG=ERROR");
  assert_went_well(result);
  cr_assert_str_empty(result->errors);
  run_free(result);
}

Test(alike, a_communicator_that_does_not_block) {
  struct run *result =
      run_odd("children", "--iterations 2,5,5 --blocking 0", 2, "NCCL_JOIN_DIVISOR=active");
  assert_refused_by(result, "");
  assert_each_says(result, "NCCL_JOIN_DIVISOR set differently: initial on ranks 0, 1; active on");
  run_free(result);
}

/* Several communicators of a process at once, and NCCL makes them at the end of a group. */
Test(alike, communicators_made_in_a_group) {
  struct run *result = run_odd("processes", "--iterations 2,5,5", 1, "NCCL_JOIN_DIVISOR=active");
  assert_refused_by(result, "ncclGroupEnd");
  assert_each_says(result, "initial on ranks 0, 1, 4, 5; active on ranks 2, 3.");
  run_free(result);
}

/* Many values are not all named. */
Test(alike, a_line_stays_short) {
  struct run *result = run(&(struct launch){.nranks = 8,
                                            .program = "sum",
                                            .options = "--iterations 3",
                                            .environment = "NCCL_JOIN_DIVISOR_MIN=7",
                                            .each = true,
                                            .odd = 7,
                                            .odd_environment = "NCCL_JOIN_DIVISOR_MIN=8"});
  cr_assert(run_says(result, "7 on ranks 0, 1, 2, 3 and 3 more; 8 on rank 7."), "%s",
            result->errors);
  run_free(result);
}

/* ---- off on one rank ---- */

/* Whoever has it off is no rank of ours: join is off for all. Even programs are right. */
Test(alike, switched_off_on_one_rank_join_is_off_on_all) {
  const struct schedule schedule = {3, 1, {{4, 4, 4}}};
  struct run *result = run_odd("sum", "--iterations 4", 1, "NCCL_JOIN=0");
  assert_went_well(result);
  cr_assert(run_says(result, "rank 1 of 3 runs without libnccl-join.so, with NCCL_JOIN=0, or on"),
            "%s", result->errors);
  struct lines *lines = lines_create();
  lines_add_sum(lines, &schedule, 1);
  lines_add_left(lines, 3);
  finish_run(result, lines);
}

/* Its settings are not compared: they do nothing. */
Test(alike, what_is_off_may_be_set_differently) {
  struct run *result = run_odd("sum", "--iterations 4", 1, "NCCL_JOIN=0 NCCL_JOIN_LOSSY=zero");
  assert_went_well(result);
  run_free(result);
}

/* ---- another nccl-join ---- */

/* A copy of the preload object that says another version, of the same length. */
static void make_other_version(const char *path) {
  static const char ours[] = "\0" NCCL_JOIN_VERSION;
  char from[PATH_MAX];
  snprintf(from, sizeof from, "%s/lib/libnccl-join.so", run_build_folder());
  FILE *in = fopen(from, "rb"), *out = fopen(path, "wb");
  cr_assert(in != NULL && out != NULL);
  struct stat status;
  cr_assert_eq(fstat(fileno(in), &status), 0);
  size_t size = (size_t)status.st_size;
  char *bytes = malloc(size);
  cr_assert_eq(fread(bytes, 1, size, in), size);
  char *at = memmem(bytes, size, ours, sizeof ours);
  cr_assert_not_null(at, "no version in %s", from);
  at[sizeof ours - 2] = '9';
  cr_assert_eq(fwrite(bytes, 1, size, out), size);
  fclose(in);
  fclose(out);
  free(bytes);
}

Test(alike, another_version) {
  char folder[] = "/tmp/alike.XXXXXX", path[64], environment[128];
  cr_assert_not_null(mkdtemp(folder));
  snprintf(path, sizeof path, "%s/other.so", folder); /* --no-join takes the name of ours out */
  make_other_version(path);
  snprintf(environment, sizeof environment, "LD_PRELOAD=%s", path);
  struct run *result = run(&(struct launch){.nranks = 3,
                                            .program = "sum",
                                            .options = "--iterations 2,5,5",
                                            .without = 1u << 2,
                                            .each = true,
                                            .odd = 2,
                                            .odd_environment = environment});
  unlink(path);
  rmdir(folder);
  assert_refused_by(result, "ncclCommInitRank");
  assert_each_says(result, "run different versions of nccl-join: " NCCL_JOIN_VERSION " on ranks");
  run_free(result);
}
