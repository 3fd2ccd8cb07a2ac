/* Whether the ranks of a communicator run the same nccl-join, and have set alike what changes what
 * all of them do together (core/settings). Each rank tells the others when it attaches
 * (core/transport/attachment.h); so all of them see the same, and all refuse the communicator.
 */
#ifndef NCCL_JOIN_INTERPOSE_ALIKE_H
#define NCCL_JOIN_INTERPOSE_ALIKE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/report/log.h"
#include "core/transport/attachment.h"

/* What this rank tells the others. */
void alike_tell(char tells[INTRODUCTION_TELLS_SIZE]);

/* Called once all ranks of a communicator, whose slots are its ranks, have entered its creation.
 * False: they differ, lines of the log say in what, and the communicator must not be used. True
 * also if some rank has not attached (join is off then), and without memory. */
bool alike_in(const struct attachment *attachment, uint32_t slots, struct log_subject subject);

/* Some rank has another PLANE_VERSION: says so. reason: attachment.h's. */
void alike_refused(struct log_subject subject, const char *reason);

#endif
