/* Every collective, datatype and reduction of NCCL, sends and receives, graphs and aborts, against
 * results that are known: what tests the emulation.
 *
 *   every RANKS [ROUNDS]    ranks are processes; each says what is wrong; status 1 if anything was
 *
 * Numbers are small integers, so that sums are exact in every datatype and in any order. Which
 * protocol and algorithm NCCL takes is chosen by NCCL_PROTO and NCCL_ALGO. */
#include <cuda_runtime_api.h>
#include <math.h>
#include <nccl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tools/loopback/nccl/datatype.h"

/* Of all processes. */
static struct {
  ncclUniqueId id;
  int made, arrived;
} * shared;

static int rank, nranks, failures;
static ncclComm_t comm;
static cudaStream_t stream;
static char *send, *recv, *host;
enum { BYTES = 24 << 20, SHOWN = 5 };

#define CUDA(call)                                                                                 \
  do {                                                                                             \
    cudaError_t error = (call);                                                                    \
    if (error != cudaSuccess)                                                                      \
      stop(#call, cudaGetErrorString(error));                                                      \
  } while (0)
#define NCCL(call)                                                                                 \
  do {                                                                                             \
    ncclResult_t error = (call);                                                                   \
    if (error != ncclSuccess)                                                                      \
      stop(#call, ncclGetErrorString(error));                                                      \
  } while (0)

static void stop(const char *call, const char *why) {
  fprintf(stderr, "rank %d: %s: %s\n", rank, call, why);
  exit(2);
}

/* In the stream's order: cudaMemcpy is in that of another one. */
static void copy(void *to, const void *from, size_t size) {
  CUDA(cudaMemcpyAsync(to, from, size, cudaMemcpyDefault, stream));
  CUDA(cudaStreamSynchronize(stream));
}

/* ---- numbers ---- */

static void put(ncclDataType_t type, char *at, double value) {
  int64_t integer = (int64_t)value;
  float single = (float)value;
  uint16_t half = type == ncclBfloat16 ? bfloat16_encode(single) : float16_encode(single);
  uint8_t small = type == ncclFloat8e4m3 ? float8e4m3_encode(single) : float8e5m2_encode(single);
  switch (type) {
  case ncclFloat64:
    memcpy(at, &value, 8);
    break;
  case ncclFloat32:
    memcpy(at, &single, 4);
    break;
  case ncclFloat16:
  case ncclBfloat16:
    memcpy(at, &half, 2);
    break;
  case ncclFloat8e4m3:
  case ncclFloat8e5m2:
    memcpy(at, &small, 1);
    break;
  default:
    memcpy(at, &integer, datatype_size(type));
  }
}

static double get(ncclDataType_t type, const char *at) {
  double value;
  float single;
  uint16_t half;
  uint32_t word;
  int64_t integer;
  memcpy(&half, at, 2), memcpy(&single, at, 4), memcpy(&value, at, 8), memcpy(&word, at, 4);
  switch (type) {
  case ncclFloat64:
    return value;
  case ncclFloat32:
    return (double)single;
  case ncclFloat16:
    return (double)float16_decode(half);
  case ncclBfloat16:
    return (double)bfloat16_decode(half);
  case ncclFloat8e4m3:
    return (double)float8e4m3_decode((uint8_t)*at);
  case ncclFloat8e5m2:
    return (double)float8e5m2_decode((uint8_t)*at);
  case ncclInt8:
    return (double)(int8_t)*at;
  case ncclUint8:
    return (double)(uint8_t)*at;
  case ncclInt32:
    return (double)(int32_t)word;
  case ncclUint32:
    return (double)word;
  default:
    memcpy(&integer, at, 8);
    return (double)integer;
  }
}

/* What a rank has at a place. Factors are 1 or 2, others 0 to 3; with 1 where sums of more than 8
 * are not exact, and below zero where that is to be seen. */
static double value_of(ncclDataType_t type, ncclRedOp_t op, int of, size_t i) {
  int number = (int)((i * 7 + (size_t)of * 3 + i / 5) % 4);
  if (op == ncclProd)
    return 1 + number % 2;
  bool is_unsigned = type == ncclUint8 || type == ncclUint32 || type == ncclUint64;
  if ((op == ncclMax || op == ncclMin) && !is_unsigned && type != ncclInt64)
    return number - 2;
  return type == ncclFloat8e5m2 ? number % 2 : number;
}

static double reduced(ncclDataType_t type, ncclRedOp_t op, size_t i) {
  double result = value_of(type, op, 0, i);
  for (int of = 1; of < nranks; of++) {
    double value = value_of(type, op, of, i);
    result = op == ncclProd  ? result * value
             : op == ncclMax ? fmax(result, value)
             : op == ncclMin ? fmin(result, value)
                             : result + value;
  }
  if (op == ncclAvg)
    result = datatype_is_float(type) ? result / nranks : floor(result / nranks);
  return result;
}

static bool is_right(ncclDataType_t type, ncclRedOp_t op, double value, double wanted) {
  double least = datatype_size(type) == 1 ? 0.3 : 0.05;
  return value == wanted ||
         (op == ncclAvg && datatype_is_float(type) && fabs(value - wanted) < least);
}

static void wrong(const char *what, ncclDataType_t type, int op, size_t count, size_t i,
                  double value, double wanted) {
  if (failures++ < SHOWN)
    fprintf(stderr, "rank %d of %d: %s of %zu %s, operator %d: [%zu] is %g, not %g\n", rank, nranks,
            what, count, datatype_name(type), op, i, value, wanted);
}

/* ---- one call ---- */

struct call {
  const char *name;
  ncclDataType_t type;
  ncclRedOp_t op;
  int root;
  size_t count; /* of a rank's part */
  bool in_place;
};

static bool gathers(const struct call *call) {
  return strcmp(call->name, "allgather") == 0;
}
static bool scatters(const struct call *call) {
  return strcmp(call->name, "reducescatter") == 0;
}

static size_t sent(const struct call *call) {
  return scatters(call) ? call->count * (size_t)nranks : call->count;
}
static size_t received(const struct call *call) {
  return gathers(call) ? call->count * (size_t)nranks : call->count;
}

static double wanted_at(const struct call *call, size_t i) {
  if (gathers(call))
    return value_of(call->type, call->op, (int)(i / call->count), i % call->count);
  if (scatters(call))
    return reduced(call->type, call->op, (size_t)rank * call->count + i);
  if (strcmp(call->name, "broadcast") == 0)
    return value_of(call->type, call->op, call->root, i);
  return reduced(call->type, call->op, i);
}

static void issue(const struct call *call, const char *from, char *to) {
  if (gathers(call))
    NCCL(ncclAllGather(from, to, call->count, call->type, comm, stream));
  else if (scatters(call))
    NCCL(ncclReduceScatter(from, to, call->count, call->type, call->op, comm, stream));
  else if (strcmp(call->name, "broadcast") == 0)
    NCCL(ncclBroadcast(from, to, call->count, call->type, call->root, comm, stream));
  else if (strcmp(call->name, "reduce") == 0)
    NCCL(ncclReduce(from, to, call->count, call->type, call->op, call->root, comm, stream));
  else
    NCCL(ncclAllReduce(from, to, call->count, call->type, call->op, comm, stream));
}

static void check(const struct call *call) {
  size_t size = datatype_size(call->type),
         all = sent(call) > received(call) ? sent(call) : received(call);
  if ((all + 1) * size > BYTES)
    return;
  char *from = send + size, *to = recv + size; /* not at the beginning of the memory */
  if (call->in_place) {
    from = gathers(call) ? to + (size_t)rank * call->count * size : to;
    if (scatters(call)) {
      from = to;
      to += (size_t)rank * call->count * size;
    }
  }
  memset(host, 0, all * size);
  for (size_t i = 0; i < sent(call); i++)
    put(call->type, host + i * size, value_of(call->type, call->op, rank, i));
  copy(from, host, sent(call) * size);
  issue(call, from, to);
  CUDA(cudaStreamSynchronize(stream));
  if (strcmp(call->name, "reduce") == 0 && rank != call->root)
    return;
  copy(host, to, received(call) * size);
  for (size_t i = 0; i < received(call); i++) {
    double value = get(call->type, host + i * size), wanted = wanted_at(call, i);
    if (!is_right(call->type, call->op, value, wanted)) {
      wrong(call->name, call->type, (int)call->op, call->count, i, value, wanted);
      return;
    }
  }
}

static void check_all(const char *name, ncclDataType_t type, ncclRedOp_t op, size_t count) {
  bool rooted = strcmp(name, "reduce") == 0 || strcmp(name, "broadcast") == 0;
  for (int root = 0; root < (rooted ? nranks : 1); root++)
    for (int in_place = 0; in_place < 2; in_place++)
      check(&(struct call){name, type, op, root, count, in_place});
}

static void check_collectives(void) {
  static const char *const reducing[] = {"allreduce", "reduce", "reducescatter"};
  static const size_t counts[] = {1, 17, 4099, 300007};
  int version;
  NCCL(ncclGetVersion(&version));
  for (int type = 0; type < ncclNumTypes; type++) {
    bool small = type == ncclFloat8e4m3 || type == ncclFloat8e5m2;
    if (small && (nranks == 1 || version < 22400))
      continue; /* a communicator of one rank refuses the average, and before 2.24 there were none
                 */
    for (int op = 0; op < ncclNumOps; op++)
      for (int i = 0; i < 3; i++)
        for (int c = 0; c < (type == ncclFloat32 && op == ncclSum ? 4 : 3); c++)
          check_all(reducing[i], (ncclDataType_t)type, (ncclRedOp_t)op, counts[c]);
  }
  for (int c = 0; c < 4; c++) {
    check_all("allgather", ncclFloat32, ncclSum, counts[c]);
    check_all("broadcast", ncclUint8, ncclSum, counts[c]);
    check_all("broadcast", ncclFloat64, ncclSum, counts[c]);
  }
}

/* ---- sends and receives, groups ---- */

/* All to all, parts of different lengths, some of them 0. */
static size_t part(int from, int to, size_t unit) {
  return (size_t)((from * 3 + to) % 4) * unit;
}

static void check_exchange(size_t unit) {
  size_t at = 0, begin[64];
  for (int to = 0; to < nranks; to++) {
    begin[to] = at;
    for (size_t i = 0; i < part(rank, to, unit); i++)
      host[at++] = (char)(rank * 31 + to * 7 + (int)(i % 101));
  }
  copy(send, host, at);
  NCCL(ncclGroupStart());
  size_t into = 0;
  for (int peer = 0; peer < nranks; peer++) {
    NCCL(ncclSend(send + begin[peer], part(rank, peer, unit), ncclInt8, peer, comm, stream));
    NCCL(ncclRecv(recv + into, part(peer, rank, unit), ncclInt8, peer, comm, stream));
    into += part(peer, rank, unit);
  }
  NCCL(ncclGroupEnd());
  CUDA(cudaStreamSynchronize(stream));
  copy(host, recv, into);
  into = 0;
  for (int from = 0; from < nranks; from++)
    for (size_t i = 0; i < part(from, rank, unit); i++, into++) {
      char wanted = (char)(from * 31 + rank * 7 + (int)(i % 101));
      if (host[into] != wanted) {
        wrong("all to all", ncclInt8, from, unit, i, host[into], wanted);
        return;
      }
    }
}

/* Several collectives in one group, a broadcast from every rank among them. */
static void check_group(size_t count) {
  float *values = (float *)(void *)host;
  for (size_t i = 0; i < count; i++)
    values[i] = (float)rank + 1;
  copy(send, host, count * 4);
  NCCL(ncclGroupStart());
  NCCL(ncclAllReduce(send, recv, count, ncclFloat32, ncclSum, comm, stream));
  for (int root = 0; root < nranks; root++)
    NCCL(ncclBroadcast(send, recv + (size_t)(root + 1) * count * 4, count, ncclFloat32, root, comm,
                       stream));
  NCCL(ncclGroupEnd());
  CUDA(cudaStreamSynchronize(stream));
  copy(host, recv, (size_t)(nranks + 1) * count * 4);
  for (size_t i = 0; i < (size_t)(nranks + 1) * count; i++) {
    float wanted = i < count ? (float)(nranks * (nranks + 1) / 2) : (float)(i / count);
    if (values[i] != wanted) {
      wrong("group", ncclFloat32, (int)(i / count), count, i % count, (double)values[i],
            (double)wanted);
      return;
    }
  }
}

static void check_premultiplied(void) {
  float factor = 2, values[3] = {1, 2, 3};
  ncclRedOp_t op;
  NCCL(ncclRedOpCreatePreMulSum(&op, &factor, ncclFloat32, ncclScalarHostImmediate, comm));
  copy(send, values, sizeof values);
  NCCL(ncclAllReduce(send, recv, 3, ncclFloat32, op, comm, stream));
  CUDA(cudaStreamSynchronize(stream));
  copy(values, recv, sizeof values);
  for (int i = 0; i < 3; i++)
    if (values[i] != (float)(2 * (i + 1) * nranks))
      wrong("premulsum", ncclFloat32, 0, 3, (size_t)i, (double)values[i], 2 * (i + 1) * nranks);
  NCCL(ncclRedOpDestroy(op, comm));
}

/* ---- graphs, aborts ---- */

static bool is_before(int release) {
  int version;
  NCCL(ncclGetVersion(&version));
  return version < release;
}

static bool is_over_sockets(void) {
  const char *disabled = getenv("NCCL_SHM_DISABLE");
  return disabled != NULL && strcmp(disabled, "1") == 0;
}

static void check_graph(void) {
  if (is_before(22600) && is_over_sockets())
    return; /* proxies are told by nodes that NCCL adds to the graph by hand: not emulated */
  float value = 1;
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  copy(recv, &value, 4);
  CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  NCCL(ncclAllReduce(recv, recv, 1, ncclFloat32, ncclSum, comm, stream));
  CUDA(cudaStreamEndCapture(stream, &graph));
  CUDA(cudaGraphInstantiate(&exec, graph, 0));
  CUDA(cudaGraphDestroy(graph));
  for (int i = 0; i < 3; i++)
    CUDA(cudaGraphLaunch(exec, stream));
  CUDA(cudaStreamSynchronize(stream));
  CUDA(cudaGraphExecDestroy(exec));
  copy(&value, recv, 4);
  if (value != (float)(nranks * nranks * nranks))
    wrong("graph", ncclFloat32, 0, 1, 0, (double)value, nranks * nranks * nranks);
}

/* Waits until all have come: an abort takes what is still on its way to a peer. */
static void meet(void) {
  __atomic_fetch_add(&shared->arrived, 1, __ATOMIC_ACQ_REL);
  while (__atomic_load_n(&shared->arrived, __ATOMIC_ACQUIRE) < nranks)
    usleep(1000);
}

/* Rank 0 waits in a kernel for others that never come. */
static void check_abort(void) {
  meet();
  /* With a peer that is gone the proxies of 2.23.4 and 2.24.3 go on for ever, and ncclCommAbort
   * waits for them (ncclProxyProgressDestroy). */
  bool waits = !(is_before(22600) && !is_before(22300) && is_over_sockets());
  if (rank == 0 && nranks > 1 && waits) {
    NCCL(ncclAllReduce(send, recv, 1000, ncclFloat32, ncclSum, comm, stream));
    nanosleep(&(struct timespec){0, 100000000}, NULL);
    if (cudaStreamQuery(stream) != cudaErrorNotReady)
      wrong("abort", ncclFloat32, 0, 1000, 0, 0, 1);
  }
  NCCL(ncclCommAbort(comm));
  CUDA(cudaStreamSynchronize(stream));
}

static int run(int rounds) {
  CUDA(cudaSetDevice(rank));
  CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  CUDA(cudaMalloc((void **)&send, BYTES));
  CUDA(cudaMalloc((void **)&recv, BYTES));
  host = malloc(BYTES);
  NCCL(ncclCommInitRank(&comm, nranks, shared->id, rank));
  for (int round = 0; round < rounds; round++) {
    check_collectives();
    for (size_t unit = 1; unit < 2000000; unit *= 97)
      check_exchange(unit);
    check_group(5);
    check_group(50000);
    check_premultiplied();
    check_graph();
  }
  check_abort();
  return failures > 0;
}

int main(int argc, char **argv) {
  pid_t ranks[64];
  nranks = argc > 1 ? atoi(argv[1]) : 2;
  shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  for (rank = 0; rank < nranks; rank++)
    if ((ranks[rank] = fork()) == 0) {
      if (rank == 0) {
        NCCL(ncclGetUniqueId(&shared->id));
        __atomic_store_n(&shared->made, 1, __ATOMIC_RELEASE);
      }
      while (!__atomic_load_n(&shared->made, __ATOMIC_ACQUIRE))
        usleep(1000);
      exit(run(argc > 2 ? atoi(argv[2]) : 1));
    }
  int worst = 0;
  for (int status; wait(&status) > 0;)
    if (status != 0 && worst++ == 0) /* the others may wait for it */
      for (rank = 0; rank < nranks; rank++)
        kill(ranks[rank], SIGTERM);
  return worst > 0;
}
