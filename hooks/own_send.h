/* Shadows that send from the program's own memory (NCCL_JOIN_LOSSY=last): whether that is there,
 * and in which order the program's work and the shadow's reading come.
 *
 * Threads as for shadow.h.
 */
#ifndef NCCL_JOIN_HOOKS_OWN_SEND_H
#define NCCL_JOIN_HOOKS_OWN_SEND_H

#include "hooks/shadow.h"

/* Whether all these bytes are memory that CUDA knows, and that of this device if it is a device's.
 * What a framework's own allocator has taken back is memory all the same. bytes: not 0. */
bool own_send_is_there(const struct shadow *shadow, const void *address, size_t bytes);

/* Copies them to a buffer of the shadow's own, in its stream; false with a reason. */
bool own_send_copy(struct shadow *shadow, void *to, const void *from, size_t bytes, char *reason);

/* What is issued here from now on comes after all that the program has put into the stream; false
 * with a reason. 0 is the legacy default stream, which comes after all streams but the non-blocking
 * ones. */
bool own_send_follows(struct shadow *shadow, cudaStream_t program, char *reason);

/* What the program puts into the stream from now on comes after all that was issued here, so that
 * it does not write what is still being sent. */
bool own_send_precedes(struct shadow *shadow, cudaStream_t program, char *reason);

#endif
