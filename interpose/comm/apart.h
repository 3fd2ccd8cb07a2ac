/* Two threads of a rank that use a communicator each, of the same ranks, at the same time.
 *
 * Communicators of the same ranks share one agreed sequence, which a program with one order of
 * calls needs. Threads that take turns (PyTorch's forward and backward pass) have one. Threads that
 * do not take turns have none that all ranks see alike: what one of them calls meets what the other
 * calls elsewhere, and would be taken for a rank that has left its loop. NCCL's guide forbids such
 * a program, but mostly it works; so nccl-join stands aside: from then on the calls of these
 * communicators go through as they come.
 *
 * A call that comes while another thread is inside for another communicator is the proof. Until it
 * comes nothing must have been shadowed: a parked thread does not stand in for its rank where
 * another thread of the process that may yet come uses one of the communicators. It waits until
 * that has been asleep for a while.
 */
#ifndef NCCL_JOIN_INTERPOSE_APART_H
#define NCCL_JOIN_INTERPOSE_APART_H

#include "interpose/comm/communicator.h"

#define APART_ASLEEP_MS 1000 /* the other thread, before the first shadow ... */
#define APART_TURNS_MS 100   /* ... and once threads of the rank are known to take turns */
#define APART_AWAKE_MS 10000 /* a thread that never sleeps is not waited for any longer */

/* As endpoint_enter, for a call of the communicator with this tag, by the thread that uses it from
 * here on; recognises the above, and does not wait for another thread then: that may be in NCCL,
 * waiting for what we do. */
void apart_enter(struct endpoint *end, uint32_t tag);

/* Whether another thread that may yet come uses a communicator of the team. except: a communicator
 * that is left out; NULL: none. */
bool apart_has_others(const struct endpoint *end, const struct communicator *except);

/* Whether the team is one that ranks stand aside of. Any thread. */
static inline bool apart_is_set(const struct endpoint *end) {
  return team_is_apart(end->team);
}

/* The rank stands aside: nothing is agreed on in its team any more. Does nothing on a thread that
 * could not enter: the one that is inside, or comes next, does it. */
void apart_stand_aside(struct endpoint *end);

/* A new team of the rank: shadows in it wait as said above, in front of what else holds them. */
void apart_watch(struct endpoint *end);

#endif
