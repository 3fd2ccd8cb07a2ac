/* Ranks that abort, die, leave, or never come. */
#include "tests/loopback/test/nccl_fixture.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Everybody has used the communicator once: no call blocks on the host any more. */
static int *connected(struct rank *rank) {
  rank_join(rank);
  int *buffer = device_new(NULL, 4096);
  OK(ncclAllReduce(buffer, buffer, 1, ncclInt32, ncclSum, rank->comm, rank->stream));
  stream_wait(rank->stream);
  return buffer;
}

static void abort_pending(struct rank *rank) {
  int *buffer = connected(rank);
  if (rank->rank == 0) {
    for (int i = 0; i < 10; i++) /* nobody else ever issues these */
      OK(ncclAllReduce(buffer, buffer, 1, ncclInt32, ncclSum, rank->comm, rank->stream));
    usleep(20000);
    EXPECT(cuStreamQuery(rank->stream) == CUDA_ERROR_NOT_READY);
    int64_t begin = now_ms();
    OK(ncclCommAbort(rank->comm));
    stream_wait(rank->stream); /* the stream goes on */
    EXPECT(now_ms() - begin < 60000);
    EXPECT_RESULT(ncclAllReduce(buffer, buffer, 1, ncclInt32, ncclSum, rank->comm, rank->stream),
                  ncclInvalidArgument);
  }
  rank_barrier(rank, 0);
  if (rank->rank != 0)
    OK(ncclCommAbort(rank->comm));
  OK(ncclCommAbort(NULL));
}

Test(nccl_failures, abort_ends_what_is_pending) {
  run_both(2, abort_pending);
}

static void *abort_soon(void *argument) {
  struct rank *rank = argument;
  use_device(rank->rank);
  usleep(100000);
  OK(ncclCommAbort(rank->comm));
  return NULL;
}

/* While another thread of the rank waits for the first use to complete. */
static void abort_connecting(struct rank *rank) {
  rank_join(rank);
  if (rank->rank == 0) {
    pthread_t thread;
    int *buffer = device_new(NULL, 64);
    pthread_create(&thread, NULL, abort_soon, rank);
    EXPECT(ncclAllReduce(buffer, buffer, 1, ncclInt32, ncclSum, rank->comm, rank->stream) !=
           ncclSuccess);
    pthread_join(thread, NULL);
  }
  rank_barrier(rank, 0);
  if (rank->rank != 0)
    OK(ncclCommAbort(rank->comm));
}

Test(nccl_failures, abort_ends_a_wait_on_the_host) {
  run_both(2, abort_connecting);
}

/* While another thread waits for the stream. */
static void abort_from_another_thread(struct rank *rank) {
  int *buffer = connected(rank);
  if (rank->rank == 0) {
    pthread_t thread;
    OK(ncclRecv(buffer, 1, ncclInt32, 1, rank->comm, rank->stream));
    pthread_create(&thread, NULL, abort_soon, rank);
    stream_wait(rank->stream);
    pthread_join(thread, NULL);
  }
  rank_barrier(rank, 0); /* it is not the other rank's leaving that ends the wait */
  if (rank->rank == 1)
    OK(ncclCommAbort(rank->comm));
}

Test(nccl_failures, abort_comes_from_any_thread) {
  setenv("LOOPBACK_CONNECT", "0", 1);
  run_both(2, abort_from_another_thread);
}

static void revoke_pending(struct rank *rank) {
  int *buffer = connected(rank);
  if (rank->rank == 0)
    OK(ncclAllReduce(buffer, buffer, 1, ncclInt32, ncclSum, rank->comm, rank->stream));
  EXPECT_RESULT(ncclCommRevoke(rank->comm, 1), ncclInvalidArgument);
  OK(ncclCommRevoke(rank->comm, NCCL_REVOKE_DEFAULT));
  EXPECT_RESULT(ncclCommRevoke(rank->comm, NCCL_REVOKE_DEFAULT), ncclInvalidArgument);
  stream_wait(rank->stream);
  EXPECT_RESULT(ncclAllReduce(buffer, buffer, 1, ncclInt32, ncclSum, rank->comm, rank->stream),
                ncclInvalidUsage);
  EXPECT_RESULT(ncclCommFinalize(rank->comm), ncclInvalidArgument);
  ncclComm_t child; /* splitting still works */
  OK(ncclCommSplit(rank->comm, 0, 0, &child, NULL));
  OK(ncclAllReduce(buffer, buffer, 1, ncclInt32, ncclSum, child, rank->stream));
  stream_wait(rank->stream);
  OK(ncclCommDestroy(child));
  OK(ncclCommDestroy(rank->comm));
}

Test(nccl_failures, revoke_ends_what_is_pending_and_leaves_the_ranks) {
  run_both(3, revoke_pending);
}

static ncclResult_t await_error(ncclComm_t comm, int milliseconds) {
  ncclResult_t state = ncclSuccess;
  int64_t begin = now_ms();
  while (state == ncclSuccess && now_ms() - begin < milliseconds) {
    OK(ncclCommGetAsyncError(comm, &state));
    usleep(1000);
  }
  return state;
}

static void peer_dies(struct rank *rank) {
  int *buffer = connected(rank);
  if (rank->rank == 1)
    raise(SIGKILL);
  OK(ncclAllReduce(buffer, buffer, 1, ncclInt32, ncclSum, rank->comm, rank->stream));
  EXPECT_RESULT(await_error(rank->comm, 60000), ncclRemoteError);
  EXPECT(strstr(ncclGetLastError(NULL), "rank 1") != NULL);
  stream_wait(rank->stream);
  EXPECT_RESULT(ncclAllReduce(buffer, buffer, 1, ncclInt32, ncclSum, rank->comm, rank->stream),
                ncclRemoteError);
  rank->nranks--; /* two of three are left to go on */
  rank_barrier(rank, 0);
  int excluded[1] = {1};
  ncclComm_t smaller;
  OK(ncclCommShrink(rank->comm, excluded, 1, &smaller, NULL, NCCL_SHRINK_ABORT));
  OK(ncclAllReduce(buffer, buffer, 1, ncclInt32, ncclSum, smaller, rank->stream));
  stream_wait(rank->stream);
  OK(ncclCommDestroy(smaller));
  OK(ncclCommAbort(rank->comm));
}

Test(nccl_failures, a_dead_peer_is_an_asynchronous_error) {
  static struct run run;
  run_processes(&run, 3, peer_dies);
  cr_assert(WIFSIGNALED(run.status[1]) && WTERMSIG(run.status[1]) == SIGKILL);
  cr_assert(run.status[0] == 0 && run.status[2] == 0, "%s", run.output);
}

static void peer_dies_before_first_use(struct rank *rank) {
  rank_join(rank);
  int *buffer = device_new(NULL, 64);
  if (rank->rank == 1)
    _exit(0); /* without a word */
  EXPECT_RESULT(ncclAllReduce(buffer, buffer, 1, ncclInt32, ncclSum, rank->comm, rank->stream),
                ncclRemoteError);
  OK(ncclCommAbort(rank->comm));
}

Test(nccl_failures, a_peer_that_died_before_first_use_is_an_error_of_the_call) {
  static struct run run;
  run_processes(&run, 2, peer_dies_before_first_use);
  expect_success(&run, 2);
}

static void peer_leaves(struct rank *rank) {
  int *buffer = connected(rank);
  if (rank->rank == 1) {
    OK(ncclCommDestroy(rank->comm));
  } else {
    OK(ncclRecv(buffer, 1, ncclInt32, 1, rank->comm, rank->stream));
    EXPECT_RESULT(await_error(rank->comm, 60000), ncclRemoteError);
    OK(ncclCommAbort(rank->comm));
  }
}

Test(nccl_failures, a_peer_that_left_is_an_asynchronous_error) {
  setenv("LOOPBACK_CONNECT", "0", 1);
  run_both(2, peer_leaves);
}

static void peer_dies_unnoticed(struct rank *rank) {
  int *buffer = connected(rank);
  if (rank->rank == 1)
    _exit(0);
  OK(ncclAllReduce(buffer, buffer, 1, ncclInt32, ncclSum, rank->comm, rank->stream));
  EXPECT_RESULT(await_error(rank->comm, 5000), ncclSuccess);
  EXPECT(cuStreamQuery(rank->stream) == CUDA_ERROR_NOT_READY);
  OK(ncclCommAbort(rank->comm));
}

Test(nccl_failures, a_dead_peer_is_a_hang_if_so_set) {
  setenv("LOOPBACK_DEATH", "hang", 1);
  setenv("LOOPBACK_HANG_S", "1", 1);
  static struct run run;
  run_processes(&run, 2, peer_dies_unnoticed);
  expect_success(&run, 2);
  expect_output(&run, "HANG? rank 0 of 2 has waited 1 s in communicator");
  expect_output(&run, "its process has died");
}

static void never_comes(struct rank *rank) {
  int *buffer = connected(rank);
  if (rank->rank != 2)
    OK(ncclAllReduce(buffer, buffer, 5, ncclInt32, ncclSum, rank->comm, rank->stream));
  usleep(5000000); /* on a machine with time it is said after one */
  OK(ncclCommAbort(rank->comm));
}

Test(nccl_failures, a_rank_that_never_comes_is_named_once) {
  setenv("LOOPBACK_HANG_S", "1", 1);
  static struct run run;
  run_processes(&run, 3, never_comes);
  expect_success(&run, 3);
  expect_output(&run, "HANG? rank 0 of 3 has waited 1 s in communicator");
  expect_output(&run, "unit #1 allreduce(sum, int32, 5): rank 0 here; rank 1 here; rank 2 MISSING");
  int said = 0;
  for (const char *at = run.output; (at = strstr(at, "HANG? rank 0")) != NULL; at++)
    said++;
  cr_assert_eq(said, 1);
}

/* A send nobody receives does not complete: NCCL promises no buffering. */
static void unreceived(struct rank *rank) {
  int *buffer = connected(rank);
  if (rank->rank == 0) {
    OK(ncclSend(buffer, 1, ncclInt32, 1, rank->comm, rank->stream));
    usleep(200000);
    EXPECT(cuStreamQuery(rank->stream) == CUDA_ERROR_NOT_READY);
  }
  rank_barrier(rank, 0);
  OK(ncclCommAbort(rank->comm));
}

Test(nccl_failures, a_send_waits_for_its_receiver) {
  setenv("LOOPBACK_CONNECT", "0", 1);
  run_both(2, unreceived);
}

static void pending_at_exit(struct rank *rank) {
  int *buffer = connected(rank);
  if (rank->rank == 0)
    OK(ncclAllReduce(buffer, buffer, 1, ncclInt32, ncclSum, rank->comm, rank->stream));
}

Test(nccl_failures, a_process_ends_though_work_is_pending) {
  static struct run run;
  run_processes(&run, 2, pending_at_exit);
  expect_success(&run, 2);
}
