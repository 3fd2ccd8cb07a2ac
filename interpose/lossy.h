/* NCCL_JOIN_LOSSY: collectives that need data of a rank which has joined. What is refused, and what
 * is issued all the same but must be reported.
 */
#ifndef NCCL_JOIN_INTERPOSE_LOSSY_H
#define NCCL_JOIN_INTERPOSE_LOSSY_H

#include <stdbool.h>
#include <stdint.h>

#include "core/settings.h"
#include "interpose/communicator.h"

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

/* This rank shadows the unit's member at a place, on `comm`: if that should be an error, all active
 * ranks hear of it with their next call. */
void lossy_tell(struct endpoint *end, struct unit unit, uint32_t place,
                const struct communicator *comm);

#endif
