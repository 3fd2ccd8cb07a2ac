/* User buffer registration. Data does not move by it; it is only compared. NCCL decides by it, on
 * each rank by the rank's own buffers, which way the data goes and whether to meet the others on
 * the host, so ranks that differ hang there. Here they are stopped (oracle.h).
 *
 * NCCL_LOCAL_REGISTER=0: nothing is registered, and handles are NULL. A registration has
 * references, as NCCL's has (register.cc): registering memory inside a registered range gives the
 * same handle. Windows (ncclCommWindowRegister) are registrations that all ranks make together.
 * What is left at the end goes with the communicator. */
#ifndef LOOPBACK_NCCL_REGISTRATION_H
#define LOOPBACK_NCCL_REGISTRATION_H

#include "communicator.h"
#include "unit.h"

/* ncclInvalidArgument: buffer is not wholly device memory. */
ncclResult_t registration_add(struct ncclComm *comm, void *buffer, size_t size, void **handle);

/* ncclInvalidUsage: no such handle on this communicator. */
ncclResult_t registration_remove(struct ncclComm *comm, const void *handle);

/* What NCCL looks at in a buffer: 0 unless it lies in the pages of a registered range. */
enum registration_look {
  LOOK_REGISTERED = 1,
  LOOK_MAPPED = 2,  /* by cuMemMap */
  LOOK_EXPORTS = 4, /* and can be exported to other processes */
};
unsigned registration_look(const struct ncclComm *comm, const void *buffer, size_t size);

/* "registered cuMem" */
const char *registration_look_name(unsigned look);

/* Whether a rank with these buffers comes to the meeting of NVLink SHARP (coll_reg.cc,
 * ncclRegisterCollNvlsBuffers). */
bool registration_meets(const struct ncclComm *comm, const struct operation *operation);

/* Writes what NCCL decides by for a collective: "(send registered cuMem, receive registered cuMem,
 * in place)"; "" if neither is registered. Only what all ranks have, and what no rank may differ
 * in. */
void registration_describe(const struct ncclComm *comm, const struct operation *operation,
                           char *text, size_t size);

void registration_free_all(struct ncclComm *comm);

#endif
