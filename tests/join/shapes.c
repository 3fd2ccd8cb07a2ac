/* Sub-communicators given up in various ways, and all ranks in one process. */
#include "tests/join/expected.h"
#include "tests/join/run.h"

#include <criterion/criterion.h>

static struct run *run_shape(int nranks, const char *options) {
  struct run *result = run(&(struct launch){.nranks = nranks,
                                            .program = "shapes",
                                            .options = options,
                                            .environment = "NCCL_JOIN_TIMEOUT=10",
                                            .limit_s = 20});
  assert_went_well(result);
  return result;
}

static void check(struct run *result, struct lines *lines) {
  assert_results(result, lines);
  lines_free(lines);
  run_free(result);
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
  cr_assert_lt(result->seconds, 5);
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
