/* Ranks that go on without one of them: ncclCommShrink by those that stay.
 *
 * A loop of sums over all ranks. At an iteration (--at) the ranks that are still in it leave out
 * one (--without) and go on on the smaller communicator. That one has ended its loop before, or is
 * killed there (--how killed), which the others learn from an error. With --how revoked all ranks
 * give up the communicator and go on with a split of it.
 *
 * Results: "sum <iteration> <mask of the ranks that took part>", "made <rank> <ranks>".
 */
#include "tests/programs/options.h"
#include "tests/programs/ranks.h"

#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>

enum { COUNT = 32 };

static const char *iterations = "8,3,8", *how = "joined";
static int at = 5, without = 1;

static const struct option options[] = {
    {"--iterations", &iterations, NULL, "per rank"},
    {"--at", NULL, &at, "iteration before which the communicator shrinks"},
    {"--without", NULL, &without, "the rank that is left out"},
    {"--how", &how, NULL,
     "joined: its loop has ended; killed: at that iteration; revoked: none is left out"},
    {0},
};

static struct ranks ranks;
static ncclComm_t comm;
static float *buffer;

/* Waits for the stream, or for an error of the communicator. */
static ncclResult_t wait_for_stream(void) {
  ncclResult_t error = ncclSuccess;
  while (cudaStreamQuery(ranks.stream) == cudaErrorNotReady && error == ncclSuccess) {
    CHECK_NCCL(ncclCommGetAsyncError(comm, &error));
    nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
  }
  if (error == ncclSuccess)
    CHECK_NCCL(ncclCommGetAsyncError(comm, &error));
  return error;
}

static ncclResult_t sum(int i) {
  float host[COUNT];
  for (int k = 0; k < COUNT; k++)
    host[k] = (float)(1u << ranks.rank);
  CHECK_CUDA(cudaMemcpyAsync(buffer, host, sizeof host, cudaMemcpyHostToDevice, ranks.stream));
  ncclResult_t result =
      ncclAllReduce(buffer, buffer, COUNT, ncclFloat, ncclSum, comm, ranks.stream);
  if (result == ncclSuccess)
    result = wait_for_stream();
  if (result != ncclSuccess)
    return result;
  CHECK_CUDA(cudaMemcpyAsync(host, buffer, sizeof host, cudaMemcpyDeviceToHost, ranks.stream));
  CHECK_CUDA(cudaStreamSynchronize(ranks.stream));
  ranks_result(&ranks, "sum %d %g", i, (double)host[COUNT - 1]);
  return ncclSuccess;
}

static void tell_of_child(void) {
  int rank, nranks;
  CHECK_NCCL(ncclCommUserRank(comm, &rank));
  CHECK_NCCL(ncclCommCount(comm, &nranks));
  ranks_result(&ranks, "made %d %d", rank, nranks);
}

static void shrink(int flags) {
  CHECK_NCCL(ncclCommShrink(ranks.comms[0], &without, 1, &comm, NULL, flags));
  tell_of_child();
}

static void give_up(void) {
  CHECK_NCCL(ncclCommRevoke(ranks.comms[0], NCCL_REVOKE_DEFAULT));
  CHECK_NCCL(ncclCommSplit(ranks.comms[0], 0, ranks.rank, &comm, NULL));
  tell_of_child();
}

/* What has been lost is summed again without the rank that died. */
static void go_on_after(ncclResult_t error, int i) {
  if (error == ncclSuccess)
    return;
  if (comm != ranks.comms[0])
    CHECK_NCCL(error);
  shrink(NCCL_SHRINK_ABORT);
  CHECK_NCCL(sum(i));
}

int main(int argc, char **argv) {
  (void)argc;
  options_read(argv, "Going on without a rank.", options);
  ranks_begin(&ranks);
  comm = ranks_communicator(&ranks);
  CHECK_CUDA(cudaMalloc((void **)&buffer, COUNT * sizeof *buffer));
  bool killed = strcmp(how, "killed") == 0, revoked = strcmp(how, "revoked") == 0;
  for (int i = 0; i < schedule_iterations(iterations, 0, ranks.rank); i++) {
    if (i == at && killed && ranks.rank == without)
      raise(SIGKILL);
    if (i == at && revoked)
      give_up();
    else if (i == at && !killed)
      shrink(NCCL_SHRINK_DEFAULT);
    go_on_after(sum(i), i);
  }
  if (comm != ranks.comms[0])
    CHECK_NCCL(ncclCommDestroy(comm));
  return ranks_leave(&ranks, killed || revoked ? ENDING_ABORT : ENDING_DESTROY);
}
