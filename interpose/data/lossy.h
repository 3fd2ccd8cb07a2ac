/* NCCL_JOIN_LOSSY: collectives that need data of a rank which has joined. What is refused, what is
 * issued all the same but must be reported, and what is sent in place of the data.
 *
 * `last`: of each call that would be lossy the address is remembered that it sends from, and a
 * shadow of it sends what is there by then (core/p2p/sent.h says which address, if there are
 * several). It comes after what the program had put into the stream of the call that it is parked
 * in. Calls of such a communicator are never hot (hot.h).
 */
#ifndef NCCL_JOIN_INTERPOSE_LOSSY_H
#define NCCL_JOIN_INTERPOSE_LOSSY_H

#include <stdbool.h>
#include <stdint.h>

#include "core/settings/settings.h"
#include "interpose/comm/communicator.h"

/* What a joined rank does for a member that is lossy (hooks/contribution.h), of an enum
 * member_kind.
 */
enum lossy_policy lossy_policy_of(uint8_t kind);

/* The first member of the unit to which all ranks must be able to contribute, or NULL. If there is
 * one, the claim of the unit is CLAIM_STRICT. */
const struct member *lossy_strict_member(struct unit unit);

/* Whether a unit must not be issued because a rank of the team would have to shadow it. The same on
 * all ranks. For team.is_lossy; context: the endpoint. */
bool lossy_is_spoilt_by(void *context, struct unit unit, uint32_t team_rank);

/* ---- last ---- */

/* Whether some kind is LOSSY_LAST: then endpoints have `sent`. */
bool lossy_remembers(void);

/* A member of a unit, as this rank has it. hash: unit_hash, used if the endpoint has `sent`. */
struct lossy_member {
  struct endpoint *end;
  const struct communicator *comm;
  struct unit unit;
  uint64_t hash;
  uint32_t place;
};

/* The rank issues the member for real, from this address. Only where the endpoint has `sent`. */
void lossy_remember(const struct lossy_member *member, const void *send);

/* What the rank is to send in its shadow of the member: NULL for nothing of its own. If that should
 * be an error, all active ranks hear of it with their next call: LOSSY_ERROR, or LOSSY_LAST if the
 * rank has never made such a call, or its buffer is gone. program: the stream that the program's
 * work is in. */
const void *lossy_send(const struct lossy_member *member, struct shadow *shadow,
                       cudaStream_t program);

/* The program goes on: what it puts into its stream waits until shadows have sent what is in its
 * memory. */
void lossy_return(struct endpoint *end, cudaStream_t program);

#endif
