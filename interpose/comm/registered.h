/* The buffers that the program has registered with its communicators (ncclCommRegister), and how
 * the buffers of its calls look to NCCL because of that (core/unit/look.h).
 *
 * Any thread may ask and tell at any time; a lock is held for the time of a search. Where nothing
 * is registered, asking costs a load.
 */
#ifndef NCCL_JOIN_INTERPOSE_REGISTERED_H
#define NCCL_JOIN_INTERPOSE_REGISTERED_H

#include "core/unit/look.h"
#include "interpose/comm/call.h"

/* NCCL has registered a range, and has given it this handle (not NULL). Asks the driver what memory
 * it is. False without memory: the range will not be known. */
bool registered_add(struct communicator *comm, const void *buffer, size_t size, const void *handle);

/* NCCL has taken back one registration with this handle. */
void registered_remove(struct communicator *comm, const void *handle);

/* The communicator is gone. */
void registered_forget(struct communicator *comm);

/* How a buffer looks: bits of enum look_buffer, 0 if it is not registered. */
unsigned registered_look(struct communicator *comm, const void *buffer, size_t bytes);

/* How the buffers of a call look; member: the same call (call_member). */
look_t registered_look_of(struct communicator *comm, const struct call *call,
                          const struct member *member);

#endif
