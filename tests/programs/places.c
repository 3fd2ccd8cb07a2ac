/* Epochs of iterations that come to 300 collectives which look alike, each of a line of its own,
 * and one more that looks like them after each epoch.
 *
 * Results: "epoch <epoch> <n>" with the number of sums of its iterations that are those of the
 * ranks that are still in it, "end <epoch> <sum>" with the mask of the ranks that took part;
 * "left".
 */
#include "tests/programs/options.h"
#include "tests/programs/ranks.h"

#include <stdio.h>

static const char *iterations = "5,6/4,3/6,6";

static const struct option options[] = {
    {"--iterations", &iterations, NULL, "per rank and epoch: 3,5,5 or 3+1 or 3,5/5,3"},
    {0},
};

enum { LINES = 300, END = LINES, RANKS_BITS = 16 };

static struct ranks ranks;
static double *send, *receive;

/* Rank r adds 2^r, and the number of the line above the bits of all ranks. */
static double sum(int line) {
  double value = (double)(1 << ranks.rank) + (double)line * (1 << RANKS_BITS), all;
  CHECK_CUDA(cudaMemcpyAsync(send, &value, sizeof value, cudaMemcpyHostToDevice, ranks.stream));
  CHECK_NCCL(ncclAllReduce(send, receive, 1, ncclDouble, ncclSum, ranks.comms[0], ranks.stream));
  CHECK_CUDA(cudaMemcpyAsync(&all, receive, sizeof all, cudaMemcpyDeviceToHost, ranks.stream));
  ranks_synchronise(&ranks);
  return all;
}

/* What the ranks with more iterations than i sum on that line. */
static double expected(int epoch, int i, int line) {
  double all = 0;
  for (int rank = 0; rank < ranks.nranks; rank++)
    if (i < schedule_iterations(iterations, epoch, rank))
      all += (double)(1 << rank) + (double)line * (1 << RANKS_BITS);
  return all;
}

#define ONE(line) (right += sum(line) == expected(epoch, i, line))
#define FIVE(line) (ONE(line), ONE(line + 1), ONE(line + 2), ONE(line + 3), ONE(line + 4))
#define TWENTY(line) (FIVE(line), FIVE(line + 5), FIVE(line + 10), FIVE(line + 15))
#define HUNDRED(line)                                                                              \
  (TWENTY(line), TWENTY(line + 20), TWENTY(line + 40), TWENTY(line + 60), TWENTY(line + 80))

static int iteration(int epoch, int i) {
  int right = 0;
  HUNDRED(0);
  HUNDRED(100);
  HUNDRED(200);
  return right;
}

int main(int argc, char **argv) {
  (void)argc;
  options_read(argv, "Comes to collectives of 300 lines.", options);
  ranks_begin(&ranks);
  ranks_communicator(&ranks);
  CHECK_CUDA(cudaMalloc((void **)&send, sizeof *send));
  CHECK_CUDA(cudaMalloc((void **)&receive, sizeof *receive));
  for (int epoch = 0; epoch < schedule_epochs(iterations); epoch++) {
    int right = 0;
    for (int i = 0; i < schedule_iterations(iterations, epoch, ranks.rank); i++)
      right += iteration(epoch, i);
    ranks_result(&ranks, "epoch %d %d", epoch, right);
    ranks_result(&ranks, "end %d %d", epoch, (int)sum(END) & ((1 << RANKS_BITS) - 1));
  }
  return ranks_leave(&ranks, ENDING_FINALIZE);
}
