/* The program's sends and receives: posted in the team before they are issued, so that a peer that
 * has joined can answer them (core/p2p/peers.h).
 */
#ifndef NCCL_JOIN_INTERPOSE_POINT_TO_POINT_H
#define NCCL_JOIN_INTERPOSE_POINT_TO_POINT_H

#include <stdbool.h>
#include <stddef.h>

#include <nccl.h>

#include "core/p2p/peers.h"
#include "interpose/comm/call.h"

/* What becomes of a call. */
enum fate {
  FATE_UNDECIDED = 0, /* not point to point, or nothing to do with nccl-join: to be issued */
  FATE_POSTED,        /* to be issued */
  FATE_REFUSED,       /* not to be issued */
};

/* Decides for the sends and receives among the calls of a group, or a single one, and posts them.
 * fates: one for each call, zeros at first. To be called when the units of the group have settled,
 * just before it is issued. place, exchanged: struct posts. ncclSuccess, or the error that the
 * program must be given, whatever is issued: a peer that has joined cannot send what is wanted
 * (NCCL_JOIN_LOSSY), or has failed. May wait for a peer that is thousands of operations behind. */
ncclResult_t point_to_point_post(const struct call *calls, size_t ncalls, enum fate *fates,
                                 uint32_t place, bool exchanged);

/* A group of sends and receives that ranks agree on as one unit (MEMBER_EXCHANGE). */
struct exchange {
  struct communicator *comm;
  struct member unit;
  struct posts posts;
  size_t *call_of; /* by post: which of the calls */
};

/* Whether the calls of a group are one: of one communicator, and something is sent to and received
 * from each of its other ranks, or there has been an exchange where they stand. members, call_of:
 * room for ncalls, which the exchange uses. */
bool point_to_point_exchanges(struct exchange *exchange, const struct call *calls, size_t ncalls,
                              uint32_t place, struct member *members, size_t *call_of);

/* Before it is agreed on: refuses those of its receives to which a joined rank would send zeros.
 * ncclSuccess, or the error that the program must be given. */
ncclResult_t point_to_point_begin(struct exchange *exchange, enum fate *fates);

#endif
