/* PyTorch's DistributedDataParallel lays gradients out anew, in the order in which they become
 * ready, once a rank has had its first iteration (torch/csrc/distributed/c10d/reducer.cpp,
 * rebuild_buckets). It tells the other ranks by a broadcast of int32 from rank 0. A rank without a
 * batch until then has the old layout in its first iteration: what is summed there is of other
 * parameters, although all look alike to NCCL. Nothing can be done about that here, so it is told,
 * or stops the job. A new model begins with a broadcast of int64, the shapes of its parameters; of
 * several that have been made before the first gradient only the first one counts.
 */
#ifndef NCCL_JOIN_INTERPOSE_REBUILT_H
#define NCCL_JOIN_INTERPOSE_REBUILT_H

#include "interpose/comm/endpoint.h"

/* Both are for the thread that has the endpoint's turn. */

/* This rank shadows the unit. */
void rebuilt_shadowed(struct endpoint *end, struct unit unit);

/* This rank is about to claim the unit. Says so if it is the rank's first gradient, and in the old
 * layout while others may have the new one: a rank whose first one comes before they have is as
 * they are. Returns ncclInvalidUsage if that stops the job (NCCL_JOIN_UNSURE). */
ncclResult_t rebuilt_look(struct endpoint *end, struct unit unit);

#endif
