/* Who takes part in a unit: which ranks issue it for real. Known once all have come to it, so
 * asking means waiting for them, on the CPU.
 */
#ifndef NCCL_JOIN_INTERPOSE_MEMBERSHIP_H
#define NCCL_JOIN_INTERPOSE_MEMBERSHIP_H

#include <stdbool.h>
#include <stdint.h>

#include "interpose/comm/endpoint.h"

/* Whether one rank of the team issues the unit at an index, which this rank has passed, for real.
 * Waits for that rank. 1: it does; 0: it shadows it; negative: that is not known, after a failure
 * or NCCL_JOIN_TIMEOUT. *deadline_ms: 0 before the first of several questions. */
int membership_of(struct endpoint *end, uint64_t index, uint32_t rank, uint64_t *deadline_ms);

/* The same for all ranks: active[rank], by rank in the team. How many do; negative as above. */
int membership_of_all(struct endpoint *end, uint64_t index, bool *active, uint64_t *deadline_ms);

/* Whether joined ranks have spoiled a collective of this one's, of which its program has not heard:
 * says so, and the program is to get ncclInvalidUsage. Asked where a rank is gone: that one may
 * have heard of it, and have ended of it, and then this is the reason. */
bool membership_own_error(const struct endpoint *end);

/* Whether there is such an error, and its program is to hear of it. Says nothing. Any thread. */
bool membership_is_unheard(const struct endpoint *end);

/* For so long nothing moves that waits for a rank which has heard of such an error, and may issue
 * nothing more: then all hear of it. */
#define MEMBERSHIP_REFUSED_MS 10000

/* The same of a call that has settled at an index; true, too, if it tells the program of such an
 * error already (wait_notice). */
bool membership_own_error_at(const struct endpoint *end, uint64_t index);

#endif
