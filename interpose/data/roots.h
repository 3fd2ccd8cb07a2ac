/* The root of a Broadcast among ranks of which some have joined: its own if that rank is active,
 * otherwise the lowest active rank of the communicator, as PyTorch re-elects. Never a rank that
 * would send zeros.
 *
 * That is right where all ranks have the same (DDP's buffers) and the root is but the one that is
 * asked for it. It is wrong where each rank sends what it alone has: the shards of ZeRO's
 * parameters, each broadcast by the rank whose optimizer has made a step on it. Nothing in a call
 * tells which it is, but the loop does: shards come from several roots in turn. So a communicator's
 * broadcasts are *sharded* if, since a rank has joined, they have come both from that rank and from
 * another. Unless NCCL_JOIN_LOSSY lets joined ranks send zeros to an AllGather, they are refused on
 * every active rank from the one on that shows it, which is in the joined rank's first iteration
 * without data: at its own Broadcast if another one comes before it, otherwise at the first of
 * another root. All ranks see the same sequence, and so come to the same result. Refused Broadcasts
 * are issued nonetheless, with a root re-elected: the ranks stay in step, and what is received is
 * no other than before.
 *
 * Other programs do that too: one that broadcasts buffers from rank 0 and a metric from rank 1, in
 * one communicator and one loop, is refused when either of the two has joined.
 */
#ifndef NCCL_JOIN_INTERPOSE_ROOTS_H
#define NCCL_JOIN_INTERPOSE_ROOTS_H

#include <stdbool.h>
#include <stdint.h>

#include "interpose/comm/call.h"
#include "interpose/comm/communicator.h"

struct election {
  int root;    /* who sends; negative after a failure or NCCL_JOIN_TIMEOUT */
  int missing; /* the joined rank of sharded broadcasts, if they are to be refused; or negative */
};

/* The root of the Broadcast at an index that this rank has passed. Waits for `root` to get there;
 * if that has joined, for the lowest active rank and all below it; and for the root of an earlier
 * Broadcast that had joined then. To be called once for each Broadcast of the communicator, in
 * their order, whether it is issued for real or as a shadow. */
struct election roots_elect(struct communicator *comm, uint64_t index, int root);

/* Whether roots_elect would not wait. */
bool roots_can_tell(const struct communicator *comm, uint64_t index, int root);

/* Gives the program's Broadcast, of a unit that has settled at an index, its root: if that is this
 * rank, it sends what is in its receive buffer. It keeps its own if the unit's Broadcasts are an
 * AllGather (contribution_gathers). Returns what the program's call is to (logged). *issue: whether
 * to issue it: not if a rank is gone without which nobody knows the root. */
ncclResult_t roots_apply(struct call *call, struct unit unit, uint64_t index, bool *issue);

#endif
