/* How a wish of a thread begins (answer.h), for answer.c; how it ends is in outcome.h. */
#ifndef NCCL_JOIN_INTERPOSE_WISH_H
#define NCCL_JOIN_INTERPOSE_WISH_H

#include "interpose/park/answer.h"

/* What has happened on joined ranks that this rank's program must hear of: ncclInvalidUsage,
 * logged, or ncclSuccess. leaving: of sends and receives the program is told by its own calls, so
 * it is an error only if it is about a collective. */
ncclResult_t wish_hear(struct endpoint *end, bool leaving);

/* Commits or claims what the rank wants. */
void wish_begin(struct wish *wish);

/* What the wish goes on to, if anything: claims it. */
bool wish_claim_next(struct wish *wish);

#endif
