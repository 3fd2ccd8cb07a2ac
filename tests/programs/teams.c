/* Communicators over different sets of ranks: tensor and data parallel groups, and all ranks.
 *
 * Ranks are numbered as Megatron does it: those of a tensor parallel group follow each other. An
 * iteration has an all-reduce of the tensor parallel group, if there is one, and one of the data
 * parallel group; every few iterations one of all ranks; and so has the end of an epoch.
 *
 * Results: "<what> <epoch> <iteration> <mask of the ranks that took part>"; with --late none: then
 * no rank waits for its device before the end.
 */
#include "hooks/include/nccl_join.h"
#include "tests/programs/options.h"
#include "tests/programs/ranks.h"

#include <stdbool.h>
#include <string.h>
#include <time.h>

enum { COUNT = 64 };

static const char *iterations = "3+1", *end = "destroy", *mode = "turns", *after = "all";
static int tensor = 2, metric, late = -1, late_ms = 500;

static const struct option options[] = {
    {"--iterations", &iterations, NULL, "per epoch and rank: 3,5,5/4"},
    {"--tensor", NULL, &tensor, "ranks of a tensor parallel group"},
    {"--metric", NULL, &metric, "iterations between all-reduces of all ranks; 0: none"},
    {"--mode", &mode, NULL,
     "turns; group: both all-reduces of an iteration in one group; halves: no tensor parallel "
     "all-reduce, and data parallel groups are of neighbours"},
    {"--after", &after, NULL, "after each epoch: all, groups, leave (said to nccl-join) or none"},
    {"--late", NULL, &late,
     "the last rank sleeps for --late-ms in this iteration; -1: in none, and all wait for "
     "their devices after each all-reduce"},
    {"--late-ms", NULL, &late_ms, "milliseconds"},
    {"--end", &end, NULL, "destroy, return, exit; one, or one per rank"},
    {0},
};

static struct ranks ranks;
static ncclComm_t world, tensors, data;
static float *buffers[3];

static void fill(int buffer) {
  float host[COUNT];
  if (late >= 0)
    return;
  for (int i = 0; i < COUNT; i++)
    host[i] = (float)(1u << ranks.rank);
  CHECK_CUDA(
      cudaMemcpyAsync(buffers[buffer], host, sizeof host, cudaMemcpyHostToDevice, ranks.stream));
}

static void print(int buffer, const char *what, int epoch, int i) {
  float host[COUNT];
  if (late >= 0)
    return;
  CHECK_CUDA(
      cudaMemcpyAsync(host, buffers[buffer], sizeof host, cudaMemcpyDeviceToHost, ranks.stream));
  CHECK_CUDA(cudaStreamSynchronize(ranks.stream));
  ranks_result(&ranks, "%s %d %d %g", what, epoch, i, (double)host[COUNT - 1]);
}

/* Counts differ, so that no collective can be taken for another. */
static void sum(int buffer, ncclComm_t comm, int count) {
  CHECK_NCCL(ncclAllReduce(buffers[buffer], buffers[buffer], (size_t)(COUNT - count), ncclFloat,
                           ncclSum, comm, ranks.stream));
  CHECK_CUDA(cudaMemcpyAsync(buffers[buffer] + COUNT - 1, buffers[buffer], sizeof(float),
                             cudaMemcpyDeviceToDevice, ranks.stream));
}

static void sum_now(const char *what, ncclComm_t comm, int count, int epoch, int i) {
  fill(2);
  sum(2, comm, count);
  print(2, what, epoch, i);
}

static void iterate(int epoch, int i) {
  bool grouped = strcmp(mode, "group") == 0;
  if (i == late && ranks.rank == ranks.nranks - 1)
    nanosleep(&(struct timespec){.tv_sec = late_ms / 1000, .tv_nsec = late_ms % 1000 * 1000000L},
              NULL);
  if (!grouped) {
    if (tensors != NULL)
      sum_now("tensor", tensors, 1, epoch, i);
    sum_now("data", data, 2, epoch, i);
  } else {
    fill(0);
    fill(1);
    CHECK_NCCL(ncclGroupStart());
    CHECK_NCCL(
        ncclAllReduce(buffers[0], buffers[0], COUNT, ncclFloat, ncclSum, tensors, ranks.stream));
    CHECK_NCCL(
        ncclAllReduce(buffers[1], buffers[1], COUNT, ncclFloat, ncclSum, data, ranks.stream));
    CHECK_NCCL(ncclGroupEnd());
    print(0, "tensor", epoch, i);
    print(1, "data", epoch, i);
  }
  if (metric != 0 && i % metric == metric - 1)
    sum_now("metric", world, 3, epoch, i);
}

static void finish_epoch(int epoch) {
  if (strcmp(after, "all") == 0)
    sum_now("end", world, 4, epoch, 0);
  if (strcmp(after, "leave") == 0)
    CHECK_NCCL(nccl_join_leave(world));
  if (strcmp(after, "groups") != 0)
    return;
  if (tensors != NULL)
    sum_now("tensor-end", tensors, 5, epoch, 0);
  sum_now("data-end", data, 6, epoch, 0);
}

int main(int argc, char **argv) {
  (void)argc;
  options_read(argv, "Tensor and data parallel groups.", options);
  ranks_begin(&ranks);
  world = ranks_communicator(&ranks);
  for (int i = 0; i < 3; i++)
    CHECK_CUDA(cudaMalloc((void **)&buffers[i], COUNT * sizeof(float)));
  bool halves = strcmp(mode, "halves") == 0;
  int neighbours = ranks.rank / tensor, others = ranks.rank % tensor;
  CHECK_NCCL(ncclCommSplit(world, halves ? neighbours : others, ranks.rank, &data, NULL));
  if (!halves)
    CHECK_NCCL(ncclCommSplit(world, neighbours, ranks.rank, &tensors, NULL));
  for (int epoch = 0; epoch < schedule_epochs(iterations); epoch++) {
    for (int i = 0; i < schedule_iterations(iterations, epoch, ranks.rank); i++)
      iterate(epoch, i);
    finish_epoch(epoch);
  }
  if (late >= 0)
    ranks_synchronise(&ranks);
  const char *how = list_item(end, ranks.rank);
  if (strcmp(how, "destroy") == 0) {
    if (tensors != NULL)
      CHECK_NCCL(ncclCommDestroy(tensors));
    CHECK_NCCL(ncclCommDestroy(data));
  }
  return ranks_leave(&ranks, ending_named(how));
}
