/* A program that asks NCCL what can be asked without a GPU, and says what it was answered: the
 * version, the texts of all results, ids, groups, which functions there are, and calls with wrong
 * arguments, in a group and outside, of communicators that block and that do not.
 */
#include <dlfcn.h>
#include <limits.h>
#include <stdint.h>
#include <string.h>

#include "interpose/nccl/api.h"
#include "interpose/nccl/nccl_compat.h"
#include "tests/interpose/parts/say.h"

#define RESULTS 12 /* more than any release has */

/* Looked up: the tests' own NCCL, which this is linked to, has no texts. */
static const char *text_of(ncclResult_t result) {
  const char *(*text)(ncclResult_t);
  *(void **)&text = dlsym(RTLD_DEFAULT, "ncclGetErrorString");
  return text == NULL ? "" : text(result);
}

static const char *last_error(void) {
  const char *(*text)(ncclComm_t);
  *(void **)&text = dlsym(RTLD_DEFAULT, "ncclGetLastError");
  return text == NULL ? "" : text(NULL);
}

static void answered(const char *what, ncclResult_t result) {
  say("%s: %d %s", what, result, last_error());
}
#define ASK(call) answered(#call, call)

static void ask_what_it_is(void) {
  int version = 0;
  ASK(ncclGetVersion(&version));
  say("version %d", version);
  ASK(ncclGetVersion(NULL));
  for (int result = -1; result < RESULTS; result++)
    say("result %d: %s", result, text_of((ncclResult_t)result));
}

#define IS_THERE(since, name, parameters, arguments, handling)                                     \
  say("nccl" #name ": %s, %s", dlsym(RTLD_DEFAULT, "nccl" #name) == NULL ? "missing" : "there",    \
      dlsym(library, "nccl" #name) == NULL ? "missing" : "there");
static void ask_what_there_is(void) {
  void *library = dlopen("libnccl.so.2", RTLD_LAZY);
  NCCL_API(IS_THERE)
}

static void ask_for_ids(ncclUniqueId *id) {
  ncclUniqueId other, none;
  memset(id, 0, sizeof *id);
  memset(&other, 0, sizeof other);
  memset(&none, 0, sizeof none);
  ASK(ncclGetUniqueId(id));
  ASK(ncclGetUniqueId(&other));
  ASK(ncclGetUniqueId(NULL));
  say("ids: %s, %s", memcmp(id, &none, sizeof none) == 0 ? "empty" : "filled",
      memcmp(id, &other, sizeof other) == 0 ? "the same" : "different");
}

static void ask_for_groups(void) {
  ASK(ncclGroupEnd());
  ASK(ncclGroupStart());
  ASK(ncclGroupEnd());
  for (int depth = 0; depth < 3; depth++)
    ASK(ncclGroupStart());
  for (int depth = 0; depth < 3; depth++)
    ASK(ncclGroupEnd());
  ASK(ncclGroupEnd());
}

/* No communicator, and whatever else can be wrong with it. */
static void ask_wrongly(void) {
  float buffer[4] = {0};
  ncclResult_t error = ncclInProgress;
  ncclRedOp_t op = ncclSum;
  int number = 0;
  ASK(ncclAllReduce(buffer, buffer, 1, ncclFloat, ncclSum, NULL, NULL));
  ASK(ncclAllReduce(buffer, buffer, SIZE_MAX, ncclFloat, ncclSum, NULL, NULL));
  ASK(ncclAllReduce(buffer, buffer, 0, ncclFloat, ncclSum, NULL, NULL));
  ASK(ncclAllReduce(buffer, buffer, 1, (ncclDataType_t)77, ncclSum, NULL, NULL));
  ASK(ncclAllReduce(buffer, buffer, 1, ncclFloat, (ncclRedOp_t)-1, NULL, NULL));
  ASK(ncclAllReduce(NULL, NULL, 1, ncclFloat, ncclSum, NULL, NULL));
  ASK(ncclBroadcast(buffer, buffer, 1, ncclFloat, -1, NULL, NULL));
  ASK(ncclBcast(buffer, 1, ncclFloat, INT_MAX, NULL, NULL));
  ASK(ncclReduce(buffer, buffer, 1, ncclFloat, ncclSum, -1, NULL, NULL));
  ASK(ncclAllGather(buffer, buffer, SIZE_MAX, ncclFloat, NULL, NULL));
  ASK(ncclReduceScatter(buffer, buffer, SIZE_MAX, ncclFloat, ncclSum, NULL, NULL));
  ASK(ncclSend(buffer, 1, ncclFloat, -1, NULL, NULL));
  ASK(ncclRecv(buffer, 1, ncclFloat, INT_MAX, NULL, NULL));
  ASK(ncclCommCount(NULL, &number));
  ASK(ncclCommUserRank(NULL, &number));
  ASK(ncclCommCuDevice(NULL, NULL));
  ASK(ncclCommGetAsyncError(NULL, &error));
  ASK(ncclCommGetAsyncError(NULL, NULL));
  ASK(ncclRedOpCreatePreMulSum(&op, buffer, ncclFloat, ncclScalarHostImmediate, NULL));
  ASK(ncclRedOpDestroy(ncclSum, NULL));
  ASK(ncclCommFinalize(NULL));
  ASK(ncclCommDestroy(NULL));
  ASK(ncclCommAbort(NULL));
  say("left as they were: %d %d %d", error, op, number);
}

/* Communicators that NCCL refuses, and those that it cannot make without a GPU. */
static void ask_for_communicators(const ncclUniqueId *id) {
  ncclComm_t comm = NULL, both[2] = {NULL, NULL};
  ASK(ncclCommInitRank(NULL, 1, *id, 0));
  ASK(ncclCommInitRank(&comm, 0, *id, 0));
  ASK(ncclCommInitRank(&comm, -1, *id, 0));
  ASK(ncclCommInitRank(&comm, 2, *id, 2));
  ASK(ncclCommInitRank(&comm, 2, *id, -1));
  ASK(ncclCommInitRank(&comm, 1, *id, 0));
  ASK(ncclCommInitAll(NULL, 1, NULL));
  ASK(ncclCommInitAll(both, 0, NULL));
  ASK(ncclCommInitAll(both, -1, NULL));
  ASK(ncclCommInitAll(both, 2, (int[]){0, 0}));
  for (int blocking = 0; blocking < 2; blocking++) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = blocking;
    ncclResult_t state = ncclSuccess;
    ASK(ncclCommInitRankConfig(&comm, 1, *id, 0, &config));
    ASK(ncclCommInitRankConfig(&comm, 2, *id, 2, &config));
    if (comm != NULL) {
      do
        ASK(ncclCommGetAsyncError(comm, &state));
      while (state == ncclInProgress);
      say("in the end: %d", state);
      ASK(ncclCommAbort(comm));
      comm = NULL;
    }
    config.magic = 0;
    ASK(ncclCommInitRankConfig(&comm, 1, *id, 0, &config));
  }
  say("left as they were: %s %s", comm == NULL ? "no communicator" : "a communicator",
      both[0] == NULL && both[1] == NULL ? "none" : "some");
}

int main(void) {
  ncclUniqueId id;
  ask_what_it_is();
  ask_what_there_is();
  ask_for_ids(&id);
  ask_for_groups();
  ask_wrongly();
  ask_for_communicators(&id);
  ASK(ncclGroupStart());
  ask_wrongly();
  ASK(ncclGroupEnd());
  ASK(ncclGroupStart());
  ask_for_communicators(&id);
  ASK(ncclGroupEnd());
  /* Last: NCCL 2.23 and 2.24 end the process here. */
  say("now split nothing");
  ASK(ncclCommSplit(NULL, 0, 0, NULL, NULL));
  return 0;
}
