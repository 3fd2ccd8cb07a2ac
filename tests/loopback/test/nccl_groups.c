/* Groups: one unit, several communicators, several devices of one thread, errors. */
#include "tests/loopback/test/nccl_fixture.h"

#include <string.h>
#include <unistd.h>

static int sum_to(int n) {
  return n * (n - 1) / 2;
}

static void nested(struct rank *rank) {
  rank_join(rank);
  int values[4] = {rank->rank, 1, rank->rank * 10, 5}, got[4];
  int *buffer = device_new(values, sizeof values);
  OK(ncclGroupStart());
  OK(ncclAllReduce(buffer, buffer, 1, ncclInt32, ncclSum, rank->comm, rank->stream));
  OK(ncclGroupStart());
  OK(ncclAllReduce(buffer + 1, buffer + 1, 1, ncclInt32, ncclSum, rank->comm, rank->stream));
  OK(ncclGroupEnd());
  OK(ncclBroadcast(buffer + 2, buffer + 2, 1, ncclInt32, 1, rank->comm, rank->stream));
  /* sends and receives with collectives in one group */
  int next = (rank->rank + 1) % rank->nranks,
      before = (rank->rank + rank->nranks - 1) % rank->nranks;
  int *ring = device_new(&rank->rank, sizeof rank->rank);
  OK(ncclSend(ring, 1, ncclInt32, next, rank->comm, rank->stream));
  OK(ncclRecv(buffer + 3, 1, ncclInt32, before, rank->comm, rank->stream));
  OK(ncclGroupEnd());
  stream_wait(rank->stream);
  device_get(buffer, got, sizeof got);
  EXPECT(got[0] == sum_to(rank->nranks) && got[1] == rank->nranks && got[2] == 10 &&
         got[3] == before);
  OK(ncclCommDestroy(rank->comm));
}

Test(nccl_groups, nested_groups_are_one_unit) {
  run_both(4, nested);
}

/* Two communicators, in opposite orders on different ranks: NCCL launches them in one order on all.
 */
static void two_communicators(struct rank *rank) {
  ncclComm_t comms[2];
  for (int i = 0; i < 2; i++)
    OK(ncclCommInitRank(&comms[i], rank->nranks, rank->blackboard->ids[i], rank->rank));
  int values[2] = {1, 2}, got[2];
  int *buffer = device_new(values, sizeof values);
  for (int round = 0; round < 20; round++) {
    OK(ncclGroupStart());
    for (int i = 0; i < 2; i++) {
      int which = rank->rank % 2 == 0 ? i : 1 - i;
      OK(ncclAllReduce(buffer + which, buffer + which, 1, ncclInt32, ncclMax, comms[which],
                       rank->stream));
    }
    OK(ncclGroupEnd());
  }
  stream_wait(rank->stream);
  device_get(buffer, got, sizeof got);
  EXPECT(got[0] == 1 && got[1] == 2);
  OK(ncclCommDestroy(comms[0]));
  OK(ncclCommDestroy(comms[1]));
}

Test(nccl_groups, may_name_communicators_in_any_order) {
  run_both(3, two_communicators);
}

/* One thread drives several devices, as nccl-tests does with -g. */
static void one_thread_many_devices(struct rank *rank) {
  enum { DEVICES = 4 };
  ncclComm_t comms[DEVICES];
  CUstream streams[DEVICES];
  int *buffers[DEVICES], got;
  OK(ncclCommInitAll(comms, DEVICES, NULL));
  for (int i = 0; i < DEVICES; i++) {
    use_device(i);
    streams[i] = stream_create();
    buffers[i] = device_new(&i, sizeof i);
  }
  for (int round = 0; round < 3; round++) {
    OK(ncclGroupStart());
    for (int i = 0; i < DEVICES; i++)
      OK(ncclAllReduce(buffers[i], buffers[i], 1, ncclInt32, round == 0 ? ncclSum : ncclMax,
                       comms[i], streams[i]));
    OK(ncclGroupEnd());
  }
  for (int i = 0; i < DEVICES; i++) {
    int device, number;
    stream_wait(streams[i]);
    device_get(buffers[i], &got, sizeof got);
    EXPECT(got == sum_to(DEVICES));
    OK(ncclCommCuDevice(comms[i], &device));
    OK(ncclCommUserRank(comms[i], &number));
    EXPECT(device == i && number == i);
  }
  OK(ncclGroupStart());
  for (int i = 0; i < DEVICES; i++)
    OK(ncclCommDestroy(comms[i]));
  OK(ncclGroupEnd());
  (void)rank;
}

Test(nccl_groups, let_one_thread_drive_many_devices) {
  run_both(1, one_thread_many_devices);
}

/* Two processes of two devices each; communicators made in a group, and split in one. */
static void two_by_two(struct rank *rank) {
  int nranks = 2 * rank->nranks, got;
  ncclComm_t comms[2], halves[2];
  CUstream streams[2];
  int *buffers[2];
  OK(ncclGroupStart());
  for (int i = 0; i < 2; i++) {
    use_device(2 * rank->rank + i);
    streams[i] = stream_create();
    OK(ncclCommInitRank(&comms[i], nranks, rank->id, 2 * rank->rank + i));
  }
  OK(ncclGroupEnd());
  OK(ncclGroupStart());
  for (int i = 0; i < 2; i++)
    OK(ncclCommSplit(comms[i], i, rank->rank, &halves[i], NULL));
  OK(ncclGroupEnd());
  OK(ncclGroupStart());
  for (int i = 0; i < 2; i++) {
    int value = 1 + 10 * i, count;
    use_device(2 * rank->rank + i);
    buffers[i] = device_new(&value, sizeof value);
    OK(ncclCommCount(halves[i], &count));
    EXPECT(count == rank->nranks);
    OK(ncclAllReduce(buffers[i], buffers[i], 1, ncclInt32, ncclSum, halves[i], streams[i]));
  }
  OK(ncclGroupEnd());
  OK(ncclGroupStart());
  for (int i = 0; i < 2; i++)
    OK(ncclAllReduce(buffers[i], buffers[i], 1, ncclInt32, ncclSum, comms[i], streams[i]));
  OK(ncclGroupEnd());
  for (int i = 0; i < 2; i++) {
    stream_wait(streams[i]);
    device_get(buffers[i], &got, sizeof got);
    EXPECT(got == 12 * rank->nranks * rank->nranks);
    OK(ncclCommDestroy(halves[i]));
    OK(ncclCommDestroy(comms[i]));
  }
}

Test(nccl_groups, create_and_split_communicators_of_several_devices) {
  run_both(2, two_by_two);
}

static void hold(void *argument) {
  _Atomic bool *released = argument;
  while (!atomic_load(released))
    usleep(1000);
}

/* A unit on two streams waits for what is before it on either, and what is behind it on either
 * waits for it. */
static void unit_on_two_streams(struct rank *rank) {
  rank_join(rank);
  CUstream streams[2] = {rank->stream, stream_create()};
  int values[2] = {1, 2}, got[2];
  int *buffer = device_new(values, sizeof values);
  for (int held = 0; held < 2; held++) {
    _Atomic bool released = false;
    if (held == 1) /* the first use blocks on the host */
      EXPECT(cuLaunchHostFunc(streams[0], hold, &released) == CUDA_SUCCESS);
    OK(ncclGroupStart());
    OK(ncclAllReduce(buffer, buffer, 1, ncclInt32, ncclSum, rank->comm, streams[0]));
    OK(ncclAllReduce(buffer + 1, buffer + 1, 1, ncclInt32, ncclSum, rank->comm, streams[1]));
    OK(ncclGroupEnd());
    usleep(20000);
    EXPECT(held == 0 || cuStreamQuery(streams[1]) == CUDA_ERROR_NOT_READY);
    atomic_store(&released, true);
    stream_wait(streams[1]); /* alone is enough */
    device_get(buffer, got, sizeof got);
    EXPECT(got[0] == (held ? 4 : 2) && got[1] == (held ? 8 : 4));
  }
  for (int held = 0; held < 2; held++) {
    _Atomic bool released = false;
    EXPECT(cuLaunchHostFunc(streams[1], hold, &released) == CUDA_SUCCESS);
    OK(ncclGroupStart());
    OK(ncclAllReduce(buffer, buffer, 1, ncclInt32, ncclMax, rank->comm, streams[0]));
    OK(ncclAllReduce(buffer + 1, buffer + 1, 1, ncclInt32, ncclMax, rank->comm, streams[1]));
    OK(ncclGroupEnd());
    usleep(20000);
    EXPECT(cuStreamQuery(streams[0]) == CUDA_ERROR_NOT_READY);
    atomic_store(&released, true);
    stream_wait(streams[0]);
  }
  OK(ncclCommDestroy(rank->comm));
}

Test(nccl_groups, of_two_streams_order_both) {
  run_both(2, unit_on_two_streams);
}

/* An error sticks until the outermost end, and nothing of the group happens. */
static void errors_stick(struct rank *rank) {
  rank_join(rank);
  int one = 1, got;
  int *buffer = device_new(&one, sizeof one);
  OK(ncclGroupStart());
  OK(ncclAllReduce(buffer, buffer, 1, ncclInt32, ncclSum, rank->comm, rank->stream));
  OK(ncclGroupStart());
  EXPECT_RESULT(ncclBroadcast(buffer, buffer, 1, ncclInt32, rank->nranks, rank->comm, rank->stream),
                ncclInvalidArgument);
  OK(ncclGroupEnd());
  EXPECT_RESULT(ncclGroupEnd(), ncclInvalidArgument);
  EXPECT_RESULT(ncclGroupEnd(), ncclInvalidUsage);
  OK(ncclGroupStart());
  OK(ncclGroupEnd());
  stream_wait(rank->stream);
  device_get(buffer, &got, sizeof got);
  EXPECT(got == 1);
  OK(ncclAllReduce(buffer, buffer, 1, ncclInt32, ncclSum, rank->comm, rank->stream));
  stream_wait(rank->stream);
  device_get(buffer, &got, sizeof got);
  EXPECT(got == rank->nranks);
  OK(ncclCommDestroy(rank->comm));
}

Test(nccl_groups, keep_an_error_until_their_end) {
  run_both(2, errors_stick);
}

static void simulation(struct rank *rank) {
  rank_join(rank);
  int one = 1, got;
  int *buffer = device_new(&one, sizeof one);
  ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER, wrong = {0};
  OK(ncclGroupStart());
  OK(ncclAllReduce(buffer, buffer, 1, ncclInt32, ncclSum, rank->comm, rank->stream));
  OK(ncclGroupSimulateEnd(&info));
  OK(ncclGroupStart());
  EXPECT_RESULT(ncclGroupSimulateEnd(&wrong), ncclInvalidArgument);
  stream_wait(rank->stream);
  device_get(buffer, &got, sizeof got);
  EXPECT(got == 1 && info.estimatedTime >= 0);
  OK(ncclCommDestroy(rank->comm));
}

Test(nccl_groups, can_be_simulated) {
  run_both(2, simulation);
}

static void self_transfers(struct rank *rank) {
  rank_join(rank);
  int *buffer = device_new(NULL, 8);
  EXPECT_RESULT(ncclSend(buffer, 1, ncclInt32, rank->rank, rank->comm, rank->stream),
                ncclInvalidUsage);
  EXPECT_RESULT(ncclRecv(buffer, 1, ncclInt32, rank->rank, rank->comm, rank->stream),
                ncclInvalidUsage);
  OK(ncclCommDestroy(rank->comm));
}

Test(nccl_groups, refuse_a_transfer_to_oneself_without_its_other_half) {
  run_both(1, self_transfers);
}

/* A depth is a thread's own. */
static void depth_is_the_threads(struct rank *rank) {
  rank_join(rank);
  int one = 1, got;
  int *buffer = device_new(&one, sizeof one);
  if (rank->rank == 0)
    OK(ncclGroupStart());
  rank_barrier(rank, 0);
  if (rank->rank == 1)
    EXPECT_RESULT(ncclGroupEnd(), ncclInvalidUsage);
  OK(ncclAllReduce(buffer, buffer, 1, ncclInt32, ncclSum, rank->comm, rank->stream));
  if (rank->rank == 0)
    OK(ncclGroupEnd());
  stream_wait(rank->stream);
  device_get(buffer, &got, sizeof got);
  EXPECT(got == 2);
  OK(ncclCommDestroy(rank->comm));
}

Test(nccl_groups, belong_to_their_thread) {
  run_both(2, depth_is_the_threads);
}

/* Each launch of a graph performs what was captured; a group goes as one. */
static void in_a_graph(struct rank *rank) {
  rank_join(rank);
  int values[2] = {1, rank->rank}, got[2];
  int *buffer = device_new(values, sizeof values);
  CUgraph graph;
  CUgraphExec executable;
  EXPECT(cuStreamBeginCapture(rank->stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL) == CUDA_SUCCESS);
  OK(ncclGroupStart());
  OK(ncclAllReduce(buffer, buffer, 1, ncclInt32, ncclSum, rank->comm, rank->stream));
  OK(ncclAllReduce(buffer + 1, buffer + 1, 1, ncclInt32, ncclMax, rank->comm, rank->stream));
  OK(ncclGroupEnd());
  EXPECT(cuStreamEndCapture(rank->stream, &graph) == CUDA_SUCCESS);
  EXPECT(cuGraphInstantiate(&executable, graph, 0) == CUDA_SUCCESS);
  device_get(buffer, got, sizeof got);
  EXPECT(got[0] == 1 && got[1] == rank->rank);
  for (int launch = 0; launch < 3; launch++) {
    EXPECT(cuGraphLaunch(executable, rank->stream) == CUDA_SUCCESS);
    OK(ncclAllReduce(buffer, buffer, 1, ncclInt32, ncclMax, rank->comm, rank->stream));
  }
  stream_wait(rank->stream);
  device_get(buffer, got, sizeof got);
  EXPECT(got[0] == rank->nranks * rank->nranks * rank->nranks && got[1] == rank->nranks - 1);
  EXPECT(cuGraphExecDestroy(executable) == CUDA_SUCCESS && cuGraphDestroy(graph) == CUDA_SUCCESS);
  OK(ncclCommDestroy(rank->comm));
}

Test(nccl_groups, a_graph_performs_what_was_captured) {

  run_both(3, in_a_graph);
}
