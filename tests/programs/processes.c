/* Several devices in each process: one thread drives them all by groups, or each has a thread.
 *
 * Rank r of the communicator is device r % devices of process r / devices. An iteration sums over
 * all ranks, each device on a stream of its own, or on two in turn. After the loop there may be a
 * split, for a sum over the same device of all processes.
 *
 * Results: "sum <iteration> <mask of the ranks that took part>", "child <mask>".
 */
#include "tests/programs/options.h"
#include "tests/programs/ranks.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { DEVICES_MAX = 8, STREAMS_MAX = 2, COUNT = 32 };

static const char *iterations = "3+2", *mode = "group";
static int devices = 2, nstreams = 1, split = 0;

static const struct option options[] = {
    {"--iterations", &iterations, NULL, "per process; mode threads: per rank"},
    {"--mode", &mode, NULL, "group: one thread for all devices; threads: one for each"},
    {"--devices", NULL, &devices, "of a process"},
    {"--streams", NULL, &nstreams, "of a device, used in turn: 1 or 2"},
    {"--split", NULL, &split, "1: a communicator for each device of a process, after the loop"},
    {0},
};

/* One rank of the communicator. */
struct device {
  struct ranks named; /* for results */
  int number;
  ncclComm_t comm, child;
  cudaStream_t streams[STREAMS_MAX];
  float *buffer;
};

static struct ranks process;
static struct device all[DEVICES_MAX];

static void fill(struct device *device, cudaStream_t stream) {
  float host[COUNT];
  for (int i = 0; i < COUNT; i++)
    host[i] = (float)(1u << device->named.rank);
  CHECK_CUDA(cudaMemcpyAsync(device->buffer, host, sizeof host, cudaMemcpyHostToDevice, stream));
}

static float read_back(struct device *device, cudaStream_t stream) {
  float host[COUNT];
  CHECK_CUDA(cudaMemcpyAsync(host, device->buffer, sizeof host, cudaMemcpyDeviceToHost, stream));
  CHECK_CUDA(cudaStreamSynchronize(stream));
  return host[COUNT - 1];
}

static void sum(struct device *device, ncclComm_t comm, cudaStream_t stream) {
  CHECK_NCCL(
      ncclAllReduce(device->buffer, device->buffer, COUNT, ncclFloat, ncclSum, comm, stream));
}

static void open_device(struct device *device, int number) {
  *device = (struct device){.number = number};
  device->named.rank = process.rank * devices + number;
  CHECK_CUDA(cudaSetDevice(number));
  for (int i = 0; i < nstreams; i++)
    CHECK_CUDA(cudaStreamCreate(&device->streams[i]));
  CHECK_CUDA(cudaMalloc((void **)&device->buffer, COUNT * sizeof(float)));
}

/* With all devices in each group. */
static void for_all(void (*act)(struct device *, ncclComm_t, cudaStream_t), int stream, int child) {
  CHECK_NCCL(ncclGroupStart());
  for (int i = 0; i < devices; i++) {
    CHECK_CUDA(cudaSetDevice(i));
    act(&all[i], child ? all[i].child : all[i].comm, all[i].streams[stream]);
  }
  CHECK_NCCL(ncclGroupEnd());
}

static void make_child(struct device *device, ncclComm_t comm, cudaStream_t stream) {
  (void)stream;
  CHECK_NCCL(ncclCommSplit(comm, device->number, device->named.rank, &device->child, NULL));
}

static void destroy(struct device *device, ncclComm_t comm, cudaStream_t stream) {
  (void)device, (void)stream;
  CHECK_NCCL(ncclCommDestroy(comm));
}

static void drive_all(void) {
  for (int i = 0; i < schedule_iterations(iterations, 0, process.rank); i++) {
    int stream = i % nstreams;
    for (int d = 0; d < devices; d++)
      fill(&all[d], all[d].streams[stream]);
    for_all(sum, stream, 0);
    for (int d = 0; d < devices; d++)
      ranks_result(&all[d].named, "sum %d %g", i,
                   (double)read_back(&all[d], all[d].streams[stream]));
  }
  if (split) {
    for_all(make_child, 0, 0);
    for (int d = 0; d < devices; d++)
      fill(&all[d], all[d].streams[0]);
    for_all(sum, 0, 1);
    for (int d = 0; d < devices; d++)
      ranks_result(&all[d].named, "child %g", (double)read_back(&all[d], all[d].streams[0]));
    for_all(destroy, 0, 1);
  }
  for_all(destroy, 0, 0);
}

static void *drive_one(void *argument) {
  struct device *device = argument;
  cudaStream_t stream = device->streams[0];
  CHECK_CUDA(cudaSetDevice(device->number));
  for (int i = 0; i < schedule_iterations(iterations, 0, device->named.rank); i++) {
    stream = device->streams[i % nstreams];
    fill(device, stream);
    sum(device, device->comm, stream);
    ranks_result(&device->named, "sum %d %g", i, (double)read_back(device, stream));
  }
  if (split) {
    make_child(device, device->comm, NULL);
    fill(device, stream);
    sum(device, device->child, stream);
    ranks_result(&device->named, "child %g", (double)read_back(device, stream));
    CHECK_NCCL(ncclCommDestroy(device->child));
  }
  CHECK_NCCL(ncclCommDestroy(device->comm));
  return NULL;
}

int main(int argc, char **argv) {
  (void)argc;
  options_read(argv, "Processes with several devices.", options);
  if (devices < 1 || devices > DEVICES_MAX || nstreams < 1 || nstreams > STREAMS_MAX)
    return 2;
  ranks_begin(&process);
  ncclUniqueId id;
  if (process.rank == 0)
    CHECK_NCCL(ncclGetUniqueId(&id));
  ranks_share(&process, &id, sizeof id);
  for (int i = 0; i < devices; i++)
    open_device(&all[i], i);
  CHECK_NCCL(ncclGroupStart());
  for (int i = 0; i < devices; i++) {
    CHECK_CUDA(cudaSetDevice(i));
    CHECK_NCCL(ncclCommInitRank(&all[i].comm, process.nranks * devices, id, all[i].named.rank));
  }
  CHECK_NCCL(ncclGroupEnd());
  if (strcmp(mode, "group") == 0) {
    drive_all();
    return 0;
  }
  pthread_t threads[DEVICES_MAX];
  for (int i = 0; i < devices; i++)
    pthread_create(&threads[i], NULL, drive_one, &all[i]);
  for (int i = 0; i < devices; i++)
    pthread_join(threads[i], NULL);
  return 0;
}
