/* Pairs of ranks whose communicators are made before that of all, each with an id of its own first
 * rank: two that know nothing of each other when they make it.
 *
 * The pairs are 0 and 2, and 1 and 3: neighbours on two machines of two ranks. Then an iteration
 * sums in the communicator of all, whose id is rank 0's, and in that of the pair. Results: "all
 * <iteration> <mask>" and "pair <iteration> <mask>".
 */
#include "tests/programs/options.h"
#include "tests/programs/ranks.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { RANKS = 4, COUNT = 64, LOOKS = 10000 };

static const char *iterations = "3,4,5,6";
static const struct option options[] = {{"--iterations", &iterations, NULL, "per rank"}, {0}};

static struct ranks ranks;
static float *buffer;

/* The file in which the first rank of a pair gives the other its id. */
static void name_file(int first, char name[128]) {
  const char *folder = getenv("LOOPBACK_FOLDER"), *port = getenv("MASTER_PORT");
  snprintf(name, 128, "%s/jobs-%s-%d", folder != NULL ? folder : "/tmp", port != NULL ? port : "0",
           first);
}

static void give(const char *name, const ncclUniqueId *id) {
  char whole[160];
  snprintf(whole, sizeof whole, "%s.whole", name);
  FILE *file = fopen(whole, "wb");
  if (file == NULL || fwrite(id, sizeof *id, 1, file) != 1 || fclose(file) != 0 ||
      rename(whole, name) != 0) {
    perror(name);
    exit(1);
  }
}

static void take(const char *name, ncclUniqueId *id) {
  FILE *file = NULL;
  for (int look = 0; look < LOOKS && (file = fopen(name, "rb")) == NULL; look++)
    nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
  if (file == NULL || fread(id, sizeof *id, 1, file) != 1) {
    perror(name);
    exit(1);
  }
  fclose(file);
  unlink(name);
}

static ncclComm_t make_pair(void) {
  char name[128];
  ncclUniqueId id;
  ncclComm_t pair;
  name_file(ranks.rank % 2, name);
  if (ranks.rank < 2) {
    CHECK_NCCL(ncclGetUniqueId(&id));
    give(name, &id);
  } else {
    take(name, &id);
  }
  CHECK_NCCL(ncclCommInitRank(&pair, 2, id, ranks.rank / 2));
  return pair;
}

static void sum(const char *name, int i, ncclComm_t comm) {
  float host[COUNT];
  for (int k = 0; k < COUNT; k++)
    host[k] = (float)(1 << ranks.rank);
  CHECK_CUDA(cudaMemcpyAsync(buffer, host, sizeof host, cudaMemcpyHostToDevice, ranks.stream));
  CHECK_NCCL(ncclAllReduce(buffer, buffer, COUNT, ncclFloat, ncclSum, comm, ranks.stream));
  CHECK_CUDA(cudaMemcpyAsync(host, buffer, sizeof host, cudaMemcpyDeviceToHost, ranks.stream));
  ranks_synchronise(&ranks);
  ranks_result(&ranks, "%s %d %g", name, i, (double)host[COUNT - 1]);
}

int main(int argc, char **argv) {
  (void)argc;
  options_read(argv, "Sums in pairs and over all ranks, in a loop.", options);
  ranks_begin(&ranks);
  if (ranks.nranks != RANKS)
    return 2;
  CHECK_CUDA(cudaMalloc((void **)&buffer, COUNT * sizeof *buffer));
  ncclComm_t pair = make_pair(), all = ranks_communicator(&ranks);
  ranks.comms[ranks.ncomms++] = pair; /* given up with the others */
  for (int i = 0; i < schedule_iterations(iterations, 0, ranks.rank); i++) {
    sum("all", i, all);
    sum("pair", i, pair);
  }
  return ranks_leave(&ranks, ENDING_FINALIZE);
}
