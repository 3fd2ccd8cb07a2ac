/* Communicators over different sets of ranks, with unevenness in several of them at once. */
#include "tests/join/expected.h"
#include "tests/join/run.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* How the program is run. */
struct layout {
  const char *mode, *after, *end;
  int tensor, metric;
};

static unsigned tensor_group(const struct schedule *schedule, const struct layout *layout,
                             int rank) {
  (void)schedule;
  unsigned group = 0;
  for (int k = 0; k < layout->tensor; k++)
    group |= 1u << (rank / layout->tensor * layout->tensor + k);
  return group;
}

static unsigned data_group(const struct schedule *schedule, const struct layout *layout, int rank) {
  unsigned group = 0;
  if (strcmp(layout->mode, "halves") == 0)
    return tensor_group(schedule, layout, rank);
  for (int other = rank % layout->tensor; other < schedule->nranks; other += layout->tensor)
    group |= 1u << other;
  return group;
}

static void add_epoch(struct lines *lines, const struct schedule *schedule,
                      const struct layout *layout, int epoch, int rank) {
  bool halves = strcmp(layout->mode, "halves") == 0;
  unsigned all = set_of_all(schedule->nranks);
  for (int i = 0; i < schedule->n[epoch][rank]; i++) {
    unsigned active = schedule_active(schedule, epoch, i);
    if (!halves)
      lines_add(lines, rank, "tensor %d %d %u", epoch, i,
                active & tensor_group(schedule, layout, rank));
    lines_add(lines, rank, "data %d %d %u", epoch, i, active & data_group(schedule, layout, rank));
    if (layout->metric != 0 && i % layout->metric == layout->metric - 1)
      lines_add(lines, rank, "metric %d %d %u", epoch, i, active & all);
  }
  if (strcmp(layout->after, "all") == 0)
    lines_add(lines, rank, "end %d 0 %u", epoch, all);
  if (strcmp(layout->after, "groups") != 0)
    return;
  if (!halves)
    lines_add(lines, rank, "tensor-end %d 0 %u", epoch, tensor_group(schedule, layout, rank));
  lines_add(lines, rank, "data-end %d 0 %u", epoch, data_group(schedule, layout, rank));
}

static void check(const struct schedule *schedule, struct layout layout) {
  char text[512];
  layout.mode = layout.mode ? layout.mode : "turns";
  layout.after = layout.after ? layout.after : "all";
  layout.end = layout.end ? layout.end : "destroy";
  snprintf(
      text, sizeof text, "--iterations %s --mode %s --after %s --end %s --tensor %d --metric %d",
      schedule_text(schedule), layout.mode, layout.after, layout.end, layout.tensor, layout.metric);
  struct run *result = run(&(struct launch){.nranks = schedule->nranks,
                                            .program = "teams",
                                            .options = text,
                                            .environment = "NCCL_JOIN_TIMEOUT=10"});
  assert_went_well(result);
  struct lines *lines = lines_create();
  for (int rank = 0; rank < schedule->nranks; rank++)
    for (int epoch = 0; epoch < schedule->epochs; epoch++)
      add_epoch(lines, schedule, &layout, epoch, rank);
  if (strcmp(layout.end, "destroy") == 0)
    lines_add_left(lines, schedule->nranks);
  finish_run(result, lines);
}

/* All ranks, and data parallel halves of them. */

Test(teams, all_and_halves_uneven_from_the_first_iteration) {
  check(&(struct schedule){4, 1, {{1, 3, 2, 4}}}, (struct layout){.mode = "halves", .tensor = 2});
}
Test(teams, all_and_halves_after_learning) {
  check(&(struct schedule){4, 3, {{20, 26, 23, 20}, {12, 9, 17, 21}, {20, 26, 23, 20}}},
        (struct layout){.mode = "halves", .tensor = 2, .metric = 4});
}
Test(teams, all_and_halves_with_ranks_without_iterations) {
  check(&(struct schedule){4, 2, {{0, 5, 3, 0}, {4, 0, 0, 6}}},
        (struct layout){.mode = "halves", .tensor = 2});
}

/* Tensor and data parallel, two by two, and all ranks after each epoch. */

Test(teams, two_by_two_uneven_by_replica_from_the_first_iteration) {
  check(&(struct schedule){4, 1, {{1, 1, 3, 3}}}, (struct layout){.tensor = 2});
}
Test(teams, two_by_two_uneven_by_replica_after_learning) {
  check(&(struct schedule){4, 3, {{20, 20, 25, 25}, {14, 14, 11, 11}, {20, 20, 25, 25}}},
        (struct layout){.tensor = 2, .metric = 5});
}
Test(teams, two_by_two_with_a_replica_without_iterations) {
  check(&(struct schedule){4, 2, {{0, 0, 6, 6}, {9, 9, 0, 0}}}, (struct layout){.tensor = 2});
}
Test(teams, two_by_two_uneven_by_rank_from_the_first_iteration) {
  check(&(struct schedule){4, 1, {{1, 2, 4, 3}}}, (struct layout){.tensor = 2});
}
Test(teams, two_by_two_uneven_by_rank_after_learning) {
  check(&(struct schedule){4, 2, {{20, 22, 25, 21}, {20, 22, 25, 21}}},
        (struct layout){.tensor = 2});
}
Test(teams, two_by_two_with_a_rank_without_iterations) {
  check(&(struct schedule){4, 1, {{5, 0, 5, 7}}}, (struct layout){.tensor = 2});
}

/* Nothing that all ranks do together. */

Test(teams, two_by_two_without_a_meeting_of_all) {
  check(&(struct schedule){4, 2, {{12, 12, 17, 17}, {9, 9, 7, 7}}},
        (struct layout){.tensor = 2, .after = "groups"});
}
Test(teams, two_by_two_destroys_where_others_go_on) {
  check(&(struct schedule){4, 1, {{12, 12, 17, 17}}},
        (struct layout){.tensor = 2, .after = "none"});
}
Test(teams, two_by_two_returns_where_others_go_on) {
  check(&(struct schedule){4, 1, {{12, 14, 17, 11}}},
        (struct layout){.tensor = 2, .after = "none", .end = "return"});
}
Test(teams, four_by_two) {
  check(&(struct schedule){8, 2, {{6, 6, 6, 6, 9, 9, 9, 9}, {6, 6, 6, 6, 3, 3, 3, 3}}},
        (struct layout){.tensor = 4, .metric = 3});
}

/* The end of an epoch is said on the communicator of all ranks, and nothing else tells it. */
Test(teams, two_by_two_says_where_an_epoch_ends) {
  check(&(struct schedule){4, 4, {{5, 5, 9, 9}, {7, 7, 3, 3}, {0, 0, 6, 6}, {20, 20, 4, 4}}},
        (struct layout){.tensor = 2, .after = "leave"});
  check(&(struct schedule){4, 3, {{20, 20, 40, 40}, {30, 30, 10, 10}, {6, 6, 50, 50}}},
        (struct layout){.tensor = 2, .metric = 3, .after = "leave"});
}

/* Both in one group. */

Test(teams, a_group_over_two_teams_uneven_by_replica) {
  check(&(struct schedule){4, 2, {{3, 3, 8, 8}, {12, 12, 5, 5}}},
        (struct layout){.tensor = 2, .mode = "group"});
}
Test(teams, a_group_over_two_teams_uneven_by_rank) {
  check(&(struct schedule){4, 1, {{3, 5, 8, 4}}}, (struct layout){.tensor = 2, .mode = "group"});
}
Test(teams, a_group_over_two_teams_and_ranks_without_iterations) {
  check(&(struct schedule){4, 2, {{0, 4, 4, 0}, {0, 0, 3, 6}}},
        (struct layout){.tensor = 2, .mode = "group"});
}

/* NCCL takes its time to connect ranks at the first collective. A joined rank that is in NCCL
 * meanwhile moves, and nobody guesses because of it. */
Test(teams, connecting_is_no_quiet) {
  struct layout layout = {.tensor = 2, .mode = "group"};
  setenv("LOOPBACK_CONNECT_MS", "700", 1);
  check(&(struct schedule){4, 2, {{0, 4, 4, 0}, {0, 0, 3, 6}}}, layout);
  unsetenv("LOOPBACK_CONNECT_MS");
}

/* ---- keeping step ---- */

#define ISSUED_MAX 512

/* When a process issued something, in all its teams. */
struct times {
  int process, rank; /* of all ranks */
  uint64_t at[ISSUED_MAX];
  size_t count;
};

static int compare(const void *a, const void *b) {
  uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return (x > y) - (x < y);
}

static struct times *times_of(struct times *all, int process) {
  while (all->process != 0 && all->process != process)
    all++;
  all->process = process;
  return all;
}

/* The trace of one team: rank-<rank there>.<host>.<process>[-<which>].jsonl */
static void read_times(const char *folder, const char *name, struct times *all, int nranks) {
  char path[PATH_MAX], line[8192];
  unsigned long long now;
  int rank, process, ranks_there;
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *file = fopen(path, "r");
  cr_assert(file != NULL && fgets(line, sizeof line, file) != NULL, "%s is empty", path);
  const char *first = strstr(line, "\"rank\":"), *second = strstr(line, "\"ranks\":");
  cr_assert(sscanf(name, "rank-%*d.%*[^.].%d", &process) == 1, "%s", name);
  cr_assert(first != NULL && sscanf(first, "\"rank\":%d", &rank) == 1, "%s", line);
  cr_assert(second != NULL && sscanf(second, "\"ranks\":%d", &ranks_there) == 1, "%s", line);
  struct times *times = times_of(all, process);
  if (ranks_there == nranks)
    times->rank = rank;
  while (fgets(line, sizeof line, file) != NULL) {
    bool issued = strstr(line, "\"event\":\"commit\"") || strstr(line, "\"event\":\"settle\"");
    if (issued && strstr(line, "allreduce") != NULL && sscanf(line, "{\"t_ns\":%llu", &now) == 1 &&
        times->count < ISSUED_MAX)
      times->at[times->count++] = now;
  }
  fclose(file);
  unlink(path);
}

static void read_all_times(const char *folder, struct times *all, int nranks) {
  DIR *directory = opendir(folder);
  cr_assert(directory != NULL);
  for (struct dirent *entry; (entry = readdir(directory)) != NULL;)
    if (*entry->d_name != '.')
      read_times(folder, entry->d_name, all, nranks);
  closedir(directory);
  rmdir(folder);
}

static struct times *times_of_rank(struct times *all, int rank) {
  while (all->process != 0 && all->rank != rank)
    all++;
  return all;
}

/* The last rank sleeps before an all-reduce of its tensor parallel group. The other rank of that
 * group may issue it, and then nothing of another group: it does not run ahead of who is behind. */
Test(teams, two_by_two_a_rank_waits_for_who_is_behind_in_its_other_team) {
  char folder[] = "/tmp/nccl-join-test-XXXXXX", environment[PATH_MAX];
  static struct times all[RUN_RANKS_MAX + 1];
  cr_assert(mkdtemp(folder) != NULL);
  snprintf(environment, sizeof environment, "NCCL_JOIN_TRACE=%s", folder);
  struct run *result = run(&(struct launch){.nranks = 4,
                                            .program = "teams",
                                            .options = "--iterations 40,40,40,40 --late 20",
                                            .environment = environment,
                                            .here = true}); /* traces are told apart by pids */
  assert_went_well(result);
  run_free(result);
  read_all_times(folder, all, 4);
  struct times *late = times_of_rank(all, 3), *other = times_of_rank(all, 2);
  cr_assert_geq(late->count, 80);
  cr_assert_geq(other->count, 80);
  qsort(late->at, late->count, sizeof late->at[0], compare);
  /* The 41st is what it sleeps before: whoever issues anything sooner than that, after the 40th, is
   * ahead of it. The last tenth of the time is left out, as events are written down a little late.
   */
  uint64_t until = late->at[39] + 450000000;
  cr_assert_gt(late->at[40], until);
  size_t before = 0;
  for (size_t i = 0; i < other->count; i++)
    before += other->at[i] < until;
  cr_assert_leq(before, 41, "%zu were issued before it came, of 81", before);
}
