/* Kinds of members: the collectives (collectives.h), and what else ranks agree on or tell each
 * other.
 */
#ifndef NCCL_JOIN_CORE_KIND_H
#define NCCL_JOIN_CORE_KIND_H

#include <stdbool.h>
#include <stdint.h>

#include "core/unit/collectives.h"

#define KIND_POSITION(with, KIND, ...) POSITION_##KIND,
#define KIND_NUMBER(with, KIND, ...) MEMBER_##KIND = POSITION_##KIND,

/* 0 is no kind. */
enum { MEMBER_NONE, NCCL_COLLECTIVES(KIND_POSITION, ) };

enum member_kind {
  NCCL_COLLECTIVES(KIND_NUMBER, )
  /* Point to point: never part of a unit, for they are not the same on all ranks (peers.h). The
   * root of such a member is the peer. */
  MEMBER_SEND,
  MEMBER_RECEIVE,
  /* A group of sends and receives between all ranks of a communicator, as one: moves nothing itself
   * (count 0), for what each rank sends is its own, and is posted behind it (peers.h). */
  MEMBER_EXCHANGE,
  /* ncclCommSplit of the communicator: moves nothing (count 0), but all its ranks must come. Which
   * colour each asks for is not the same on all ranks, and so no part of it. Only ever claimed: a
   * rank that shadows it is not in the new communicator, and cannot be put there later. */
  MEMBER_SPLIT,
  /* Never the program's: units of these are agreed on like any other. */
  MEMBER_STATE, /* a Broadcast of a buffer that the program has named: the last joiner's, for all.
                   Only ever claimed, too */
  MEMBER_MARK,  /* nothing to issue: a unit of its own that says something, see enum mark */
};
#define MEMBER_KINDS (MEMBER_MARK + 1)
#undef KIND_POSITION
#undef KIND_NUMBER

/* Whether a kind has a root, and whether another rank takes the part of a root that has joined. */
enum kind_root { KIND_NO_ROOT, KIND_ROOTED, KIND_ELECTED };

/* Elements of a buffer that are used: none, count, or count for each rank; or that on the root
 * alone. */
enum kind_amount { KIND_NOTHING, KIND_ONE, KIND_ALL, KIND_ROOT_ONE, KIND_ROOT_ALL };

/* How the two buffers lie if they are one: collectives.h. */
enum kind_in_place { KIND_APART, KIND_WHOLE, KIND_SENDS_PART, KIND_RECEIVES_PART };

/* What is to be known of a kind. */
struct kind_traits {
  const char *name;     /* "allreduce": NCCL's name, for texts */
  const char *function; /* "ncclAllReduce": what a member is issued with, or "unknown" */
  enum kind_root root;
  enum kind_amount sends, receives;
  enum kind_in_place in_place;
  bool reduces; /* a member of it has an operator */
};
extern const struct kind_traits kind_table[MEMBER_KINDS];

/* Of any number; of one that is no kind what there is of MEMBER_NONE: nothing, and it is called
 * "unknown". */
static inline const struct kind_traits *kind_traits(uint8_t kind) {
  return &kind_table[kind < MEMBER_KINDS ? kind : MEMBER_NONE];
}

/* "allreduce": NCCL's name of a member_kind, or "unknown". */
static inline const char *member_kind_name(uint8_t kind) {
  return kind_traits(kind)->name;
}

static inline bool member_is_point_to_point(uint8_t kind) {
  return kind == MEMBER_SEND || kind == MEMBER_RECEIVE;
}

/* Whether its root is one that is elected where it has joined: interpose/data/roots.h. */
static inline bool member_elects_root(uint8_t kind) {
  return kind_traits(kind)->root == KIND_ELECTED;
}

#endif
