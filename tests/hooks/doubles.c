/* The doubles: plain memory, a log, and answers that a test sets. */
#include "tests/hooks/doubles.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/hooks/virtual_double.h"

/* Handles and device addresses are numbers here. NOLINTBEGIN(performance-no-int-to-ptr) */

struct doubles doubles;

#define ALLOCATIONS_MAX 128
static struct {
  char *start;
  size_t bytes;
} allocations[ALLOCATIONS_MAX];

static void note(const char *word) {
  size_t length = strlen(doubles.log);
  (void)snprintf(doubles.log + length, sizeof doubles.log - length, "%s%s", length ? " " : "",
                 word);
}

void doubles_reset(void) {
  memset(&doubles, 0, sizeof doubles);
  doubles.memory = (size_t)1 << 30;
  doubles.fail_call = doubles.create_fail = -1;
  doubles.stack[0] = (CUcontext)0x1000;
  doubles.contexts = 1;
  doubles.mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
}

ncclComm_t double_comm(int number) {
  return (ncclComm_t)(uintptr_t)(0xc0000 + number);
}

size_t double_room(const void *address) {
  const char *at = address;
  for (int i = 0; i < ALLOCATIONS_MAX; i++)
    if (allocations[i].start != NULL && at >= allocations[i].start &&
        at < allocations[i].start + allocations[i].bytes)
      return (size_t)(allocations[i].start + allocations[i].bytes - at);
  return virtual_double_room(address);
}

/* ---- the driver ---- */

static CUcontext current(void) {
  return doubles.stack[doubles.contexts - 1];
}

static void expect_ours(void) {
  cr_assert(current() != (CUcontext)0x1000, "a driver call outside our context");
  cr_assert_eq(doubles.mode, CU_STREAM_CAPTURE_MODE_RELAXED);
}

static CUresult device_get(CUdevice *device, int ordinal) {
  *device = ordinal + 100;
  return CUDA_SUCCESS;
}

static CUresult retain(CUcontext *context, CUdevice device) {
  *context = (CUcontext)(uintptr_t)(0x2000 + device);
  doubles.retained++;
  return CUDA_SUCCESS;
}

static CUresult release(CUdevice device) {
  (void)device;
  doubles.retained--;
  return CUDA_SUCCESS;
}

/* A thread of its own waits for the device; contexts are counted of the test's. */
static bool is_another_thread(void) {
  return gettid() != getpid();
}

static CUresult synchronise(void) {
  while (atomic_load(&doubles.device_busy))
    (void)usleep(100);
  return CUDA_SUCCESS;
}

static CUresult push(CUcontext context) {
  if (is_another_thread())
    return CUDA_SUCCESS;
  if (doubles.push_error != CUDA_SUCCESS)
    return doubles.push_error;
  doubles.stack[doubles.contexts++] = context;
  return CUDA_SUCCESS;
}

static CUresult pop(CUcontext *context) {
  if (is_another_thread())
    return CUDA_SUCCESS;
  *context = doubles.stack[--doubles.contexts];
  return CUDA_SUCCESS;
}

static CUresult priorities(int *least, int *greatest) {
  *least = 0;
  *greatest = -5;
  return CUDA_SUCCESS;
}

static CUresult stream_create(CUstream *stream, unsigned flags, int priority) {
  expect_ours();
  if (doubles.open_error != CUDA_SUCCESS)
    return doubles.open_error;
  doubles.stream_flags = flags;
  doubles.priority = priority;
  *stream = (CUstream)(uintptr_t)(0x5000 + ++doubles.streams);
  return CUDA_SUCCESS;
}

static CUresult stream_destroy(CUstream stream) {
  (void)stream;
  expect_ours();
  doubles.streams--;
  return CUDA_SUCCESS;
}

static CUresult stream_query(CUstream stream) {
  (void)stream;
  expect_ours();
  doubles.queries++;
  note("query");
  if (doubles.stream_busy < 0)
    return CUDA_ERROR_NOT_READY;
  if (doubles.stream_busy > 0) {
    doubles.stream_busy--;
    return CUDA_ERROR_NOT_READY;
  }
  return doubles.stream_error;
}

static CUresult mem_alloc(CUdeviceptr *address, size_t bytes) {
  expect_ours();
  if (bytes > doubles.memory) {
    note("full");
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  for (int i = 0; i < ALLOCATIONS_MAX; i++) {
    if (allocations[i].start != NULL)
      continue;
    allocations[i].start = aligned_alloc(256, bytes);
    allocations[i].bytes = bytes;
    memset(allocations[i].start, 0xa5, bytes);
    *address = (CUdeviceptr)allocations[i].start;
    doubles.memory -= bytes;
    doubles.live_bytes += bytes;
    doubles.allocations++;
    note("alloc");
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult mem_free(CUdeviceptr address) {
  expect_ours();
  for (int i = 0; i < ALLOCATIONS_MAX; i++)
    if (allocations[i].start != NULL && (CUdeviceptr)allocations[i].start == address) {
      doubles.memory += allocations[i].bytes;
      doubles.live_bytes -= allocations[i].bytes;
      free(allocations[i].start);
      allocations[i].start = NULL;
      doubles.frees++;
      note("free");
      return CUDA_SUCCESS;
    }
  cr_assert_fail("freed an address that is not allocated");
  return CUDA_ERROR_INVALID_VALUE;
}

/* An event knows which record of all it was last. */
static CUresult event_create(CUevent *event, unsigned flags) {
  expect_ours();
  cr_assert_eq(flags, CU_EVENT_DISABLE_TIMING);
  if (doubles.event_error != CUDA_SUCCESS)
    return doubles.event_error;
  *event = (CUevent)calloc(1, sizeof(int));
  doubles.events++;
  return CUDA_SUCCESS;
}

static CUresult event_destroy(CUevent event) {
  expect_ours();
  free(event);
  doubles.events--;
  return CUDA_SUCCESS;
}

static CUresult event_record(CUevent event, CUstream stream) {
  (void)stream;
  expect_ours();
  *(int *)event = ++doubles.events_recorded;
  return CUDA_SUCCESS;
}

static CUresult event_query(CUevent event) {
  expect_ours();
  return doubles.events_done < 0 || *(int *)event <= doubles.events_done ? CUDA_SUCCESS
                                                                         : CUDA_ERROR_NOT_READY;
}

static CUresult memset_words(CUdeviceptr address, unsigned value, size_t words, CUstream stream) {
  (void)stream;
  expect_ours();
  if (doubles.memset_error != CUDA_SUCCESS)
    return doubles.memset_error;
  cr_assert_leq(words * 4, double_room((void *)address));
  for (size_t i = 0; i < words; i++)
    memcpy((char *)address + i * 4, &value, 4);
  doubles.fills++;
  return CUDA_SUCCESS;
}

static CUresult copy(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  (void)stream;
  expect_ours();
  cr_assert_leq(bytes, double_room((void *)to));
  cr_assert_leq(bytes, double_room((void *)from));
  memcpy((void *)to, (void *)from, bytes);
  doubles.copies++;
  return CUDA_SUCCESS;
}

static CUresult error_name(CUresult error, const char **name) {
  switch (error) {
  case CUDA_ERROR_OUT_OF_MEMORY:
    *name = "CUDA_ERROR_OUT_OF_MEMORY";
    return CUDA_SUCCESS;
  case CUDA_ERROR_LAUNCH_FAILED:
    *name = "CUDA_ERROR_LAUNCH_FAILED";
    return CUDA_SUCCESS;
  default:
    return CUDA_ERROR_INVALID_VALUE;
  }
}

static CUresult exchange_mode(CUstreamCaptureMode *mode) {
  CUstreamCaptureMode before = doubles.mode;
  doubles.mode = *mode;
  *mode = before;
  return CUDA_SUCCESS;
}

const struct cuda_driver double_driver = {
    .DeviceGet = device_get,
    .DevicePrimaryCtxRetain = retain,
    .DevicePrimaryCtxRelease = release,
    .CtxPushCurrent = push,
    .CtxPopCurrent = pop,
    .CtxSynchronize = synchronise,
    .CtxGetStreamPriorityRange = priorities,
    .StreamCreateWithPriority = stream_create,
    .StreamDestroy = stream_destroy,
    .StreamQuery = stream_query,
    .EventCreate = event_create,
    .EventDestroy = event_destroy,
    .EventRecord = event_record,
    .EventQuery = event_query,
    .MemAlloc = mem_alloc,
    .MemFree = mem_free,
    .MemsetD32Async = memset_words,
    .MemcpyDtoDAsync = copy,
    .GetErrorName = error_name,
    .ThreadExchangeStreamCaptureMode = exchange_mode,
};

/* ---- NCCL ---- */

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
  note(call.name);
  call.context = current();
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

static ncclResult_t all_reduce(const void *send, void *recv, size_t count, ncclDataType_t datatype,
                               ncclRedOp_t reduction, ncclComm_t comm, cudaStream_t stream) {
  return collective((struct call){.name = "allreduce",
                                  .send = send,
                                  .recv = recv,
                                  .count = count,
                                  .datatype = datatype,
                                  .reduction = (int)reduction,
                                  .root = -1,
                                  .comm = comm,
                                  .stream = stream},
                    1, 1);
}

static ncclResult_t broadcast(const void *send, void *recv, size_t count, ncclDataType_t datatype,
                              int root, ncclComm_t comm, cudaStream_t stream) {
  return collective((struct call){.name = "broadcast",
                                  .send = send,
                                  .recv = recv,
                                  .count = count,
                                  .datatype = datatype,
                                  .reduction = -1,
                                  .root = root,
                                  .comm = comm,
                                  .stream = stream},
                    root == RANK, 1);
}

static ncclResult_t reduce(const void *send, void *recv, size_t count, ncclDataType_t datatype,
                           ncclRedOp_t reduction, int root, ncclComm_t comm, cudaStream_t stream) {
  return collective((struct call){.name = "reduce",
                                  .send = send,
                                  .recv = recv,
                                  .count = count,
                                  .datatype = datatype,
                                  .reduction = (int)reduction,
                                  .root = root,
                                  .comm = comm,
                                  .stream = stream},
                    1, root == RANK);
}

static ncclResult_t all_gather(const void *send, void *recv, size_t count, ncclDataType_t datatype,
                               ncclComm_t comm, cudaStream_t stream) {
  return collective((struct call){.name = "allgather",
                                  .send = send,
                                  .recv = recv,
                                  .count = count,
                                  .datatype = datatype,
                                  .reduction = -1,
                                  .root = -1,
                                  .comm = comm,
                                  .stream = stream},
                    1, RANKS);
}

static ncclResult_t reduce_scatter(const void *send, void *recv, size_t count,
                                   ncclDataType_t datatype, ncclRedOp_t reduction, ncclComm_t comm,
                                   cudaStream_t stream) {
  return collective((struct call){.name = "reducescatter",
                                  .send = send,
                                  .recv = recv,
                                  .count = count,
                                  .datatype = datatype,
                                  .reduction = (int)reduction,
                                  .root = -1,
                                  .comm = comm,
                                  .stream = stream},
                    RANKS, 1);
}

static ncclResult_t all_to_all(const void *send, void *recv, size_t count, ncclDataType_t datatype,
                               ncclComm_t comm, cudaStream_t stream) {
  return collective((struct call){.name = "alltoall",
                                  .send = send,
                                  .recv = recv,
                                  .count = count,
                                  .datatype = datatype,
                                  .reduction = -1,
                                  .root = -1,
                                  .comm = comm,
                                  .stream = stream},
                    RANKS, RANKS);
}

static ncclResult_t gather(const void *send, void *recv, size_t count, ncclDataType_t datatype,
                           int root, ncclComm_t comm, cudaStream_t stream) {
  return collective((struct call){.name = "gather",
                                  .send = send,
                                  .recv = recv,
                                  .count = count,
                                  .datatype = datatype,
                                  .reduction = -1,
                                  .root = root,
                                  .comm = comm,
                                  .stream = stream},
                    1, root == RANK ? RANKS : 0);
}

static ncclResult_t scatter(const void *send, void *recv, size_t count, ncclDataType_t datatype,
                            int root, ncclComm_t comm, cudaStream_t stream) {
  return collective((struct call){.name = "scatter",
                                  .send = send,
                                  .recv = recv,
                                  .count = count,
                                  .datatype = datatype,
                                  .reduction = -1,
                                  .root = root,
                                  .comm = comm,
                                  .stream = stream},
                    root == RANK ? RANKS : 0, 1);
}

static ncclResult_t group_start(void) {
  note("start");
  doubles.group_depth++;
  return ncclSuccess;
}

static ncclResult_t group_end(void) {
  note("end");
  doubles.group_depth--;
  return doubles.fail_call >= 0 && doubles.ncalls > doubles.fail_call ? doubles.fail_with
                                                                      : launch();
}

static ncclResult_t operator_create(ncclRedOp_t *reduction, void *scalar, ncclDataType_t datatype,
                                    ncclScalarResidence_t residence, ncclComm_t comm) {
  (void)comm;
  note("create");
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
  note("destroy");
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
  note("register");
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
  note("deregister");
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

/* NOLINTEND(performance-no-int-to-ptr) */
