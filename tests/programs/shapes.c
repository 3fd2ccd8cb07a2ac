/* Other shapes than one communicator for each process: sub-communicators given up in various ways,
 * and all ranks in one process with a thread each.
 *
 * Results: "sum <i> <value>" of each all-reduce of rank + 1 over the communicator in use.
 */
#include "tests/programs/options.h"
#include "tests/programs/ranks.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { DEVICES = 3, COUNT = 16 };

static const char *mode = "middle", *iterations = "20,10,0";

static const struct option options[] = {
    {"--mode", &mode, NULL, "middle, order, group or threads"},
    {"--iterations", &iterations, NULL, "of each thread"},
    {0},
};

static float *buffer(void) {
  float *device;
  CHECK_CUDA(cudaMalloc((void **)&device, COUNT * sizeof *device));
  return device;
}

static float sum(ncclComm_t comm, cudaStream_t stream, float *device, float mine) {
  float host[COUNT];
  for (int i = 0; i < COUNT; i++)
    host[i] = mine;
  CHECK_CUDA(cudaMemcpyAsync(device, host, sizeof host, cudaMemcpyHostToDevice, stream));
  CHECK_NCCL(ncclAllReduce(device, device, COUNT, ncclFloat, ncclSum, comm, stream));
  CHECK_CUDA(cudaMemcpyAsync(host, device, sizeof host, cudaMemcpyDeviceToHost, stream));
  CHECK_CUDA(cudaStreamSynchronize(stream));
  return host[COUNT - 1];
}

/* A communicator of rank 0 and another one. */
static ncclComm_t pair(struct ranks *ranks, ncclComm_t world, int other) {
  ncclComm_t comm = NULL;
  int color = ranks->rank == 0 || ranks->rank == other ? 0 : NCCL_SPLIT_NOCOLOR;
  CHECK_NCCL(ncclCommSplit(world, color, ranks->rank, &comm, NULL));
  return comm;
}

/* Rank 0 destroys one pair while the other is in use; its partner there comes late. */
static void destroy_in_the_middle(struct ranks *ranks, ncclComm_t world) {
  ncclComm_t a = pair(ranks, world, 1), b = pair(ranks, world, 2);
  float *device = buffer();
  for (int i = 0; i < 20 && b != NULL; i++)
    sum(b, ranks->stream, device, 1);
  if (ranks->rank == 1)
    usleep(300000);
  if (a != NULL)
    CHECK_NCCL(ncclCommDestroy(a));
  for (int i = 0; i < 20 && b != NULL; i++)
    ranks_result(ranks, "sum %d %g", i,
                 (double)sum(b, ranks->stream, device, (float)(ranks->rank + 1)));
  if (b != NULL)
    CHECK_NCCL(ncclCommDestroy(b));
}

/* Rank 0 destroys its two pairs in another order than the others would have it. */
static void destroy_in_another_order(struct ranks *ranks, ncclComm_t world) {
  ncclComm_t two[2] = {NULL, NULL};
  CHECK_NCCL(ncclCommSplit(world, 0, ranks->rank, &two[0], NULL));
  CHECK_NCCL(
      ncclCommSplit(world, ranks->rank < 2 ? 0 : NCCL_SPLIT_NOCOLOR, ranks->rank, &two[1], NULL));
  float *device = buffer();
  for (int k = 0; k < 2; k++)
    if (two[k] != NULL)
      ranks_result(ranks, "sum %d %g", k, (double)sum(two[k], ranks->stream, device, 1));
  ranks_time(ranks, "destroys");
  for (int k = 0; k < 2; k++) {
    ncclComm_t comm = two[ranks->rank == 0 ? k : 1 - k];
    if (comm != NULL)
      CHECK_NCCL(ncclCommDestroy(comm));
  }
}

/* An uneven loop whose communicator is given up inside a group. */
static void destroy_in_a_group(struct ranks *ranks, ncclComm_t world) {
  ncclComm_t comm = NULL;
  CHECK_NCCL(ncclCommSplit(world, 0, ranks->rank, &comm, NULL));
  float *device = buffer();
  for (int i = 0; i < 10 + 5 * ranks->rank; i++)
    ranks_result(ranks, "sum %d %g", i, (double)sum(comm, ranks->stream, device, 1));
  CHECK_NCCL(ncclGroupStart());
  CHECK_NCCL(ncclCommDestroy(comm));
  CHECK_NCCL(ncclGroupEnd());
}

static ncclComm_t all[DEVICES];

static void *drive(void *argument) {
  int rank = (int)(intptr_t)argument;
  struct ranks ranks = {.rank = rank};
  CHECK_CUDA(cudaSetDevice(rank));
  CHECK_CUDA(cudaStreamCreate(&ranks.stream));
  float *device = buffer();
  for (int i = 0; i < schedule_iterations(iterations, 0, rank); i++)
    ranks_result(&ranks, "sum %d %g", i, (double)sum(all[rank], ranks.stream, device, 1));
  CHECK_NCCL(ncclCommDestroy(all[rank]));
  return NULL;
}

/* All ranks are made by one call, and driven by a thread each. */
static int one_process(void) {
  CHECK_NCCL(ncclCommInitAll(all, DEVICES, NULL));
  pthread_t threads[DEVICES];
  for (int rank = 0; rank < DEVICES; rank++)
    pthread_create(&threads[rank], NULL, drive, (void *)(intptr_t)rank);
  for (int rank = 0; rank < DEVICES; rank++)
    pthread_join(threads[rank], NULL);
  return 0;
}

int main(int argc, char **argv) {
  (void)argc;
  options_read(argv, "Communicators and processes of other shapes.", options);
  if (strcmp(mode, "threads") == 0)
    return one_process();
  struct ranks ranks;
  ranks_begin(&ranks);
  ncclComm_t world = ranks_communicator(&ranks);
  if (strcmp(mode, "middle") == 0)
    destroy_in_the_middle(&ranks, world);
  else if (strcmp(mode, "order") == 0)
    destroy_in_another_order(&ranks, world);
  else
    destroy_in_a_group(&ranks, world);
  return ranks_leave(&ranks, ENDING_DESTROY);
}
