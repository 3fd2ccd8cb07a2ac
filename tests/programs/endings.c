/* Ways to end: after the loop, and in the middle of its body; and to be late.
 *
 * The body sums three buckets. The rank named by --break ends between the first and the second of
 * the iteration it names; its other ranks then meet whatever NCCL does about a lost peer. The one
 * named by --sleep sleeps before the first, the one named by --hold waits there for a file. The
 * process of the one named by --linger ends late.
 *
 * Results: "bucket <iteration> <bucket>" with the mask of the ranks that took part and the sum of
 * their iteration + 1; "breaking".
 */
#include "tests/programs/options.h"
#include "tests/programs/ranks.h"
#include "tests/programs/tape.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char *iterations = "3+1", *end = "finalize", *breaking = "none", *sleeping = "none",
                  *holding = "none";
static int lingering = -1, wait_ms = 0, barrier = 0;

static const struct option options[] = {
    {"--iterations", &iterations, NULL, "per rank: 3,5,5 or 3+1"},
    {"--break", &breaking, NULL, "RANK:ITERATION:HOW; how is one of the endings, or fail or kill"},
    {"--sleep", &sleeping, NULL, "RANK:ITERATION:MILLISECONDS"},
    {"--hold", &holding, NULL, "RANK:ITERATION:FILE; until the file is there"},
    {"--linger", NULL, &lingering, "a rank whose process ends half a second after its exit"},
    {"--barrier", NULL, &barrier, "1: all ranks meet after the loop"},
    {"--wait", NULL, &wait_ms, "milliseconds before each iteration"},
    {"--end", &end, NULL, "finalize, destroy, abort, return, exit; one, or one per rank"},
    {0},
};

enum { BUCKETS = 3 };
static const size_t counts[BUCKETS] = {256, 512, 128};

/* What one rank does in one iteration. */
struct event {
  int rank, iteration;
  const char *what;
};

static struct event event_read(const char *text) {
  if (strcmp(text, "none") == 0)
    return (struct event){.rank = -1};
  char *rest, *what = NULL;
  struct event event = {.rank = (int)strtol(text, &rest, 10)};
  if (*rest == ':')
    event.iteration = (int)strtol(rest + 1, &what, 10);
  if (what == NULL || *what != ':') {
    fprintf(stderr, "RANK:ITERATION:... is wanted, not %s\n", text);
    exit(2);
  }
  event.what = what + 1;
  return event;
}

static void sleep_ms(long milliseconds) {
  nanosleep(
      &(struct timespec){.tv_sec = milliseconds / 1000, .tv_nsec = milliseconds % 1000 * 1000000},
      NULL);
}

static void linger(void) {
  sleep_ms(500);
}

int main(int argc, char **argv) {
  (void)argc;
  options_read(argv, "Ends in one way or another.", options);
  struct event plan = event_read(breaking), nap = event_read(sleeping), hold = event_read(holding);
  struct ranks ranks;
  ranks_begin(&ranks);
  if (ranks.rank == lingering)
    atexit(linger);
  ncclComm_t comm = ranks_communicator(&ranks);
  struct tape *tape = tape_create(&ranks);
  float *data;
  CHECK_CUDA(cudaMalloc((void **)&data, 512 * sizeof *data));

  for (int i = 0; i < schedule_iterations(iterations, 0, ranks.rank); i++) {
    if (ranks.rank == nap.rank && i == nap.iteration) {
      ranks_time(&ranks, "sleep");
      sleep_ms(strtol(nap.what, NULL, 10));
    }
    while (ranks.rank == hold.rank && i == hold.iteration && access(hold.what, F_OK) != 0)
      sleep_ms(10);
    for (int b = 0; b < BUCKETS; b++) {
      if (b == 1 && ranks.rank == plan.rank && i == plan.iteration) {
        tape_play(tape);
        ranks_result(&ranks, "breaking");
        return ranks_leave(&ranks, ending_named(plan.what));
      }
      tape_fill(tape, ncclFloat, data, counts[b], 1 << ranks.rank, i + 1);
      CHECK_NCCL(ncclAllReduce(data, data, counts[b], ncclFloat, ncclSum, comm, ranks.stream));
      tape_read(tape, ncclFloat, data, 1, counts[b], "bucket %d %d", i, b);
    }
    tape_play(tape);
    sleep_ms(wait_ms);
  }
  if (barrier) {
    tape_fill(tape, ncclFloat, data, 1, 1 << ranks.rank, 0);
    CHECK_NCCL(ncclAllReduce(data, data, 1, ncclFloat, ncclSum, comm, ranks.stream));
    tape_read(tape, ncclFloat, data, 1, 1, "barrier");
    tape_play(tape);
  }
  return ranks_leave(&ranks, ending_named(list_item(end, ranks.rank)));
}
