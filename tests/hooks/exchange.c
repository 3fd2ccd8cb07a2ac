/* The two ranks, and their communicator (exchange.h). */
#include "tests/hooks/exchange.h"

#include <criterion/criterion.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "hooks/contribution.h"
#include "tests/hooks/numbers.h"

#define RANKS 2
#define TEST_SECONDS 300 /* SIGALRM ends a test that hangs */

size_t exchange_most_held;

static const struct shadow_limit patient = {.until_ns = UINT64_MAX};
static struct nccl_calls nccl;
static const struct cuda_driver *cuda;

/* Functions that only the active rank and the test itself use. */
static struct {
  CUresult (*Init)(unsigned flags);
  CUresult (*CtxGetCurrent)(CUcontext *context);
  CUresult (*MemcpyHtoDAsync)(CUdeviceptr to, const void *from, size_t bytes, CUstream stream);
  CUresult (*MemcpyDtoH)(void *to, CUdeviceptr from, size_t bytes);
  CUresult (*MemGetInfo)(size_t *available, size_t *total);
  ncclResult_t (*GetUniqueId)(ncclUniqueId *id);
  ncclResult_t (*CommInitRankConfig)(ncclComm_t *comm, int nranks, ncclUniqueId id, int rank,
                                     ncclConfig_t *config);
  ncclResult_t (*CommDestroy)(ncclComm_t comm);
} other;

static void *libcuda, *libnccl;

static void find(void *library, const char *name, void *function) {
  void *address = dlsym(library, name);
  cr_assert_not_null(address, "no %s", name);
  memcpy(function, &address, sizeof address);
}

void exchange_open(void) {
  (void)alarm(TEST_SECONDS);
  libcuda = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
  libnccl = libcuda != NULL ? dlopen("libnccl.so.2", RTLD_NOW | RTLD_GLOBAL) : NULL;
  if (libnccl == NULL || dlsym(libcuda, "loopback_device_memory") == NULL)
    cr_skip("the loopback is not on LD_LIBRARY_PATH");
  find(libcuda, "cuInit", &other.Init);
  find(libcuda, "cuCtxGetCurrent", &other.CtxGetCurrent);
  find(libcuda, "cuMemcpyHtoDAsync_v2", &other.MemcpyHtoDAsync);
  find(libcuda, "cuMemcpyDtoH_v2", &other.MemcpyDtoH);
  find(libcuda, "cuMemGetInfo_v2", &other.MemGetInfo);
  find(libnccl, "ncclGetUniqueId", &other.GetUniqueId);
  find(libnccl, "ncclCommInitRankConfig", &other.CommInitRankConfig);
  find(libnccl, "ncclCommDestroy", &other.CommDestroy);
  find(libnccl, "ncclAllReduce", &nccl.AllReduce);
  find(libnccl, "ncclBroadcast", &nccl.Broadcast);
  find(libnccl, "ncclReduce", &nccl.Reduce);
  find(libnccl, "ncclAllGather", &nccl.AllGather);
  find(libnccl, "ncclReduceScatter", &nccl.ReduceScatter);
  find(libnccl, "ncclAlltoAll", &nccl.AlltoAll);
  find(libnccl, "ncclGather", &nccl.Gather);
  find(libnccl, "ncclScatter", &nccl.Scatter);
  find(libnccl, "ncclGroupStart", &nccl.GroupStart);
  find(libnccl, "ncclGroupEnd", &nccl.GroupEnd);
  find(libnccl, "ncclRedOpCreatePreMulSum", &nccl.RedOpCreatePreMulSum);
  find(libnccl, "ncclRedOpDestroy", &nccl.RedOpDestroy);
  find(libnccl, "ncclCommGetAsyncError", &nccl.CommGetAsyncError);
  char reason[REASON_SIZE];
  cuda = cuda_driver_get(reason);
  cr_assert_not_null(cuda, "%s", reason);
  cr_assert_eq(other.Init(0), CUDA_SUCCESS);
}

struct rank {
  pthread_t thread;
  int rank;
  bool nonblocking;
  ncclUniqueId id;
  const struct exchange *exchanges;
  size_t nexchanges;
  char failure[512];
};

static bool fail(struct rank *rank, const char *format, ...) {
  if (rank->failure[0] != '\0')
    return false;
  va_list arguments;
  va_start(arguments, format);
  (void)vsnprintf(rank->failure, sizeof rank->failure, format, arguments);
  va_end(arguments);
  return false;
}

static bool until_ready(ncclComm_t comm, ncclResult_t result) {
  while (result == ncclInProgress)
    if (nccl.CommGetAsyncError(comm, &result) != ncclSuccess)
      return false;
  return result == ncclSuccess;
}

struct buffers {
  CUdeviceptr send, recv;
  void *sent, *received; /* on the host */
  size_t send_bytes, recv_bytes;
};

/* On the stream: an ordinary copy from pageable memory may return before the data has arrived. */
static bool make_buffers(const struct member *member, struct buffers *buffers, CUstream stream) {
  size_t size = numbers_formats[member->datatype].size;
  struct member real = *member;
  real.root = real.root == ROOT_NONE ? ROOT_NONE : 0;
  size_t sends = contribution_send_count(&real, 0, RANKS);
  buffers->send_bytes = sends * size;
  buffers->recv_bytes = contribution_recv_count(&real, 0, RANKS) * size;
  buffers->sent = malloc(buffers->send_bytes);
  buffers->received = malloc(buffers->recv_bytes);
  for (size_t i = 0; i < sends; i++)
    numbers_store(buffers->sent, member->datatype, i, numbers_at(member->datatype, i));
  return cuda->MemAlloc(&buffers->send, buffers->send_bytes) == CUDA_SUCCESS &&
         cuda->MemAlloc(&buffers->recv, buffers->recv_bytes) == CUDA_SUCCESS &&
         other.MemcpyHtoDAsync(buffers->send, buffers->sent, buffers->send_bytes, stream) ==
             CUDA_SUCCESS;
}

static void free_buffers(struct buffers *buffers) {
  (void)cuda->MemFree(buffers->send);
  (void)cuda->MemFree(buffers->recv);
  free(buffers->sent);
  free(buffers->received);
}

/* What the active rank must find in element i. */
static int expected(const struct member *member, size_t i) {
  int own = numbers_at(member->datatype, i);
  switch (member->reduction) {
  case REDUCTION_AVG:
    return own / RANKS;
  case REDUCTION_PREMULSUM:
    return own * 2;
  default:
    break;
  }
  bool from_both = member->kind == MEMBER_ALLGATHER || member->kind == MEMBER_ALLTOALL ||
                   member->kind == MEMBER_GATHER;
  return from_both && i >= member->count ? 0 : own;
}

static bool check_result(struct rank *rank, const struct member *member, struct buffers *buffers) {
  if (other.MemcpyDtoH(buffers->received, buffers->recv, buffers->recv_bytes) != CUDA_SUCCESS)
    return fail(rank, "cannot read the result");
  size_t size = numbers_formats[member->datatype].size;
  for (size_t i = 0; i < buffers->recv_bytes / size; i++) {
    uint64_t must = numbers_encode(member->datatype, expected(member, i));
    if (memcmp((char *)buffers->received + i * size, &must, size) != 0)
      return fail(rank, "kind %u, datatype %u, reduction %u: element %zu is not what rank 0 sent",
                  member->kind, member->datatype, member->reduction, i);
  }
  return true;
}

static ncclResult_t call_for_real(const struct member *member, struct buffers *buffers,
                                  ncclRedOp_t reduction, ncclComm_t comm, cudaStream_t stream) {
  const void *send = (const void *)buffers->send;
  void *recv = (void *)buffers->recv;
  ncclDataType_t datatype = (ncclDataType_t)member->datatype;
  switch ((enum member_kind)member->kind) {
  case MEMBER_ALLREDUCE:
    return nccl.AllReduce(send, recv, member->count, datatype, reduction, comm, stream);
  case MEMBER_BROADCAST:
    return nccl.Broadcast(send, recv, member->count, datatype, 0, comm, stream);
  case MEMBER_REDUCE:
    return nccl.Reduce(send, recv, member->count, datatype, reduction, 0, comm, stream);
  case MEMBER_ALLGATHER:
    return nccl.AllGather(send, recv, member->count, datatype, comm, stream);
  case MEMBER_REDUCESCATTER:
    return nccl.ReduceScatter(send, recv, member->count, datatype, reduction, comm, stream);
  case MEMBER_ALLTOALL:
    return nccl.AlltoAll(send, recv, member->count, datatype, comm, stream);
  case MEMBER_GATHER:
    return nccl.Gather(send, recv, member->count, datatype, 0, comm, stream);
  case MEMBER_SCATTER:
    return nccl.Scatter(send, recv, member->count, datatype, 0, comm, stream);
  case MEMBER_SEND: /* the real side of these is another kind: see tests/join/exchange.c */
  case MEMBER_RECEIVE:
  case MEMBER_STATE: /* see tests/join/resync.c */
  case MEMBER_EXCHANGE:
  case MEMBER_MARK:
  case MEMBER_SPLIT: /* tests/join/children.c */
    break;
  }
  return ncclInternalError;
}

static bool issue_for_real(struct rank *rank, const struct exchange *exchange, ncclComm_t comm,
                           CUstream stream) {
  struct buffers buffers[8];
  ncclRedOp_t operators[8];
  bool good = exchange->nmembers <= 8;
  for (uint32_t i = 0; i < exchange->nmembers; i++) {
    const struct member *member = &exchange->members[i];
    good = make_buffers(member, &buffers[i], stream) && good;
    operators[i] = (ncclRedOp_t)member->reduction;
    uint64_t two = numbers_encode(member->datatype, 2);
    if (member->reduction == REDUCTION_PREMULSUM)
      good = nccl.RedOpCreatePreMulSum(&operators[i], &two, (ncclDataType_t)member->datatype,
                                       ncclScalarHostImmediate, comm) == ncclSuccess &&
             good;
  }
  ncclResult_t result = ncclSuccess;
  if (exchange->nmembers > 1)
    good = nccl.GroupStart() == ncclSuccess && good;
  for (uint32_t i = 0; i < exchange->nmembers; i++) {
    result =
        call_for_real(&exchange->members[i], &buffers[i], operators[i], comm, (cudaStream_t)stream);
    good = good && (result == ncclSuccess || result == ncclInProgress);
  }
  if (exchange->nmembers > 1)
    result = nccl.GroupEnd();
  if (!good || !until_ready(comm, result))
    return fail(rank, "the real call failed: %d", (int)result);
  CUresult passed = CUDA_ERROR_NOT_READY;
  while (passed == CUDA_ERROR_NOT_READY)
    passed = cuda->StreamQuery(stream);
  good = passed == CUDA_SUCCESS;
  for (uint32_t i = 0; i < exchange->nmembers; i++) {
    good = check_result(rank, &exchange->members[i], &buffers[i]) && good;
    if (exchange->members[i].reduction == REDUCTION_PREMULSUM)
      (void)nccl.RedOpDestroy(operators[i], comm);
    free_buffers(&buffers[i]);
  }
  return good;
}

static bool issue_as_shadow(struct rank *rank, const struct exchange *exchange, ncclComm_t comm,
                            struct shadow *shadow) {
  struct shadow_member here[8];
  for (uint32_t i = 0; i < exchange->nmembers; i++)
    here[i] = (struct shadow_member){.shadow = shadow,
                                     .comm = comm,
                                     .rank = rank->rank,
                                     .nranks = RANKS,
                                     .root = exchange->shadow_root};
  struct unit unit = {exchange->members, exchange->nmembers};
  char reason[REASON_SIZE] = "";
  ncclResult_t result = shadow_issue(&nccl, unit, here, &patient, reason);
  return result == ncclSuccess || fail(rank, "shadow: %d: %s", (int)result, reason);
}

/* The device's memory in use. The context must be current. */
static size_t memory_in_use(void) {
  size_t available = 0;
  size_t total = 0;
  (void)other.MemGetInfo(&available, &total);
  return total - available;
}

static void run_shadow(struct rank *rank, ncclComm_t comm, CUcontext mine) {
  char reason[REASON_SIZE] = "";
  size_t before = memory_in_use();
  struct shadow *shadow = shadow_create(cuda, rank->rank, reason);
  if (shadow == NULL) {
    (void)fail(rank, "%s", reason);
    return;
  }
  if (memory_in_use() != before)
    (void)fail(rank, "memory was taken before the first shadow");
  if (exchange_most_held != 0)
    shadow_alias(shadow);
  CUcontext context = NULL;
  (void)cuda->CtxPopCurrent(&context);
  for (size_t i = 0; i < rank->nexchanges; i++)
    if (!issue_as_shadow(rank, &rank->exchanges[i], comm, shadow))
      break;
  (void)other.CtxGetCurrent(&context);
  if (context != NULL)
    (void)fail(rank, "a context was left current");
  (void)cuda->CtxPushCurrent(mine);
  if (shadow_wait(shadow, &patient, reason) != ncclSuccess)
    (void)fail(rank, "%s", reason);
  size_t held = shadow_bytes(shadow);
  if (rank->failure[0] == '\0' && memory_in_use() < before + held)
    (void)fail(rank, "shadows said to hold %zu bytes hold less", held);
  if (exchange_most_held != 0 && memory_in_use() > before + exchange_most_held)
    (void)fail(rank, "%zu bytes of the device are in use", memory_in_use() - before);
  shadow_destroy(shadow, &patient);
  shadow_free_kept(rank->rank);
  if (memory_in_use() != before)
    (void)fail(rank, "memory is left");
}

static void *run_rank(void *argument) {
  struct rank *rank = argument;
  CUdevice device;
  CUcontext context = NULL;
  CUstream stream = NULL;
  if (cuda->DeviceGet(&device, rank->rank) != CUDA_SUCCESS ||
      cuda->DevicePrimaryCtxRetain(&context, device) != CUDA_SUCCESS ||
      cuda->CtxPushCurrent(context) != CUDA_SUCCESS ||
      cuda->StreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, 0) != CUDA_SUCCESS) {
    (void)fail(rank, "no device");
    return NULL;
  }
  ncclComm_t comm = NULL;
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = rank->nonblocking ? 0 : 1;
  ncclResult_t result = other.CommInitRankConfig(&comm, RANKS, rank->id, rank->rank, &config);
  if (!until_ready(comm, result)) {
    (void)fail(rank, "no communicator: %d", (int)result);
    return NULL;
  }
  if (rank->rank == 1)
    run_shadow(rank, comm, context);
  else
    for (size_t i = 0; i < rank->nexchanges; i++)
      if (!issue_for_real(rank, &rank->exchanges[i], comm, stream))
        break;
  (void)other.CommDestroy(comm);
  return NULL;
}

void exchange_run(const struct exchange *exchanges, size_t nexchanges, bool nonblocking) {
  struct rank ranks[RANKS];
  memset(ranks, 0, sizeof ranks);
  ncclUniqueId id;
  cr_assert_eq(other.GetUniqueId(&id), ncclSuccess);
  for (int i = 0; i < RANKS; i++) {
    ranks[i].rank = i;
    ranks[i].nonblocking = nonblocking;
    ranks[i].id = id;
    ranks[i].exchanges = exchanges;
    ranks[i].nexchanges = nexchanges;
    cr_assert_eq(pthread_create(&ranks[i].thread, NULL, run_rank, &ranks[i]), 0);
  }
  for (int i = 0; i < RANKS; i++)
    (void)pthread_join(ranks[i].thread, NULL);
  for (int i = 0; i < RANKS; i++)
    cr_expect_str_empty(ranks[i].failure, "rank %d: %s", i, ranks[i].failure);
}
