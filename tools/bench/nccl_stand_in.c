/* An NCCL that does nothing, so that what is in front of it is all that a call costs. It has the
 * functions that the benchmarks and nccl-join call. Built twice:
 *
 *   empty/libnccl.so.2      every function returns ncclSuccess at once
 *   stamping/libnccl.so.2   (-DSTAMPING) collectives leave the time in the area (area.h) first
 *
 * ncclCommInitRank returns once all ranks have called it, as the real one does.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include <nccl.h>

#include "tools/bench/area.h"

#define EXPORTED __attribute__((visibility("default")))

struct ncclComm {
  int nranks, rank;
};

#ifdef STAMPING
static struct area *area;
static int area_rank;

__attribute__((constructor)) static void find_area(void) {
  area = area_open(&area_rank);
}

static void stamp(void) {
  struct area_rank *me = &area->ranks[area_rank];
  uint64_t entered = atomic_load_explicit(&me->entered, memory_order_relaxed);
  atomic_store_explicit(&me->stamps[entered % AREA_STAMPS], area_now(), memory_order_relaxed);
  atomic_store_explicit(&me->entered, entered + 1, memory_order_release);
}
#else
static void stamp(void) {}
#endif

EXPORTED ncclResult_t ncclAllReduce(const void *sendbuff, void *recvbuff, size_t count,
                                    ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                                    cudaStream_t stream) {
  (void)sendbuff, (void)recvbuff, (void)count, (void)datatype, (void)op, (void)comm, (void)stream;
  stamp();
  return ncclSuccess;
}

EXPORTED ncclResult_t ncclGroupStart(void) {
  return ncclSuccess;
}

EXPORTED ncclResult_t ncclGroupEnd(void) {
  return ncclSuccess;
}

/* Ranks share the area, not ids: all jobs of a run have one, BENCH_RUN (tools/bench/run), so that
 * they do not meet those of a run beside it. On several machines an id has a number and the address
 * of its creator, as the real one: there rank 0 makes it, at MASTER_ADDR. */
EXPORTED ncclResult_t ncclGetUniqueId(ncclUniqueId *uniqueId) {
  *uniqueId = (ncclUniqueId){0};
  const char *run = getenv("BENCH_RUN"), *master = getenv("MASTER_ADDR");
  uint64_t of_run = run == NULL ? 0 : strtoull(run, NULL, 10);
  memcpy(uniqueId, &of_run, sizeof of_run);
  uint64_t number = area_now();
  struct sockaddr_in address = {.sin_family = AF_INET};
  if (master != NULL && inet_pton(AF_INET, master, &address.sin_addr) == 1) {
    memcpy(uniqueId, &number, sizeof number);
    memcpy(uniqueId->internal + sizeof number, &address, sizeof address);
  }
  return ncclSuccess;
}

EXPORTED ncclResult_t ncclCommInitRank(ncclComm_t *comm, int nranks, ncclUniqueId commId,
                                       int rank) {
  (void)commId;
  int number;
  struct area *here = area_open(&number);
  struct ncclComm *made = here == NULL ? NULL : malloc(sizeof *made);
  if (made == NULL)
    return ncclSystemError;
  *made = (struct ncclComm){nranks, rank};
  area_meet(here);
  *comm = made;
  return ncclSuccess;
}

EXPORTED ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  free(comm);
  return ncclSuccess;
}

EXPORTED ncclResult_t ncclCommAbort(ncclComm_t comm) {
  free(comm);
  return ncclSuccess;
}

EXPORTED ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *asyncError) {
  (void)comm;
  *asyncError = ncclSuccess;
  return ncclSuccess;
}

EXPORTED ncclResult_t ncclGetVersion(int *version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

// NOLINTBEGIN(misc-misplaced-const): as nccl.h declares them
EXPORTED ncclResult_t ncclCommCount(const ncclComm_t comm, int *count) {
  *count = comm->nranks;
  return ncclSuccess;
}

EXPORTED ncclResult_t ncclCommUserRank(const ncclComm_t comm, int *rank) {
  *rank = comm->rank;
  return ncclSuccess;
}

EXPORTED ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int *device) {
  (void)comm;
  *device = 0;
  return ncclSuccess;
}
// NOLINTEND(misc-misplaced-const)
