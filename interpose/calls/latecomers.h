/* Communicators that are being made while ranks of theirs have yet to come. Who waits for them does
 * so inside of NCCL, and answers nobody: if one of them is still in a loop that the waiting rank
 * has left, each waits for the other, for ever. That is said in a line.
 *
 * It cannot be mended here. A rank does not know who the missing ones are before they come;
 * answered for, they might be issuing what this rank will come to once its communicator is made.
 *
 *   - A peer of this rank, in any of its teams, that has not come is in a loop that this rank has
 *     gone round and left for good, in an iteration that this one has not had, and has not moved
 *     for LATECOMERS_MS: ranks are uneven, and the line comes.
 *   - A peer is further than this rank, and nothing more is known of it: after
 *     NCCL_JOIN_STALL_WARN, as of any wait in which nothing moves.
 *   - Nothing is said, and nobody is looked for, where the process has no team yet.
 *
 * The lowest rank that has come says it, once. No call waits for it: it is said by a thread of its
 * own (core/thread/detached.h).
 */
#ifndef NCCL_JOIN_INTERPOSE_LATECOMERS_H
#define NCCL_JOIN_INTERPOSE_LATECOMERS_H

#include "interpose/comm/communicator.h"

#define LATECOMERS_MS 5000

/* The calling thread is about to make the communicator by this function, whose name stays. NULL:
 * there is no team in which it is waited for, or no thread. The arrival's attachment must stay
 * until late_end (interpose/comm/late.h). */
struct late *latecomers_watch(const struct arrival *arrival, const char *function);

#endif
