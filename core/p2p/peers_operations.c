/* One operation at a time (peers.h): whether it has been met, by one of its size, and what answers
 * it. */
#include "core/p2p/peers_private.h"

#include <stdatomic.h>

bool operation_is_met(const struct peers *peers, uint32_t rank, const struct operation *operation) {
  uint64_t other = pair_key(operation->comm, rank, !operation->receives);
  uint64_t issued = pair_issued(log_of(peers->plane, operation->peer), other);
  return (int32_t)((uint32_t)issued - operation->ordinal) >= 0;
}

/* The `nth` of a group's operations of a pair, from 1; NULL: there are not so many. */
static const struct member *nth_of_pair(const struct posts *posts, uint64_t key, uint32_t nth) {
  for (uint32_t i = 0; i < posts->nmembers; i++)
    if (pair_key_of(&posts->members[i]) == key && --nth == 0)
      return &posts->members[i];
  return NULL;
}

bool operation_meets(const struct peers *peers, uint32_t rank, const struct operation *operation,
                     const struct posts *pending) {
  if (operation->peer != peers->plane->rank || (operation->flags & OPERATION_EXCHANGED))
    return false;
  uint64_t key = pair_key(operation->comm, rank, !operation->receives);
  uint32_t nth = operation->ordinal - (uint32_t)pair_issued(peers->own, key);
  if (nth == 0 || nth > pending->nmembers)
    return false; /* it has met one that has been issued */
  const struct member *side = nth_of_pair(pending, key, nth);
  bool elsewhere = operation->place != 0 && operation->place != pending->place &&
                   peers->posted_from[operation->place % PEERS_PLACES] == operation->place;
  return side != NULL && side->count == operation->count && side->datatype == operation->datatype &&
         !elsewhere;
}

uint64_t pair_earlier(const struct member *members, uint32_t i) {
  uint64_t earlier = 0;
  for (uint32_t before = 0; before < i; before++)
    earlier += pair_key_of(&members[before]) == pair_key_of(&members[i]);
  return earlier;
}

bool operation_mirror(const struct peers *peers, uint32_t rank, struct operation *operation,
                      struct member *mirrors, uint32_t nmirrors) {
  struct member mirror = {
      .count = operation->count,
      .comm = operation->comm,
      .root = (int32_t)rank,
      .reduction = REDUCTION_NONE,
      .kind = operation->receives ? MEMBER_SEND : MEMBER_RECEIVE,
      .datatype = operation->datatype,
      .number = operation->look,
  };
  mirrors[nmirrors] = mirror;
  uint64_t before = pair_issued(peers->own, pair_key_of(&mirror)) + pair_earlier(mirrors, nmirrors);
  operation->mirrored = (uint32_t)before + 1 == operation->ordinal;
  return operation->mirrored;
}

/* ---- sizes ---- */

static bool is_other_side(const struct operation *own, const struct operation *other,
                          uint32_t rank) {
  return other->peer == rank && other->comm == own->comm && other->ordinal == own->ordinal &&
         other->receives != own->receives;
}

/* Of an operation of this rank what its peer has posted. False: nothing yet, or it is gone. */
static bool find_other_side(struct peers *peers, const struct operation *own,
                            struct operation *other) {
  uint32_t rank = peers->plane->rank;
  const struct plane_log *log = log_of(peers->plane, own->peer);
  if (!operation_is_met(peers, rank, own))
    return false;
  uint64_t key = pair_key(own->comm, own->peer, own->receives);
  struct peers_met *met = &peers->met[pair_place(peers->own, key)];
  uint64_t begin = log_operations_begin(log), end = log_operations_end(log);
  uint64_t at = met->at + met->stride;
  bool found = false;
  if (at >= begin && at < end) {
    operation_read(log, at, other);
    found = is_other_side(own, other, rank);
  }
  if (!found)
    at = met->at > begin ? met->at : begin;
  /* No further than a ring is long, whatever a log says. */
  for (uint32_t reads = 0; !found && at < end && reads < PLANE_OPERATIONS; reads++) {
    operation_read(log, at, other);
    found = is_other_side(own, other, rank);
    at += !found;
  }
  if (!found || log_operations_gone(log) > at)
    return false;
  *met = (struct peers_met){.at = at, .stride = at - met->at};
  return true;
}

/* Of a datatype that is not known here nothing is said. */
static bool are_equally_large(const struct operation *own, const struct operation *other) {
  if (own->datatype == other->datatype)
    return own->count == other->count;
  uint32_t own_size = datatype_size(own->datatype), other_size = datatype_size(other->datatype);
  return own_size == 0 || other_size == 0 || own->count * own_size == other->count * other_size;
}

/* Whether one of the two ranks has left a loop, and the other has not. Who is at the same place has
 * gone round a loop around the one that was left; and of two that have left one of collectives, one
 * may have had none of it, or nothing to send there. */
static bool is_left_alone(const struct operation *own, const struct operation *other,
                          enum unequal_how *how) {
  uint8_t left = own->flags | other->flags;
  if (!(left & OPERATION_LEFT) || !(left & OPERATION_ROUND) || (left & OPERATION_EXCHANGED) ||
      own->place == other->place || (own->flags & other->flags & OPERATION_BEHIND))
    return false;
  *how = own->flags & OPERATION_LEFT ? UNEQUAL_WE_LEFT : UNEQUAL_THEY_LEFT;
  return true;
}

static struct member operation_member(const struct operation *operation) {
  return (struct member){.count = operation->count,
                         .comm = operation->comm,
                         .root = (int32_t)operation->peer,
                         .reduction = REDUCTION_NONE,
                         .kind = operation->receives ? MEMBER_RECEIVE : MEMBER_SEND,
                         .datatype = operation->datatype};
}

/* On the same machine the peer sees ours when it posts its own. */
static bool is_open(const struct peers *peers, const struct operation *own) {
  const struct plane *plane = peers->plane;
  return (own->flags & OPERATION_LEFT) && !(own->flags & OPERATION_EXCHANGED) &&
         plane->machine != NULL && plane->machine(plane, own->peer) != NULL &&
         !operation_is_met(peers, plane->rank, own);
}

void operations_find_unequal(struct peers *peers, uint32_t noperations, struct unequal *unequal) {
  unequal->found = unequal->open = false;
  /* What we have counted is seen before we look what the peer has counted: as it does. */
  atomic_thread_fence(memory_order_seq_cst);
  for (uint64_t i = unequal->end - noperations; i < unequal->end && !unequal->found; i++) {
    struct operation own, other;
    operation_read(peers->own, i, &own);
    if (!find_other_side(peers, &own, &other)) {
      unequal->open = unequal->open || is_open(peers, &own);
      continue;
    }
    enum unequal_how how = UNEQUAL_SIZES;
    if (are_equally_large(&own, &other) && !is_left_alone(&own, &other, &how))
      continue;
    *unequal = (struct unequal){.found = true,
                                .end = unequal->end,
                                .how = how,
                                .ours = operation_member(&own),
                                .theirs = operation_member(&other),
                                .place = other.place};
  }
}
