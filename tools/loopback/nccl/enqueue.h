/* Operations as the program calls them: checking arguments in NCCL's order, resolving the
 * reduction, joining the thread's group. */
#ifndef LOOPBACK_NCCL_ENQUEUE_H
#define LOOPBACK_NCCL_ENQUEUE_H

#include "communicator.h"
#include "unit.h"

/* The reduction of kinds that do not reduce; not looked at. */
#define ENQUEUE_NO_REDUCTION (-1)

/* One call of the API. operation has kind, buffers, count, datatype, root and stream; the rest is
 * filled in. reduction: the handle that the program gave, or ENQUEUE_NO_REDUCTION. Returns what the
 * call returns. */
ncclResult_t enqueue(struct ncclComm *comm, struct operation operation, int reduction);

/* The API's calls for reductions of one's own. */
ncclResult_t user_reduction_create(struct ncclComm *comm, ncclRedOp_t *handle, const void *scalar,
                                   ncclDataType_t datatype, ncclScalarResidence_t residence);
ncclResult_t user_reduction_destroy(struct ncclComm *comm, ncclRedOp_t handle);

#endif
