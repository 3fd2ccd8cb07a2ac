/* Creating communicators: from ids, and from another communicator. Each call adds a job to the
 * thread's group, or, for create_from_ids outside of any group, runs it at once, as NCCL does. */
#ifndef LOOPBACK_NCCL_CREATE_H
#define LOOPBACK_NCCL_CREATE_H

#include "communicator.h"

/* One rank of a new communicator on the calling thread's device. *comm is set at once; it is NULL
 * on an error that is known at once. call names the API function in messages. */
ncclResult_t create_from_ids(ncclComm_t *comm, int nranks, const ncclUniqueId *ids, int nids,
                             int rank, const ncclConfig_t *config, const char *call);

/* *child is set when the job has run: NULL for NCCL_SPLIT_NOCOLOR. */
ncclResult_t create_by_split(struct ncclComm *parent, int color, int key, ncclComm_t *child,
                             const ncclConfig_t *config);

/* For the ranks that stay. excluded is sorted in place, as NCCL does. */
ncclResult_t create_by_shrink(struct ncclComm *parent, int *excluded, int nexcluded,
                              ncclComm_t *child, const ncclConfig_t *config);

#endif
