/* Two threads of each rank that use a communicator each, over the same ranks, without taking turns:
 * against NCCL's guide, but it works where the device has room for both.
 *
 * Each iteration of a thread sums 2^rank times the iteration's number. Results: "main <iteration>
 * <value>", "other <iteration> <value>".
 */
#include "tests/programs/options.h"
#include "tests/programs/ranks.h"

#include <pthread.h>
#include <time.h>

static const char *iterations = "20", *others = "20", *pause_us = "200", *others_pause_us = "200";
static const char *late_us = "0", *others_late_us = "0";
static int children = 0;

static const struct option options[] = {
    {"--iterations", &iterations, NULL, "of the main thread, per rank"},
    {"--others", &others, NULL, "of the other thread, per rank"},
    {"--pause", &pause_us, NULL, "microseconds after each iteration of the main thread, per rank"},
    {"--others-pause", &others_pause_us, NULL, "the same of the other thread"},
    {"--late", &late_us, NULL, "microseconds before the first of the main thread, per rank"},
    {"--others-late", &others_late_us, NULL, "the same of the other thread"},
    {"--children", NULL, &children, "1: each iteration makes a communicator, and destroys it"},
    {0},
};

enum { COUNT = 5000 };

/* One thread's part. */
struct part {
  struct ranks ranks;
  ncclComm_t comm;
  const char *name;
  size_t count;
  int n, pause_us, late_us;
  bool has_children; /* a communicator for each iteration, split from its own */
};

static void rest(int microseconds) {
  nanosleep(&(struct timespec){.tv_sec = microseconds / 1000000,
                               .tv_nsec = microseconds % 1000000 * 1000L},
            NULL);
}

static ncclComm_t begin_iteration(const struct part *part) {
  ncclComm_t child = part->comm;
  if (part->has_children)
    CHECK_NCCL(ncclCommSplit(part->comm, 0, part->ranks.rank, &child, NULL));
  return child;
}

static void *work(void *argument) {
  struct part *part = argument;
  float *data, host[COUNT];
  size_t size = part->count * sizeof *data;
  cudaStream_t stream = part->ranks.stream;
  CHECK_CUDA(cudaMalloc((void **)&data, size));
  rest(part->late_us);
  for (int k = 0; k < part->n; k++) {
    for (size_t i = 0; i < part->count; i++)
      host[i] = (float)((1 << part->ranks.rank) * (k + 1));
    CHECK_CUDA(cudaMemcpyAsync(data, host, size, cudaMemcpyHostToDevice, stream));
    ncclComm_t comm = begin_iteration(part);
    CHECK_NCCL(ncclAllReduce(data, data, part->count, ncclFloat, ncclSum, comm, stream));
    CHECK_CUDA(cudaMemcpyAsync(host, data, size, cudaMemcpyDeviceToHost, stream));
    CHECK_CUDA(cudaStreamSynchronize(stream));
    ranks_result(&part->ranks, "%s %d %g", part->name, k, (double)host[part->count - 1]);
    if (part->has_children)
      CHECK_NCCL(ncclCommDestroy(comm));
    rest(part->pause_us);
  }
  return NULL;
}

int main(int argc, char **argv) {
  (void)argc;
  options_read(argv, "Two threads that do not take turns.", options);
  struct ranks ranks;
  ranks_begin(&ranks);
  struct part first = {.name = "main", .count = COUNT}, second = {.name = "other", .count = 64};
  first.comm = ranks_communicator(&ranks);
  second.comm = ranks_communicator(&ranks);
  first.ranks = second.ranks = ranks;
  first.n = schedule_iterations(iterations, 0, ranks.rank);
  first.pause_us = schedule_iterations(pause_us, 0, ranks.rank);
  first.late_us = schedule_iterations(late_us, 0, ranks.rank);
  first.has_children = second.has_children = children != 0;
  second.n = schedule_iterations(others, 0, ranks.rank);
  second.pause_us = schedule_iterations(others_pause_us, 0, ranks.rank);
  second.late_us = schedule_iterations(others_late_us, 0, ranks.rank);
  CHECK_CUDA(cudaStreamCreateWithFlags(&second.ranks.stream, cudaStreamNonBlocking));
  pthread_t thread;
  pthread_create(&thread, NULL, work, &second);
  work(&first);
  pthread_join(thread, NULL);
  return ranks_leave(&ranks, ENDING_DESTROY);
}
