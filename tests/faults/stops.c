/* Ranks stopped and continued at random moments: everything takes longer, and nothing changes. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/faults/place.h"
#include "tests/faults/watch.h"
#include "tests/join/expected.h"

enum { RANKS = 4, STOPS = 16, STOPPED_AT_MOST_MS = 60 };

/* Stops one rank after the other, or several at once, until the job has ended. */
static void stop_and_continue(struct running *running, struct watch *watch, int *hits) {
  bool stopped[RANKS] = {false}, from_the_start = place_random(4) == 0;
  while (!from_the_start && watch_state(watch, 0) <= STATE_CREATING && run_goes_on(running, 0.001))
    ;
  for (int i = 0; i < STOPS; i++) {
    if (!run_goes_on(running, 0.001 * (double)place_random(40)))
      break;
    int rank = (int)place_random(RANKS);
    kill(run_process(running, rank), stopped[rank] ? SIGCONT : SIGSTOP);
    stopped[rank] = !stopped[rank];
    if (stopped[rank])
      hits[watch_state(watch, rank)]++;
    run_goes_on(running, 0.001 * (double)place_random(STOPPED_AT_MOST_MS));
  }
  for (int rank = 0; rank < RANKS; rank++)
    kill(run_process(running, rank), SIGCONT);
}

/* At least two iterations: with fewer a rank has its first buckets when others have new ones. */
static struct schedule random_schedule(int epochs) {
  struct schedule schedule = {.nranks = RANKS, .epochs = epochs};
  for (int epoch = 0; epoch < schedule.epochs; epoch++)
    for (int rank = 0; rank < RANKS; rank++)
      schedule.n[epoch][rank] = 2 + (int)place_random(10);
  return schedule;
}

static void stop_once(const char *ending, int *hits) {
  bool barrier = place_random(3) != 0; /* without one ranks leave where their loop ends */
  struct schedule schedule = random_schedule(barrier ? 2 : 1);
  struct watch *watch = watch_create(RANKS, 1000);
  char options[256];
  snprintf(options, sizeof options, "--iterations %s --after %s --end %s", schedule_text(&schedule),
           barrier ? "barrier" : "none", ending);
  struct running *running = run_start(&(struct launch){.nranks = RANKS,
                                                       .program = "ddp",
                                                       .options = options,
                                                       .environment = watch_environment(watch),
                                                       .each = true});
  watch_begin(watch, running);
  stop_and_continue(running, watch, hits);
  struct run *result = run_finish(running);
  assert_went_well(result);
  struct lines *lines = lines_create();
  lines_add_ddp(lines, &schedule, &(struct ddp){.barrier = barrier});
  if (strcmp(ending, "return") != 0)
    lines_add_left(lines, RANKS);
  assert_results(result, lines);
  lines_free(lines);
  run_free(result);
  watch_free(watch);
}

/* LeakSanitizer stops the threads of its process by ptrace as that ends, and waits for ever where a
 * SIGCONT has come between. */
static void leave_leaks_to_other_tests(void) {
  setenv("LSAN_OPTIONS", "detect_leaks=0", 1);
}

Test(stops, at_random_moments_change_nothing, .timeout = 1800) {
  static const char *const endings[] = {"finalize", "return", "destroy"};
  int hits[STATES] = {0}, times = place_times(9, 120);
  place_try();
  leave_leaks_to_other_tests();
  for (int i = 0; i < times; i++)
    stop_once(endings[i % 3], hits);
  fprintf(stderr, "stopped:");
  for (enum state state = 0; state < STATES; state++)
    fprintf(stderr, " %d %s%s", hits[state], state_name(state), state + 1 < STATES ? "," : "\n");
  cr_assert(place_segments() == 0, "segments are left");
}
