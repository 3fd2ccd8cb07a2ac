/* What a later NCCL may be: the stand-in, with a collective that no release has. Like NCCL's own
 * ones it comes out at another function of the library, which the program's calls find too. */
#include "tests/added/total.h"

__attribute__((visibility("default"))) ncclResult_t
ncclTotal(const void *send, void *receive, size_t count, ncclDataType_t datatype, ncclRedOp_t op,
          int root, ncclComm_t comm, cudaStream_t stream) {
  return pncclReduce(send, receive, count, datatype, op, root, comm, stream);
}
