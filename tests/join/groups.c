/* Groups, and two communicators of the same ranks. */
#include "tests/join/expected.h"
#include "tests/join/run.h"

#include <criterion/criterion.h>
#include <stdio.h>

static struct run *run_groups(const struct schedule *schedule, const char *mode) {
  char text[256];
  snprintf(text, sizeof text, "--iterations %s --mode %s", schedule_text(schedule), mode);
  struct run *result =
      run(&(struct launch){.nranks = schedule->nranks, .program = "groups", .options = text});
  assert_went_well(result);
  return result;
}

/* Expects the mask of ranks and the sum of iteration + 1 under each of these names. */
static void check_masks(const struct schedule *schedule, const char *mode, const char *const *names,
                        bool broadcast) {
  struct run *result = run_groups(schedule, mode);
  struct lines *lines = lines_create();
  for (int rank = 0; rank < schedule->nranks; rank++)
    for (int i = 0; i < schedule->n[0][rank]; i++) {
      unsigned active = schedule_active(schedule, 0, i);
      for (const char *const *name = names; *name != NULL; name++)
        lines_add(lines, rank, "%s %d %u %d", *name, i, active, set_size(active) * (i + 1));
      if (!broadcast)
        continue;
      int last = schedule->nranks - 1, root = active >> last & 1 ? last : set_lowest(active);
      lines_add(lines, rank, "broadcast %d %d %d", i, 100 * (root + 1), i + 1);
    }
  lines_add_left(lines, schedule->nranks);
  finish_run(result, lines);
}

static const char *const in_group[] = {"large", "small", NULL};

Test(groups, group_of_three) {
  check_masks(&(struct schedule){3, 1, {{4, 7, 9}}}, "group", in_group, true);
}
Test(groups, group_with_a_broadcast_from_a_joined_root) {
  check_masks(&(struct schedule){3, 1, {{7, 9, 4}}}, "group", in_group, true);
}
Test(groups, group_followed_by_a_rank_without_iterations) {
  check_masks(&(struct schedule){4, 1, {{0, 5, 5, 3}}}, "group", in_group, true);
}
Test(groups, group_within_a_group) {
  check_masks(&(struct schedule){3, 1, {{4, 8, 6}}}, "nested", in_group, true);
}

static const char *const of_both[] = {"first", "second", NULL};

Test(groups, group_over_two_communicators) {
  check_masks(&(struct schedule){3, 1, {{4, 8, 6}}}, "both", of_both, false);
}

/* Two communicators in turn, the second one twice in every other iteration. */
static void check_turns(const struct schedule *schedule) {
  struct run *result = run_groups(schedule, "two");
  struct lines *lines = lines_create();
  for (int rank = 0; rank < schedule->nranks; rank++)
    for (int i = 0; i < schedule->n[0][rank]; i++) {
      unsigned active = schedule_active(schedule, 0, i);
      for (int k = 0; k < 2 + i % 2; k++)
        lines_add(lines, rank, "%s %d %u %d",
                  k == 0   ? "first"
                  : k == 1 ? "second"
                           : "third",
                  i, active, set_size(active) * (i + 1));
    }
  lines_add_left(lines, schedule->nranks);
  finish_run(result, lines);
}

Test(groups, two_communicators_in_turn) {
  check_turns(&(struct schedule){3, 1, {{4, 10, 7}}});
}
Test(groups, two_communicators_and_a_rank_without_iterations) {
  check_turns(&(struct schedule){3, 1, {{6, 0, 6}}});
}
Test(groups, two_communicators_learnt_well) {
  check_turns(&(struct schedule){4, 1, {{21, 30, 14, 30}}});
}
