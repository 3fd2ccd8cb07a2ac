/* A plug-in linked to an NCCL: makes a communicator and uses it. The arguments are not looked at.
 */
#include "interpose/nccl_compat.h"
#include "tests/interpose/parts/client.h"

int client(int count, char **names) {
  (void)count, (void)names;
  ncclUniqueId id;
  ncclComm_t comm = NULL;
  ncclGetUniqueId(&id);
  ncclCommInitRank(&comm, 1, id, 0);
  ncclAllReduce(NULL, NULL, 1, ncclFloat, ncclSum, comm, NULL);
  ncclBcast(NULL, 1, ncclFloat, 0, comm, NULL);
  ncclCommDestroy(comm);
  return 0;
}
