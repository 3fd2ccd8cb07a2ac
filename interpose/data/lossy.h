/* NCCL_JOIN_LOSSY: what a rank that has joined sends to collectives that need data of it. What is
 * refused is in comm/lossy_policy.h.
 *
 * `last`: of each call that would be lossy the address is remembered that it sends from, and a
 * shadow of it sends what is there by then (core/p2p/sent.h says which address, if there are
 * several). It comes after what the program had put into the stream of the call that it is parked
 * in. Calls of such a communicator never take the fast path (fast_path.h).
 */
#ifndef NCCL_JOIN_INTERPOSE_LOSSY_H
#define NCCL_JOIN_INTERPOSE_LOSSY_H

#include <stdbool.h>
#include <stdint.h>

#include "interpose/comm/communicator.h"
#include "interpose/comm/lossy_policy.h"

/* A member of a unit, as this rank has it. */
struct lossy_member {
  struct endpoint *end;
  const struct communicator *comm;
  struct unit unit;
  uint64_t hash;     /* unit_signature; used if the endpoint has `sent` */
  uint32_t position; /* of the member in the unit */
};

/* The rank issues the member for real, from this address. Only where the endpoint has `sent`. */
void lossy_remember(const struct lossy_member *member, const void *send);

/* What the rank is to send in its shadow of the member; NULL: nothing of its own. Where that is an
 * error, all active ranks hear of it with their next call: with LOSSY_ERROR, and with LOSSY_LAST if
 * the rank has never made such a call, or its buffer is gone. program: the stream that the
 * program's work is in. */
const void *lossy_send(const struct lossy_member *member, struct shadow *shadow,
                       cudaStream_t program);

/* The program goes on: what it puts into its stream from now on waits until shadows have sent what
 * they read from its memory. */
void lossy_return(struct endpoint *end, cudaStream_t program);

#endif
