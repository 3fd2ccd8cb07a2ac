/* The first use of a connection while a rank has joined.
 *
 * Of three ranks, 0 and 2 have a communicator of their own besides that of all. An iteration sums
 * over the two, then over all. In one iteration the sum over all is large, for which NCCL may take
 * another algorithm, and connect the ranks for it on the host; rank 2 comes late to that iteration.
 * Ranks wait for their devices after each sum.
 *
 * Results: "pair <iteration> <value>", "all <iteration> <value>".
 */
#include "tests/programs/options.h"
#include "tests/programs/ranks.h"

#include <stdlib.h>
#include <time.h>

enum { SMALL = 64, LARGE = 2000000, PAIR = 48 };

static const char *iterations = "0,3,3";
static int large = 0, late_ms = 500;

static const struct option options[] = {
    {"--iterations", &iterations, NULL, "per rank"},
    {"--large", NULL, &large, "the iteration with a large sum, to which rank 2 comes late"},
    {"--late", NULL, &late_ms, "milliseconds"},
    {0},
};

static struct ranks ranks;
static float *buffer, *host;

static void sum(ncclComm_t comm, size_t count, const char *what, int i) {
  for (size_t k = 0; k < count; k++)
    host[k] = (float)(1u << ranks.rank);
  size_t size = count * sizeof *host;
  CHECK_CUDA(cudaMemcpyAsync(buffer, host, size, cudaMemcpyHostToDevice, ranks.stream));
  CHECK_NCCL(ncclAllReduce(buffer, buffer, count, ncclFloat, ncclSum, comm, ranks.stream));
  CHECK_CUDA(cudaMemcpyAsync(host, buffer, size, cudaMemcpyDeviceToHost, ranks.stream));
  ranks_synchronise(&ranks);
  ranks_result(&ranks, "%s %d %g", what, i, (double)host[count - 1]);
}

int main(int argc, char **argv) {
  (void)argc;
  options_read(argv, "The first use of a connection.", options);
  ranks_begin(&ranks);
  ncclComm_t all = ranks_communicator(&ranks), pair;
  CHECK_NCCL(ncclCommSplit(all, ranks.rank == 1 ? NCCL_SPLIT_NOCOLOR : 0, ranks.rank, &pair, NULL));
  CHECK_CUDA(cudaMalloc((void **)&buffer, LARGE * sizeof *buffer));
  host = calloc(LARGE, sizeof *host);
  for (int i = 0; i < schedule_iterations(iterations, 0, ranks.rank); i++) {
    if (ranks.rank == 2 && i == large)
      nanosleep(&(struct timespec){.tv_sec = late_ms / 1000, .tv_nsec = late_ms % 1000 * 1000000L},
                NULL);
    if (pair != NULL)
      sum(pair, PAIR, "pair", i);
    sum(all, i == large ? LARGE : SMALL, "all", i);
  }
  if (pair != NULL)
    CHECK_NCCL(ncclCommDestroy(pair));
  free(host);
  return ranks_leave(&ranks, ENDING_DESTROY);
}
