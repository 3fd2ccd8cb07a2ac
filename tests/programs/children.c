/* Communicators made from another one while ranks have different numbers of iterations.
 *
 * An iteration sums over all ranks. Splits come after each epoch (--mode after), in the loop
 * (inside), before each epoch for a loop on the child alone (epoch; keep: children are destroyed at
 * the end), two in one group (pair), or once, for a copy that is used in turn with the original
 * (copy). Mode many: nothing but splits, one after the other, each used and destroyed.
 *
 * Results: "sum <epoch> <iteration> <mask of the ranks that took part>" on the communicator of all,
 * "copy" and "child" likewise, "made <epoch> <iteration> <rank> <ranks>" of a child.
 */
#include "tests/programs/options.h"
#include "tests/programs/ranks.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { COUNT = 32, KEPT_MAX = 8 };

static const char *iterations = "3+1", *mode = "after", *end = "destroy", *after = "on";
static int colours = 1, every = 4, uses = 2, blocking = 1, splits = 100;

static const struct option options[] = {
    {"--iterations", &iterations, NULL, "per epoch and rank: 3,5,5/4"},
    {"--mode", &mode, NULL, "after, inside, epoch, keep, pair, copy or many"},
    {"--splits", NULL, &splits, "mode many: how many"},
    {"--colours", NULL, &colours, "children of a split"},
    {"--every", NULL, &every, "mode inside: iterations between splits"},
    {"--uses", NULL, &uses, "sums on a child before it is destroyed"},
    {"--blocking", NULL, &blocking, "0: communicators that do not block"},
    {"--end", &end, NULL, "destroy, finalize, return; one, or one per rank"},
    {"--after", &after, NULL, "what a rank does after its first loop: on, kill or fail"},
    {0},
};

static struct ranks ranks;
static ncclComm_t world, kept[KEPT_MAX];
static int nkept;
static float *buffer;

/* A call on a communicator that does not block is done when the communicator says so. */
static void complete(ncclResult_t result, ncclComm_t comm) {
  while (result == ncclInProgress) {
    nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    CHECK_NCCL(ncclCommGetAsyncError(comm, &result));
  }
  CHECK_NCCL(result);
}

static void make_world(void) {
  if (blocking) {
    world = ranks_communicator(&ranks);
    return;
  }
  ncclUniqueId id;
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  if (ranks.rank == 0)
    CHECK_NCCL(ncclGetUniqueId(&id));
  ranks_share(&ranks, &id, sizeof id);
  ncclResult_t result = ncclCommInitRankConfig(&world, ranks.nranks, id, ranks.rank, &config);
  complete(result, world);
  ranks.comms[ranks.ncomms++] = world;
}

static float sum(ncclComm_t comm, int count) {
  float host[COUNT];
  for (int i = 0; i < COUNT; i++)
    host[i] = (float)(1u << ranks.rank);
  CHECK_CUDA(cudaMemcpyAsync(buffer, host, sizeof host, cudaMemcpyHostToDevice, ranks.stream));
  complete(ncclAllReduce(buffer, buffer, (size_t)count, ncclFloat, ncclSum, comm, ranks.stream),
           comm);
  CHECK_CUDA(cudaMemcpyAsync(host, buffer, sizeof host, cudaMemcpyDeviceToHost, ranks.stream));
  CHECK_CUDA(cudaStreamSynchronize(ranks.stream));
  return host[count - 1];
}

/* Ranks of a child are in the opposite order. */
static ncclComm_t split(int epoch, int i) {
  ncclComm_t child = NULL;
  complete(ncclCommSplit(world, ranks.rank % colours, -ranks.rank, &child, NULL), world);
  int rank, nranks;
  CHECK_NCCL(ncclCommUserRank(child, &rank));
  CHECK_NCCL(ncclCommCount(child, &nranks));
  ranks_result(&ranks, "made %d %d %d %d", epoch, i, rank, nranks);
  return child;
}

static void use_child(ncclComm_t child, int epoch, int i) {
  for (int k = 0; k < uses; k++)
    ranks_result(&ranks, "child %d %d %g", epoch, i, (double)sum(child, COUNT - 1));
  CHECK_NCCL(ncclCommDestroy(child));
}

/* A configuration as the header of NCCL 2.18 has it, where the page behind it cannot be read. */
enum { OLD_CONFIG_SIZE = 48 };
static ncclConfig_t *make_old_config(void) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  char *pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED || mprotect(pages + page, page, PROT_NONE) != 0) {
    perror("children: mmap");
    exit(1);
  }
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.size = OLD_CONFIG_SIZE;
  config.version = NCCL_VERSION(2, 18, 1);
  return memcpy(pages + page - OLD_CONFIG_SIZE, &config, OLD_CONFIG_SIZE);
}

/* Of all ranks, and, from a copy, of every other rank, in one group. The configuration does not
 * outlive the call. */
static void split_pair(ncclComm_t copy, int epoch) {
  ncclComm_t all = NULL, some = NULL;
  CHECK_NCCL(ncclGroupStart());
  CHECK_NCCL(ncclCommSplit(world, 0, ranks.rank, &all, NULL));
  ncclConfig_t *config = make_old_config();
  int colour = ranks.rank % 2 == 0 ? 1 : NCCL_SPLIT_NOCOLOR;
  CHECK_NCCL(ncclCommSplit(copy, colour, ranks.rank, &some, config));
  memset(config, 0xff, OLD_CONFIG_SIZE);
  CHECK_NCCL(ncclGroupEnd());
  use_child(all, epoch, 0);
  if (some != NULL)
    use_child(some, epoch, 1);
}

static long kilobytes(void) {
  long pages = 0, resident = 0;
  FILE *file = fopen("/proc/self/statm", "r");
  if (file == NULL || fscanf(file, "%ld %ld", &pages, &resident) != 2)
    resident = 0;
  if (file != NULL)
    fclose(file);
  return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

/* What the process has more after the last than after the first half. */
static void split_often(void) {
  long before = 0;
  for (int i = 0; i < splits; i++) {
    if (i == splits / 2)
      before = kilobytes();
    ncclComm_t child = NULL;
    CHECK_NCCL(ncclCommSplit(world, ranks.rank % colours, ranks.rank, &child, NULL));
    for (int k = 0; k < uses; k++)
      sum(child, COUNT);
    CHECK_NCCL(ncclCommDestroy(child));
  }
  printf("TIME %d kilobytes %ld\n", ranks.rank, kilobytes() - before);
}

static void run_epoch(int epoch, ncclComm_t copy) {
  bool inside = strcmp(mode, "inside") == 0, keep = strcmp(mode, "keep") == 0;
  ncclComm_t own = strcmp(mode, "epoch") == 0 || keep ? split(epoch, -1) : NULL;
  for (int i = 0; i < schedule_iterations(iterations, epoch, ranks.rank); i++) {
    ranks_result(&ranks, "sum %d %d %g", epoch, i, (double)sum(own != NULL ? own : world, COUNT));
    if (strcmp(mode, "copy") == 0)
      ranks_result(&ranks, "copy %d %d %g", epoch, i, (double)sum(copy, COUNT - 2));
    if (inside && i % every == every - 1)
      use_child(split(epoch, i), epoch, i);
  }
  if (strcmp(list_item(after, ranks.rank), "on") != 0)
    ranks_leave(&ranks, ending_named(list_item(after, ranks.rank)));
  if (keep)
    kept[nkept++] = own;
  else if (own != NULL)
    CHECK_NCCL(ncclCommDestroy(own));
  if (strcmp(mode, "after") == 0)
    use_child(split(epoch, -1), epoch, -1);
  if (strcmp(mode, "pair") == 0)
    split_pair(copy, epoch);
  if (inside)
    ranks_result(&ranks, "end %d %g", epoch, (double)sum(world, COUNT - 3));
}

int main(int argc, char **argv) {
  (void)argc;
  options_read(argv, "Communicators made from others.", options);
  ranks_begin(&ranks);
  make_world();
  CHECK_CUDA(cudaMalloc((void **)&buffer, COUNT * sizeof *buffer));
  ncclComm_t copy = NULL;
  if (strcmp(mode, "copy") == 0 || strcmp(mode, "pair") == 0)
    complete(ncclCommSplit(world, 0, ranks.rank, &copy, NULL), world);
  for (int epoch = 0; epoch < schedule_epochs(iterations); epoch++)
    run_epoch(epoch, copy);
  if (copy != NULL)
    CHECK_NCCL(ncclCommDestroy(copy));
  while (nkept > 0)
    CHECK_NCCL(ncclCommDestroy(kept[--nkept]));
  if (strcmp(mode, "many") == 0)
    split_often();
  return ranks_leave(&ranks, ending_named(list_item(end, ranks.rank)));
}
