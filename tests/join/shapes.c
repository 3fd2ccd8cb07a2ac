/* Sub-communicators given up in various ways, all ranks in one process, several devices in each. */
#include "tests/join/expected.h"
#include "tests/join/run.h"

#include <criterion/criterion.h>
#include <stdio.h>

static struct run *run_shape(int nranks, const char *options) {
  struct run *result = run(&(struct launch){.nranks = nranks,
                                            .program = "shapes",
                                            .options = options,
                                            .environment = "NCCL_JOIN_TIMEOUT=10"});
  assert_went_well(result);
  return result;
}

static void check(struct run *result, struct lines *lines) {
  finish_run(result, lines);
}

/* Rank 0 must not answer for itself in a communicator that it will go on using. */
Test(shapes, destroy_of_one_communicator_while_another_is_in_use) {
  struct run *result = run_shape(3, "--mode middle");
  struct lines *lines = lines_create();
  for (int i = 0; i < 20; i++) {
    lines_add(lines, 0, "sum %d 4", i);
    lines_add(lines, 2, "sum %d 4", i);
  }
  lines_add_left(lines, 3);
  check(result, lines);
}

/* NCCL does not mind the order, so neither do we, and not only after NCCL_JOIN_TIMEOUT. */
Test(shapes, destroy_in_another_order) {
  struct run *result = run_shape(3, "--mode order");
  for (int rank = 0; rank < 3; rank++)
    cr_assert_lt(run_time(result, rank, "leave") - run_time(result, rank, "destroys"), 5);
  struct lines *lines = lines_create();
  for (int rank = 0; rank < 3; rank++)
    lines_add(lines, rank, "sum 0 3");
  for (int rank = 0; rank < 2; rank++)
    lines_add(lines, rank, "sum 1 2");
  lines_add_left(lines, 3);
  check(result, lines);
}

static void add_uneven(struct lines *lines, const int *n, int nranks) {
  for (int rank = 0; rank < nranks; rank++)
    for (int i = 0; i < n[rank]; i++) {
      int active = 0;
      for (int other = 0; other < nranks; other++)
        active += i < n[other];
      lines_add(lines, rank, "sum %d %d", i, active);
    }
}

/* Shadows cannot be issued into the group that the program has open. */
Test(shapes, destroy_inside_a_group) {
  struct run *result = run_shape(3, "--mode group");
  struct lines *lines = lines_create();
  add_uneven(lines, (const int[]){10, 15, 20}, 3);
  lines_add_left(lines, 3);
  check(result, lines);
}

/* A thread that leaves must not leave for the ranks of other threads, not even of those that have
 * not begun. */
Test(shapes, one_process_with_a_thread_for_each_device) {
  struct run *result = run_shape(1, "--mode threads --iterations 200,100,0");
  struct lines *lines = lines_create();
  add_uneven(lines, (const int[]){200, 100, 0}, 3);
  check(result, lines);
}

/* Processes with two devices each: rank r is device r % 2 of process r / 2. n: iterations of the
 * rank. */
static void check_devices(const char *options, const struct schedule *schedule, int nprocesses,
                          bool child) {
  char text[256];
  snprintf(text, sizeof text, "%s --split %d", options, child);
  struct run *result = run(&(struct launch){.nranks = nprocesses,
                                            .program = "processes",
                                            .options = text,
                                            .environment = "NCCL_JOIN_TIMEOUT=10"});
  assert_went_well(result);
  struct lines *lines = lines_create();
  for (int rank = 0; rank < schedule->nranks; rank++) {
    for (int i = 0; i < schedule->n[0][rank]; i++)
      lines_add(lines, rank, "sum %d %u", i, schedule_active(schedule, 0, i));
    unsigned same_device = 0;
    for (int other = rank % 2; other < schedule->nranks; other += 2)
      same_device |= 1u << other;
    if (child)
      lines_add(lines, rank, "child %u", same_device);
  }
  check(result, lines);
}

Test(shapes, two_devices_in_each_process_by_groups) {
  check_devices("--iterations 3,9,6", &(struct schedule){6, 1, {{3, 3, 9, 9, 6, 6}}}, 3, false);
}
Test(shapes, two_devices_in_each_process_by_groups_after_learning) {
  check_devices("--iterations 35,29", &(struct schedule){4, 1, {{35, 35, 29, 29}}}, 2, false);
}
Test(shapes, two_devices_by_groups_and_a_process_without_iterations) {
  check_devices("--iterations 0,5", &(struct schedule){4, 1, {{0, 0, 5, 5}}}, 2, false);
}
Test(shapes, two_devices_by_groups_and_a_split_of_all) {
  check_devices("--iterations 3,5", &(struct schedule){4, 1, {{3, 3, 5, 5}}}, 2, true);
}
Test(shapes, two_devices_by_groups_on_two_streams_in_turn) {
  check_devices("--iterations 27,32 --streams 2", &(struct schedule){4, 1, {{27, 27, 32, 32}}}, 2,
                false);
}
Test(shapes, two_devices_in_each_process_with_a_thread_for_each) {
  check_devices("--mode threads --iterations 30,25,14,21",
                &(struct schedule){4, 1, {{30, 25, 14, 21}}}, 2, false);
}
Test(shapes, two_devices_with_a_thread_for_each_and_a_split_of_all) {
  check_devices("--mode threads --iterations 3,5,4,0", &(struct schedule){4, 1, {{3, 5, 4, 0}}}, 2,
                true);
}
Test(shapes, two_devices_by_groups_hang_without_join) {
  assert_stuck_without(2, "processes", "--iterations 3,5");
}
Test(shapes, two_devices_with_threads_hang_without_join) {
  assert_stuck_without(2, "processes", "--mode threads --iterations 3,5,4,3");
}
