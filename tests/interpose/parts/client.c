/* A program's use of NCCL: its arguments name functions, each of which is called with nothing in
 * its parameters. Results are said if they are errors, or all of them if TELL is set. Linked into a
 * program (host.c), or into a plug-in that host.c opens; with LOOKED_UP into a program that is not
 * linked to NCCL and says where the functions are (seeker.c).
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "interpose/nccl/api.h"
#include "interpose/nccl/nccl_compat.h"
#include "tests/interpose/parts/client.h"
#include "tests/interpose/parts/say.h"

/* The installed nccl.h may be older than some functions. */
#define DECLARATION(since, name, parameters, arguments, handling)                                  \
  ncclResult_t nccl##name parameters;
NCCL_API(DECLARATION)

static ncclUniqueId id;
static ncclComm_t comm;
static ncclResult_t error;
static ncclRedOp_t op;
static ncclSimInfo_t info;
static ncclWindow_t window;
static void *handle;
static int number;

#define CALLS(CALL)                                                                                \
  CALL(AllReduce, (NULL, NULL, 1, ncclFloat, ncclSum, NULL, NULL))                                 \
  CALL(Broadcast, (NULL, NULL, 1, ncclFloat, 0, NULL, NULL))                                       \
  CALL(Bcast, (NULL, 1, ncclFloat, 0, NULL, NULL))                                                 \
  CALL(Reduce, (NULL, NULL, 1, ncclFloat, ncclSum, 0, NULL, NULL))                                 \
  CALL(AllGather, (NULL, NULL, 1, ncclFloat, NULL, NULL))                                          \
  CALL(ReduceScatter, (NULL, NULL, 1, ncclFloat, ncclSum, NULL, NULL))                             \
  CALL(AlltoAll, (NULL, NULL, 1, ncclFloat, NULL, NULL))                                           \
  CALL(Gather, (NULL, NULL, 1, ncclFloat, 0, NULL, NULL))                                          \
  CALL(Scatter, (NULL, NULL, 1, ncclFloat, 0, NULL, NULL))                                         \
  CALL(Send, (NULL, 1, ncclFloat, 0, NULL, NULL))                                                  \
  CALL(Recv, (NULL, 1, ncclFloat, 0, NULL, NULL))                                                  \
  CALL(AllReduceConfig, (NULL, NULL, 1, ncclFloat, ncclSum, NULL, NULL, NULL))                     \
  CALL(BroadcastConfig, (NULL, NULL, 1, ncclFloat, 0, NULL, NULL, NULL))                           \
  CALL(ReduceConfig, (NULL, NULL, 1, ncclFloat, ncclSum, 0, NULL, NULL, NULL))                     \
  CALL(AllGatherConfig, (NULL, NULL, 1, ncclFloat, NULL, NULL, NULL))                              \
  CALL(ReduceScatterConfig, (NULL, NULL, 1, ncclFloat, ncclSum, NULL, NULL, NULL))                 \
  CALL(AlltoAllConfig, (NULL, NULL, 1, ncclFloat, NULL, NULL, NULL))                               \
  CALL(GatherConfig, (NULL, NULL, 1, ncclFloat, 0, NULL, NULL, NULL))                              \
  CALL(ScatterConfig, (NULL, NULL, 1, ncclFloat, 0, NULL, NULL, NULL))                             \
  CALL(GroupStart, ())                                                                             \
  CALL(GroupEnd, ())                                                                               \
  CALL(GroupSimulateEnd, (&info))                                                                  \
  CALL(GetUniqueId, (&id))                                                                         \
  CALL(CommInitRank, (NULL, 1, id, 0))                                                             \
  CALL(CommInitAll, (NULL, 0, NULL))                                                               \
  CALL(CommInitRankConfig, (NULL, 1, id, 0, NULL))                                                 \
  CALL(CommInitRankScalable, (NULL, 1, 0, 1, &id, NULL))                                           \
  CALL(CommSplit, (NULL, 0, 0, &comm, NULL))                                                       \
  CALL(CommShrink, (NULL, NULL, 0, &comm, NULL, 0))                                                \
  CALL(CommGrow, (NULL, 2, &id, 0, &comm, NULL))                                                   \
  CALL(CommFinalize, (NULL))                                                                       \
  CALL(CommDestroy, (NULL))                                                                        \
  CALL(CommAbort, (NULL))                                                                          \
  CALL(CommRevoke, (NULL, 0))                                                                      \
  CALL(CommGetAsyncError, (NULL, &error))                                                          \
  CALL(RedOpCreatePreMulSum, (&op, NULL, ncclFloat, ncclScalarHostImmediate, NULL))                \
  CALL(RedOpDestroy, (ncclSum, NULL))                                                              \
  CALL(CommRegister, (NULL, NULL, 0, &handle))                                                     \
  CALL(CommDeregister, (NULL, NULL))                                                               \
  CALL(CommWindowRegister, (NULL, NULL, 0, &window, 0))                                            \
  CALL(CommSuspend, (NULL, 0))                                                                     \
  CALL(CommResume, (NULL))                                                                         \
  CALL(DevCommCreate, (NULL, NULL, NULL))                                                          \
  CALL(PutSignal, (NULL, 1, ncclFloat, 0, NULL, 0, 0, 0, 0, NULL, NULL))                           \
  CALL(Signal, (0, 0, 0, 0, NULL, NULL))                                                           \
  CALL(WaitSignal, (0, NULL, NULL, NULL))                                                          \
  CALL(GetVersion, (&number))                                                                      \
  CALL(CommCount, (NULL, &number))

#ifdef LOOKED_UP
#define FUNCTION(name, arguments)                                                                  \
  static ncclResult_t call_##name(void) {                                                          \
    __typeof__(nccl##name) *function;                                                              \
    *(void **)&function = client_look_up("nccl" #name);                                            \
    return function == NULL ? ncclNumResults : function arguments;                                 \
  }
#else
#define FUNCTION(name, arguments)                                                                  \
  static ncclResult_t call_##name(void) {                                                          \
    return nccl##name arguments;                                                                   \
  }
#endif
CALLS(FUNCTION)

static const struct {
  const char *name;
  ncclResult_t (*call)(void);
} calls[] = {
#define ENTRY(name, arguments) {#name, call_##name},
    CALLS(ENTRY)};

static void tell(const char *name, ncclResult_t result) {
  /* Not in the table, and a fake has no such function. */
  const char *(*last_error)(ncclComm_t);
  *(void **)&last_error = dlsym(RTLD_DEFAULT, "ncclGetLastError");
  if (result != ncclSuccess || getenv("TELL") != NULL)
    say("nccl%s: %d %s", name, result, last_error == NULL ? "" : last_error(NULL));
}

int client(int count, char **names) {
  for (int i = 0; i < count; i++) {
    ncclResult_t result = ncclNumResults;
    for (size_t j = 0; j < sizeof calls / sizeof calls[0]; j++) {
      if (strcmp(calls[j].name, names[i]) == 0)
        result = calls[j].call();
    }
    tell(names[i], result);
    if (strcmp(names[i], "GetVersion") == 0 && getenv("TELL") != NULL)
      say("version %d", number);
  }
  return 0;
}
