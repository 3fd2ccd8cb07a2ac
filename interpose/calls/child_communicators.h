/* Communicators made from another one: ncclCommSplit, ncclCommShrink, ncclCommGrow.
 *
 * All ranks of the parent must come to a split, so it is a unit of the parent's team
 * (core/unit/unit.h, MEMBER_SPLIT): agreed on before anything reaches NCCL, and always asked for. A
 * rank that comes to it early answers its peers' collectives; one that has joined takes part with
 * NCCL_SPLIT_NOCOLOR. In a group, splits are held back until its end as collectives are.
 *
 * Which ranks will be in a child, only NCCL knows: all that are attach where there is a slot for
 * each rank of the parent.
 */
#ifndef NCCL_JOIN_INTERPOSE_CHILD_COMMUNICATORS_H
#define NCCL_JOIN_INTERPOSE_CHILD_COMMUNICATORS_H

#include <stdbool.h>
#include <stddef.h>

#include <nccl.h>

#include "interpose/comm/call.h"
#include "interpose/comm/communicator.h"

/* A child on its way. */
struct child {
  ncclComm_t parent;
  ncclComm_t *handle; /* where NCCL writes the child */
  struct arrival arrival;
  uint64_t driver;    /* communicator.h */
  struct child *next; /* of those under way */
};

/* Attaches this rank for a child of the parent, of which `parent->children` have been made. how:
 * "split" or "shrink", part of the child's name. part: tells children apart that one call makes; of
 * a split the colour. key: ncclCommSplit's, otherwise 0. */
void child_arrive(struct arrival *arrival, struct communicator *parent, const char *how, int part,
                  int key);

/* The real call has returned `result`, alone or (children_end) in a group. Does not wait: children
 * that NCCL is still making are looked for in children_look. */
void child_end(struct child *child, ncclResult_t result);

/* The children that the splits of one real group will bring. All zero: none. */
struct children {
  struct child *all;
  size_t count, room;
};

/* The split is about to be issued: this rank attaches for the child's other ranks. False
 * without memory. */
bool children_expect(struct children *children, const struct call *split);

/* The real group has returned `result`: the children are there, are still being made, or have
 * failed. `children` is empty afterwards. */
void children_end(struct children *children, ncclResult_t result);

/* What the program has been told of a communicator (ncclCommGetAsyncError): with that, children of
 * one that does not block are made. Any thread; does not wait. */
void children_look(ncclComm_t parent, ncclResult_t state);

/* The calls have been issued, or never will be: frees what those that are splits have kept. */
void splits_release(struct call *calls, size_t ncalls);

#endif
