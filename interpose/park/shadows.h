/* Shadows of a parked rank: the units that its teams have settled in one look around, collected and
 * issued together. A thread that is several ranks must not issue theirs one by one.
 */
#ifndef NCCL_JOIN_INTERPOSE_SHADOWS_H
#define NCCL_JOIN_INTERPOSE_SHADOWS_H

#include <stdbool.h>
#include <stdint.h>

#include "interpose/comm/communicator.h"

/* All zero: empty. */
struct shadows {
  struct member *members;
  struct shadow_member *targets;
  uint32_t nmembers, room;
};

/* Adds a unit that has settled, at team_index, as a shadow of this endpoint, or buffers that are
 * resynchronised, whoever's unit that is. Plug-ins have seen the shadow when this returns. Waits
 * for a Broadcast's root and, with the first buffers that are resynchronised, for the device. Adds
 * nothing of a unit that the active ranks refuse (divisors.h). program: the stream of the call that
 * the program is in. False if the unit cannot be shadowed (logged): the peers will wait for it in
 * NCCL. */
bool shadows_collect(struct shadows *shadows, struct endpoint *end, struct unit unit,
                     cudaStream_t program, const struct shadow_limit *limit);

/* Issues what has been collected; false on failure (logged). Empty afterwards in any case. */
bool shadows_issue(struct shadows *shadows, const struct shadow_limit *limit);

/* For a unit that is likely to come next in the endpoint, while nothing is collected: see
 * shadow_rehearse. Only of reductions: what else there is may depend on the ranks that issue it. */
void shadows_rehearse(struct shadows *shadows, const struct endpoint *end, struct unit unit);

void shadows_free(struct shadows *shadows);

/* Waits until all that this process has given the endpoint's device is done; false with a reason
 * (REASON_SIZE bytes). Only where all ranks have issued all that may be waited for. */
bool shadows_finish(struct endpoint *end, const struct shadow_limit *limit, char *reason);

/* Whether a buffer is still what the program has named. If not, says so and takes it out of the
 * endpoint's list. */
bool shadows_has(struct endpoint *end, const struct state_buffer *buffer);

#endif
