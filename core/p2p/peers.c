/* Posting point to point operations (peers.h): the ring, the table of pairs, and what a look at
 * them comes to. */
#include "core/p2p/peers_private.h"

#include <stdlib.h>

#define LOAD(object) atomic_load_explicit(&(object), memory_order_relaxed)
#define STORE(object, value) atomic_store_explicit(&(object), (value), memory_order_relaxed)

/* Posts between two looks at which of them are done with. */
#define TIDY_EVERY 64u

struct peers *peers_create(struct plane *plane) {
  struct peers *peers = calloc(1, sizeof(*peers));
  if (peers == NULL)
    return NULL;
  peers->plane = plane;
  peers->own = plane->logs[plane->rank];
  peers->tidy_at = TIDY_EVERY;
  pthread_mutex_init(&peers->lock, NULL);
  return peers;
}

void peers_destroy(struct peers *peers) {
  if (peers == NULL)
    return;
  pthread_mutex_destroy(&peers->lock);
  free(peers->done);
  free(peers->windows);
  free(peers->posts);
  free(peers->places);
  free(peers);
}

/* ---- pairs ---- */

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

/* How many operations of a pair a rank has issued. */
static uint64_t pair_issued(const struct plane_log *log, uint64_t key) {
  const struct plane_pair *pair = &log->pairs[pair_place(log, key)];
  if (atomic_load_explicit(&pair->key, memory_order_acquire) != key)
    return 0;
  return atomic_load_explicit(&pair->issued, memory_order_acquire);
}

static uint64_t key_of(const struct member *member) {
  return pair_key(member->comm, (uint32_t)member->root, member->kind == MEMBER_RECEIVE);
}

/* Enters the pairs of a group; false if there are too many of them. */
static bool enter_pairs(struct peers *peers, const struct member *members, uint32_t nmembers) {
  for (uint32_t i = 0; i < nmembers; i++) {
    struct plane_pair *pair = &peers->own->pairs[pair_place(peers->own, key_of(&members[i]))];
    if (LOAD(pair->key) != 0)
      continue;
    if (peers->npairs == PLANE_PAIRS / 4 * 3)
      return false;
    peers->npairs++;
    atomic_store_explicit(&pair->key, key_of(&members[i]), memory_order_release);
  }
  return true;
}

bool post_is_met(const struct peers *peers, uint32_t rank, const struct post *post) {
  uint64_t other = pair_key(post->comm, rank, !post->receives);
  uint64_t issued = pair_issued(peers->plane->logs[post->peer], other);
  return (int32_t)((uint32_t)issued - post->ordinal) >= 0;
}

/* ---- posting ---- */

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

void post_group(struct peers *peers, const struct member *members, uint32_t nmembers,
                uint64_t index) {
  struct plane_log *own = peers->own;
  peers->group++;
  /* What is written below must not be seen before posts_begin has been. */
  atomic_thread_fence(memory_order_release);
  for (uint32_t i = 0; i < nmembers; i++) {
    const struct member *member = &members[i];
    struct plane_post *post = &own->posts[peers->end++ % PLANE_POSTS];
    uint64_t ordinal = ++peers->counted[pair_place(own, key_of(member))];
    STORE(post->count, member->count);
    STORE(post->index, index);
    STORE(post->comm, member->comm);
    STORE(post->ordinal, (uint32_t)ordinal);
    STORE(post->group, peers->group);
    STORE(post->what, (uint32_t)member->root << 16 | (uint32_t)member->datatype << 8 |
                          (member->number & LOOK_BUFFER_MASK) << POST_LOOK_SHIFT |
                          (member->kind == MEMBER_RECEIVE ? POST_RECEIVES : 0));
  }
  atomic_store_explicit(&own->posts_end, peers->end, memory_order_release);
  for (uint32_t i = 0; i < nmembers; i++) {
    uint32_t place = pair_place(own, key_of(&members[i]));
    /* Sequentially consistent, as is who waits: either it sees the post, or we see it waiting. */
    atomic_store(&own->pairs[place].issued, peers->counted[place]);
  }
}

/* Lets go of posts that are not needed any more: those that come to an end whatever happens. */
static void tidy(struct peers *peers) {
  uint32_t rank = peers->plane->rank;
  peers->tidy_at = peers->end + TIDY_EVERY;
  if (follow_posts(peers, NULL, NULL, 0) && peers->done[rank] > LOAD(peers->own->posts_begin))
    STORE(peers->own->posts_begin, peers->done[rank]);
}

bool post_has_room(struct peers *peers, uint32_t nmembers) {
  struct plane_log *own = peers->own;
  uint64_t begin = LOAD(own->posts_begin);
  if (peers->end >= peers->tidy_at || peers->end + nmembers - begin > PLANE_POSTS)
    tidy(peers);
  begin = LOAD(own->posts_begin);
  /* Where ranks are far apart: what has met its partner will come to an end sooner or later. */
  while (peers->end + nmembers - begin > PLANE_POSTS && begin < peers->end) {
    struct post post;
    post_read(own, begin, &post);
    if (!post_is_met(peers, peers->plane->rank, &post))
      break;
    begin++;
  }
  STORE(own->posts_begin, begin);
  return peers->end + nmembers - begin <= PLANE_POSTS;
}

enum post_result peers_post(struct peers *peers, const struct member *members, uint32_t nmembers,
                            uint64_t index) {
  _Atomic uint32_t *state = &peers->plane->team->point_to_point;
  if (nmembers == 0)
    return POST_DONE;
  if (atomic_load(state) == PEERS_UNUSED)
    atomic_compare_exchange_strong(state, &(uint32_t){PEERS_UNUSED}, PEERS_TRACKED);
  enum post_result result = POST_DONE;
  pthread_mutex_lock(&peers->lock);
  if (atomic_load(state) == PEERS_UNTRACKED) {
    result = POST_LOST;
  } else if (nmembers > PLANE_POSTS || !enter_pairs(peers, members, nmembers)) {
    atomic_store(state, PEERS_UNTRACKED);
    result = POST_LOST;
  } else if (!post_has_room(peers, nmembers)) {
    result = POST_FULL;
  } else {
    post_group(peers, members, nmembers, index);
  }
  pthread_mutex_unlock(&peers->lock);
  return result;
}

/* ---- what is asked ---- */

/* The operations of a pair that stand before position i in a group. */
static uint64_t earlier_of_pair(const struct member *members, uint32_t i) {
  uint64_t earlier = 0;
  for (uint32_t before = 0; before < i; before++)
    earlier += key_of(&members[before]) == key_of(&members[i]);
  return earlier;
}

int peers_find_lossy(struct peers *peers, const struct member *members, uint32_t nmembers,
                     uint64_t index) {
  int found = -1;
  pthread_mutex_lock(&peers->lock);
  for (uint32_t i = 0; i < nmembers && found < 0; i++) {
    if (members[i].kind != MEMBER_RECEIVE || members[i].count == 0)
      continue;
    const struct plane_log *log = peers->plane->logs[members[i].root];
    uint64_t at = atomic_load(&log->answering);
    uint64_t sent = pair_issued(log, pair_key(members[i].comm, peers->plane->rank, false));
    uint64_t needed = pair_issued(peers->own, key_of(&members[i])) + earlier_of_pair(members, i);
    /* Still there after we have looked at what it has sent: it has not done so in between. */
    if (at > index && at == atomic_load(&log->head) + 1 && sent <= needed &&
        at == atomic_load(&log->answering))
      found = (int)i;
  }
  pthread_mutex_unlock(&peers->lock);
  return found;
}

static bool all_have_come(const struct peers *peers, uint64_t index) {
  for (uint32_t rank = 0; rank < peers->plane->nranks; rank++) {
    const struct window *window = &peers->windows[rank];
    if (rank != peers->plane->rank && window->head <= index && !window->ended &&
        window->claim != index + 1 && window->answering != index + 1)
      return false;
  }
  return true;
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
  uint64_t before = pair_issued(peers->own, key_of(&mirror)) + earlier_of_pair(mirrors, nmirrors);
  post->mirrored = (uint32_t)before + 1 == post->ordinal;
  return post->mirrored;
}

/* All that is left for this rank before an index, whether it comes to an end at once or not: no
 * more can come. */
static uint32_t mirror_the_rest(struct peers *peers, uint64_t index, struct member *mirrors,
                                uint32_t limit) {
  uint32_t nmirrors = 0;
  for (uint32_t rank = 0; rank < peers->plane->nranks; rank++) {
    const struct window *window = &peers->windows[rank];
    for (uint64_t i = window->next; i < window->last && nmirrors < limit; i++) {
      struct post *post = &peers->posts[window->at + (i - window->first)];
      if (post->index <= index && post->peer == peers->plane->rank &&
          !post_is_met(peers, rank, post))
        nmirrors += post_mirror(peers, rank, post, mirrors, nmirrors);
    }
  }
  return nmirrors;
}

/* Whether a rank that answers at the index still has something before it to answer. */
static bool somebody_is_asked(const struct peers *peers, uint64_t index) {
  for (uint32_t rank = 0; rank < peers->plane->nranks; rank++) {
    const struct window *window = &peers->windows[rank];
    for (uint64_t i = window->next; i < window->last; i++) {
      const struct post *post = &peers->posts[window->at + (i - window->first)];
      if (post->index <= index && peers->windows[post->peer].answering == index + 1 &&
          !post_is_met(peers, rank, post))
        return true;
    }
  }
  return false;
}

enum peers_verdict peers_look(struct peers *peers, uint64_t index, struct member *mirrors,
                              uint32_t *nmirrors) {
  enum peers_verdict verdict = PEERS_HOLD;
  *nmirrors = 0;
  pthread_mutex_lock(&peers->lock);
  (void)post_has_room(peers, UNIT_MEMBERS_MAX);
  uint64_t used = peers->end - LOAD(peers->own->posts_begin);
  uint32_t room = PLANE_POSTS - (uint32_t)used;
  uint32_t limit = room < UNIT_MEMBERS_MAX ? room : UNIT_MEMBERS_MAX;
  if (!follow_posts(peers, mirrors, nmirrors, limit)) {
    verdict = PEERS_PASS;
  } else {
    bool come = all_have_come(peers, index);
    if (come && *nmirrors == 0)
      *nmirrors = mirror_the_rest(peers, index, mirrors, limit);
    if (*nmirrors > 0 && !enter_pairs(peers, mirrors, *nmirrors)) {
      atomic_store(&peers->plane->team->point_to_point, PEERS_UNTRACKED);
      *nmirrors = 0;
    }
    if (*nmirrors > 0) {
      atomic_store(&peers->own->mirrored, index + 1);
      post_group(peers, mirrors, *nmirrors, index);
      verdict = PEERS_MIRROR;
    } else if (come && !somebody_is_asked(peers, index)) {
      verdict = PEERS_PASS;
    }
  }
  pthread_mutex_unlock(&peers->lock);
  return verdict;
}

bool peers_is_asked_by(struct peers *peers, uint32_t rank, uint64_t index) {
  bool asked = false;
  pthread_mutex_lock(&peers->lock);
  if (follow_posts(peers, NULL, NULL, 0)) {
    const struct window *window = &peers->windows[rank];
    for (uint64_t i = window->next; i < window->last && !asked; i++) {
      const struct post *post = &peers->posts[window->at + (i - window->first)];
      asked = post->peer == peers->plane->rank && post->index <= index &&
              !post_is_met(peers, rank, post);
    }
  }
  pthread_mutex_unlock(&peers->lock);
  return asked;
}
