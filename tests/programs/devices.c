/* Several ranks in one process, with a state on each device that nccl-join may be told of.
 *
 * --mode threads: one process, a thread for each of its three ranks. --mode pairs: each process has
 * two ranks, driven by one thread, in groups.
 *
 * Each iteration adds the sum over all ranks of 1 to the state of the ranks that take part; all
 * begin with 100 times their rank. Results: "state <epoch> <value>" after an epoch.
 */
#include "hooks/include/nccl_join.h"
#include "tests/programs/options.h"
#include "tests/programs/ranks.h"

#include <pthread.h>
#include <stdint.h>
#include <string.h>

enum { THREADS = 3, PAIR = 2, COUNT = 8 };

static const char *mode = "threads", *iterations = "20,10,0", *say = "leave";
static int register_states = 1;

static const struct option options[] = {
    {"--mode", &mode, NULL, "threads or pairs"},
    {"--iterations", &iterations, NULL, "of each thread, or process"},
    {"--say", &say, NULL, "leave, both, or none: then the ranks meet in a collective"},
    {"--register", NULL, &register_states, "1: the state is registered"},
    {0},
};

/* One rank. */
struct device {
  struct ranks ranks;
  ncclComm_t comm;
  float *state, *buffer;
};

static void begin(struct device *device, int rank, int number) {
  device->ranks.rank = rank;
  CHECK_CUDA(cudaSetDevice(number));
  CHECK_CUDA(cudaStreamCreateWithFlags(&device->ranks.stream, cudaStreamNonBlocking));
  CHECK_CUDA(cudaMalloc((void **)&device->state, COUNT * sizeof(float)));
  CHECK_CUDA(cudaMalloc((void **)&device->buffer, COUNT * sizeof(float)));
}

static void write_floats(struct device *device, float *to, float value) {
  float host[COUNT];
  for (int i = 0; i < COUNT; i++)
    host[i] = value;
  CHECK_CUDA(cudaMemcpyAsync(to, host, sizeof host, cudaMemcpyHostToDevice, device->ranks.stream));
  CHECK_CUDA(cudaStreamSynchronize(device->ranks.stream));
}

static float read_float(struct device *device, const float *from) {
  float host[COUNT];
  CHECK_CUDA(
      cudaMemcpyAsync(host, from, sizeof host, cudaMemcpyDeviceToHost, device->ranks.stream));
  CHECK_CUDA(cudaStreamSynchronize(device->ranks.stream));
  return host[COUNT - 1];
}

static void prepare(struct device *device, int n) {
  for (int i = 0; i < n; i++) {
    write_floats(&device[i], device[i].state, 100.0F * (float)device[i].ranks.rank);
    if (register_states)
      CHECK_NCCL(nccl_join_register_state(device[i].comm, device[i].state, COUNT, ncclFloat));
  }
}

/* One sum over all ranks; those of this thread in a group. */
static void sum(struct device *devices, int n) {
  for (int i = 0; i < n; i++)
    write_floats(&devices[i], devices[i].buffer, 1);
  CHECK_NCCL(ncclGroupStart());
  for (int i = 0; i < n; i++)
    CHECK_NCCL(ncclAllReduce(devices[i].buffer, devices[i].buffer, COUNT, ncclFloat, ncclSum,
                             devices[i].comm, devices[i].ranks.stream));
  CHECK_NCCL(ncclGroupEnd());
}

static void train(struct device *devices, int n, int epoch, int who) {
  for (int i = 0; i < n && strcmp(say, "both") == 0; i++)
    CHECK_NCCL(nccl_join_enter(devices[i].comm));
  for (int k = 0; k < schedule_iterations(iterations, epoch, who); k++) {
    sum(devices, n);
    for (int i = 0; i < n; i++)
      write_floats(&devices[i], devices[i].state,
                   read_float(&devices[i], devices[i].state) +
                       read_float(&devices[i], devices[i].buffer));
  }
  if (strcmp(say, "none") == 0) {
    CHECK_NCCL(ncclGroupStart());
    for (int i = 0; i < n; i++)
      CHECK_NCCL(ncclAllReduce(devices[i].buffer, devices[i].buffer, 1, ncclFloat, ncclMax,
                               devices[i].comm, devices[i].ranks.stream));
    CHECK_NCCL(ncclGroupEnd());
  }
  for (int i = 0; i < n && strcmp(say, "none") != 0; i++)
    CHECK_NCCL(nccl_join_leave(devices[i].comm));
  for (int i = 0; i < n; i++)
    ranks_result(&devices[i].ranks, "state %d %g", epoch,
                 (double)read_float(&devices[i], devices[i].state));
}

static void run(struct device *devices, int n, int who) {
  prepare(devices, n);
  for (int epoch = 0; epoch < schedule_epochs(iterations); epoch++)
    train(devices, n, epoch, who);
  for (int i = 0; i < n; i++)
    CHECK_NCCL(ncclCommDestroy(devices[i].comm));
}

static ncclComm_t comms[THREADS];

static void *drive(void *argument) {
  int rank = (int)(intptr_t)argument;
  struct device device = {.comm = comms[rank]};
  begin(&device, rank, rank);
  run(&device, 1, rank);
  return NULL;
}

static int threads(void) {
  pthread_t thread[THREADS];
  CHECK_NCCL(ncclCommInitAll(comms, THREADS, NULL));
  for (int rank = 0; rank < THREADS; rank++)
    pthread_create(&thread[rank], NULL, drive, (void *)(intptr_t)rank);
  for (int rank = 0; rank < THREADS; rank++)
    pthread_join(thread[rank], NULL);
  return 0;
}

static int pairs(void) {
  struct ranks process;
  static struct device devices[PAIR];
  ncclUniqueId id;
  ranks_begin(&process);
  if (process.rank == 0)
    CHECK_NCCL(ncclGetUniqueId(&id));
  ranks_share(&process, &id, sizeof id);
  for (int i = 0; i < PAIR; i++)
    begin(&devices[i], PAIR * process.rank + i, PAIR * process.rank + i);
  CHECK_NCCL(ncclGroupStart());
  for (int i = 0; i < PAIR; i++) {
    CHECK_CUDA(cudaSetDevice(PAIR * process.rank + i));
    CHECK_NCCL(
        ncclCommInitRank(&devices[i].comm, PAIR * process.nranks, id, PAIR * process.rank + i));
  }
  CHECK_NCCL(ncclGroupEnd());
  run(devices, PAIR, process.rank);
  return 0;
}

int main(int argc, char **argv) {
  (void)argc;
  options_read(argv, "Several ranks in a process.", options);
  return strcmp(mode, "threads") == 0 ? threads() : pairs();
}
