/* What a joined rank does in one communicator does not wait for another whose peers wait for it. */
#include "tests/join/expected.h"
#include "tests/join/run.h"

#include <criterion/criterion.h>

static struct run *run_crossed(int nranks, const char *options) {
  struct run *result = run(&(struct launch){.nranks = nranks,
                                            .program = "crossed",
                                            .options = options,
                                            .environment = "NCCL_JOIN_TIMEOUT=5"});
  assert_went_well(result);
  return result;
}

/* To free device memory waits for the whole device: shadows' memory is kept when the rank goes on.
 */
Test(crossed, going_on_does_not_wait_for_the_device) {
  run_free(run_crossed(3, "--what held"));
}

/* The same with what the program itself has under way. */
Test(crossed, destroying_does_not_wait_for_another_communicator) {
  struct run *result = run_crossed(3, "--what destroyed");
  struct lines *lines = lines_create();
  for (int i = 0; i < 12; i++)
    for (int rank = i < 4 ? 0 : 2; rank < 3; rank += 2)
      lines_add(lines, rank, "pair %d %d", i, i < 4 ? 5 : 4);
  for (int rank = 0; rank < 3; rank += 2)
    lines_add(lines, rank, "end 0 5");
  for (int i = 0; i < 12; i++)
    for (int rank = 0; rank < 3; rank++)
      lines_add(lines, rank, "all %d 7", i);
  lines_add_left(lines, 3);
  finish_run(result, lines);
}

/* Nor with a collective of the communicator that is aborted, which ends only by that. */
Test(crossed, aborting_does_not_wait_for_what_is_aborted) {
  struct run *result = run_crossed(2, "--what aborted");
  struct lines *lines = lines_create();
  for (int i = 0; i < 12; i++)
    for (int rank = i < 4 ? 0 : 1; rank < 2; rank++)
      lines_add(lines, rank, "all %d %d", i, i < 4 ? 3 : 2);
  for (int rank = 0; rank < 2; rank++) {
    lines_add(lines, rank, "end 0 3");
    lines_add(lines, rank, "aborted");
  }
  finish_run(result, lines);
}

/* Who the root of a broadcast is, only the rank that makes it can tell if that has not come yet: it
 * may be waiting in another communicator. */
Test(crossed, nobody_waits_for_a_root_with_other_shadows_to_issue) {
  struct run *result = run_crossed(3, "--what root");
  struct lines *lines = lines_create();
  for (int i = 0; i < 12; i++)
    for (int rank = i < 4 ? 0 : 1; rank < 3; rank++) {
      if (rank != 1)
        lines_add(lines, rank, "pair %d %d", i, i < 4 ? 5 : 4);
      lines_add(lines, rank, "root %d 4", i);
    }
  for (int rank = 0; rank < 3; rank++)
    lines_add(lines, rank, "end 0 7");
  lines_add_left(lines, 3);
  finish_run(result, lines);
}

/* The lowest rank that is active is the root, whatever those above it are. */
Test(crossed, nobody_waits_for_ranks_above_the_new_root) {
  struct run *result = run_crossed(3, "--what elected");
  struct lines *lines = lines_create();
  for (int i = 0; i < 12; i++)
    for (int rank = 0; rank < (i < 4 ? 3 : 2); rank++)
      lines_add(lines, rank, "root %d %d", i, i < 4 ? 4 : 1);
  for (int rank = 0; rank < 3; rank++)
    lines_add(lines, rank, "end 0 7");
  lines_add_left(lines, 3);
  finish_run(result, lines);
}

static void check_behind(const char *options, const char *result) {
  struct run *run = run_crossed(4, options);
  struct lines *lines = lines_create();
  lines_add(lines, 0, "%s", result);
  lines_add_left(lines, 4);
  finish_run(run, lines);
}

/* A rank that has asked goes back to its program when all have come: it may wait for its device
 * next, and answers nobody then. */
Test(crossed, who_has_asked_waits_for_those_behind) {
  check_behind("--what behind", "all have come: 1");
}

/* But not for ever: they may wait for it, outside of NCCL. */
Test(crossed, nobody_waits_for_ever_for_those_behind) {
  check_behind("--what handed", "all have come: 0");
}

/* Nor with the next collective of another communicator, in a program that ends without nccl-join:
 * who is behind may wait for what comes after that. Only the first rank of a row waits, and says
 * nothing. */
Test(crossed, nobody_waits_for_ever_before_the_next_collective) {
  struct run *result = run_crossed(4, "--what told");
  struct lines *lines = lines_create();
  for (int i = 0; i < 12; i++)
    for (int rank = 0; rank < 4; rank++)
      lines_add(lines, rank, "row %d %d", i, rank < 2 ? 3 : 12);
  lines_add_left(lines, 4);
  cr_assert_not(run_says(result, "WARN"));
  finish_run(result, lines);
}

/* The last rank is parked, and the others wait for their devices, each for the next: that they do
 * nobody can see. It is said long before anybody goes on. */
Test(crossed, that_devices_may_wait_for_each_other_is_said) {
  struct run *result =
      run(&(struct launch){.nranks = 4,
                           .program = "crossed",
                           .options = "--what unseen",
                           .environment = "NCCL_JOIN_TIMEOUT=10 NCCL_JOIN_STALL_WARN=1"});
  assert_went_well(result);
  cr_assert(run_says_in_a_line(result, "nothing has moved in communicator", "rank 1 waits in",
                               " while rank 0 runs its program. Ranks of another of its "
                               "communicators have gone on without it",
                               " it answers them in ", " s, after half of NCCL_JOIN_TIMEOUT", NULL),
            "%s", result->errors);
  run_free(result);
}
