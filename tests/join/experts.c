/* All-to-alls made of sends and receives: each is one unit, and ranks that have left their loop are
 * told from those that go on. */
#include "tests/join/expected.h"
#include "tests/join/run.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

enum { COUNT = 64 };

static struct run *run_experts(const struct schedule *schedule, const char *mode,
                               const char *environment) {
  char text[512];
  snprintf(text, sizeof text, "--mode %s --iterations %s", mode, schedule_text(schedule));
  struct run *result = run(&(struct launch){.nranks = schedule->nranks,
                                            .program = "experts",
                                            .options = text,
                                            .environment = environment});
  assert_went_well(result);
  return result;
}

/* Which of its calls a rank makes there. */
static int call_of(const struct schedule *schedule, int rank, int epoch, int i) {
  int calls = 0;
  for (int before = 0; before < epoch; before++)
    calls += 2 * schedule->n[before][rank] + 1;
  return calls + 2 * i + 1;
}

/* As in programs/experts. */
static int size_of(const char *mode, int size, int from, int to, int i) {
  if (strcmp(mode, "varying") != 0)
    return size;
  return i < 2 ? size / 2 : size * ((from + 2 * to + i) % 3) / 2;
}

static void add_blocks(struct lines *lines, const struct schedule *schedule, const char *mode,
                       int rank, int epoch, int i, int size, const char *name, int further) {
  bool after = strcmp(name, "after") == 0;
  for (int peer = 0; peer < schedule->nranks; peer++) {
    bool active = after || i < schedule->n[epoch][peer];
    int at = after ? schedule->n[epoch][peer] : i;
    if (peer == rank || size_of(mode, size, peer, rank, after ? 0 : i) == 0)
      continue;
    lines_add(lines, rank, "%s %d.%d %d %d %d", name, epoch, after ? 0 : i, peer,
              active ? 100 * (peer + 1) : 0,
              active ? call_of(schedule, peer, epoch, at) + further : 0);
  }
}

static struct run *check(const struct schedule *schedule, const char *mode) {
  struct run *result = run_experts(schedule, mode, "NCCL_JOIN_LOSSY=send:zero");
  struct lines *lines = lines_create();
  for (int rank = 0; rank < schedule->nranks; rank++)
    for (int epoch = 0; epoch < schedule->epochs; epoch++) {
      for (int i = 0; i < schedule->n[epoch][rank]; i++) {
        add_blocks(lines, schedule, mode, rank, epoch, i, COUNT, "dispatch", 0);
        add_blocks(lines, schedule, mode, rank, epoch, i, 2 * COUNT, "combine", 1);
      }
      add_blocks(lines, schedule, mode, rank, epoch, 0, COUNT, "after", 0);
    }
  lines_add_left(lines, schedule->nranks);
  assert_results(result, lines);
  lines_free(lines);
  return result;
}

Test(experts, all_to_alls_of_two_ranks) {
  run_free(check(&(struct schedule){2, 1, {{4, 2}}}, "even"));
}
Test(experts, all_to_alls_of_four_ranks) {
  run_free(check(&(struct schedule){4, 1, {{5, 9, 1, 7}}}, "even"));
}
Test(experts, all_to_alls_with_a_rank_without_iterations) {
  run_free(check(&(struct schedule){3, 1, {{4, 0, 6}}}, "even"));
}
Test(experts, all_to_alls_once_learnt) {
  run_free(check(&(struct schedule){3, 3, {{24, 24, 24}, {20, 31, 26}, {9, 5, 9}}}, "even"));
}
Test(experts, all_to_alls_of_other_sizes_in_each_iteration) {
  run_free(check(&(struct schedule){4, 2, {{9, 4, 12, 6}, {7, 7, 3, 5}}}, "varying"));
}

/* Nor is anything said, or done: what a rank sends to itself apart, all is as without. */
Test(experts, nothing_changes_while_all_go_on) {
  static const char *const modes[] = {"even", "varying"};
  for (int mode = 0; mode < 2; mode++) {
    struct run *result =
        check(&(struct schedule){4, 2, {{12, 12, 12, 12}, {9, 9, 9, 9}}}, modes[mode]);
    cr_assert_not(run_says(result, "NCCL-JOIN WARN"), "%s", result->errors);
    cr_assert_not(run_says(result, "joined"), "%s", result->errors);
    run_free(result);
  }
}

/* One rank's group has all others in it, and theirs has only that rank: they are no exchange. */
Test(experts, a_group_that_others_answer_one_by_one_is_none) {
  const struct schedule schedule = {4, 2, {{10, 10, 10, 10}, {6, 6, 6, 6}}};
  struct run *result = run_experts(&schedule, "server", "");
  struct lines *lines = lines_create();
  for (int rank = 0; rank < schedule.nranks; rank++)
    for (int epoch = 0; epoch < schedule.epochs; epoch++) {
      for (int i = 0; i < schedule.n[epoch][rank]; i++) {
        int call = i + 1 + epoch * schedule.n[0][rank];
        for (int peer = rank == 0; peer < (rank == 0 ? schedule.nranks : 1); peer++)
          lines_add(lines, rank, "serve %d.%d %d %d %d", epoch, i, peer, 100 * (peer + 1), call);
      }
      lines_add(lines, rank, "met %d 15 %d", epoch, schedule.nranks * (epoch + 1));
    }
  lines_add_left(lines, schedule.nranks);
  assert_results(result, lines);
  cr_assert_not(run_says(result, "NCCL-JOIN WARN"), "%s", result->errors);
  lines_free(lines);
  run_free(result);
}

/* Without it the last all-to-all of one rank meets the next dispatch of another. */
Test(experts, without_it_all_to_alls_meet_what_they_look_like) {
  struct run *result = run(&(struct launch){.nranks = 2,
                                            .program = "experts",
                                            .options = "--iterations 4,2",
                                            .environment = "LOOPBACK_DEATH=hang",
                                            .without = RUN_ALL_RANKS,
                                            .limit_s = 4});
  cr_assert(run_is_stuck(result), "status %d\n%s%s", result->status, result->output,
            result->errors);
  run_free(result);
}
