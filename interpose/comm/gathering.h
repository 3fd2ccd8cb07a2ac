/* Some ranks of a communicator that are about to make one of themselves, and wait for each other on
 * the way, outside of NCCL: who comes first answers the others in all its communicators until they
 * have come, too. Ranks have a team once they have a communicator; so these make one for this, in
 * which each claims that it has come. It is a team like any other, but it begins before all of its
 * ranks are in it: those that have yet to come have issued nothing, and count as ended once they
 * have ended elsewhere.
 */
#ifndef NCCL_JOIN_INTERPOSE_GATHERING_H
#define NCCL_JOIN_INTERPOSE_GATHERING_H

#include "interpose/comm/endpoint.h"

/* Ranks `ranks` of `whole`, in an order that is the same on all of them; `own`: which of these is
 * this one. Each of them is to call it, and as often. The endpoint is the calling thread's, and one
 * of the process until gathering_end. NULL if that cannot be. */
struct endpoint *gathering_begin(struct endpoint *whole, const uint32_t *ranks, uint32_t nranks,
                                 uint32_t own);

/* Of any endpoint, in a wait that lasts: takes notice of ranks that have ended before they came. */
void gathering_look(struct endpoint *end);

/* After the claim has settled, or was given up: then it stays, for those that come later. */
void gathering_end(struct endpoint *end);

#endif
