/* Communicators whose collectives wait for each other on devices: what a joined rank does for one
 * of them must not wait for another.
 *
 * Results: "<what> <iteration> <mask of the ranks that took part>".
 */
#include "tests/programs/options.h"
#include "tests/programs/ranks.h"

#include <fcntl.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { COUNT = 64, ITERATIONS = 12, NAME_BYTES = 128 };

static const char *what = "held";

static const struct option options[] = {
    {"--what", &what, NULL,
     "held: the last rank holds its all-reduces of one communicator back until it has met the "
     "first one in the other; root: the last rank broadcasts to all what the first ranks of it "
     "have come to long before; elected: the last rank, which all broadcasts come from, has "
     "joined, "
     "and the one in between comes to each of them only once the first rank's call has returned; "
     "destroyed: the first rank has joined before and destroys that communicator while the last "
     "sum of the other is under way, to which the one in between comes only then; "
     "aborted: it has joined before and aborts what the last never comes to; "
     "behind: of four ranks the first has a communicator with the last, and asks the others for an "
     "all-reduce that one of them has passed and the other comes to late; "
     "handed: the other comes to it only once the call of the first has returned; "
     "told: four ranks in two rows and two columns, of which the second of a row comes to its sum "
     "only once the first has told it to, after that one's sum of the column; "
     "unseen: the same rows and columns, of which the last rank leaves the loop first, and all "
     "wait "
     "for their devices after each sum"},
    {0},
};

static struct ranks ranks;
static float *buffer, *other;

static void fill(float *of, int count) {
  float host[COUNT];
  for (int i = 0; i < count; i++)
    host[i] = (float)(1u << ranks.rank);
  CHECK_CUDA(cudaMemcpyAsync(of, host, sizeof(float) * (size_t)count, cudaMemcpyHostToDevice,
                             ranks.stream));
}

static void print(const char *name, int i) {
  float host;
  CHECK_CUDA(cudaMemcpyAsync(&host, buffer, sizeof host, cudaMemcpyDeviceToHost, ranks.stream));
  CHECK_CUDA(cudaStreamSynchronize(ranks.stream));
  ranks_result(&ranks, "%s %d %g", name, i, (double)host);
}

static void sum(const char *name, int i, ncclComm_t comm, int count) {
  fill(buffer, count);
  CHECK_NCCL(ncclAllReduce(buffer, buffer, (size_t)count, ncclFloat, ncclSum, comm, ranks.stream));
  print(name, i);
}

/* ---- held ---- */

static sem_t met;

static void wait_until_met(void *unused) {
  (void)unused;
  sem_wait(&met);
}

/* All ranks but the last have one iteration. Its all-reduces of `second` lie behind the host
 * function on their stream, which ends when the program is past the end of the loop. */
static void held(ncclComm_t first, ncclComm_t second) {
  bool is_last = ranks.rank == ranks.nranks - 1;
  cudaStream_t behind;
  sem_init(&met, 0, 0);
  CHECK_CUDA(cudaStreamCreateWithFlags(&behind, cudaStreamNonBlocking));
  for (int i = 0; i < (is_last ? ITERATIONS : 1); i++) {
    sum("first", i, first, 32);
    if (is_last && i == 1)
      CHECK_CUDA(cudaLaunchHostFunc(behind, wait_until_met, NULL));
    if (second != NULL)
      CHECK_NCCL(ncclAllReduce(other, other, COUNT, ncclFloat, ncclSum, second, behind));
  }
  sum("end", 0, first, 16);
  sem_post(&met);
  CHECK_CUDA(cudaStreamSynchronize(behind));
  CHECK_CUDA(cudaStreamDestroy(behind));
}

/* ---- root ---- */

/* The first rank, which has joined, and the last sum; then the last broadcasts to all. The one in
 * between comes to that long before. */
static void root(ncclComm_t all, ncclComm_t pair) {
  bool is_last = ranks.rank == ranks.nranks - 1;
  for (int i = 0; i < (ranks.rank == 0 ? 4 : ITERATIONS); i++) {
    if (is_last)
      nanosleep(&(struct timespec){.tv_nsec = 30000000}, NULL);
    if (pair != NULL)
      sum("pair", i, pair, 32);
    fill(buffer, COUNT);
    CHECK_NCCL(
        ncclBroadcast(buffer, buffer, COUNT, ncclFloat, ranks.nranks - 1, all, ranks.stream));
    print("root", i);
  }
  sum("end", 0, all, 16);
}

/* ---- elected ---- */

/* In memory that the ranks share: how many of the first rank's calls have returned. On machines
 * that are namespaces it lies where the loopback's NCCL meets. */
static _Atomic int *returned_calls(char name[NAME_BYTES]) {
  const char *folder = getenv("LOOPBACK_FOLDER");
  snprintf(name, NAME_BYTES, "%s/nccl-join-crossed-%ld", folder != NULL ? folder : "/dev/shm",
           (long)getpid());
  ranks_share(&ranks, name, NAME_BYTES);
  int file = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  void *memory = MAP_FAILED;
  if (file >= 0 && ftruncate(file, 4096) == 0)
    memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (memory == MAP_FAILED) {
    perror(name);
    exit(1);
  }
  return memory;
}

static void elected(ncclComm_t all) {
  bool is_last = ranks.rank == ranks.nranks - 1;
  char name[NAME_BYTES];
  _Atomic int *returned = returned_calls(name);
  for (int i = 0; i < (is_last ? 4 : ITERATIONS); i++) {
    while (ranks.rank == 1 && i >= 6 && atomic_load(returned) <= i)
      nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    fill(buffer, COUNT);
    CHECK_NCCL(
        ncclBroadcast(buffer, buffer, COUNT, ncclFloat, ranks.nranks - 1, all, ranks.stream));
    if (ranks.rank == 0)
      atomic_store(returned, i + 1);
    print("root", i);
  }
  sum("end", 0, all, 16);
  if (ranks.rank == 0)
    unlink(name);
}

/* ---- destroyed ---- */

static void wait_for(_Atomic int *number, int value) {
  while (atomic_load(number) < value)
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

/* The first rank takes no part in most sums of the pair. */
static void destroyed(ncclComm_t all, ncclComm_t pair) {
  enum { PAIR_IS_DONE = 1, PAIR_IS_GONE };
  char name[NAME_BYTES];
  _Atomic int *state = returned_calls(name);
  for (int i = 0; pair != NULL && i < (ranks.rank == 0 ? 4 : ITERATIONS); i++)
    sum("pair", i, pair, 32);
  if (pair != NULL)
    sum("end", 0, pair, 16);
  if (ranks.rank == 0)
    atomic_store(state, PAIR_IS_DONE);
  for (int i = 0; i < ITERATIONS; i++) {
    if (pair == NULL && (i == 0 || i == ITERATIONS - 1))
      wait_for(state, i == 0 ? PAIR_IS_DONE : PAIR_IS_GONE);
    fill(buffer, COUNT);
    CHECK_NCCL(ncclAllReduce(buffer, buffer, COUNT, ncclFloat, ncclSum, all, ranks.stream));
    if (i < ITERATIONS - 1)
      print("all", i);
  }
  if (pair != NULL)
    CHECK_NCCL(ncclCommDestroy(pair));
  if (ranks.rank == 0)
    atomic_store(state, PAIR_IS_GONE);
  print("all", ITERATIONS - 1);
  if (ranks.rank == 0)
    unlink(name);
}

/* ---- aborted ---- */

static int aborted(ncclComm_t all) {
  bool is_last = ranks.rank == ranks.nranks - 1;
  char name[NAME_BYTES];
  _Atomic int *returned = returned_calls(name);
  for (int i = 0; i < (ranks.rank == 0 ? 4 : ITERATIONS); i++)
    sum("all", i, all, 32);
  sum("end", 0, all, 16);
  for (int i = 0; i < ITERATIONS; i++) {
    while (is_last && i == ITERATIONS - 1 && atomic_load(returned) == 0)
      nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    if (is_last && i == ITERATIONS - 1)
      break;
    CHECK_NCCL(ncclAllReduce(buffer, buffer, COUNT, ncclFloat, ncclSum, all, ranks.stream));
    if (i < ITERATIONS - 1)
      CHECK_CUDA(cudaStreamSynchronize(ranks.stream));
  }
  if (ranks.rank == 0)
    unlink(name);
  CHECK_NCCL(ncclCommAbort(all));
  atomic_store(returned, 1);
  ranks_result(&ranks, "aborted");
  return 0;
}

/* ---- behind ---- */

/* The first three of four ranks: iterations that all of them expect after a while. The first comes
 * to one of them from elsewhere in its program, the third late, or only after the first. */
static void behind(ncclComm_t all, bool handed) {
  enum { HAS_COME = 1, IS_HANDED };
  volatile int late = 9; /* not known to the compiler, which makes no more calls of these two */
  ncclComm_t three, pair;
  bool is_first = ranks.rank == 0, is_last = ranks.rank == 3;
  char name[NAME_BYTES];
  _Atomic int *state = returned_calls(name);
  CHECK_NCCL(ncclCommSplit(all, is_last ? NCCL_SPLIT_NOCOLOR : 0, ranks.rank, &three, NULL));
  CHECK_NCCL(
      ncclCommSplit(all, is_first || is_last ? 0 : NCCL_SPLIT_NOCOLOR, ranks.rank, &pair, NULL));
  for (int i = 0; three != NULL && i < ITERATIONS; i++) {
    if (i == late && ranks.rank == 2 && handed) {
      wait_for(state, IS_HANDED);
    } else if (i == late && ranks.rank == 2) {
      nanosleep(&(struct timespec){.tv_nsec = 300000000}, NULL);
      atomic_store(state, HAS_COME);
    }
    if (i == late && is_first) {
      CHECK_NCCL(ncclAllReduce(buffer, buffer, COUNT, ncclFloat, ncclSum, three, ranks.stream));
      ranks_result(&ranks, "all have come: %d", atomic_load(state));
      atomic_store(state, IS_HANDED);
    } else {
      CHECK_NCCL(ncclAllReduce(buffer, buffer, COUNT, ncclFloat, ncclSum, three, ranks.stream));
    }
    CHECK_CUDA(cudaStreamSynchronize(ranks.stream));
  }
  if (is_first)
    unlink(name);
  if (three != NULL)
    CHECK_NCCL(ncclCommDestroy(three));
  if (pair != NULL)
    CHECK_NCCL(ncclCommDestroy(pair));
}

/* ---- told ---- */

static void make_grid(ncclComm_t all, ncclComm_t *rows, ncclComm_t *columns) {
  CHECK_NCCL(ncclCommSplit(all, ranks.rank / 2, ranks.rank, rows, NULL));
  CHECK_NCCL(ncclCommSplit(all, ranks.rank % 2, ranks.rank, columns, NULL));
}

/* After iterations in which nobody is told anything, all ranks expect each sum. */
static void told(ncclComm_t all) {
  enum { UNTOLD = 8 };
  int row = ranks.rank / 2;
  char name[NAME_BYTES];
  _Atomic int *done = returned_calls(name);
  ncclComm_t rows, columns;
  make_grid(all, &rows, &columns);
  for (int i = 0; i < ITERATIONS; i++) {
    fill(buffer, COUNT);
    fill(other, COUNT);
    if (ranks.rank % 2 == 1 && i >= UNTOLD)
      wait_for(&done[row], i);
    CHECK_NCCL(ncclAllReduce(buffer, buffer, COUNT, ncclFloat, ncclSum, rows, ranks.stream));
    CHECK_NCCL(ncclAllReduce(other, other, 32, ncclFloat, ncclSum, columns, ranks.stream));
    if (ranks.rank % 2 == 0)
      atomic_store(&done[row], i);
    print("row", i);
  }
  if (ranks.rank == 0)
    unlink(name);
  CHECK_NCCL(ncclCommDestroy(rows));
  CHECK_NCCL(ncclCommDestroy(columns));
}

/* ---- unseen ---- */

static void unseen(ncclComm_t all) {
  ncclComm_t rows, columns;
  make_grid(all, &rows, &columns);
  for (int i = 0; i < (ranks.rank == 3 ? 6 : ITERATIONS); i++) {
    sum("row", i, rows, 32);
    sum("column", i, columns, COUNT);
  }
  sum("row", ITERATIONS, rows, 16);
  sum("column", ITERATIONS, columns, 8);
  CHECK_NCCL(ncclCommDestroy(rows));
  CHECK_NCCL(ncclCommDestroy(columns));
}

int main(int argc, char **argv) {
  (void)argc;
  options_read(argv, "Communicators that wait for each other.", options);
  ranks_begin(&ranks);
  ncclComm_t all = ranks_communicator(&ranks), part = NULL;
  bool is_root = strcmp(what, "root") == 0;
  bool is_between = ranks.rank != 0 && ranks.rank != ranks.nranks - 1;
  CHECK_CUDA(cudaMalloc((void **)&buffer, COUNT * sizeof(float)));
  CHECK_CUDA(cudaMalloc((void **)&other, COUNT * sizeof(float)));
  if (strcmp(what, "aborted") == 0)
    return aborted(all);
  if (strcmp(what, "behind") == 0 || strcmp(what, "handed") == 0) {
    behind(all, strcmp(what, "handed") == 0);
    return ranks_leave(&ranks, ENDING_DESTROY);
  }
  if (strcmp(what, "told") == 0) {
    told(all);
    return ranks_leave(&ranks, ENDING_DESTROY);
  }
  if (strcmp(what, "unseen") == 0) {
    unseen(all);
    return ranks_leave(&ranks, ENDING_DESTROY);
  }
  CHECK_NCCL(ncclCommSplit(all, is_between ? NCCL_SPLIT_NOCOLOR : 0, ranks.rank, &part, NULL));
  if (is_root)
    root(all, part);
  else if (strcmp(what, "elected") == 0)
    elected(all);
  else if (strcmp(what, "destroyed") == 0)
    destroyed(all, part);
  else
    held(all, part);
  if (part != NULL && strcmp(what, "destroyed") != 0)
    CHECK_NCCL(ncclCommDestroy(part));
  return ranks_leave(&ranks, ENDING_DESTROY);
}
