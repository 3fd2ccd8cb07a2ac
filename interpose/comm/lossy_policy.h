/* NCCL_JOIN_LOSSY: what is to become of a unit to which a rank that has joined cannot contribute.
 * Out of the settings and the unit alone, so the same on all ranks; what is sent is in
 * data/lossy.h.
 */
#ifndef NCCL_JOIN_INTERPOSE_LOSSY_POLICY_H
#define NCCL_JOIN_INTERPOSE_LOSSY_POLICY_H

#include <stdbool.h>
#include <stdint.h>

#include "core/settings/settings.h"
#include "core/unit/unit.h"

/* What a joined rank does for a member that is lossy (hooks/contribution.h). kind: enum
 * member_kind. */
enum lossy_policy lossy_policy_of(uint8_t kind);

/* The first member of the unit to which all ranks must be able to contribute, or NULL. If there is
 * one, the claim of the unit is CLAIM_STRICT. */
const struct member *lossy_strict_member(struct unit unit);

/* Whether a unit must not be issued because a rank of the team would have to shadow it. The same on
 * all ranks. For team.is_lossy; context: the endpoint. */
bool lossy_is_spoilt_by(void *context, struct unit unit, uint32_t team_rank);

/* Whether some kind is LOSSY_LAST: then endpoints have `sent`. */
bool lossy_remembers(void);

#endif
