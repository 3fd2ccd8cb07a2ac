/* An NCCL that only says which of its functions were called, each in one line "real ncclX" (PART
 * changes the first word). As awkward as the real one: ncclX is a weak alias of pncclX, and some
 * functions call others by their exported names, ncclGroupStart and ncclGroupEnd as up to 2.23.
 */
#include <stdlib.h>
#include <string.h>

#include "interpose/nccl/api.h"
#include "interpose/nccl/nccl_compat.h"
#include "tests/interpose/parts/say.h"

#ifndef PART
#define PART "real"
#endif
#ifndef VERSION
#define VERSION 22809
#endif

#define EXPORTED __attribute__((visibility("default")))

#define FAKE_DECLARATION(since, name, parameters, arguments, handling)                             \
  EXPORTED ncclResult_t pnccl##name parameters;                                                    \
  EXPORTED ncclResult_t nccl##name parameters __attribute__((weak, alias("pnccl" #name)));
NCCL_API(FAKE_DECLARATION)

/* Communicators are addresses in their library; the last one made is used in calls to itself. */
static ncclComm_t mine;

static void make(const char *name, ncclComm_t *comm) {
  static char first, child;
  if (comm != NULL && strcmp(name, "CommInitRank") == 0)
    *comm = mine = (ncclComm_t)&first;
  if (comm != NULL && strcmp(name, "CommSplit") == 0)
    *comm = mine = (ncclComm_t)&child;
}

static void call_myself(const char *name) {
  if (strcmp(name, "Bcast") == 0)
    ncclBroadcast(NULL, NULL, 0, ncclFloat, 0, mine, NULL);
  if (strcmp(name, "CommInitAll") == 0) {
    ncclUniqueId id;
    ncclGetUniqueId(&id);
    ncclGroupStart();
    ncclGroupEnd();
  }
}

#define FAKE_BODY(since, name, parameters, arguments, handling) FAKE_##handling(name, parameters)
#define FAKE_HANDLED(name, parameters)                                                             \
  ncclResult_t pnccl##name parameters {                                                            \
    say(PART " nccl" #name);                                                                       \
    call_myself(#name);                                                                            \
    return ncclSuccess;                                                                            \
  }
#define FAKE_FAST FAKE_HANDLED
#define FAKE_UNFIT FAKE_HANDLED
#define FAKE_OBSERVED FAKE_HANDLED
#define FAKE_CREATES(name, parameters)                                                             \
  ncclResult_t pnccl##name parameters {                                                            \
    say(PART " nccl" #name);                                                                       \
    make(#name, (void *)FAKE_FIRST_##name);                                                        \
    call_myself(#name);                                                                            \
    return ncclSuccess;                                                                            \
  }
#define FAKE_FIRST_GetUniqueId uniqueId
#define FAKE_FIRST_CommInitRank comm
#define FAKE_FIRST_CommInitAll comm
#define FAKE_FIRST_CommInitRankConfig comm
#define FAKE_FIRST_CommInitRankScalable newcomm
#define FAKE_FIRST_CommSplit newcomm
#define FAKE_FIRST_CommShrink newcomm
#define FAKE_FIRST_CommGrow newcomm
#define FAKE_GROUPS FAKE_HANDLED
#define FAKE_SPLITS FAKE_CREATES
#define FAKE_CALLED(name, parameters)
#define FAKE_ASKED FAKE_CALLED
// NOLINTBEGIN(misc-unused-parameters)
NCCL_API(FAKE_BODY)
// NOLINTEND(misc-unused-parameters)

static ncclResult_t answer(int *out, int value) {
  *out = value;
  return ncclSuccess;
}

ncclResult_t pncclGetVersion(int *version) {
  return answer(version, VERSION);
}
ncclResult_t pncclCommCount(ncclComm_t comm, int *count) {
  return answer(count, comm ? 2 : 1);
}
ncclResult_t pncclCommUserRank(ncclComm_t comm, int *rank) {
  return answer(rank, comm ? 1 : 0);
}
ncclResult_t pncclCommCuDevice(ncclComm_t comm, int *device) {
  return answer(device, comm ? 1 : 0);
}
