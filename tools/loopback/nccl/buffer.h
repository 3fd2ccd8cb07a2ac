/* User buffers: from device pointers to host addresses, with the checks that a GPU would not make.
 * A buffer that is wrong ends the run on every rank of the communicator: what follows would mean
 * nothing. */
#ifndef LOOPBACK_NCCL_BUFFER_H
#define LOOPBACK_NCCL_BUFFER_H

#include "communicator.h"
#include "unit.h"

/* The host address of size bytes at pointer. Returns only if they are wholly inside one allocation
 * of device memory. name is the argument's, for the message. size 0 gives a valid address of
 * nothing. */
void *buffer_find(struct ncclComm *comm, const struct unit *unit, const struct operation *operation,
                  const char *name, const void *pointer, size_t size);

/* Returns only if the two ranges have no byte in common. */
void buffer_check_apart(struct ncclComm *comm, const struct unit *unit,
                        const struct operation *operation, const char *send, size_t send_size,
                        const char *recv, size_t recv_size);

#endif
