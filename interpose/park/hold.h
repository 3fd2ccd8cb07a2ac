/* Operations that are held back behind a loop of collectives (core/p2p/peers.h): requests of a wait
 * that claim nothing (request->behind). They settle once the ranks that are linked with this one
 * have left the loop, too; meanwhile this rank answers those that go on in it. For the wait
 * (wait_private.h).
 */
#ifndef NCCL_JOIN_INTERPOSE_HOLD_H
#define NCCL_JOIN_INTERPOSE_HOLD_H

#include "interpose/park/wait.h"

struct wait;

/* The request begins: it settles at once where all have left the loop. */
void hold_begin(struct request *request);

/* The operations may be posted. left: all ranks have left the loop. */
void hold_end(struct request *request, bool left);

/* Asked now and then: ends one in which nothing has moved for too long. moved_ms: when something
 * last has, CLOCK_MONOTONIC. */
void hold_look(const struct wait *wait, struct request *request, uint64_t moved_ms);

/* Whether the rank of a request answers in its other teams: not while it holds something back, and
 * has seen nobody go on in the loop. */
bool hold_answers(const struct request *request);

#endif
