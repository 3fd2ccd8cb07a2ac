/* One call of the program that moves data, as recorded: what to compare with other ranks, and what
 * to issue.
 */
#ifndef NCCL_JOIN_INTERPOSE_CALL_H
#define NCCL_JOIN_INTERPOSE_CALL_H

#include <stdbool.h>
#include <stddef.h>

#include <nccl.h>

#include "core/unit/unit.h"
#include "interpose/comm/communicator.h"

/* Kinds beyond those that can be part of a unit: point to point is outside the agreed sequence, and
 * ncclRedOpDestroy must stay behind the calls that use the operator. */
enum { CALL_SEND = 100, CALL_RECV, CALL_DESTROY_OPERATOR };

#define NO_OPERATOR ((int)REDUCTION_NONE)

/* 64 bytes: groups hold arrays of them. A split keeps its configuration in `send`, the place of the
 * child's handle in `receive`, the colour in `root` and the key in `reduction`. */
struct call {
  const void *send;
  void *receive;
  size_t count;
  ncclComm_t handle;
  cudaStream_t stream;
  ncclDataType_t datatype;
  int reduction; /* ncclRedOp_t, or NO_OPERATOR */
  int root;      /* or the peer of Send and Recv; ROOT_NONE without */
  int kind;      /* enum member_kind, or one of the above */
  bool owned;    /* of a split: its configuration is a copy */
  bool scaled;   /* reduction is an operator of ours: divisors.h */
};

/* The call as part of a unit of its communicator; false if it is none: point to point, count 0
 * (NCCL drops it on this rank alone), or arguments that NCCL will refuse on this rank alone. */
bool call_member(const struct call *call, const struct communicator *comm, struct member *member);

/* What a unit's first member says of where the call stands (places.h), if that is part of it. */
static inline void call_stands_at(struct member *first, uint32_t place) {
  if (first->kind <= MEMBER_SPLIT)
    first->number = place;
}

/* Calls the real function. */
ncclResult_t call_issue(const struct call *call);

#endif
