/* An NCCL that tells what configurations it is given: the size and the version in them, and a sum
 * over all their bytes. A communicator with blocking = 0 is in creation when it is returned, and
 * made at the third question.
 */
#include <stdint.h>
#include <string.h>

#include "interpose/nccl/api.h"
#include "interpose/nccl/nccl_compat.h"
#include "tests/interpose/parts/say.h"

#define EXPORTED __attribute__((visibility("default")))

/* The first fields of all configurations, since 2.14. */
struct head {
  size_t size;
  unsigned int magic;
  unsigned int version;
  int blocking;
};

static int questions; /* since the last configuration */

static ncclResult_t tell(const char *name, const void *config) {
  const unsigned char *bytes = config;
  struct head head;
  uint64_t sum = 0;
  memcpy(&head, config, sizeof head);
  questions = 0;
  for (size_t i = 0; i < head.size; i++)
    sum = sum * 31 + bytes[i];
  say("%s: size %zu, magic %x, version %u, sum %016lx", name, head.size, head.magic, head.version,
      (unsigned long)sum);
  return head.blocking == 0 ? ncclInProgress : ncclSuccess;
}

static ncclResult_t make(ncclComm_t *comm, ncclResult_t result) {
  *comm = (ncclComm_t)&questions;
  return result;
}

// NOLINTBEGIN(misc-unused-parameters)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"

#define TELLING(name, does, parameters)                                                            \
  EXPORTED ncclResult_t nccl##name parameters;                                                     \
  ncclResult_t nccl##name parameters {                                                             \
    return does;                                                                                   \
  }
#define MAKING(name, parameters) TELLING(name, make(newcomm, tell(#name, config)), parameters)
#define ISSUING(name, ...)                                                                         \
  TELLING(name, tell(#name, config),                                                               \
          (const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,            \
           __VA_ARGS__ ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t *config))

MAKING(CommInitRankConfig,
       (ncclComm_t * newcomm, int nranks, ncclUniqueId commId, int rank, ncclConfig_t *config))
MAKING(CommInitRankScalable, (ncclComm_t * newcomm, int nranks, int myrank, int nId,
                              ncclUniqueId *commIds, ncclConfig_t *config))
MAKING(CommSplit, (ncclComm_t comm, int color, int key, ncclComm_t *newcomm, ncclConfig_t *config))
MAKING(CommShrink, (ncclComm_t comm, int *excludeRanksList, int excludeRanksCount,
                    ncclComm_t *newcomm, ncclConfig_t *config, int shrinkFlags))
MAKING(CommGrow, (ncclComm_t comm, int nRanks, const ncclUniqueId *uniqueId, int rank,
                  ncclComm_t *newcomm, ncclConfig_t *config))

ISSUING(AllReduceConfig, ncclRedOp_t op, )
ISSUING(BroadcastConfig, int root, )
ISSUING(ReduceConfig, ncclRedOp_t op, int root, )
ISSUING(AllGatherConfig, )
ISSUING(ReduceScatterConfig, ncclRedOp_t op, )
ISSUING(AlltoAllConfig, )
ISSUING(GatherConfig, int root, )
ISSUING(ScatterConfig, int root, )

/* By which an NCCL is known. */
#define ANSWERING(name, answer, parameters)                                                        \
  TELLING(name, (*number = (answer), ncclSuccess), parameters)
ANSWERING(GetVersion, 23203, (int *number))
ANSWERING(CommCount, 1, (ncclComm_t comm, int *number))
ANSWERING(CommUserRank, 0, (ncclComm_t comm, int *number))
ANSWERING(CommCuDevice, 0, (ncclComm_t comm, int *number))
TELLING(CommGetAsyncError,
        (*asyncError = ++questions < 3 ? ncclInProgress : ncclSuccess, ncclSuccess),
        (ncclComm_t comm, ncclResult_t *asyncError))
#pragma GCC diagnostic pop
// NOLINTEND(misc-unused-parameters)
