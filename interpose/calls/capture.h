/* Captures of CUDA graphs. A collective that is captured is issued later, by cudaGraphLaunch, any
 * number of times, and nobody here sees when: it cannot be agreed on, nor shadowed. So it is passed
 * through as it is, outside of the agreed sequence, and what its communicator does besides is not
 * shadowed any more either: a joined rank would have to answer for replays in between.
 *
 * Seen without a question to the driver for each collective: the functions that begin and end a
 * capture are exported like NCCL's (comm/captures.h), and while one is under way nobody commits on
 * the fast path. A program that reaches them past us (a CUDA runtime that is linked statically) is
 * seen where a call takes long anyway: before it is agreed on with the others.
 */
#ifndef NCCL_JOIN_INTERPOSE_CAPTURE_H
#define NCCL_JOIN_INTERPOSE_CAPTURE_H

#include <stdbool.h>

#include "interpose/comm/call.h"
#include "interpose/comm/captures.h"
#include "interpose/comm/communicator.h"

/* Asks the driver whether the call is captured. The first time, says so, and that the
 * communicator's collectives cannot be shadowed. */
bool capture_asks(const struct call *call, struct communicator *comm);

/* Whether the call is captured: then it is to be issued as it is. ask: ask the driver even if no
 * capture is known to be under way. */
static inline bool capture_takes(const struct call *call, struct communicator *comm, bool ask) {
  return (ask || captures_are_under_way()) && capture_asks(call, comm);
}

#endif
