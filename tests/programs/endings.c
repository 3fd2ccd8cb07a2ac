/* Ways to end: after the loop, and in the middle of its body.
 *
 * The body sums three buckets. The rank named by --break ends between the first and the second of
 * the iteration it names; its other ranks then meet whatever NCCL does about a lost peer.
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

static const char *iterations = "3+1", *end = "finalize", *breaking = "none";
static int wait_ms = 0, barrier = 0;

static const struct option options[] = {
    {"--iterations", &iterations, NULL, "per rank: 3,5,5 or 3+1"},
    {"--break", &breaking, NULL, "RANK:ITERATION:HOW; how is one of the endings, or fail or kill"},
    {"--barrier", NULL, &barrier, "1: all ranks meet after the loop"},
    {"--wait", NULL, &wait_ms, "milliseconds before each iteration"},
    {"--end", &end, NULL, "finalize, destroy, abort, return, exit; one, or one per rank"},
    {0},
};

enum { BUCKETS = 3 };
static const size_t counts[BUCKETS] = {256, 512, 128};

struct breaking {
  int rank, iteration;
  const char *how;
};

static struct breaking breaking_read(void) {
  if (strcmp(breaking, "none") == 0)
    return (struct breaking){.rank = -1};
  char *rest, *how = NULL;
  struct breaking plan = {.rank = (int)strtol(breaking, &rest, 10)};
  if (*rest == ':')
    plan.iteration = (int)strtol(rest + 1, &how, 10);
  if (how == NULL || *how != ':') {
    fprintf(stderr, "--break wants RANK:ITERATION:HOW, not %s\n", breaking);
    exit(2);
  }
  plan.how = how + 1;
  return plan;
}

int main(int argc, char **argv) {
  (void)argc;
  options_read(argv, "Ends in one way or another.", options);
  struct breaking plan = breaking_read();
  struct ranks ranks;
  ranks_begin(&ranks);
  ncclComm_t comm = ranks_communicator(&ranks);
  struct tape *tape = tape_create(&ranks);
  float *data;
  CHECK_CUDA(cudaMalloc((void **)&data, 512 * sizeof *data));

  for (int i = 0; i < schedule_iterations(iterations, 0, ranks.rank); i++) {
    for (int b = 0; b < BUCKETS; b++) {
      if (b == 1 && ranks.rank == plan.rank && i == plan.iteration) {
        tape_play(tape);
        ranks_result(&ranks, "breaking");
        return ranks_leave(&ranks, ending_named(plan.how));
      }
      tape_fill(tape, ncclFloat, data, counts[b], 1 << ranks.rank, i + 1);
      CHECK_NCCL(ncclAllReduce(data, data, counts[b], ncclFloat, ncclSum, comm, ranks.stream));
      tape_read(tape, ncclFloat, data, 1, counts[b], "bucket %d %d", i, b);
    }
    tape_play(tape);
    for (int ms = 0; ms < wait_ms; ms++)
      nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  }
  if (barrier) {
    tape_fill(tape, ncclFloat, data, 1, 1 << ranks.rank, 0);
    CHECK_NCCL(ncclAllReduce(data, data, 1, ncclFloat, ncclSum, comm, ranks.stream));
    tape_read(tape, ncclFloat, data, 1, 1, "barrier");
    tape_play(tape);
  }
  return ranks_leave(&ranks, ending_named(list_item(end, ranks.rank)));
}
