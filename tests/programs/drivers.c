/* One process with several devices, and threads that drive them, in the shapes that programs have:
 * who makes the communicators, who uses them, and who gives them up need not be the same thread.
 *
 * Each iteration sums, over the ranks that take part, 2^rank times the iteration's number.
 * Results: "sum <epoch> <iteration> <value>" of each rank, "end".
 */
#include "tests/programs/options.h"
#include "tests/programs/ranks.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { DEVICES_MAX = 8, COUNT = 64 };

static const char *iterations = "5,5", *create = "all", *threads = "run", *destroy = "main";
static int ndrivers = 2, devices = 1, main_drives, pause_ms;

static const struct option options[] = {
    {"--iterations", &iterations, NULL, "of each thread, and of each epoch"},
    {"--drivers", NULL, &ndrivers, "how many threads drive devices"},
    {"--devices", NULL, &devices, "of each of them; several by groups"},
    {"--create", &create, NULL,
     "all: ncclCommInitAll; group: one by one, in a group; each: by threads"},
    {"--threads", &threads, NULL,
     "run: for the whole run; epoch: new ones for each; pool: alive to the end, and each takes the "
     "devices of the next in the next epoch"},
    {"--main", NULL, &main_drives, "1: the main thread is the first of them"},
    {"--pause", NULL, &pause_ms, "milliseconds before the first driver's last iteration"},
    {"--destroy", &destroy, NULL,
     "self: each driver; main, in order; group: main, in a group; reverse; finalize: main, both "
     "calls; another: a thread that does nothing else; none"},
    {0},
};

static struct ranks process;
static struct device {
  struct ranks ranks;
  ncclComm_t comm;
  float *buffer;
} all[DEVICES_MAX];
static ncclUniqueId id;

static int count(void) {
  return ndrivers * devices;
}

static void prepare(int rank) {
  struct device *device = &all[rank];
  device->ranks.rank = rank;
  CHECK_CUDA(cudaSetDevice(rank));
  CHECK_CUDA(cudaStreamCreateWithFlags(&device->ranks.stream, cudaStreamNonBlocking));
  CHECK_CUDA(cudaMalloc((void **)&device->buffer, COUNT * sizeof(float)));
}

static void make(int first, int end) {
  CHECK_NCCL(ncclGroupStart());
  for (int rank = first; rank < end; rank++) {
    CHECK_CUDA(cudaSetDevice(rank));
    CHECK_NCCL(ncclCommInitRank(&all[rank].comm, count(), id, rank));
  }
  CHECK_NCCL(ncclGroupEnd());
}

static void fill(struct device *device, int iteration) {
  float host[COUNT];
  for (int i = 0; i < COUNT; i++)
    host[i] = (float)((1 << device->ranks.rank) * (iteration + 1));
  CHECK_CUDA(cudaMemcpyAsync(device->buffer, host, sizeof host, cudaMemcpyHostToDevice,
                             device->ranks.stream));
  CHECK_CUDA(cudaStreamSynchronize(device->ranks.stream));
}

static void tell(struct device *device, int epoch, int iteration) {
  float host[COUNT];
  CHECK_CUDA(cudaMemcpyAsync(host, device->buffer, sizeof host, cudaMemcpyDeviceToHost,
                             device->ranks.stream));
  CHECK_CUDA(cudaStreamSynchronize(device->ranks.stream));
  ranks_result(&device->ranks, "sum %d %d %g", epoch, iteration, (double)host[COUNT - 1]);
}

static void iterate(struct device *of, int epoch, int iteration) {
  for (int i = 0; i < devices; i++)
    fill(&of[i], iteration);
  if (devices > 1)
    CHECK_NCCL(ncclGroupStart());
  for (int i = 0; i < devices; i++)
    CHECK_NCCL(ncclAllReduce(of[i].buffer, of[i].buffer, COUNT, ncclFloat, ncclSum, of[i].comm,
                             of[i].ranks.stream));
  if (devices > 1)
    CHECK_NCCL(ncclGroupEnd());
  for (int i = 0; i < devices; i++)
    tell(&of[i], epoch, iteration);
}

/* One epoch of the devices of a driver. */
static void drive(int who, int epoch) {
  int n = schedule_iterations(iterations, epoch, who);
  CHECK_CUDA(cudaSetDevice(who * devices));
  for (int k = 0; k < n; k++) {
    if (who == 0 && k == n - 1)
      usleep(1000U * (unsigned)pause_ms);
    iterate(&all[who * devices], epoch, k);
  }
}

static void give_up(int first, int end) {
  for (int rank = first; rank < end; rank++)
    CHECK_NCCL(ncclCommDestroy(all[rank].comm));
}

/* ---- threads for the whole run, or an epoch ---- */

static int epoch_now = -1; /* of threads that live for an epoch */

static void *driver(void *argument) {
  int who = (int)(intptr_t)argument, from = epoch_now, to = epoch_now + 1;
  if (epoch_now < 0) {
    from = 0;
    to = schedule_epochs(iterations);
  }
  if (from == 0 && strcmp(create, "each") == 0)
    make(who * devices, (who + 1) * devices);
  for (int epoch = from; epoch < to; epoch++)
    drive(who, epoch);
  if (to == schedule_epochs(iterations) && strcmp(destroy, "self") == 0) {
    if (devices > 1)
      CHECK_NCCL(ncclGroupStart());
    give_up(who * devices, (who + 1) * devices);
    if (devices > 1)
      CHECK_NCCL(ncclGroupEnd());
  }
  return NULL;
}

static void run_drivers(void) {
  pthread_t thread[DEVICES_MAX];
  for (int who = main_drives; who < ndrivers; who++)
    pthread_create(&thread[who], NULL, driver, (void *)(intptr_t)who);
  if (main_drives)
    driver((void *)0);
  for (int who = main_drives; who < ndrivers; who++)
    pthread_join(thread[who], NULL);
}

/* ---- threads that stay ---- */

static sem_t begun[DEVICES_MAX], done;

static void *worker(void *argument) {
  int number = (int)(intptr_t)argument;
  for (int epoch = 0;; epoch++) {
    sem_wait(&begun[number]);
    if (epoch < schedule_epochs(iterations))
      drive((number + epoch) % ndrivers, epoch);
    sem_post(&done);
  }
  return NULL;
}

static void run_pool(void) {
  pthread_t thread;
  sem_init(&done, 0, 0);
  for (int number = 0; number < ndrivers; number++) {
    sem_init(&begun[number], 0, 0);
    pthread_create(&thread, NULL, worker, (void *)(intptr_t)number);
    pthread_detach(thread);
  }
  for (int epoch = 0; epoch < schedule_epochs(iterations); epoch++) {
    for (int number = 0; number < ndrivers; number++)
      sem_post(&begun[number]);
    for (int number = 0; number < ndrivers; number++)
      sem_wait(&done);
  }
}

/* ---- */

static void *give_all_up(void *unused) {
  bool group = strcmp(destroy, "group") == 0;
  if (group)
    CHECK_NCCL(ncclGroupStart());
  for (int i = 0; i < count(); i++) {
    int rank = strcmp(destroy, "reverse") == 0 ? count() - 1 - i : i;
    if (strcmp(destroy, "finalize") == 0)
      CHECK_NCCL(ncclCommFinalize(all[rank].comm));
    CHECK_NCCL(ncclCommDestroy(all[rank].comm));
  }
  if (group)
    CHECK_NCCL(ncclGroupEnd());
  return unused;
}

int main(int argc, char **argv) {
  (void)argc;
  options_read(argv, "One process, several devices, several threads.", options);
  ranks_begin(&process);
  for (int rank = 0; rank < count(); rank++)
    prepare(rank);
  CHECK_NCCL(ncclGetUniqueId(&id));
  ncclComm_t comms[DEVICES_MAX];
  if (strcmp(create, "all") == 0) {
    CHECK_NCCL(ncclCommInitAll(comms, count(), NULL));
    for (int rank = 0; rank < count(); rank++)
      all[rank].comm = comms[rank];
  } else if (strcmp(create, "group") == 0) {
    make(0, count());
  }
  if (strcmp(threads, "pool") == 0)
    run_pool();
  else if (strcmp(threads, "run") == 0)
    run_drivers();
  else
    for (epoch_now = 0; epoch_now < schedule_epochs(iterations); epoch_now++)
      run_drivers();
  pthread_t thread;
  if (strcmp(destroy, "another") == 0) {
    pthread_create(&thread, NULL, give_all_up, NULL);
    pthread_join(thread, NULL);
  } else if (strcmp(destroy, "self") != 0 && strcmp(destroy, "none") != 0) {
    give_all_up(NULL);
  }
  ranks_result(&process, "end");
  return 0;
}
