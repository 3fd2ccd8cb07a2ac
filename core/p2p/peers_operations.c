/* One operation at a time (peers.h): reading it, whether it has been met, and what answers it. */
#include "core/p2p/peers_private.h"

uint32_t pair_place(const struct plane_log *log, uint64_t key) {
  uint32_t place = (uint32_t)(key * UINT64_C(0x9e3779b97f4a7c15) >> 32) % PLANE_PAIRS;
  for (uint32_t probes = 0; probes < PLANE_PAIRS; probes++) {
    uint64_t there = atomic_load_explicit(&log->pairs[place].key, memory_order_acquire);
    if (there == key || there == 0)
      break;
    place = (place + 1) % PLANE_PAIRS;
  }
  return place;
}

uint64_t pair_issued(const struct plane_log *log, uint64_t key) {
  const struct plane_pair *pair = &log->pairs[pair_place(log, key)];
  if (atomic_load_explicit(&pair->key, memory_order_acquire) != key)
    return 0;
  return atomic_load_explicit(&pair->issued, memory_order_acquire);
}

bool operation_is_met(const struct peers *peers, uint32_t rank, const struct operation *operation) {
  uint64_t other = pair_key(operation->comm, rank, !operation->receives);
  uint64_t issued = pair_issued(peers->plane->logs[operation->peer], other);
  return (int32_t)((uint32_t)issued - operation->ordinal) >= 0;
}

void operation_read(const struct plane_log *log, uint64_t position, struct operation *operation) {
  const struct plane_operation *from = &log->operations[position % PLANE_OPERATIONS];
  uint32_t what = LOAD(from->what);
  *operation = (struct operation){
      .count = LOAD(from->count),
      .index = LOAD(from->index),
      .comm = LOAD(from->comm),
      .ordinal = LOAD(from->ordinal),
      .group = LOAD(from->group),
      .peer = what >> 16,
      .datatype = (uint8_t)(what >> 8),
      .look = (uint8_t)what >> OPERATION_LOOK_SHIFT,
      .receives = (what & OPERATION_RECEIVES) != 0,
  };
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
