/* Uneven epochs that end with something that NCCL knows nothing of: a barrier of another library,
 * or, compiled with MPI, MPI_Barrier and MPI_Finalize. Ranks are the processes of mpirun then.
 *
 * Every iteration sums one buffer; with --grid those of its row and of its column in a grid of two
 * columns, and there is no communicator of all ranks. Results: "sum <epoch> <iteration>" with the
 * mask of the ranks that took part and the sum of 1000 * epoch + iteration + 1 over them; "row
 * <epoch> <iteration>" and "column <epoch> <iteration>" likewise; "met <times>" after each meeting;
 * "prepared <times>"; "left".
 */
#include "tests/programs/options.h"
#include "tests/programs/ranks.h"
#include "tests/programs/tape.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifdef WITH_MPI
#include <mpi.h>
#else
#include "tests/programs/meeting.h"
#endif

enum { COUNT = 256 };

static const char *iterations = "3+1", *failing = "none";
static int inside = 0, parts = 0, grid = 0, steps = 0, before = 0, prepares = 0, ends = 0,
           groups = 0, halves = 0, world = 0, wait_ms = 0;

static const struct option options[] = {
    {"--iterations", &iterations, NULL, "per rank and epoch: 3,5,5 or 3+1 or 3,5/5,3"},
    {"--inside", NULL, &inside, "1: the ranks meet in each iteration, too"},
    {"--parts", NULL, &parts,
     "MPI: in each iteration ranks meet in parts of so many; not the last part; 0: not at all"},
    {"--before", NULL, &before, "1: the ranks meet before the first iteration, too"},
    {"--prepare", NULL, &prepares, "not MPI: the first so many ranks prepare each meeting"},
    {"--steps", NULL, &steps, "not MPI: 1: by a function that calls itself RANK times"},
    {"--group", NULL, &groups,
     "not MPI: 1: by what makes a communicator in PyTorch, and two ranks make one in each "
     "iteration; 2: as in older releases"},
    {"--halves", NULL, &halves, "not MPI: 1: so meet the ranks of each half, before all do"},
    {"--world", NULL, &world, "not MPI: WORLD_SIZE of rank 0 from here on"},
    {"--grid", NULL, &grid, "not MPI: 1: communicators of rows and columns"},
    {"--end", NULL, &ends, "1: the ranks do not meet after the last epoch"},
    {"--fail", &failing, NULL, "RANK:ITERATION: that rank ends with status 1 there"},
    {"--wait", NULL, &wait_ms, "milliseconds before each iteration"},
    {0},
};

#ifdef WITH_MPI
static const ncclComm_t column = NULL;
static MPI_Comm part = MPI_COMM_NULL;
static long met;

static ncclComm_t begin(struct ranks *ranks) {
  ncclComm_t comm;
  ncclUniqueId id;
  int devices;
  MPI_Init(NULL, NULL);
  MPI_Comm_rank(MPI_COMM_WORLD, &ranks->rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks->nranks);
  if (parts > 0)
    MPI_Comm_split(MPI_COMM_WORLD, ranks->rank / parts, 0, &part);
  CHECK_CUDA(cudaGetDeviceCount(&devices));
  CHECK_CUDA(cudaSetDevice(ranks->rank % devices));
  CHECK_CUDA(cudaStreamCreate(&ranks->stream));
  if (ranks->rank == 0)
    CHECK_NCCL(ncclGetUniqueId(&id));
  MPI_Bcast(&id, sizeof id, MPI_BYTE, 0, MPI_COMM_WORLD);
  CHECK_NCCL(ncclCommInitRank(&comm, ranks->nranks, id, ranks->rank));
  ranks->comms[ranks->ncomms++] = comm;
  return comm;
}

static long meet(const struct ranks *ranks) {
  (void)ranks;
  MPI_Barrier(MPI_COMM_WORLD);
  return ++met;
}

static void meet_in_part(const struct ranks *ranks) {
  if (parts > 0 && ranks->rank / parts < (ranks->nranks - 1) / parts)
    MPI_Barrier(part);
}

static void prepare(const struct ranks *ranks) {
  (void)ranks;
}

static void finish(void) {
  MPI_Finalize();
}
#else
enum { COLUMNS = 2, LINES_MAX = 16 };
static long met;
static ncclComm_t column;

/* Returns that of the row. */
static ncclComm_t begin_grid(struct ranks *ranks) {
  ncclUniqueId ids[LINES_MAX];
  ncclComm_t row;
  int rows = ranks->nranks / COLUMNS, at = ranks->rank / COLUMNS, in = ranks->rank % COLUMNS;
  for (int i = 0; i < rows + COLUMNS && ranks->rank == 0; i++)
    CHECK_NCCL(ncclGetUniqueId(&ids[i]));
  ranks_share(ranks, ids, sizeof ids);
  CHECK_NCCL(ncclCommInitRank(&row, COLUMNS, ids[at], in));
  CHECK_NCCL(ncclCommInitRank(&column, rows, ids[rows + in], at));
  ranks->comms[ranks->ncomms++] = row;
  ranks->comms[ranks->ncomms++] = column;
  return row;
}

static ncclComm_t begin(struct ranks *ranks) {
  ranks_begin(ranks);
  char told[16];
  snprintf(told, sizeof told, "%d", world);
  if (world > 0 && ranks->rank == 0)
    setenv("WORLD_SIZE", told, 1);
  return grid ? begin_grid(ranks) : ranks_communicator(ranks);
}

/* A process group of PyTorch's, as it lay in memory before. */
struct older_group {
  void *table;
  uint64_t references, weak_references;
  int32_t rank, nranks;
};

static long meet_by_group(const struct ranks *ranks) {
  struct meeting_group group = {NULL, 1, ranks->rank, ranks->nranks, NULL, NULL};
  struct older_group older = {NULL, 1, 1, ranks->rank, ranks->nranks};
  struct meeting_ranks all = {ranks->rank, ranks->nranks, 0};
  meeting_of_group(groups == 1 ? (const void *)&group : &older, NULL, false, &all, 0);
  return ++met;
}

/* Two ranks make a communicator, as a pair of all or as a group of their own: they need nobody. */
static void make_of_two(const struct ranks *ranks) {
  struct meeting_group all = {NULL, 1, ranks->rank, ranks->nranks, NULL, NULL},
                       two = {NULL, 1, ranks->rank, 2, NULL, NULL};
  if (groups == 0 || ranks->rank > 1)
    return;
  meeting_of_group(&all, NULL, true, NULL, ranks->rank);
  meeting_of_group(&two, NULL, false, NULL, 0);
}

/* Each half makes a communicator. */
static void meet_in_halves(const struct ranks *ranks) {
  int half = ranks->nranks / 2, first = ranks->rank < half ? 0 : half;
  int nranks = first == 0 ? half : ranks->nranks - half;
  uint64_t members[LINES_MAX];
  for (int i = 0; i < nranks; i++)
    members[i] = (uint64_t)(first + i);
  struct meeting_group group = {NULL, 1, ranks->rank - first, nranks, members, members + nranks};
  struct meeting_ranks part = {ranks->rank - first, nranks, first == 0 ? 1 : 2};
  meeting_of_group(&group, NULL, false, &part, 0);
}

static long meet(const struct ranks *ranks) {
  if (halves)
    meet_in_halves(ranks);
  if (groups)
    return meet_by_group(ranks);
  if (steps)
    return meeting_by_steps(ranks->rank, ranks->nranks, ranks->rank);
  return meeting_of_all(ranks->rank, ranks->nranks);
}

static void meet_in_part(const struct ranks *ranks) {
  make_of_two(ranks);
}

static void prepare(const struct ranks *ranks) {
  if (ranks->rank < prepares)
    ranks_result(ranks, "prepared %ld", meeting_prepare(ranks->rank, ranks->nranks));
}

static void finish(void) {}
#endif

static void sum(const struct ranks *ranks, struct tape *tape, float *data, ncclComm_t comm,
                const char *name, int epoch, int i) {
  tape_fill(tape, ncclFloat, data, COUNT, 1 << ranks->rank, 1000 * epoch + i + 1);
  CHECK_NCCL(ncclAllReduce(data, data, COUNT, ncclFloat, ncclSum, comm, ranks->stream));
  tape_read(tape, ncclFloat, data, 1, COUNT, "%s %d %d", name, epoch, i);
}

static void fail_at(const struct ranks *ranks, int i) {
  char place[32];
  snprintf(place, sizeof place, "%d:%d", ranks->rank, i);
  if (strcmp(failing, place) == 0)
    exit(1);
}

int main(int argc, char **argv) {
  (void)argc;
  options_read(argv, "Meets the other ranks after each epoch, without NCCL.", options);
  struct ranks ranks = {0};
  ncclComm_t comm = begin(&ranks);
  struct tape *tape = tape_create(&ranks);
  float *data;
  CHECK_CUDA(cudaMalloc((void **)&data, COUNT * sizeof *data));
  if (before)
    ranks_result(&ranks, "met %ld", meet(&ranks));
  int epochs = schedule_epochs(iterations);
  for (int epoch = 0; epoch < epochs; epoch++) {
    for (int i = 0; i < schedule_iterations(iterations, epoch, ranks.rank); i++) {
      fail_at(&ranks, i);
      nanosleep(&(struct timespec){.tv_nsec = wait_ms * 1000000L}, NULL);
      sum(&ranks, tape, data, comm, column == NULL ? "sum" : "row", epoch, i);
      if (column != NULL)
        sum(&ranks, tape, data, column, "column", epoch, i);
      tape_play(tape);
      meet_in_part(&ranks);
      if (inside)
        ranks_result(&ranks, "met %ld", meet(&ranks));
    }
    prepare(&ranks);
    if (!ends || epoch + 1 < epochs)
      ranks_result(&ranks, "met %ld", meet(&ranks));
  }
  finish();
  ranks_result(&ranks, "left");
  return 0;
}
