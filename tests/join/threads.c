/* Ranks that issue their collectives from two threads in turn: each takes the agreed sequence over
 * from the other. */
#include "tests/join/expected.h"
#include "tests/join/run.h"

#include <criterion/criterion.h>
#include <stdio.h>

static const struct schedule uneven = {3, 1, {{200, 77, 350}}};

static void check_turns(const char *shape) {
  char options[128];
  snprintf(options, sizeof options, "--iterations %s %s", schedule_text(&uneven), shape);
  struct run *result =
      run(&(struct launch){.nranks = uneven.nranks, .program = "backward", .options = options});
  assert_went_well(result);
  struct lines *lines = lines_create();
  for (int rank = 0; rank < uneven.nranks; rank++)
    for (int i = 0; i < uneven.n[0][rank]; i++) {
      unsigned active = schedule_active(&uneven, 0, i);
      lines_add(lines, rank, "forward %d %u", i, active);
      for (int b = 0; b < 2; b++)
        lines_add(lines, rank, "backward %d %d %u", i, b, active);
    }
  lines_add_left(lines, uneven.nranks);
  finish_run(result, lines);
}

Test(threads, of_one_communicator) {
  check_turns("");
}
Test(threads, with_a_communicator_each) {
  check_turns("--communicators 2");
}
Test(threads, one_of_them_with_groups) {
  check_turns("--group 1");
}
Test(threads, one_of_them_with_groups_on_its_own_communicator) {
  check_turns("--group 1 --communicators 2");
}
