/* How a request of a thread begins (wait.h), for wait.c; how it ends is in outcome.h. */
#ifndef NCCL_JOIN_INTERPOSE_REQUEST_H
#define NCCL_JOIN_INTERPOSE_REQUEST_H

#include "interpose/park/wait.h"

/* What has happened on joined ranks that this rank's program must hear of: ncclInvalidUsage,
 * logged, or ncclSuccess. leaving: of sends and receives the program is told by its own calls, so
 * it is an error only if it is about a collective. */
ncclResult_t request_hear(struct endpoint *end, bool leaving);

/* Commits or claims what the rank wants. */
void request_begin(struct request *request);

/* What the request goes on to, if anything: claims it. */
bool request_claim_next(struct request *request);

#endif
