/* A watchdog: a thread that aborts its rank's communicator when an iteration takes too long, while
 * rank 0 hangs, and the others wait for it.
 *
 * Times: "aborting", "aborted" of each rank but 0. All end with status 3.
 */
#include "tests/programs/options.h"
#include "tests/programs/ranks.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

static const char *hang = "loop";

static const struct option options[] = {
    {"--hang", &hang, NULL, "where rank 0 does: loop, before a collective; or barrier, after it"},
    {0},
};

enum { ITERATIONS = 6, COUNT = 1000 };

static struct ranks ranks;
static ncclComm_t comm;
static _Atomic int aborting;

/* A communicator that is aborted is not used any more: a call that is in it then fails. */
static void all_reduce(void *data, size_t count, ncclDataType_t type) {
  ncclResult_t result = ncclAllReduce(data, data, count, type, ncclSum, comm, ranks.stream);
  if (!aborting) {
    CHECK_NCCL(result);
    cudaStreamSynchronize(ranks.stream);
  }
  while (aborting)
    pause();
}

static void hang_at(const char *where) {
  if (ranks.rank != 0 || strcmp(hang, where) != 0)
    return;
  sleep(4);
  _exit(3);
}

static void *watch(void *unused) {
  sleep(1);
  ranks_time(&ranks, "aborting");
  aborting = 1;
  CHECK_NCCL(ncclCommAbort(comm));
  ranks_time(&ranks, "aborted");
  _exit(3);
  return unused;
}

int main(int argc, char **argv) {
  (void)argc;
  options_read(argv, "A watchdog aborts.", options);
  ranks_begin(&ranks);
  comm = ranks_communicator(&ranks);
  float *data;
  pthread_t thread;
  CHECK_CUDA(cudaMalloc((void **)&data, COUNT * sizeof *data));
  if (ranks.rank != 0)
    pthread_create(&thread, NULL, watch, NULL);
  for (int k = 0; k < ITERATIONS; k++) {
    if (k == ITERATIONS - 1)
      hang_at("loop");
    all_reduce(data, COUNT, ncclFloat);
  }
  hang_at("barrier");
  all_reduce(data, 1, ncclInt32);
  return 3;
}
