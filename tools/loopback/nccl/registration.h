/* User buffer registration: bookkeeping only. A registration has references, as NCCL's has
 * (register.cc): registering memory inside a registered range gives the same handle. Windows
 * (ncclCommWindowRegister) are registrations that all ranks make together. What is left at the end
 * goes with the communicator. */
#ifndef LOOPBACK_NCCL_REGISTRATION_H
#define LOOPBACK_NCCL_REGISTRATION_H

#include "communicator.h"

/* ncclInvalidArgument: buffer is not wholly device memory. */
ncclResult_t registration_add(struct ncclComm *comm, void *buffer, size_t size, void **handle);

/* ncclInvalidUsage: no such handle on this communicator. */
ncclResult_t registration_remove(struct ncclComm *comm, const void *handle);

void registration_free_all(struct ncclComm *comm);

#endif
