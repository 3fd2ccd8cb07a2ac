/* A tool of somebody else, preloaded behind nccl-join: wraps one function and calls the next. */
#include <dlfcn.h>

#include "interpose/nccl/nccl_compat.h"
#include "tests/interpose/parts/say.h"

__attribute__((visibility("default"))) ncclResult_t
ncclAllReduce(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
              ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  say("profiler ncclAllReduce");
  __typeof__(ncclAllReduce) *next;
  *(void **)&next = dlsym(RTLD_NEXT, "ncclAllReduce");
  return next == NULL ? ncclSuccess : next(sendbuff, recvbuff, count, datatype, op, comm, stream);
}
