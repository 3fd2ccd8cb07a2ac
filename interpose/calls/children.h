/* Communicators made from another one: ncclCommSplit, ncclCommShrink, ncclCommGrow.
 *
 * All ranks of the parent must come to a split, so it is a unit of the parent's team
 * (core/unit/unit.h, MEMBER_SPLIT): agreed on before anything reaches NCCL, and always asked for. A
 * rank that comes to it early answers its peers' collectives; one that has joined takes part with
 * NCCL_SPLIT_NOCOLOR. In a group, splits are held back until its end as collectives are.
 */
#ifndef NCCL_JOIN_INTERPOSE_CHILDREN_H
#define NCCL_JOIN_INTERPOSE_CHILDREN_H

#include <stdbool.h>
#include <stddef.h>

#include <nccl.h>

#include "interpose/comm/call.h"
#include "interpose/comm/communicator.h"

/* The children that the splits of one real group will bring. All zero: none. */
struct births {
  struct birth *all;
  size_t count, room;
};

/* The split is about to be issued: this rank marks itself for the child's other ranks. False
 * without memory. */
bool births_expect(struct births *births, const struct call *split);

/* The real group has ended so: the children are there, are still being made, or have failed. Empty
 * afterwards. */
void births_end(struct births *births, ncclResult_t result);

/* What the program has been told of a communicator (ncclCommGetAsyncError): with that, children of
 * one that does not block are made. Any thread; does not wait. */
void children_look(ncclComm_t parent, ncclResult_t state);

/* The calls have been issued, or never will be: frees what those that are splits have kept. */
void splits_release(struct call *calls, size_t ncalls);

#endif
