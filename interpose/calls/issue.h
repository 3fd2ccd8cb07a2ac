/* The long way of the program's calls: agreed on with the other ranks, given the roots and divisors
 * that hold among those that are active, issued, and remembered where that is asked for. Each is a
 * transaction (park/transaction.h).
 */
#ifndef NCCL_JOIN_INTERPOSE_ISSUE_H
#define NCCL_JOIN_INTERPOSE_ISSUE_H

#include <stddef.h>
#include <stdint.h>

#include <nccl.h>

#include "interpose/comm/call.h"
#include "interpose/comm/communicator.h"
#include "interpose/park/wait.h"

/* A collective that stands in no group; member: what it is in the agreed sequence. Returns what the
 * program is to get. Here and below calls may be changed: roots, operators. */
ncclResult_t issue_alone(struct call *call, struct communicator *comm, const struct member *member);

/* The calls of a group that has ended, or one that NCCL takes in groups only: for each team one
 * unit, and then what needs no agreement. place: where the group's end stands. */
ncclResult_t issue_group(struct call *calls, size_t ncalls, uint32_t place);

/* ---- startup.c: NCCL_JOIN_RESYNC=broadcasts. What a program broadcasts before anything else is
 * its model, which all ranks have to begin with. ---- */

/* A unit of the program has been issued for real, at request->index. If it consists of broadcasts,
 * and only such units came before it, its receive buffers are the program's state. Barriers (units
 * in which no count is above 1) may come in between. calls: those of the unit, in its order. The
 * caller has entered the endpoint. */
void startup_issued(const struct request *request, const struct call *const *calls);

/* Whether NCCL_JOIN_RESYNC asks for that, and the start is not over yet. */
bool startup_is_watched(const struct endpoint *end);

#endif
