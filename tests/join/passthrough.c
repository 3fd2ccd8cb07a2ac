/* When nccl-join has nothing to do it is not there; when it cannot work it says so. */
#include "tests/join/expected.h"
#include "tests/join/run.h"

#include <criterion/criterion.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct run *launch_with(int nranks, const char *program, const char *options,
                               const char *environment, uint64_t without) {
  return run(&(struct launch){.nranks = nranks,
                              .program = program,
                              .options = options,
                              .environment = environment,
                              .without = without});
}

/* Even programs: with the preload, with NCCL_JOIN=0, and without it; the same results, and nothing
 * said. */
static void check_even(int nranks, const char *program, const char *options) {
  struct run *without = launch_with(nranks, program, options, "", RUN_ALL_RANKS);
  struct run *with = launch_with(nranks, program, options, "", 0);
  struct run *off = launch_with(nranks, program, options, "NCCL_JOIN=0", 0);
  assert_went_well(without);
  assert_went_well(with);
  assert_went_well(off);
  assert_same_results(without, with);
  assert_same_results(without, off);
  cr_assert_str_eq(with->errors, without->errors);
  cr_assert_str_eq(off->errors, without->errors);
  run_free(without);
  run_free(with);
  run_free(off);
}

/* Of one rank of a machine, once, before anything could have gone wrong; and not if places are not
 * asked for. */
Test(passthrough, that_no_place_can_be_seen_is_said_once) {
  static const char options[] = "--iterations 6 --collectives 2";
  static const char line[] = "cannot be seen";
  struct run *seen = launch_with(3, "sum", options, "", 0);
  struct run *blind = launch_with(3, "sum-blind", options, "", 0);
  struct run *off = launch_with(3, "sum-blind", options, "NCCL_JOIN_PLACES=0", 0);
  assert_went_well(blind);
  assert_same_results(seen, blind);
  int said = 0;
  for (const char *at = blind->errors; (at = strstr(at, line)) != NULL; at++)
    said++;
  cr_assert(said >= 1 && said <= run_machines(3), "%d times: %s", said, blind->errors);
  cr_assert_not(run_says(seen, line) || run_says(off, line));
  run_free(seen);
  run_free(blind);
  run_free(off);
}

Test(passthrough, even_sums) {
  check_even(4, "sum", "--iterations 6 --collectives 2");
}
Test(passthrough, even_averages_ahead) {
  check_even(3, "sum", "--iterations 40 --reduction avg --sync end");
}
Test(passthrough, even_training) {
  check_even(4, "ddp", "--iterations 8/8 --buffers 1 --metric-every 3 --after both");
}
Test(passthrough, even_reductions) {
  check_even(2, "reductions", "--iterations 3");
}
Test(passthrough, even_groups) {
  check_even(3, "groups", "--iterations 6 --mode two");
}
Test(passthrough, even_groups_over_communicators) {
  check_even(3, "groups", "--iterations 6 --mode both");
}
Test(passthrough, even_gathers) {
  check_even(3, "lossy", "--iterations 5 --collective allgather");
}
Test(passthrough, even_endings) {
  check_even(3, "endings", "--iterations 5 --end finalize,abort,destroy");
}

/* The numbers, too. */
Test(passthrough, off_means_plain_sums) {
  const struct schedule schedule = {3, 1, {{3, 3, 3}}};
  struct run *result = launch_with(3, "sum", "--iterations 3", "NCCL_JOIN=0", 0);
  assert_went_well(result);
  struct lines *lines = lines_create();
  lines_add_sum(lines, &schedule, 1);
  lines_add_left(lines, 3);
  finish_run(result, lines);
}

/* Uneven programs do not come through without it: this is what the other tests are worth. */
static void check_stuck(const char *program, const char *options, const char *environment,
                        uint64_t without) {
  struct run *result = run(&(struct launch){.nranks = 3,
                                            .program = program,
                                            .options = options,
                                            .environment = environment,
                                            .without = without,
                                            .limit_s = 3});
  cr_assert(run_is_stuck(result), "came through with status %d\n%s%s", result->status,
            result->output, result->errors);
  run_free(result);
}

Test(passthrough, uneven_sums_hang_without_the_preload) {
  check_stuck("sum", "--iterations 3+1", "LOOPBACK_DEATH=hang", RUN_ALL_RANKS);
}
Test(passthrough, uneven_sums_hang_when_off) {
  check_stuck("sum", "--iterations 3+1", "LOOPBACK_DEATH=hang NCCL_JOIN=0", 0);
}
Test(passthrough, uneven_training_does_not_come_through_without_the_preload) {
  check_stuck("ddp", "--iterations 3,6,6 --after barrier", "LOOPBACK_DEATH=hang", RUN_ALL_RANKS);
}
Test(passthrough, uneven_groups_hang_without_the_preload) {
  check_stuck("groups", "--iterations 2,4,4 --mode both", "LOOPBACK_DEATH=hang", RUN_ALL_RANKS);
}

/* One rank has no preload: join is off for all, which one line says, and an even program ends as
 * ever. */
Test(passthrough, rank_without_the_preload_turns_join_off) {
  struct run *result = run(&(struct launch){.nranks = 3,
                                            .program = "sum",
                                            .options = "--iterations 5",
                                            .environment = "NCCL_JOIN_MACHINES_WAIT=3",
                                            .without = 1u << 1,
                                            .each = true});
  assert_went_well(result);
  const struct schedule schedule = {3, 1, {{5, 5, 5}}};
  struct lines *lines = lines_create();
  lines_add_sum(lines, &schedule, 1);
  lines_add_left(lines, 3);
  assert_results(result, lines);
  lines_free(lines);
  cr_assert(run_says_in_a_line(result, "NCCL-JOIN WARN", "off", NULL),
            "no line says that join is off:\n%s", result->errors);
  run_free(result);
}

/* A wrong setting must not become a hang hours later: the launcher refuses to start, and without it
 * communicators are refused; either way the accepted values are shown. */
static void check_wrong_setting(const char *setting, const char *name, const char *accepted) {
  char environment[PATH_MAX + 128], object[PATH_MAX], preload[PATH_MAX],
      folder[] = "/tmp/passthrough.XXXXXX";
  struct run *launcher = launch_with(2, "sum", "--iterations 3", setting, 0);
  cr_assert(launcher->status == 2, "status %d\n%s", launcher->status, launcher->errors);
  cr_assert(run_says_in_a_line(launcher, name, accepted, NULL), "no line with %s and %s:\n%s", name,
            accepted, launcher->errors);
  run_free(launcher);

  snprintf(object, sizeof object, "%s/lib/libnccl-join.so", run_build_folder());
  cr_assert(realpath(object, preload) != NULL, "%s is missing", object);
  cr_assert_not_null(mkdtemp(folder));
  snprintf(object, sizeof object, "%s/named.so", folder); /* --no-join takes the name of ours out */
  cr_assert_eq(symlink(preload, object), 0);
  snprintf(environment, sizeof environment, "LD_PRELOAD=%s %s", object, setting);
  struct run *result = launch_with(2, "sum", "--iterations 3", environment, RUN_ALL_RANKS);
  unlink(object);
  rmdir(folder);
  cr_assert(!result->timed_out && result->status == 1, "status %d\n%s", result->status,
            result->errors);
  cr_assert(strstr(result->output, "error 5 ncclCommInitRank") != NULL ||
                strstr(result->output, "error 4 ncclCommInitRank") != NULL,
            "the communicator was made\n%s%s", result->output, result->errors);
  cr_assert(run_says_in_a_line(result, name, accepted, NULL), "no line with %s and %s:\n%s", name,
            accepted, result->errors);
  run_free(result);
}

Test(passthrough, wrong_value_is_an_error) {
  check_wrong_setting("NCCL_JOIN_LOSSY=zeros", "NCCL_JOIN_LOSSY", "zero");
}
Test(passthrough, number_that_is_none_is_an_error) {
  check_wrong_setting("NCCL_JOIN_TIMEOUT=soon", "NCCL_JOIN_TIMEOUT", "soon");
}
Test(passthrough, unknown_setting_is_an_error) {
  check_wrong_setting("NCCL_JOIN_LOSY=zero", "NCCL_JOIN_LOSY", "NCCL_JOIN_LOSSY");
}
