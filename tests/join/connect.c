/* Connections that are first used while a rank has joined: NCCL makes them on the host, and returns
 * when all ranks have come. What needs one has not been seen before, so all active ranks are at the
 * call before anybody, joined or not, is in NCCL for it. */
#include "tests/join/expected.h"
#include "tests/join/run.h"

#include <criterion/criterion.h>
#include <stdio.h>

static void check(const char *options, const struct schedule *schedule) {
  char text[128];
  snprintf(text, sizeof text, "--iterations %s %s", schedule_text(schedule), options);
  struct run *result =
      run(&(struct launch){.nranks = schedule->nranks, .program = "connect", .options = text});
  assert_went_well(result);
  struct lines *lines = lines_create();
  for (int rank = 0; rank < schedule->nranks; rank++)
    for (int i = 0; i < schedule->n[0][rank]; i++) {
      unsigned active = schedule_active(schedule, 0, i);
      if (rank != 1)
        lines_add(lines, rank, "pair %d %u", i, active & 5);
      lines_add(lines, rank, "all %d %u", i, active);
    }
  lines_add_left(lines, schedule->nranks);
  finish_run(result, lines);
}

Test(connect, first_collective_of_all_without_a_rank) {
  check("--large 0", &(struct schedule){3, 1, {{0, 3, 3}}});
}
Test(connect, another_algorithm_after_a_rank_has_joined) {
  check("--large 2", &(struct schedule){3, 1, {{1, 4, 4}}});
}
Test(connect, another_algorithm_after_learning) {
  check("--large 40", &(struct schedule){3, 1, {{20, 42, 42}}});
}
Test(connect, another_algorithm_and_the_late_rank_has_joined) {
  check("--large 3", &(struct schedule){3, 1, {{5, 6, 2}}});
}
