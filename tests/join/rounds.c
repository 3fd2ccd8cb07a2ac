/* Epochs with nothing between them in C: what the loop around them counts is read from the machine
 * code that each compiler makes of it (tests/programs/epochs.c). */
#include <criterion/criterion.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/join/job.h"
#include "tests/join/run.h"

#define WAIT "NCCL_JOIN_EPOCHS=wait"

static const char *const builds[] = {"gcc-O0",   "gcc-O1",   "gcc-O2",   "gcc-O3",
                                     "clang-O0", "clang-O1", "clang-O2", "gcc-O2-frames"};
static const char *const hows[] = {"up",    "down",    "over",   "function", "settings", "global",
                                   "while", "counted", "models", "phases",   "pairs"};
#define COUNT(of) (sizeof(of) / sizeof *(of))

/* False: it has not been built: there is no such compiler, or no such processor, or all is built
 * with sanitizers. */
static bool is_built(const char *build, char program[64]) {
  char path[256];
  snprintf(program, 64, "epochs-%s", build);
  snprintf(path, sizeof path, "%s/programs/%s", run_build_folder(), program);
  return access(path, X_OK) == 0;
}

/* Where the pointer that ends the loop is computed anew in each round, it is not known. */
static bool is_read(const char *build, const char *how) {
  return strcmp(how, "over") != 0 || strstr(build, "-O0") == NULL;
}

/* What the compiler makes of a loop that has two rounds. */
static bool are_two_loops(const char *build, const char *how) {
  return strcmp(how, "pairs") == 0 &&
         (strcmp(build, "gcc-O3") == 0 || strcmp(build, "clang-O2") == 0);
}

static struct run *run_epochs(const char *program, const char *how, const char *iterations,
                              const char *environment) {
  char options[256];
  snprintf(options, sizeof options, "--how %s --iterations %s", how, iterations);
  struct run *result = run(&(struct launch){.nranks = 2,
                                            .program = program,
                                            .options = options,
                                            .environment = environment,
                                            .here = true});
  cr_assert(result->status == 0 && !result->timed_out, "%s %s\n%s%s", program, how, result->output,
            result->errors);
  return result;
}

/* How many sums have met those of another epoch. *all: how many sums there are. */
static int count_mixed(const struct run *run, int *all) {
  int mixed = 0;
  *all = 0;
  for (const char *at = run->output; (at = strstr(at, "RESULT ")) != NULL; at++) {
    int rank, epoch, i, n;
    double met;
    if (sscanf(at, "RESULT %d sum %d %d %lf %d", &rank, &epoch, &i, &met, &n) != 5)
      continue;
    ++*all;
    mixed += met != epoch;
  }
  return mixed;
}

/* Does so for each way of each build, and how often it was looked at. */
static int each_way(void (*check)(const char *program, const char *how, bool read)) {
  int looked = 0;
  char program[64];
  for (size_t build = 0; build < COUNT(builds); build++)
    for (size_t how = 0; how < COUNT(hows) && is_built(builds[build], program); how++) {
      if (are_two_loops(builds[build], hows[how]))
        continue;
      check(program, hows[how], is_read(builds[build], hows[how]));
      looked++;
    }
  return looked;
}

static void check_waits(const char *program, const char *how, bool read) {
  int all;
  for (int grouped = 0; grouped <= 1; grouped++) {
    struct run *result =
        run_epochs(program, how, grouped ? "2,3/3,2/2,3/1,1 --grouped 1" : "2,3/3,2/2,3/1,1", WAIT);
    cr_expect_eq(count_mixed(result, &all) != 0, !read, "%s %s\n%s", program, how, result->output);
    cr_expect_eq(all, 17);
    cr_expect(!run_says(result, "WARN"), "%s %s\n%s", program, how, result->errors);
    run_free(result);
  }
}

Test(rounds, of_loops_in_c_keep_epochs_apart) {
  if (each_way(check_waits) == 0)
    cr_skip("not built");
}

static void check_told(const char *program, const char *how, bool read) {
  struct run *result = run_epochs(program, how, "2,3/3,2/2,3/1,1", NULL);
  bool is_within =
      strcmp(how, "models") == 0 || strcmp(how, "phases") == 0 || strcmp(how, "pairs") == 0;
  const char *begins = is_within ? "begins round 2 of the loop within the outermost one"
                                 : "begins round 2 of the outermost loop";
  const char *advice = is_within ? "they mix. If all ranks are to be in one round of that loop"
                                 : "they mix. If rounds of the outermost loop are epochs";
  cr_expect_eq(run_says_in_a_line(result, begins, "rank 1 is in round 1: they mix", NULL) ||
                   run_says(result, advice),
               read, "%s %s\n%s", program, how, result->errors);
  run_free(result);
}

Test(rounds, of_loops_in_c_tell_that_epochs_mix) {
  if (each_way(check_told) == 0)
    cr_skip("not built");
}

/* With as many batches on each, and a rank without any in the first epoch. */
static void check_left_alone(const char *program, const char *how, bool read) {
  int all;
  (void)read;
  struct run *result = run_epochs(program, how, "3,3/0,0/2,2/4,4", "NCCL_JOIN_DEBUG=INFO");
  cr_expect_eq(count_mixed(result, &all), 0);
  cr_expect_eq(all, 18);
  cr_expect(!run_says(result, "has joined") && !run_says(result, "WARN"), "%s %s\n%s", program, how,
            result->errors);
  run_free(result);
}

Test(rounds, of_even_programs_in_c_change_nothing) {
  if (each_way(check_left_alone) == 0)
    cr_skip("not built");
}

/* A round begins at the same index on both, though one has had no batch before. */
static void check_late(const char *program, const char *how, bool read) {
  int all;
  if (!read)
    return;
  struct run *result = run_epochs(program, how, "0,2/3,2/2,3", WAIT);
  cr_expect_eq(count_mixed(result, &all), 0, "%s %s\n%s%s", program, how, result->output,
               result->errors);
  run_free(result);
}

Test(rounds, of_ranks_without_a_batch_in_the_first_epoch) {
  if (each_way(check_late) == 0)
    cr_skip("not built");
}

/* A loop of batches says how many are left: no epochs, whatever each rank has. */
Test(rounds, of_batches_alone_are_none_of_epochs) {
  static const char *const environments[] = {NULL, WAIT};
  char program[64];
  int looked = 0, all;
  for (size_t build = 0; build < COUNT(builds); build++)
    for (size_t i = 0; i < 2 && is_built(builds[build], program); i++, looked++) {
      struct run *result = run_epochs(program, "batches", "7,3", environments[i]);
      cr_expect_eq(count_mixed(result, &all), 0);
      cr_expect(all == 10 && !run_says(result, "WARN"), "%s\n%s", program, result->errors);
      cr_expect(strstr(result->output, "RESULT 1 sum 0 2 0 2") != NULL, "%s\n%s", program,
                result->output);
      run_free(result);
    }
  if (looked == 0)
    cr_skip("not built");
}

/* Of epochs all say the rounds, and of files within, of which each leaves out those of others,
 * nobody is in another one. */
Test(rounds, that_ranks_leave_out_within_epochs_are_their_own) {
  run_needs_python();
  char program[] = "../../tests/join/python/epochs.py", options[] = "shards 2,2/2,2/2,2";
  struct run *result = run(&(struct launch){
      .nranks = 2, .program = program, .options = options, .environment = "NCCL_JOIN_UNSURE=stop"});
  cr_expect(result->status == 0 && !result->timed_out && !run_says(result, "WARN"), "%s%s",
            result->output, result->errors);
  cr_expect(strstr(result->output, "sum 2 2 1 2 2") != NULL, "%s", result->output);
  run_free(result);
}
