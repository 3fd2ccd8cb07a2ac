/* A plug-in linked to an NCCL: makes a communicator, and another from it, and uses both. The
 * arguments are not looked at.
 */
#include "interpose/nccl/nccl_compat.h"
#include "tests/interpose/parts/client.h"

int client(int count, char **names) {
  (void)count, (void)names;
  ncclUniqueId id;
  ncclComm_t comm = NULL, child = NULL;
  ncclGetUniqueId(&id);
  ncclCommInitRank(&comm, 1, id, 0);
  ncclAllReduce(NULL, NULL, 1, ncclFloat, ncclSum, comm, NULL);
  ncclBcast(NULL, 1, ncclFloat, 0, comm, NULL);
  ncclCommSplit(comm, 0, 0, &child, NULL);
  ncclReduceScatter(NULL, NULL, 1, ncclFloat, ncclSum, child, NULL);
  ncclCommDestroy(comm);
  return 0;
}
