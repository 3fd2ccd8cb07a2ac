/* Ways: which of the images call NCCL, and how. */
#ifndef NCCL_JOIN_TOOLS_CHECK_WAYS_H
#define NCCL_JOIN_TOOLS_CHECK_WAYS_H

#include "tools/check/answer.h"
#include "tools/check/closure.h"

/* Adds a way for each image that has one, with the remarks that it calls for. */
void ways_find(struct answer *answer, struct closure *closure, bool brief);

/* Adds one for a Python file that opens NCCL itself. */
void ways_add_source(struct answer *answer, const struct closure *closure, const char *source);

/* Puts the telling way first and fills reach and seen. */
void ways_judge(struct answer *answer);

#endif
