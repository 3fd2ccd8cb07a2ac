/* With the objects of the loopback's NCCL it is the same once more, and has two functions that vLLM
 * insists on (NCCL 2.29.7) and never calls on the way that is tested. */
#include <nccl.h>

#define EXPORTED __attribute__((visibility("default")))

EXPORTED ncclResult_t ncclCommSuspend(ncclComm_t comm, int flags);
EXPORTED ncclResult_t ncclCommResume(ncclComm_t comm);

ncclResult_t ncclCommSuspend(ncclComm_t comm, int flags) {
  (void)comm, (void)flags;
  return ncclInvalidUsage;
}

ncclResult_t ncclCommResume(ncclComm_t comm) {
  (void)comm;
  return ncclInvalidUsage;
}
