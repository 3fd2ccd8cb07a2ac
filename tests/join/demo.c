/* The demonstration: training on real digits with uneven shards, every summed gradient checked. */
#include "tests/join/expected.h"
#include "tests/join/run.h"

#include <criterion/criterion.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int remove_entry(const char *path, const struct stat *status, int flag, struct FTW *walk) {
  (void)status;
  (void)flag;
  (void)walk;
  return remove(path);
}

/* "258 of 258 sums right" is what check_sums must begin with. */
static void check_sums(const char *folder) {
  char arguments[PATH_MAX];
  snprintf(arguments, sizeof arguments, "%s%s", folder, run_adds_in_any_order() ? " 1e-5" : "");
  struct run *checker = run_tool("programs/check_sums", arguments);
  char *rest;
  long right = strtol(checker->output, &rest, 10);
  cr_assert(strncmp(rest, " of ", 4) == 0, "%s", checker->output);
  long sums = strtol(rest + 4, &rest, 10);
  cr_assert(checker->status == 0 && right == sums && sums > 100, "%s", checker->output);
  run_free(checker);
}

static void check_training(const char *shards, int nranks, uint64_t without) {
  char folder[] = "/tmp/nccl-join-test-XXXXXX", options[PATH_MAX];
  cr_assert(mkdtemp(folder) != NULL);
  snprintf(options, sizeof options, "--data %s/data/digits.csv --shards %s --record %s",
           run_build_folder(), shards, folder);
  struct run *result = run(&(struct launch){
      .nranks = nranks, .program = "train", .options = options, .without = without});
  assert_went_well(result);
  check_sums(folder);
  nftw(folder, remove_entry, 8, FTW_DEPTH | FTW_PHYS);

  /* Softmax regression gets most digits right after three epochs, on every rank the same. */
  for (int rank = 0; rank < nranks; rank++) {
    char key[64];
    snprintf(key, sizeof key, "RESULT %d accuracy 2 ", rank);
    const char *accuracy = strstr(result->output, key);
    cr_assert(accuracy != NULL, "rank %d: no accuracy\n%s", rank, result->output);
    char *rest;
    double recognised = strtod(accuracy + strlen(key), &rest), held_out = strtod(rest, NULL);
    cr_assert(held_out == 297 && recognised > 0.8 * held_out, "%s", accuracy);
  }
  run_free(result);
}

Test(demo, uneven_shards) {
  check_training("45,30,20,5", 4, 0);
}
Test(demo, smallest_shard_first) {
  check_training("5,20,30,45", 4, 0);
}
Test(demo, even_shards) {
  check_training("25", 4, 0);
}
Test(demo, even_shards_without_the_preload) {
  check_training("25", 4, RUN_ALL_RANKS);
}

/* The timeline of a run whose shadows can be counted: rank 0 has joined for the last 10 of 15
 * collectives, rank 2 for 4. */
Test(demo, timeline) {
  char folder[] = "/tmp/nccl-join-test-XXXXXX", text[PATH_MAX];
  cr_assert(mkdtemp(folder) != NULL);
  snprintf(text, sizeof text, "NCCL_JOIN_TRACE=%s", folder);
  struct run *result = run(&(struct launch){
      .nranks = 3, .program = "sum", .options = "--iterations 5,15,11", .environment = text});
  assert_went_well(result);
  run_free(result);

  struct run *timeline = run_tool("tools/nccl-join-timeline", folder);
  assert_went_well(timeline);
  snprintf(text, sizeof text,
           "for file in %s/rank-1.*; do head -n 12 $file >%s/cut && mv %s/cut $file; done", folder,
           folder, folder);
  cr_assert_eq(system(text), 0); /* NOLINT(cert-env33-c) */
  struct run *cut = run_tool("tools/nccl-join-timeline", folder);
  nftw(folder, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
  cr_expect(strstr(cut->output, " (the trace ends here)\n") != NULL, "%s", cut->output);
  run_free(cut);
  static const char *const lines[] = {
      "  rank 0   #####..........\n",       "  rank 1   ###############\n",
      "  rank 2   ###########....\n",       "     0        5       10   5 (10)\n",
      "     1       15        0   never\n", "     2       11        4   11 (4)\n",
  };
  for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
    cr_assert(strstr(timeline->output, lines[i]) != NULL, "no \"%s\" in\n%s", lines[i],
              timeline->output);
  run_free(timeline);
}

/* Processes whose command line has the text. */
static int count_processes(const char *text) {
  char command[PATH_MAX + 128];
  /* The pattern must not find the command line that it stands in. */
  snprintf(command, sizeof command, "grep -lz -e '[%c]%s' /proc/[0-9]*/cmdline 2>/dev/null | wc -l",
           text[0], text + 1);
  FILE *pipe = popen(command, "r");
  int count = -1;
  cr_assert(pipe != NULL && fscanf(pipe, "%d", &count) == 1);
  pclose(pipe);
  return count;
}

/* The whole demonstration: what a newcomer sees, and nothing is left running of the run that hangs.
 */
Test(demo, shows_the_hang_then_the_run_and_leaves_nothing) {
  char folder[] = "/tmp/nccl-join-demo-XXXXXX", command[3 * PATH_MAX];
  cr_assert(mkdtemp(folder) != NULL);
  snprintf(command, sizeof command, "TMPDIR=%s DEMO_TOLERANCE=%s tools/demo %s 2>&1", folder,
           run_adds_in_any_order() ? "1e-5" : "0", run_build_folder());
  FILE *pipe = popen(command, "r");
  static char text[1 << 16];
  text[fread(text, 1, sizeof text - 1, pipe)] = '\0';
  cr_assert_eq(pclose(pipe), 0, "%s", text);
  cr_assert(strstr(text, "Given up after 4 seconds.") != NULL, "%s", text);
  cr_assert(strstr(text, "258 of 258 sums right") != NULL, "%s", text);
  int left = count_processes(folder + strlen("/tmp/"));
  cr_assert_eq(left, 0, "%d processes are left", left);
  nftw(folder, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}
