/* One post at a time (peers.h): reading it, whether it has been met, and what answers it. */
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

bool post_is_met(const struct peers *peers, uint32_t rank, const struct post *post) {
  uint64_t other = pair_key(post->comm, rank, !post->receives);
  uint64_t issued = pair_issued(peers->plane->logs[post->peer], other);
  return (int32_t)((uint32_t)issued - post->ordinal) >= 0;
}

void post_read(const struct plane_log *log, uint64_t position, struct post *post) {
  const struct plane_post *from = &log->posts[position % PLANE_POSTS];
  uint32_t what = LOAD(from->what);
  *post = (struct post){
      .count = LOAD(from->count),
      .index = LOAD(from->index),
      .comm = LOAD(from->comm),
      .ordinal = LOAD(from->ordinal),
      .group = LOAD(from->group),
      .peer = what >> 16,
      .datatype = (uint8_t)(what >> 8),
      .look = (uint8_t)what >> POST_LOOK_SHIFT,
      .receives = (what & POST_RECEIVES) != 0,
  };
}

uint64_t pair_earlier(const struct member *members, uint32_t i) {
  uint64_t earlier = 0;
  for (uint32_t before = 0; before < i; before++)
    earlier += pair_key_of(&members[before]) == pair_key_of(&members[i]);
  return earlier;
}

bool post_mirror(const struct peers *peers, uint32_t rank, struct post *post,
                 struct member *mirrors, uint32_t nmirrors) {
  struct member mirror = {
      .count = post->count,
      .comm = post->comm,
      .root = (int32_t)rank,
      .reduction = REDUCTION_NONE,
      .kind = post->receives ? MEMBER_SEND : MEMBER_RECEIVE,
      .datatype = post->datatype,
      .number = post->look,
  };
  mirrors[nmirrors] = mirror;
  uint64_t before = pair_issued(peers->own, pair_key_of(&mirror)) + pair_earlier(mirrors, nmirrors);
  post->mirrored = (uint32_t)before + 1 == post->ordinal;
  return post->mirrored;
}
