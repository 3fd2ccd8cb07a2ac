/* The last unit that any rank issues for real: the traces of all ranks name the same one, and a
 * rank that did issue it. */
#include "tests/join/expected.h"
#include "tests/join/run.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What one rank's trace says of the last unit before all had left: its index, and who issued it:
 * the rank itself, or the one that it followed. */
struct last {
  bool found;
  long index, issuer, shadows;
};

/* The number after "name": in a line, -1 if there is none. */
static long field(const char *line, const char *name) {
  char key[32];
  snprintf(key, sizeof key, "\"%s\":", name);
  const char *at = strstr(line, key);
  return at != NULL ? strtol(at + strlen(key), NULL, 10) : -1;
}

static void read_trace(const char *path, struct last *ranks) {
  char line[8192];
  FILE *file = fopen(path, "r");
  cr_assert(file != NULL && fgets(line, sizeof line, file) != NULL, "%s is empty", path);
  long rank = field(line, "rank");
  cr_assert(rank >= 0 && rank < RUN_RANKS_MAX && !ranks[rank].found, "%s", line);
  struct last *last = &ranks[rank];
  last->found = true;
  while (fgets(line, sizeof line, file) != NULL) {
    bool shadow = strstr(line, "\"event\":\"shadow\"") != NULL;
    if (!shadow && strstr(line, "\"event\":\"commit\"") == NULL &&
        strstr(line, "\"event\":\"settle\"") == NULL)
      continue;
    last->index = field(line, "index");
    last->issuer = shadow ? field(line, "peer") : rank;
    last->shadows += shadow;
  }
  fclose(file);
}

/* Reads and removes the traces of a run. */
static void read_traces(const char *folder, struct last *ranks) {
  DIR *directory = opendir(folder);
  cr_assert(directory != NULL);
  for (struct dirent *entry; (entry = readdir(directory)) != NULL;) {
    char path[PATH_MAX];
    if (*entry->d_name == '.')
      continue;
    snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
    read_trace(path, ranks);
    unlink(path);
  }
  closedir(directory);
  rmdir(folder);
}

static void check_last(const struct schedule *schedule) {
  char folder[] = "/tmp/nccl-join-test-XXXXXX", environment[PATH_MAX], options[512];
  cr_assert(mkdtemp(folder) != NULL);
  snprintf(environment, sizeof environment, "NCCL_JOIN_TRACE=%s", folder);
  snprintf(options, sizeof options, "--iterations %s", schedule_text(schedule));
  struct run *result = run(&(struct launch){.nranks = schedule->nranks,
                                            .program = "sum",
                                            .options = options,
                                            .environment = environment});
  assert_went_well(result);
  run_free(result);
  struct last ranks[RUN_RANKS_MAX] = {0};
  read_traces(folder, ranks);

  int most = 0;
  for (int rank = 0; rank < schedule->nranks; rank++)
    most = schedule->n[0][rank] > most ? schedule->n[0][rank] : most;
  unsigned issuers = schedule_active(schedule, 0, most - 1);
  for (int rank = 0; rank < schedule->nranks; rank++) {
    cr_assert(ranks[rank].found, "rank %d has no trace", rank);
    cr_assert_eq(ranks[rank].index, most - 1, "rank %d ends with unit %ld", rank,
                 ranks[rank].index);
    cr_assert(issuers >> ranks[rank].issuer & 1, "rank %d names rank %ld", rank,
              ranks[rank].issuer);
    cr_assert_eq(ranks[rank].shadows, most - schedule->n[0][rank], "rank %d", rank);
  }
}

Test(final, all_traces_name_the_one_rank_that_was_last) {
  check_last(&(struct schedule){4, 1, {{3, 4, 5, 6}}});
  check_last(&(struct schedule){4, 1, {{9, 20, 5, 0}}});
  check_last(&(struct schedule){3, 1, {{30, 12, 29}}});
}
Test(final, all_traces_name_one_of_the_ranks_that_were_last) {
  check_last(&(struct schedule){4, 1, {{8, 3, 8, 5}}});
  check_last(&(struct schedule){3, 1, {{0, 7, 7}}});
}
