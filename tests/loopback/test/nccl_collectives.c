/* Every collective and transfer, through the library: ranks as processes and as threads. */
#include "tools/loopback/nccl/datatype.h"
#include "tests/loopback/test/nccl_fixture.h"
#include "tests/loopback/test/nccl_reference.h"

#include <stdlib.h>
#include <string.h>

static const enum reduction reductions[] = {REDUCTION_SUM, REDUCTION_PROD, REDUCTION_MAX,
                                            REDUCTION_MIN, REDUCTION_AVG,  REDUCTION_PREMULSUM};
#define NREDUCTIONS 6
static const double factors[RANKS_MAX] = {2, -3, 0.5, 1, 7, -1, 3, 0.25};

/* One collective to be checked, with everything that every rank gave. */
struct check {
  struct rank *rank;
  ncclDataType_t datatype;
  size_t element, count;
  char *given[RANKS_MAX]; /* nranks blocks each */
  char *wanted, *got;
  bool in_place;
};

static struct check check_new(struct rank *rank, ncclDataType_t datatype, size_t count,
                              bool in_place) {
  struct check check = {rank, datatype, datatype_size(datatype), count, {NULL}, NULL,
                        NULL, in_place};
  size_t blocks = (size_t)rank->nranks;
  for (int r = 0; r < rank->nranks; r++) {
    check.given[r] = malloc(blocks * count * check.element);
    reference_fill(datatype, check.given[r], blocks * count, r, (unsigned)count);
  }
  check.wanted = malloc(blocks * count * check.element);
  check.got = malloc(blocks * count * check.element);
  return check;
}

static void check_delete(struct check *check) {
  for (int r = 0; r < check->rank->nranks; r++)
    free(check->given[r]);
  free(check->wanted);
  free(check->got);
}

/* Device buffers of one call. give and take in elements; in place, own block at offset elements of
 * the larger. */
struct buffers {
  char *send, *recv, *memory, *other;
};

static struct buffers buffers_new(struct check *check, size_t give, size_t take, size_t send_offset,
                                  size_t recv_offset) {
  const char *own = check->given[check->rank->rank];
  struct buffers buffers = {NULL, NULL, NULL, NULL};
  size_t size = check->element;
  if (check->in_place) {
    size_t most = give > take ? give : take;
    buffers.memory = device_new(NULL, most * size);
    buffers.send = buffers.memory + send_offset * size;
    buffers.recv = buffers.memory + recv_offset * size;
    device_put(buffers.send, own, give * size);
  } else {
    buffers.send = buffers.memory = device_new(own, give * size);
    buffers.recv = buffers.other = device_new(NULL, take * size);
  }
  return buffers;
}

static void buffers_check(struct check *check, struct buffers *buffers, size_t take,
                          const char *what) {
  stream_wait(check->rank->stream);
  if (take > 0) {
    device_get(buffers->recv, check->got, take * check->element);
    if (memcmp(check->got, check->wanted, take * check->element) != 0)
      rank_fail(what, check->rank->nranks, datatype_name(check->datatype));
  }
  device_delete(buffers->memory);
  if (buffers->other != NULL)
    device_delete(buffers->other);
}

static ncclRedOp_t operator_new(struct check *check, enum reduction reduction) {
  static const ncclRedOp_t builtin[] = {[REDUCTION_SUM] = ncclSum,
                                        [REDUCTION_PROD] = ncclProd,
                                        [REDUCTION_MAX] = ncclMax,
                                        [REDUCTION_MIN] = ncclMin,
                                        [REDUCTION_AVG] = ncclAvg};
  if (reduction != REDUCTION_PREMULSUM)
    return builtin[reduction];
  union scalar scalar = reference_scalar(check->datatype, factors[check->rank->rank]);
  ncclRedOp_t operator;
  OK(ncclRedOpCreatePreMulSum(&operator, scalar.bytes, check->datatype, ncclScalarHostImmediate,
                              check->rank->comm));
  return operator;
}

static void operator_delete(struct check *check, ncclRedOp_t operator) {
  if (operator>= ncclNumOps)
    OK(ncclRedOpDestroy(operator, check->rank->comm));
}

static void want_reduction(struct check *check, enum reduction reduction, size_t first,
                           size_t count) {
  const void *inputs[RANKS_MAX];
  for (int r = 0; r < check->rank->nranks; r++)
    inputs[r] = check->given[r] + first * check->element;
  reference_reduce(reduction, check->datatype, inputs, check->rank->nranks, factors, check->wanted,
                   count);
}

static void check_allreduce(struct check *check, enum reduction reduction) {
  want_reduction(check, reduction, 0, check->count);
  struct buffers buffers = buffers_new(check, check->count, check->count, 0, 0);
  ncclRedOp_t operator= operator_new(check, reduction);
  OK(ncclAllReduce(buffers.send, buffers.recv, check->count, check->datatype, operator,
                   check->rank->comm, check->rank->stream));
  operator_delete(check, operator);
  buffers_check(check, &buffers, check->count, "allreduce");
}

static void check_reduce(struct check *check, enum reduction reduction, int root) {
  want_reduction(check, reduction, 0, check->count);
  struct buffers buffers = buffers_new(check, check->count, check->count, 0, 0);
  ncclRedOp_t operator= operator_new(check, reduction);
  bool is_root = check->rank->rank == root;
  OK(ncclReduce(buffers.send, is_root ? buffers.recv : NULL, check->count,
                check->datatype, operator, root, check->rank->comm, check->rank->stream));
  operator_delete(check, operator);
  buffers_check(check, &buffers, is_root ? check->count : 0, "reduce");
}

static void check_reducescatter(struct check *check, enum reduction reduction) {
  size_t own = (size_t)check->rank->rank * check->count,
         all = (size_t)check->rank->nranks * check->count;
  want_reduction(check, reduction, own, check->count);
  struct buffers buffers = buffers_new(check, all, check->count, 0, own);
  ncclRedOp_t operator= operator_new(check, reduction);
  OK(ncclReduceScatter(buffers.send, buffers.recv, check->count, check->datatype, operator,
                       check->rank->comm, check->rank->stream));
  operator_delete(check, operator);
  buffers_check(check, &buffers, check->count, "reducescatter");
}

/* What rank gave, from block on, becomes wanted block number to. */
static void want_block(struct check *check, int rank, size_t block, size_t to) {
  size_t size = check->count * check->element;
  memcpy(check->wanted + to * size, check->given[rank] + block * size, size);
}

static void check_broadcast(struct check *check, int root) {
  want_block(check, root, 0, 0);
  struct buffers buffers = buffers_new(check, check->count, check->count, 0, 0);
  bool is_root = check->rank->rank == root;
  if (check->in_place)
    OK(ncclBcast(buffers.recv, check->count, check->datatype, root, check->rank->comm,
                 check->rank->stream));
  else
    OK(ncclBroadcast(is_root ? buffers.send : NULL, buffers.recv, check->count, check->datatype,
                     root, check->rank->comm, check->rank->stream));
  buffers_check(check, &buffers, check->count, "broadcast");
}

static void check_allgather(struct check *check) {
  size_t own = (size_t)check->rank->rank * check->count,
         all = (size_t)check->rank->nranks * check->count;
  for (int r = 0; r < check->rank->nranks; r++)
    want_block(check, r, 0, (size_t)r);
  struct buffers buffers = buffers_new(check, check->count, all, own, 0);
  OK(ncclAllGather(buffers.send, buffers.recv, check->count, check->datatype, check->rank->comm,
                   check->rank->stream));
  buffers_check(check, &buffers, all, "allgather");
}

static void check_alltoall(struct check *check) {
  size_t all = (size_t)check->rank->nranks * check->count;
  for (int r = 0; r < check->rank->nranks; r++)
    want_block(check, r, (size_t)check->rank->rank, (size_t)r);
  struct buffers buffers = buffers_new(check, all, all, 0, 0);
  OK(ncclAlltoAll(buffers.send, buffers.recv, check->count, check->datatype, check->rank->comm,
                  check->rank->stream));
  buffers_check(check, &buffers, all, "alltoall");
}

static void check_gather(struct check *check, int root) {
  size_t own = (size_t)root * check->count, all = (size_t)check->rank->nranks * check->count;
  bool is_root = check->rank->rank == root;
  for (int r = 0; r < check->rank->nranks; r++)
    want_block(check, r, 0, (size_t)r);
  struct buffers buffers = buffers_new(check, check->count, all, own, 0);
  OK(ncclGather(buffers.send, is_root ? buffers.recv : NULL, check->count, check->datatype, root,
                check->rank->comm, check->rank->stream));
  buffers_check(check, &buffers, is_root ? all : 0, "gather");
}

static void check_scatter(struct check *check, int root) {
  size_t own = (size_t)root * check->count, all = (size_t)check->rank->nranks * check->count;
  bool is_root = check->rank->rank == root;
  want_block(check, root, (size_t)check->rank->rank, 0);
  struct buffers buffers = buffers_new(check, all, check->count, 0, own);
  OK(ncclScatter(is_root ? buffers.send : NULL, buffers.recv, check->count, check->datatype, root,
                 check->rank->comm, check->rank->stream));
  buffers_check(check, &buffers, check->count, "scatter");
}

static void check_all_kinds(struct rank *rank, ncclDataType_t datatype, size_t count,
                            bool in_place) {
  struct check check = check_new(rank, datatype, count, in_place);
  int root = (int)count % rank->nranks;
  for (int r = 0; r < NREDUCTIONS; r++) {
    check_allreduce(&check, reductions[r]);
    check_reduce(&check, reductions[r], root);
    check_reducescatter(&check, reductions[r]);
  }
  check_broadcast(&check, root);
  check_allgather(&check);
  if (!in_place)
    check_alltoall(&check);
  check_gather(&check, root);
  check_scatter(&check, root);
  check_delete(&check);
}

static void all_kinds(struct rank *rank) {
  rank_join(rank);
  for (int type = 0; type < ncclNumTypes; type++) {
    check_all_kinds(rank, (ncclDataType_t)type, 1, false);
    check_all_kinds(rank, (ncclDataType_t)type, 777, type % 2 == 0);
  }
  check_all_kinds(rank, ncclFloat32, 70003, false); /* three chunks, the last one ragged */
  check_all_kinds(rank, ncclInt64, 35001, true);
  OK(ncclCommDestroy(rank->comm));
}

Test(nccl_collectives, of_one_rank) {
  run_both(1, all_kinds);
}

Test(nccl_collectives, of_two_ranks) {
  run_both(2, all_kinds);
}

Test(nccl_collectives, of_three_ranks) {
  run_both(3, all_kinds);
}

Test(nccl_collectives, of_eight_ranks) {
  run_both(8, all_kinds);
}

static void device_scalar(struct rank *rank) {
  rank_join(rank);
  float factor = (float)rank->rank + 1, value = 10, got;
  float *scalar = device_new(NULL, sizeof factor), *buffer = device_new(&value, sizeof value);
  ncclRedOp_t operator;
  OK(ncclRedOpCreatePreMulSum(&operator, scalar, ncclFloat32, ncclScalarDevice, rank->comm));
  device_put(scalar, &factor, sizeof factor); /* read when the collective runs, not before */
  OK(ncclAllReduce(buffer, buffer, 1, ncclFloat32, operator, rank->comm, rank->stream));
  OK(ncclRedOpDestroy(operator, rank->comm));
  stream_wait(rank->stream);
  device_get(buffer, &got, sizeof got);
  EXPECT(got == 10.0f * (float)(rank->nranks * (rank->nranks + 1) / 2));
  OK(ncclCommDestroy(rank->comm));
}

Test(nccl_collectives, a_premultiplier_on_the_device_is_read_when_the_collective_runs) {
  run_both(3, device_scalar);
}

/* Everyone sends to everyone, itself included, messages of different sizes, 0 among them. */
static void all_pairs(struct rank *rank) {
  rank_join(rank);
  enum { LARGEST = 70000 };
  int *sends[RANKS_MAX], *receives[RANKS_MAX];
  static const size_t counts[4] = {0, 1, 5000, LARGEST};
  int *host = malloc(LARGEST * sizeof *host);
  OK(ncclGroupStart());
  for (int peer = 0; peer < rank->nranks; peer++) {
    size_t to = counts[(size_t)(rank->rank + 2 * peer) % 4],
           from = counts[(size_t)(peer + 2 * rank->rank) % 4];
    for (size_t i = 0; i < to; i++)
      host[i] = rank->rank * 1000003 + peer * 7 + (int)i;
    sends[peer] = device_new(host, to * sizeof *host);
    receives[peer] = device_new(NULL, from * sizeof *host);
    OK(ncclRecv(receives[peer], from, ncclInt32, peer, rank->comm, rank->stream));
    OK(ncclSend(sends[peer], to, ncclInt32, peer, rank->comm, rank->stream));
  }
  OK(ncclGroupEnd());
  stream_wait(rank->stream);
  for (int peer = 0; peer < rank->nranks; peer++) {
    size_t from = counts[(size_t)(peer + 2 * rank->rank) % 4];
    device_get(receives[peer], host, from * sizeof *host);
    for (size_t i = 0; i < from; i++)
      EXPECT(host[i] == peer * 1000003 + rank->rank * 7 + (int)i);
  }
  free(host);
  OK(ncclCommDestroy(rank->comm));
}

Test(nccl_collectives, everyone_sends_to_everyone) {
  run_both(5, all_pairs);
}

/* Several messages between the same two ranks keep their order, across units too. */
static void ordered_messages(struct rank *rank) {
  rank_join(rank);
  enum { MESSAGES = 40 };
  int numbers[MESSAGES], *buffer;
  for (int i = 0; i < MESSAGES; i++)
    numbers[i] = rank->rank == 0 ? i : -1;
  buffer = device_new(numbers, sizeof numbers);
  for (int i = 0; i < MESSAGES; i += 4) {
    OK(ncclGroupStart());
    for (int j = i; j < i + 4; j++)
      OK(rank->rank == 0 ? ncclSend(buffer + j, 1, ncclInt32, 1, rank->comm, rank->stream)
                         : ncclRecv(buffer + j, 1, ncclInt32, 0, rank->comm, rank->stream));
    OK(ncclGroupEnd());
  }
  stream_wait(rank->stream);
  device_get(buffer, numbers, sizeof numbers);
  for (int i = 0; i < MESSAGES; i++)
    EXPECT(numbers[i] == i);
  OK(ncclCommDestroy(rank->comm));
}

Test(nccl_collectives, messages_between_two_ranks_keep_their_order) {
  run_both(2, ordered_messages);
}

/* Operations of one communicator on many streams happen in the order they were issued. */
static void many_streams(struct rank *rank) {
  rank_join(rank);
  enum { STREAMS = 3, ROUNDS = 60 };
  CUstream streams[STREAMS];
  for (int i = 0; i < STREAMS; i++)
    streams[i] = stream_create();
  double one = 1, got;
  double *buffer = device_new(&one, sizeof one);
  double wanted = 1;
  for (int i = 0; i < ROUNDS; i++) {
    ncclRedOp_t op = i % 2 == 0 ? ncclSum : ncclAvg;
    OK(ncclAllReduce(buffer, buffer, 1, ncclFloat64, op, rank->comm, streams[i % STREAMS]));
    wanted = i % 2 == 0 ? wanted * rank->nranks : wanted;
  }
  for (int i = 0; i < STREAMS; i++)
    stream_wait(streams[i]);
  device_get(buffer, &got, sizeof got);
  EXPECT(got == wanted);
  OK(ncclCommDestroy(rank->comm));
}

Test(nccl_collectives, of_one_communicator_run_in_order_on_any_stream) {
  run_both(2, many_streams);
}

static void hold(void *argument) {
  _Atomic bool *released = argument;
  while (!atomic_load(released))
    ;
}

/* A call returns though the stream is busy; the collective happens when its turn comes. */
static void is_asynchronous(struct rank *rank) {
  rank_join(rank);
  _Atomic bool released = false;
  int one = 1, got;
  int *buffer = device_new(&one, sizeof one);
  OK(ncclAllReduce(buffer, buffer, 1, ncclInt32, ncclSum, rank->comm, rank->stream));
  stream_wait(rank->stream);
  EXPECT(cuLaunchHostFunc(rank->stream, hold, &released) == CUDA_SUCCESS);
  OK(ncclAllReduce(buffer, buffer, 1, ncclInt32, ncclSum, rank->comm, rank->stream));
  EXPECT(cuStreamQuery(rank->stream) == CUDA_ERROR_NOT_READY);
  atomic_store(&released, true);
  stream_wait(rank->stream);
  device_get(buffer, &got, sizeof got);
  EXPECT(got == rank->nranks * rank->nranks);
  OK(ncclCommDestroy(rank->comm));
}

Test(nccl_collectives, return_before_they_happen) {
  run_both(2, is_asynchronous);
}

/* A count of 0 is nothing at all, on that rank alone. */
static void empty_calls(struct rank *rank) {
  rank_join(rank);
  int one = 1, got;
  int *buffer = device_new(&one, sizeof one);
  if (rank->rank == 0)
    for (int i = 0; i < 3; i++)
      OK(ncclAllReduce(NULL, NULL, 0, ncclInt32, ncclSum, rank->comm, rank->stream));
  OK(ncclAllReduce(buffer, buffer, 1, ncclInt32, ncclSum, rank->comm, rank->stream));
  stream_wait(rank->stream);
  device_get(buffer, &got, sizeof got);
  EXPECT(got == rank->nranks);
  OK(ncclCommDestroy(rank->comm));
}

Test(nccl_collectives, with_a_count_of_0_are_dropped_on_that_rank_alone) {
  run_both(3, empty_calls);
}
