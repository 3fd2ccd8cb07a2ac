/* What nccl-join needs cannot be had: join is off, which a line of each rank says, and the program
 * runs as it would without.
 */
#include <criterion/criterion.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/transport/segment.h"
#include "tests/faults/place.h"
#include "tests/join/expected.h"
#include "tests/join/run.h"

static const struct schedule even = {3, 1, {{4, 4, 4}}};
enum { COMMUNICATOR_FAILS = 1 };

/* Memory for NCCL itself while /dev/shm is not to be had. */
static char elsewhere[] = "/tmp/nccl-join-elsewhere-XXXXXX";

static void make_elsewhere(void) {
  cr_assert(mkdtemp(elsewhere) != NULL);
}

static void remove_elsewhere(void) {
  cr_assert(rmdir(elsewhere) == 0, "NCCL has left something in %s", elsewhere);
}

static int lines_with(const struct run *run, const char *text) {
  int lines = 0;
  for (const char *at = run->errors; (at = strstr(at, text)) != NULL; at += strlen(text))
    lines++;
  return lines;
}

static struct run *run_even(const char *environment) {
  return run(&(struct launch){.nranks = even.nranks,
                              .program = "sum",
                              .options = "--iterations 4",
                              .environment = environment});
}

/* An even program with these variables: every result is right, and each rank has one line. */
static void check_off(const char *environment, const char *why, int lines) {
  struct run *result = run_even(environment);
  assert_went_well(result);
  struct lines *wanted = lines_create();
  lines_add_sum(wanted, &even, 1);
  lines_add_left(wanted, even.nranks);
  assert_results(result, wanted);
  lines_free(wanted);
  cr_assert(run_says_in_a_line(result, "NCCL-JOIN WARN", "join is off", why, NULL),
            "no line says that join is off because %s:\n%s", why, result->errors);
  cr_assert(lines_with(result, "NCCL-JOIN") == lines, "not %d lines:\n%s", lines, result->errors);
  cr_assert(place_segments() == 0, "segments are left");
  run_free(result);
}

static const char *with(const char *object, const char *settings) {
  static char environment[2 * PATH_MAX];
  char path[PATH_MAX], whole[PATH_MAX];
  snprintf(path, sizeof path, "%s/faults/%s.so", run_build_folder(), object);
  cr_assert(realpath(path, whole) != NULL, "%s is missing", path);
  snprintf(environment, sizeof environment, "LD_PRELOAD=%s %s", whole, settings);
  return environment;
}

static void check_off_with_shm(const char *options, const char *why, int lines) {
  char settings[PATH_MAX];
  make_elsewhere();
  place_make(options);
  snprintf(settings, sizeof settings, "LOOPBACK_FOLDER=%s", elsewhere);
  check_off(settings, why, lines);
  remove_elsewhere();
}

Test(resources, full_shared_memory_turns_join_off) {
  check_off_with_shm("size=4k", "is full", even.nranks);
}
/* Room for the first two ranks: the third says why, and one of the others that it is missing. */
Test(resources, shared_memory_that_is_full_for_the_last_rank_turns_join_off) {
  uint32_t last = (uint32_t)even.nranks - 1;
  char options[64];
  snprintf(options, sizeof options, "size=%zu",
           segment_log_offset(last + 1, last) + sizeof(struct plane_log) / 2);
  check_off_with_shm(options, "is full", 2);
}
Test(resources, read_only_shared_memory_turns_join_off) {
  check_off_with_shm("ro", "is read-only", even.nranks);
}

Test(resources, no_descriptor_left_for_the_segment_turns_join_off) {
  place_try();
  check_off(with("few_files", "FEW_FILES=segment"), "ulimit -n", even.nranks);
}

/* With so few that NCCL itself has too few, it is NCCL that says so; nobody hangs or crashes, and
 * with enough for NCCL alone the program runs. */
Test(resources, any_number_of_descriptors_ends_well, .timeout = 600) {
  place_try();
  bool ran = false;
  for (int files = 4; files < 40 && !ran; files += place_times(3, 1)) {
    char settings[64];
    snprintf(settings, sizeof settings, "FEW_FILES=%d", files);
    struct run *result = run_even(with("few_files", settings));
    cr_assert(!run_is_stuck(result) && result->status <= COMMUNICATOR_FAILS,
              "with %d descriptors: status %d\n%s%s", files, result->status, result->output,
              result->errors);
    ran = result->status == 0;
    run_free(result);
  }
  cr_assert(ran, "does not run with 40 descriptors either");
  /* What a job has left that the launcher ended at its start goes with the next one, if that can
   * open a folder. */
  struct run *next = run_even("");
  assert_went_well(next);
  run_free(next);
  cr_assert(place_segments() == 0, "segments are left");
}
