/* A whole job killed while its ranks come together: its segment stays behind until the next job of
 * the user, and no longer.
 */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>

#include "tests/faults/place.h"
#include "tests/faults/watch.h"

enum { RANKS = 4, TRIES = 60 };

static bool some_but_not_all_have_attached(struct watch *watch) {
  size_t bytes;
  bool missing = false;
  for (int rank = 0; rank < RANKS; rank++)
    missing |= watch_state(watch, rank) == STATE_STARTING;
  return missing && watch_memory(watch, &bytes) != NULL;
}

static void kill_all_while_attaching(void) {
  struct watch *watch = watch_create(RANKS, 20000);
  struct running *running = run_start(&(struct launch){.nranks = RANKS,
                                                       .program = "sum",
                                                       .options = "--iterations 2",
                                                       .environment = watch_environment(watch),
                                                       .each = true});
  watch_begin(watch, running);
  while (!some_but_not_all_have_attached(watch) && watch_state(watch, 0) != STATE_GONE)
    ;
  for (int rank = 0; rank < RANKS; rank++)
    kill(run_process(running, rank), SIGKILL);
  run_free(run_finish(running));
  watch_free(watch);
}

Test(leftovers, of_a_job_killed_at_its_start_are_removed_by_the_next, .timeout = 300) {
  if (!place_try())
    place_skip("what a job leaves cannot be told from what others do");
  int tries = 0;
  while (place_segments() == 0 && tries++ < TRIES)
    kill_all_while_attaching();
  fprintf(stderr, "a segment was left by the %dth job that was killed\n", tries);
  cr_assert(tries <= TRIES, "no job was killed early enough");
  struct run *next =
      run(&(struct launch){.nranks = 2, .program = "sum", .options = "--iterations 2"});
  assert_went_well(next);
  run_free(next);
  cr_assert(place_segments() == 0, "it is still there");
}
