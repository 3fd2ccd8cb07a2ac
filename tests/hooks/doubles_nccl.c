/* The doubles of NCCL's functions: each call is recorded, its send buffer read and its receive
 * buffer overwritten (doubles.h). */
#include "tests/hooks/doubles.h"

#include <criterion/criterion.h>
#include <string.h>

/* A handle is a number here. */

static size_t element_size(ncclDataType_t datatype) {
  static const size_t sizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
  return sizes[datatype];
}

static ncclResult_t launch(void) {
  if (!doubles.nonblocking)
    return ncclSuccess;
  doubles.polls_left = doubles.progress_polls;
  return ncclInProgress;
}

/* per_send, per_recv: how many times count the buffers are; 0: not used on this rank. */
static ncclResult_t collective(struct call call, size_t per_send, size_t per_recv) {
  double_note(call.name);
  call.context = double_context();
  size_t send = call.count * per_send * element_size(call.datatype);
  size_t recv = call.count * per_recv * element_size(call.datatype);
  if (send != 0) {
    cr_assert_geq(double_room(call.send), send, "%s: the send buffer is too small", call.name);
    const unsigned char *bytes = call.send;
    size_t some = send < 8 ? send : 8;
    memcpy(call.first, bytes, some);
    memcpy(call.last, bytes + send - some, some);
    call.uniform = send < 8 || memcmp(bytes, bytes + 8, send - 8) == 0;
  }
  if (recv != 0) {
    cr_assert_geq(double_room(call.recv), recv, "%s: the receive buffer is too small", call.name);
    memset(call.recv, 0xee, recv);
  }
  int number = doubles.ncalls++;
  doubles.calls[number] = call;
  if (number == doubles.fail_call)
    return doubles.fail_with;
  return doubles.group_depth == 0 ? launch() : ncclSuccess;
}

/* In all tests this rank is 1 of 4. */
#define RANK 1
#define RANKS 4

/* One for each form of collective. sends, receives: as per_send and per_recv above, said here and
 * not taken from the table that the product has them from. */
#define COLLECTIVE_DOUBLE(function, text, ROOT, REDUCTION, sends, receives)                        \
  static ncclResult_t function COLLECTIVE_FORM(                                                    \
      ROOT, REDUCTION, const void *send, void *recv, size_t count, ncclDataType_t datatype,        \
      ncclRedOp_t reduction, int root, ncclComm_t comm, cudaStream_t stream) {                     \
    return collective((struct call){.name = text,                                                  \
                                    .send = send,                                                  \
                                    .recv = recv,                                                  \
                                    .count = count,                                                \
                                    .datatype = datatype,                                          \
                                    .reduction = COLLECTIVE_IF_##REDUCTION((int)reduction, -1),    \
                                    .root = COLLECTIVE_IF_##ROOT(root, -1),                        \
                                    .comm = comm,                                                  \
                                    .stream = stream},                                             \
                      sends, receives);                                                            \
  }
COLLECTIVE_DOUBLE(all_reduce, "allreduce", NO_ROOT, REDUCES, 1, 1)
COLLECTIVE_DOUBLE(broadcast, "broadcast", ROOTED, MOVES, root == RANK, 1)
COLLECTIVE_DOUBLE(reduce, "reduce", ROOTED, REDUCES, 1, root == RANK)
COLLECTIVE_DOUBLE(all_gather, "allgather", NO_ROOT, MOVES, 1, RANKS)
COLLECTIVE_DOUBLE(reduce_scatter, "reducescatter", NO_ROOT, REDUCES, RANKS, 1)
COLLECTIVE_DOUBLE(all_to_all, "alltoall", NO_ROOT, MOVES, RANKS, RANKS)
COLLECTIVE_DOUBLE(gather, "gather", ROOTED, MOVES, 1, root == RANK ? RANKS : 0)
COLLECTIVE_DOUBLE(scatter, "scatter", ROOTED, MOVES, root == RANK ? RANKS : 0, 1)

static ncclResult_t group_start(void) {
  double_note("start");
  doubles.group_depth++;
  return ncclSuccess;
}

static ncclResult_t group_end(void) {
  double_note("end");
  doubles.group_depth--;
  return doubles.fail_call >= 0 && doubles.ncalls > doubles.fail_call ? doubles.fail_with
                                                                      : launch();
}

static ncclResult_t operator_create(ncclRedOp_t *reduction, void *scalar, ncclDataType_t datatype,
                                    ncclScalarResidence_t residence, ncclComm_t comm) {
  (void)comm;
  double_note("create");
  cr_assert_eq(residence, ncclScalarHostImmediate);
  if (doubles.operators_made == doubles.create_fail)
    return doubles.create_result;
  memcpy(&doubles.scalars[doubles.operators_made], scalar, element_size(datatype));
  *reduction = (ncclRedOp_t)(1000 + doubles.operators_made++);
  doubles.operators++;
  return ncclSuccess;
}

static ncclResult_t operator_destroy(ncclRedOp_t reduction, ncclComm_t comm) {
  (void)comm;
  double_note("destroy");
  cr_assert_geq((int)reduction, 1000);
  doubles.operators--;
  return ncclSuccess;
}

static struct range {
  ncclComm_t comm; /* NULL: free */
  const char *begin;
  size_t bytes;
} ranges[CALLS_MAX];

static ncclResult_t comm_register(ncclComm_t comm, void *buffer, size_t bytes, void **handle) {
  double_note("register");
  cr_assert_eq(doubles.group_depth, 0, "registered inside a group");
  cr_assert_geq(double_room(buffer), bytes);
  if (doubles.register_result != ncclSuccess)
    return doubles.register_result;
  int i = 0;
  while (ranges[i].comm != NULL)
    i++;
  ranges[i] = (struct range){comm, buffer, bytes};
  *handle = &ranges[i];
  doubles.registrations++;
  doubles.registrations_made++;
  return ncclSuccess;
}

static ncclResult_t comm_deregister(ncclComm_t comm, void *handle) {
  struct range *range = handle;
  double_note("deregister");
  cr_assert_eq(range->comm, comm);
  cr_assert_neq(double_room(range->begin), 0, "freed before it is taken back");
  range->comm = NULL;
  doubles.registrations--;
  return ncclSuccess;
}

bool double_is_registered(int comm, const void *buffer, size_t bytes) {
  const char *at = buffer;
  for (int i = 0; i < CALLS_MAX; i++)
    if (ranges[i].comm == double_comm(comm) && at >= ranges[i].begin &&
        at + bytes <= ranges[i].begin + ranges[i].bytes)
      return true;
  return false;
}

static ncclResult_t async_error(ncclComm_t comm, ncclResult_t *error) {
  cr_assert_geq((uintptr_t)comm, 0xc0000);
  doubles.polls++;
  *error = doubles.ncalls > 0 ? doubles.async_error : ncclSuccess;
  if (doubles.polls_left != 0) {
    doubles.polls_left -= doubles.polls_left > 0;
    *error = ncclInProgress;
  }
  return ncclSuccess;
}

static ncclResult_t comm_split(ncclComm_t comm, int color, int key, ncclComm_t *child,
                               ncclConfig_t *config) {
  (void)key, (void)config;
  *child = NULL;
  return collective((struct call){.name = color == NCCL_SPLIT_NOCOLOR ? "nosplit" : "split",
                                  .reduction = -1,
                                  .comm = comm},
                    0, 0);
}

const struct nccl_calls double_nccl = {
    .AllReduce = all_reduce,
    .Broadcast = broadcast,
    .Reduce = reduce,
    .AllGather = all_gather,
    .ReduceScatter = reduce_scatter,
    .AlltoAll = all_to_all,
    .Gather = gather,
    .Scatter = scatter,
    .CommSplit = comm_split,
    .GroupStart = group_start,
    .GroupEnd = group_end,
    .RedOpCreatePreMulSum = operator_create,
    .RedOpDestroy = operator_destroy,
    .CommGetAsyncError = async_error,
    .CommRegister = comm_register,
    .CommDeregister = comm_deregister,
};
