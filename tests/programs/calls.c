/* What one collective costs the host: the time of an all-reduce call, measured in batches that
 * nobody waits for, with a wait for the device after each.
 *
 * Results: "calls <batches>". A line "TIME <rank> call <median> <quartile> <quartile>" has
 * nanoseconds per call.
 */
#include "tests/programs/options.h"
#include "tests/programs/ranks.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { COUNT = 256, BATCHES_MAX = 1000, WARM = 5 };

static int batches = 40, calls = 64;

static const struct option options[] = {
    {"--batches", NULL, &batches, "how many are measured"},
    {"--calls", NULL, &calls, "in each; fewer than fill the device's launch queue"},
    {0},
};

static double now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static int compare(const void *left, const void *right) {
  double difference = *(const double *)left - *(const double *)right;
  return (difference > 0) - (difference < 0);
}

int main(int argc, char **argv) {
  (void)argc;
  options_read(argv, "The time of a call.", options);
  if (batches < 1 || batches > BATCHES_MAX || calls < 1) {
    fprintf(stderr, "--batches is 1 to %d, --calls at least 1\n", BATCHES_MAX);
    return 2;
  }
  struct ranks ranks = {0};
  ranks_begin(&ranks);
  ncclComm_t comm = ranks_communicator(&ranks);
  void *send, *receive;
  CHECK_CUDA(cudaMalloc(&send, COUNT * sizeof(float)));
  CHECK_CUDA(cudaMalloc(&receive, COUNT * sizeof(float)));
  double times[BATCHES_MAX];
  for (int batch = -WARM; batch < batches; batch++) {
    double start = now_ns();
    for (int i = 0; i < calls; i++)
      CHECK_NCCL(ncclAllReduce(send, receive, COUNT, ncclFloat, ncclSum, comm, ranks.stream));
    if (batch >= 0)
      times[batch] = (now_ns() - start) / calls;
    ranks_synchronise(&ranks);
  }
  qsort(times, (size_t)batches, sizeof *times, compare);
  printf("TIME %d call %.0f %.0f %.0f\n", ranks.rank, times[batches / 2], times[batches / 4],
         times[batches * 3 / 4]);
  ranks_result(&ranks, "calls %d", batches);
  return ranks_leave(&ranks, ENDING_FINALIZE);
}
