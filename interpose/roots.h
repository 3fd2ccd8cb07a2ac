/* The root of a Broadcast among ranks of which some have joined: its own if that rank is active,
 * otherwise the lowest active rank of the communicator, as PyTorch re-elects. Never a rank that
 * would send zeros.
 */
#ifndef NCCL_JOIN_INTERPOSE_ROOTS_H
#define NCCL_JOIN_INTERPOSE_ROOTS_H

#include <stdbool.h>
#include <stdint.h>

#include "interpose/answer.h"
#include "interpose/call.h"
#include "interpose/communicator.h"

/* The root of the Broadcast at an index that this rank has passed. Waits for `root` to get there;
 * for all ranks if it has joined. Negative after a failure or NCCL_JOIN_TIMEOUT. */
int roots_elect(struct endpoint *end, const struct communicator *comm, uint64_t index, int root);

/* Gives the program's Broadcast, of a wish that has settled, its root: if that is this rank, it
 * sends what is in its receive buffer. It keeps its own if the unit's Broadcasts are an AllGather
 * (contribution_gathers). False after a failure (logged). */
bool roots_apply(struct call *call, const struct wish *wish);

#endif
