/* Two epochs of all-reduces, the first of them uneven; then one rank, in one iteration, comes to
 * its all-reduce by the other branch of a condition. The collectives look alike, and what nccl-join
 * has learnt says that they are one.
 *
 * Results: "left".
 */
#include "tests/programs/options.h"
#include "tests/programs/ranks.h"
#include "tests/programs/tape.h"

#include <stdio.h>

static const char *iterations = "20,8,20/20,20,20", *apart = "0:12";

static const struct option options[] = {
    {"--iterations", &iterations, NULL, "per rank and epoch: 3,5,5 or 3+1 or 3,5/5,3"},
    {"--apart", &apart, NULL, "RANK:ITERATION of the last epoch"},
    {0},
};

enum { COUNT = 256 };

struct buffers {
  float *send, *receive;
};

static void sum(const struct ranks *ranks, const struct buffers *buffers) {
  CHECK_NCCL(ncclAllReduce(buffers->send, buffers->receive, COUNT, ncclFloat32, ncclSum,
                           ranks->comms[0], ranks->stream));
}

/* A place of its own, also behind a compiler that finds calls that are the same. */
static __attribute__((noinline)) void other_branch(const struct ranks *ranks,
                                                   const struct buffers *buffers) {
  sum(ranks, buffers);
  __asm__ volatile("# not a tail call");
}

int main(int argc, char **argv) {
  (void)argc;
  options_read(argv, "Comes to a collective by two branches.", options);
  struct ranks ranks = {0};
  struct buffers buffers;
  int rank = -1, iteration = -1;
  sscanf(apart, "%d:%d", &rank, &iteration);
  ranks_begin(&ranks);
  ranks_communicator(&ranks);
  CHECK_CUDA(cudaMalloc((void **)&buffers.send, COUNT * sizeof(float)));
  CHECK_CUDA(cudaMalloc((void **)&buffers.receive, COUNT * sizeof(float)));
  int epochs = schedule_epochs(iterations);
  for (int epoch = 0; epoch < epochs; epoch++)
    for (int i = 0; i < schedule_iterations(iterations, epoch, ranks.rank); i++) {
      if (epoch == epochs - 1 && ranks.rank == rank && i == iteration)
        other_branch(&ranks, &buffers);
      else
        sum(&ranks, &buffers);
      ranks_synchronise(&ranks);
    }
  ranks_result(&ranks, "left");
  return ranks_leave(&ranks, ENDING_FINALIZE);
}
