/* The oracle is seen to fire: one test for each way in which ranks can disagree, and some in which
 * they may differ. */
#include "tests/loopback/test/nccl_fixture.h"

#include "tools/loopback/nccl/report.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define ELEMENTS 4096

static int *buffer_new(void) {
  return device_new(NULL, ELEMENTS * 8);
}

/* All ranks do something in common first, so that unit #1 is the wrong one, and something after,
 * which never happens. */
static void disagree(struct rank *rank, void (*body)(struct rank *rank, int *buffer)) {
  rank_join(rank);
  int *buffer = buffer_new();
  OK(ncclAllReduce(buffer, buffer, 1, ncclInt32, ncclSum, rank->comm, rank->stream));
  body(rank, buffer);
  stream_wait(rank->stream);
  fprintf(stderr, "rank %d went on\n", rank->rank);
}

/* Stopped everywhere, said on every rank's process, with both texts. */
static void expect_mismatch(int nranks, rank_body *body, const char *a, const char *b) {
  static struct run run;
  for (int threads = 0; threads < 2; threads++) {
    (threads ? run_threads : run_processes)(&run, nranks, body);
    expect_status(&run, nranks, REPORT_STOP_STATUS);
    expect_output(&run, "MISMATCH on communicator");
    expect_output(&run, a);
    expect_output(&run, b);
    cr_assert(strstr(run.output, "went on") == NULL, "%s", run.output);
    if (threads)
      continue;
    int said = 0;
    for (const char *at = run.output; (at = strstr(at, "MISMATCH")) != NULL; at++)
      said++;
    cr_assert_eq(said, nranks, "%d of %d processes said so:\n%s", said, nranks, run.output);
  }
}

#define DISAGREEMENT(name, nranks, a, b, ...)                                                      \
  static void name##_calls(struct rank *rank, int *buffer) {                                       \
    __VA_ARGS__                                                                                    \
  }                                                                                                \
  static void name##_body(struct rank *rank) {                                                     \
    disagree(rank, name##_calls);                                                                  \
  }                                                                                                \
  Test(nccl_oracle, name) {                                                                        \
    expect_mismatch(nranks, name##_body, a, b);                                                    \
  }

DISAGREEMENT(stops_on_count, 3, "unit #1\n", "allreduce(sum, int32, 9)",
             OK(ncclAllReduce(buffer, buffer, rank->rank == 2 ? 9 : 8, ncclInt32, ncclSum,
                              rank->comm, rank->stream));)

DISAGREEMENT(stops_on_datatype, 2, "allreduce(sum, int32, 8)", "allreduce(sum, uint32, 8)",
             OK(ncclAllReduce(buffer, buffer, 8, rank->rank == 1 ? ncclUint32 : ncclInt32, ncclSum,
                              rank->comm, rank->stream));)

DISAGREEMENT(stops_on_datatype_though_the_bytes_are_as_many, 2, "allgather(int32, 8)",
             "allgather(int8, 32)",
             OK(rank->rank == 0
                    ? ncclAllGather(buffer, buffer + 1024, 8, ncclInt32, rank->comm, rank->stream)
                    : ncclAllGather(buffer, buffer + 1024, 32, ncclInt8, rank->comm,
                                    rank->stream));)

DISAGREEMENT(stops_on_reduction, 2, "allreduce(sum, int32, 8)", "allreduce(max, int32, 8)",
             OK(ncclAllReduce(buffer, buffer, 8, ncclInt32, rank->rank == 0 ? ncclMax : ncclSum,
                              rank->comm, rank->stream));)

DISAGREEMENT(stops_on_average_and_premultiplied_sum, 2, "allreduce(avg, float32, 8)",
             "allreduce(premulsum, float32, 8)", float half = 0.5f;
             ncclRedOp_t op = ncclAvg;
             if (rank->rank == 1) OK(ncclRedOpCreatePreMulSum(&op, &half, ncclFloat32,
                                                              ncclScalarHostImmediate, rank->comm));
             OK(ncclAllReduce(buffer, buffer, 8, ncclFloat32, op, rank->comm, rank->stream));)

DISAGREEMENT(stops_on_root, 3, "broadcast(int32, 8, root 0)", "broadcast(int32, 8, root 1)",
             OK(ncclBroadcast(buffer, buffer, 8, ncclInt32, rank->rank == 1, rank->comm,
                              rank->stream));)

DISAGREEMENT(stops_on_kind, 2, "allgather(int32, 8)", "alltoall(int32, 8)",
             OK(rank->rank == 0
                    ? ncclAllGather(buffer, buffer + 1024, 8, ncclInt32, rank->comm, rank->stream)
                    : ncclAlltoAll(buffer, buffer + 1024, 8, ncclInt32, rank->comm, rank->stream));)

DISAGREEMENT(stops_on_group_structure, 2, "group of 2 {", "allreduce(sum, int32, 8)",
             if (rank->rank == 0) OK(ncclGroupStart());
             OK(ncclAllReduce(buffer, buffer, 8, ncclInt32, ncclSum, rank->comm, rank->stream));
             OK(ncclAllReduce(buffer + 64, buffer + 64, 8, ncclInt32, ncclSum, rank->comm,
                              rank->stream));
             if (rank->rank == 0) OK(ncclGroupEnd());)

DISAGREEMENT(stops_on_order_in_a_group, 2,
             "{broadcast(int32, 8, root 0); allreduce(sum, int32, 8)}",
             "{allreduce(sum, int32, 8); broadcast(int32, 8, root 0)}", OK(ncclGroupStart());
             if (rank->rank == 0)
                 OK(ncclAllReduce(buffer, buffer, 8, ncclInt32, ncclSum, rank->comm, rank->stream));
             OK(ncclBroadcast(buffer + 64, buffer + 64, 8, ncclInt32, 0, rank->comm, rank->stream));
             if (rank->rank == 1)
                 OK(ncclAllReduce(buffer, buffer, 8, ncclInt32, ncclSum, rank->comm, rank->stream));
             OK(ncclGroupEnd());)

DISAGREEMENT(stops_on_order, 2, "broadcast(int32, 8, root 0)", "allreduce(sum, int32, 8)",
             if (rank->rank == 0)
                 OK(ncclAllReduce(buffer, buffer, 8, ncclInt32, ncclSum, rank->comm, rank->stream));
             OK(ncclBroadcast(buffer + 64, buffer + 64, 8, ncclInt32, 0, rank->comm, rank->stream));
             if (rank->rank == 1) OK(ncclAllReduce(buffer, buffer, 8, ncclInt32, ncclSum,
                                                   rank->comm, rank->stream));)

/* What NCCL decides by on each rank for itself, once a buffer is registered. */
DISAGREEMENT(stops_where_a_rank_has_not_registered, 2,
             "(send registered, receive registered, in place)", "allreduce(sum, int32, 8)\n",
             void *handle;
             if (rank->rank == 0) OK(ncclCommRegister(rank->comm, buffer, ELEMENTS * 8, &handle));
             OK(ncclAllReduce(buffer, buffer, 8, ncclInt32, ncclSum, rank->comm, rank->stream));)

DISAGREEMENT(stops_where_registered_buffers_are_in_place_on_some_ranks, 2, ", in place)",
             ", out of place)", void *handle;
             OK(ncclCommRegister(rank->comm, buffer, ELEMENTS * 8, &handle));
             OK(ncclAllReduce(buffer, buffer + 1024 * rank->rank, 8, ncclInt32, ncclSum, rank->comm,
                              rank->stream));)

DISAGREEMENT(stops_where_a_receive_is_registered_and_its_send_is_not, 2,
             "recv(int32, 8, from 0), registered", "send(int32, 8, to 1), not registered",
             void *handle;
             if (rank->rank == 1) OK(ncclCommRegister(rank->comm, buffer, ELEMENTS * 8, &handle));
             OK(rank->rank == 0 ? ncclSend(buffer, 8, ncclInt32, 1, rank->comm, rank->stream)
                                : ncclRecv(buffer, 8, ncclInt32, 0, rank->comm, rank->stream));)

/* Two communicators of the same ranks, together in a group on one rank only. On streams of their
 * own: on one stream the ranks may also wait for each other on different communicators, which is a
 * hang. */
DISAGREEMENT(stops_on_communicators_of_a_group, 2, "group of 2 {", "on ", ncclComm_t other;
             CUstream stream = stream_create();
             OK(ncclCommInitRank(&other, rank->nranks, rank->blackboard->ids[1], rank->rank));
             if (rank->rank == 0) OK(ncclGroupStart());
             OK(ncclAllReduce(buffer, buffer, 8, ncclInt32, ncclSum, rank->comm, rank->stream));
             OK(ncclAllReduce(buffer + 64, buffer + 64, 8, ncclInt32, ncclSum, other, stream));
             if (rank->rank == 0) OK(ncclGroupEnd());)

DISAGREEMENT(stops_on_a_count_of_0_on_one_rank, 2, "allreduce(sum, int32, 8)",
             "allreduce(max, int32, 4)",
             OK(ncclAllReduce(buffer, buffer, rank->rank == 0 ? 0 : 8, ncclInt32, ncclSum,
                              rank->comm, rank->stream));
             OK(ncclAllReduce(buffer, buffer, 4, ncclInt32, ncclMax, rank->comm, rank->stream));)

DISAGREEMENT(stops_on_count_of_a_message, 2, "send(int32, 8, to 1)", "recv(int32, 7, from 0)",
             OK(rank->rank == 0 ? ncclSend(buffer, 8, ncclInt32, 1, rank->comm, rank->stream)
                                : ncclRecv(buffer, 7, ncclInt32, 0, rank->comm, rank->stream));)

DISAGREEMENT(stops_on_datatype_of_a_message, 2, "send(float32, 8, to 1)", "recv(int32, 8, from 0)",
             OK(rank->rank == 0 ? ncclSend(buffer, 8, ncclFloat32, 1, rank->comm, rank->stream)
                                : ncclRecv(buffer, 8, ncclInt32, 0, rank->comm, rank->stream));)

DISAGREEMENT(stops_on_calls_on_the_host, 2, "split #1", "window registration", ncclComm_t child;
             ncclWindow_t window;
             if (rank->rank == 0) OK(ncclCommSplit(rank->comm, 0, 0, &child, NULL));
             else OK(ncclCommWindowRegister(rank->comm, buffer, 4096, &window,
                                            NCCL_WIN_COLL_SYMMETRIC));)

DISAGREEMENT(stops_on_sizes_of_windows, 2, "window registration", "a call on the host",
             ncclWindow_t window;
             OK(ncclCommWindowRegister(rank->comm, buffer, rank->rank == 0 ? 4096 : 8192, &window,
                                       NCCL_WIN_COLL_SYMMETRIC));)

/* A long unit differs at its very end, beyond the part that is shown. */
DISAGREEMENT(stops_on_the_last_of_many, 2, "group of 300 {", "unit #1\n", OK(ncclGroupStart());
             for (int i = 0; i < 299; i++) OK(ncclAllReduce(buffer + i, buffer + i, 1, ncclInt32,
                                                            ncclSum, rank->comm, rank->stream));
             OK(ncclAllReduce(buffer + 300, buffer + 300, rank->rank == 0 ? 1 : 2, ncclInt32,
                              ncclSum, rank->comm, rank->stream));
             OK(ncclGroupEnd());)

/* Buffers. */
static void expect_bad_buffer(int nranks, rank_body *body, const char *what) {
  static struct run run;
  run_processes(&run, nranks, body);
  expect_status(&run, nranks, REPORT_STOP_STATUS);
  expect_output(&run, "BAD BUFFER on communicator");
  expect_output(&run, what);
}

static void too_small(struct rank *rank) {
  rank_join(rank);
  int *buffer = device_new(NULL, 64);
  OK(ncclAllReduce(buffer, buffer, rank->rank == 1 ? 16 : 16, ncclInt32, ncclSum, rank->comm,
                   rank->stream));
  OK(ncclAllReduce(buffer, buffer + (rank->rank == 1 ? 1 : 0), 16, ncclInt32, ncclSum, rank->comm,
                   rank->stream));
  stream_wait(rank->stream);
  sleep(5);
}

Test(nccl_oracle, stops_on_a_buffer_outside_its_allocation) {
  expect_bad_buffer(2, too_small, "rank 1, unit #1, allreduce(sum, int32, 16): recvbuff");
}

static void host_memory(struct rank *rank) {
  rank_join(rank);
  int local = 1;
  OK(ncclAllReduce(&local, &local, 1, ncclInt32, ncclSum, rank->comm, rank->stream));
  stream_wait(rank->stream);
  sleep(5);
}

Test(nccl_oracle, stops_on_host_memory) {
  expect_bad_buffer(2, host_memory, "is not wholly inside one allocation of device memory");
}

static void overlapping(struct rank *rank) {
  rank_join(rank);
  int *buffer = buffer_new();
  OK(ncclAllGather(buffer, buffer, 8, ncclInt32, rank->comm,
                   rank->stream)); /* in place only for rank 0 */
  stream_wait(rank->stream);
  sleep(5);
}

Test(nccl_oracle, stops_on_buffers_that_overlap_otherwise_than_in_place) {
  expect_bad_buffer(2, overlapping,
                    "rank 1, unit #0, allgather(int32, 8): sendbuff and recvbuff overlap");
}

/* What may differ. */
static void local_differences(struct rank *rank) {
  rank_join(rank);
  float factor = (float)rank->rank;
  float *buffer = device_new(NULL, ELEMENTS * 4);
  CUstream other = stream_create();
  ncclRedOp_t op;
  for (int i = 0; i <= rank->rank; i++) /* handles are numbers of one rank */
    OK(ncclRedOpCreatePreMulSum(&op, &factor, ncclFloat32, ncclScalarHostImmediate, rank->comm));
  OK(ncclAllReduce(buffer, rank->rank == 0 ? buffer : buffer + 1024, 8, ncclFloat32, op, rank->comm,
                   rank->rank == 0 ? rank->stream : other));
  /* a group of one is a call */
  if (rank->rank == 0)
    OK(ncclGroupStart());
  OK(ncclAllReduce(buffer, buffer, 8, ncclFloat32, ncclSum, rank->comm, rank->stream));
  if (rank->rank == 0)
    OK(ncclGroupEnd());
  /* communicators that not all ranks are in may come into a group on those that are */
  ncclComm_t pair;
  OK(ncclCommSplit(rank->comm, rank->rank == 2 ? NCCL_SPLIT_NOCOLOR : 0, 0, &pair, NULL));
  OK(ncclGroupStart());
  OK(ncclAllReduce(buffer, buffer, 8, ncclFloat32, ncclSum, rank->comm, rank->stream));
  if (pair != NULL)
    OK(ncclAllReduce(buffer, buffer, 8, ncclFloat32, ncclSum, pair, rank->stream));
  OK(ncclGroupEnd());
  stream_wait(rank->stream);
  OK(ncclCommDestroy(pair));
  OK(ncclCommDestroy(rank->comm));
}

Test(nccl_oracle, lets_pass_what_is_a_ranks_own_business) {
  run_both(3, local_differences);
}
