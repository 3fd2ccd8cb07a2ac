/* Epochs of two loops whose collectives look alike: --mode counting, a warm-up and a loop that
 * counts on from it; --mode branches, training and evaluation in two branches of one condition;
 * --mode threads, training, and evaluation by a thread of its own; --mode once, training, in which
 * rank 0 alone comes to another collective once; --mode alone, training, and a sum of all ranks
 * that those without data come to by a branch of their own; --mode metrics, training, and --metrics
 * sums of all ranks; --mode remainder, a sum of two batches each, one of what is left, and one of
 * all ranks. Compiled without optimisation by gcc: a compiler makes such loops of one, too, and
 * these are the program's own.
 *
 * Results: "epoch <epoch> <n>" with the number of sums that are those of the ranks still in that
 * loop; "left".
 */
#include "tests/programs/options.h"
#include "tests/programs/ranks.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#ifndef __clang__
#pragma GCC optimize("O0")
#endif

static const char *mode = "counting", *iterations = "6,8,7/5,9,6/7,6,8";
static int metrics = 3;

static const struct option options[] = {
    {"--mode", &mode, NULL, "counting, branches, threads, once, alone, metrics or remainder"},
    {"--iterations", &iterations, NULL,
     "per rank and epoch: 3,5,5 or 3,5/5,3; 3 and more, but for alone, metrics and remainder"},
    {"--metrics", NULL, &metrics, "per epoch"},
    {0},
};

enum { WARM = 3, RANKS_BITS = 16 };

static struct ranks ranks;
static double *send, *receive, met;
static int point, right;

/* Rank r adds 2^r, and the point of the program above the bits of all ranks. */
static void sum(void) {
  double value = (double)(1 << ranks.rank) + (double)point * (1 << RANKS_BITS);
  CHECK_CUDA(cudaMemcpyAsync(send, &value, sizeof value, cudaMemcpyHostToDevice, ranks.stream));
  CHECK_NCCL(ncclAllReduce(send, receive, 1, ncclDouble, ncclSum, ranks.comms[0], ranks.stream));
  CHECK_CUDA(cudaMemcpyAsync(&met, receive, sizeof met, cudaMemcpyDeviceToHost, ranks.stream));
  ranks_synchronise(&ranks);
}

static void count_right(int epoch, int i) {
  double all = 0;
  for (int rank = 0; rank < ranks.nranks; rank++)
    if (i < schedule_iterations(iterations, epoch, rank))
      all += (double)(1 << rank) + (double)point * (1 << RANKS_BITS);
  right += met == all;
}

static void counting(int epoch, int n) {
  int i = 0;
  point = 1;
  for (; i < WARM; i++) {
    sum();
    count_right(epoch, i);
  }
  point = 2;
  for (; i < n; i++) {
    sum();
    count_right(epoch, i);
  }
}

static void branches(int epoch, int n) {
  for (point = 1; point <= 2; point++) {
    if (point == 1) {
      for (int i = 0; i < n; i++) {
        sum();
        count_right(epoch, i);
      }
    } else {
      for (int i = 0; i < n; i++) {
        sum();
        count_right(epoch, i);
      }
    }
  }
}

struct evaluation {
  int epoch, n;
};

static void *evaluate(void *argument) {
  const struct evaluation *evaluation = argument;
  for (int i = 0; i < evaluation->n; i++) {
    sum();
    count_right(evaluation->epoch, i);
  }
  return NULL;
}

static void threads(int epoch, int n) {
  struct evaluation evaluation = {epoch, n};
  pthread_t thread;
  point = 1;
  for (int i = 0; i < n; i++) {
    sum();
    count_right(epoch, i);
  }
  point = 2;
  if (pthread_create(&thread, NULL, evaluate, &evaluation) == 0)
    pthread_join(thread, NULL);
}

static void once(int epoch, int n) {
  point = 1;
  for (int i = 0; i < n; i++) {
    sum();
    count_right(epoch, i);
    if (i == n - 3 && ranks.rank == 0)
      CHECK_NCCL(ncclAllReduce(send, receive, 1, ncclFloat, ncclSum, ranks.comms[0], ranks.stream));
  }
}

static void count_right_of_all(void) {
  right +=
      met == (double)((1 << ranks.nranks) - 1) + (double)point * ranks.nranks * (1 << RANKS_BITS);
}

static void alone(int epoch, int n) {
  point = 2;
  if (n == 0) {
    sum();
    count_right_of_all();
    return;
  }
  CHECK_NCCL(ncclAllReduce(send, receive, 1, ncclFloat, ncclSum, ranks.comms[0], ranks.stream));
  point = 1;
  for (int i = 0; i < n; i++) {
    sum();
    count_right(epoch, i);
  }
  point = 2;
  sum();
  count_right_of_all();
}

static void with_metrics(int epoch, int n) {
  point = 1;
  for (int i = 0; i < n; i++) {
    sum();
    count_right(epoch, i);
  }
  point = 2;
  for (int i = 0; i < metrics; i++) {
    sum();
    count_right_of_all();
  }
}

static void with_remainder(int epoch, int n) {
  point = 1;
  for (int i = 1; i < n; i += 2) {
    sum();
    count_right(epoch, i);
  }
  if (n % 2 != 0) {
    double all = 0;
    point = 2;
    sum();
    for (int rank = 0; rank < ranks.nranks; rank++)
      if (schedule_iterations(iterations, epoch, rank) % 2 != 0)
        all += (double)(1 << rank) + (double)point * (1 << RANKS_BITS);
    right += met == all;
  }
  point = 3;
  sum();
  count_right_of_all();
}

int main(int argc, char **argv) {
  (void)argc;
  options_read(argv, "Two loops whose collectives look alike.", options);
  ranks_begin(&ranks);
  ranks_communicator(&ranks);
  CHECK_CUDA(cudaMalloc((void **)&send, sizeof *send));
  CHECK_CUDA(cudaMalloc((void **)&receive, sizeof *receive));
  for (int epoch = 0; epoch < schedule_epochs(iterations); epoch++) {
    int n = schedule_iterations(iterations, epoch, ranks.rank);
    right = 0;
    (strcmp(mode, "branches") == 0    ? branches
     : strcmp(mode, "threads") == 0   ? threads
     : strcmp(mode, "once") == 0      ? once
     : strcmp(mode, "alone") == 0     ? alone
     : strcmp(mode, "metrics") == 0   ? with_metrics
     : strcmp(mode, "remainder") == 0 ? with_remainder
                                      : counting)(epoch, n);
    ranks_result(&ranks, "epoch %d %d", epoch, right);
  }
  return ranks_leave(&ranks, ENDING_FINALIZE);
}
