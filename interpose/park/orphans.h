/* Ranks of this process that nobody will leave with.
 *
 * A program may drive its ranks with a thread each, and destroy their communicators with another:
 * NCCL does not mind. The first ncclCommDestroy would wait for the ranks of the others, whose
 * threads are done and will not come. So a rank that leaves takes with it the other ranks that the
 * process has in the communicator, if their threads have ended, or have been idle for long
 * although they could go on. (At the end of an even program all are idle.)
 */
#ifndef NCCL_JOIN_INTERPOSE_ORPHANS_H
#define NCCL_JOIN_INTERPOSE_ORPHANS_H

#include "interpose/park/wait_private.h"

/* How long a thread that is alive must have been idle. Longer than a step that loads its data. */
#define ORPHANS_IDLE_MS 5000
#define ORPHANS_SPINNING_MS 30000 /* a thread that runs all the time, as OpenMP's may */

/* Whether `other` is another rank's end of the communicator `comm` (same tag), with no other thread
 * that will leave with it: the one that used it has ended, or nobody has used it, and the one that
 * made it has ended or is the calling one. */
bool orphans_is_one(const struct communicator *comm, const struct communicator *other);

/* For a wait in a LEAVE, now and then: the next rank to be taken along, whose endpoint the calling
 * thread has entered (endpoint_enter_if_free), or NULL. */
struct endpoint *orphans_enter_next(const struct wait *wait);

#endif
