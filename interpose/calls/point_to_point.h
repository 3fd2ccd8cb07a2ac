/* The program's sends and receives: posted in the team before they are issued, so that a peer that
 * has joined can answer them (core/p2p/peers.h).
 */
#ifndef NCCL_JOIN_INTERPOSE_POINT_TO_POINT_H
#define NCCL_JOIN_INTERPOSE_POINT_TO_POINT_H

#include <stdbool.h>
#include <stddef.h>

#include <nccl.h>

#include "interpose/comm/call.h"

/* What becomes of a call. */
enum fate {
  FATE_UNDECIDED = 0, /* not point to point, or nothing to do with nccl-join: to be issued */
  FATE_POSTED,        /* to be issued */
  FATE_REFUSED,       /* not to be issued */
};

/* Decides for the sends and receives among the calls of a group, or a single one, and posts them.
 * fates: one for each call, zeros at first. To be called when the units of the group have settled,
 * just before it is issued. ncclSuccess, or the error that the program must be given, whatever is
 * issued: a peer that has joined cannot send what is wanted (NCCL_JOIN_LOSSY), or has failed. May
 * wait for a peer that is thousands of operations behind. */
ncclResult_t point_to_point_post(const struct call *calls, size_t ncalls, enum fate *fates);

#endif
