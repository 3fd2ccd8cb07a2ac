/* One operation at a time (peers.h): whether it has been met, and what answers it. */
#include "core/p2p/peers_private.h"

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
  if (operation->peer != peers->plane->rank || operation->exchanged)
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
