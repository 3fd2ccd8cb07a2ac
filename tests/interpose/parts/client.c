/* A program's use of NCCL: its arguments name functions, each of which is called with nothing in its parameters, and
 * the result is said. Linked into a program (host.c), or into a plug-in that host.c opens.
 */
#include <string.h>

#include "interpose/api.h"
#include "interpose/nccl_compat.h"
#include "tests/interpose/parts/say.h"

int client(int count, char **names);

/* A result, and what ncclGetLastError says where QUOTE asks for it. */
static void tell(const char *name, ncclResult_t result) {
#ifdef QUOTE
  say("nccl%s: %d %s", name, result, ncclGetLastError(NULL));
#else
  if (result != ncclSuccess)
    say("nccl%s: %d", name, result);
#endif
}

/* Every function of the table, with zeros. */
static const ncclUniqueId no_id;
#define Z(type) ((type)0)
static void call(const char *name) {
  static ncclUniqueId id;
  static ncclComm_t comm;
  static ncclResult_t error;
  static ncclRedOp_t op;
  static ncclSimInfo_t info;
  static void *handle;
  static int devices[1];
  if (strcmp(name, "AllReduce") == 0)
    tell(name, ncclAllReduce(NULL, NULL, 1, ncclFloat, ncclSum, NULL, NULL));
  else if (strcmp(name, "Broadcast") == 0)
    tell(name, ncclBroadcast(NULL, NULL, 1, ncclFloat, 0, NULL, NULL));
  else if (strcmp(name, "Bcast") == 0)
    tell(name, ncclBcast(NULL, 1, ncclFloat, 0, NULL, NULL));
  else if (strcmp(name, "Reduce") == 0)
    tell(name, ncclReduce(NULL, NULL, 1, ncclFloat, ncclSum, 0, NULL, NULL));
  else if (strcmp(name, "AllGather") == 0)
    tell(name, ncclAllGather(NULL, NULL, 1, ncclFloat, NULL, NULL));
  else if (strcmp(name, "ReduceScatter") == 0)
    tell(name, ncclReduceScatter(NULL, NULL, 1, ncclFloat, ncclSum, NULL, NULL));
  else if (strcmp(name, "Send") == 0)
    tell(name, ncclSend(NULL, 1, ncclFloat, 0, NULL, NULL));
  else if (strcmp(name, "Recv") == 0)
    tell(name, ncclRecv(NULL, 1, ncclFloat, 0, NULL, NULL));
  else if (strcmp(name, "GroupStart") == 0)
    tell(name, ncclGroupStart());
  else if (strcmp(name, "GroupEnd") == 0)
    tell(name, ncclGroupEnd());
  else if (strcmp(name, "GetUniqueId") == 0)
    tell(name, ncclGetUniqueId(&id));
  else if (strcmp(name, "CommInitRank") == 0)
    tell(name, ncclCommInitRank(NULL, 1, no_id, 0));
  else if (strcmp(name, "CommInitRankConfig") == 0)
    tell(name, ncclCommInitRankConfig(NULL, 1, no_id, 0, NULL));
  else if (strcmp(name, "CommInitAll") == 0)
    tell(name, ncclCommInitAll(NULL, 0, devices));
  else if (strcmp(name, "CommSplit") == 0)
    tell(name, ncclCommSplit(NULL, 0, 0, &comm, NULL));
  else if (strcmp(name, "CommFinalize") == 0)
    tell(name, ncclCommFinalize(NULL));
  else if (strcmp(name, "CommDestroy") == 0)
    tell(name, ncclCommDestroy(NULL));
  else if (strcmp(name, "CommAbort") == 0)
    tell(name, ncclCommAbort(NULL));
  else if (strcmp(name, "CommGetAsyncError") == 0)
    tell(name, ncclCommGetAsyncError(NULL, &error));
  else if (strcmp(name, "RedOpCreatePreMulSum") == 0)
    tell(name, ncclRedOpCreatePreMulSum(&op, NULL, ncclFloat, ncclScalarHostImmediate, NULL));
  else if (strcmp(name, "RedOpDestroy") == 0)
    tell(name, ncclRedOpDestroy(op, NULL));
#if NCCL_VERSION_CODE >= 21900
  else if (strcmp(name, "CommRegister") == 0)
    tell(name, ncclCommRegister(NULL, NULL, 0, &handle));
#endif
#if NCCL_VERSION_CODE >= 22200
  else if (strcmp(name, "GroupSimulateEnd") == 0)
    tell(name, ncclGroupSimulateEnd(&info));
#endif
#if NCCL_VERSION_CODE >= 22700
  else if (strcmp(name, "CommShrink") == 0)
    tell(name, ncclCommShrink(NULL, NULL, 0, &comm, NULL, 0));
#endif
  else
    say("the client does not know %s", name);
  (void)info, (void)handle;
}

int client(int count, char **names) {
  for (int i = 0; i < count; i++)
    call(names[i]);
  return 0;
}
