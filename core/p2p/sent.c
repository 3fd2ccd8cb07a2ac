/* Sequences of addresses by key, and how they go on (sent.h). */
#include "core/p2p/sent.h"

#include <pthread.h>
#include <stdlib.h>

#define ROOM_FIRST 8u

/* The calls of one key. */
struct calls {
  uint64_t key;
  uint64_t used; /* sent.clock when last asked for; 0: free */
  uint64_t total;
  const void **addresses; /* the latest `room` of them; call i is at i % room */
  uint32_t room;          /* grows while total does, up to SENT_CALLS */
  uint32_t ahead;         /* how often sent_next has been asked since the last call */
  uint32_t round;         /* calls in a round, found when ahead was 0 */
  bool told;
};

struct sent {
  pthread_mutex_t lock; /* guards the rest */
  uint64_t clock;
  struct calls calls[SENT_SETS][SENT_WAYS];
};

struct sent *sent_create(void) {
  struct sent *sent = calloc(1, sizeof(*sent));
  if (sent != NULL)
    pthread_mutex_init(&sent->lock, NULL);
  return sent;
}

void sent_destroy(struct sent *sent) {
  if (sent == NULL)
    return;
  for (uint32_t set = 0; set < SENT_SETS; set++)
    for (uint32_t way = 0; way < SENT_WAYS; way++)
      free(sent->calls[set][way].addresses);
  pthread_mutex_destroy(&sent->lock);
  free(sent);
}

/* The calls of a key; if there are none, NULL, and in *place where they may be put. */
static struct calls *sent_find(struct sent *sent, uint64_t key, struct calls **place) {
  struct calls *set = sent->calls[key % SENT_SETS];
  *place = set;
  for (struct calls *calls = set; calls < set + SENT_WAYS; calls++) {
    if (calls->used != 0 && calls->key == key) {
      calls->used = ++sent->clock;
      return calls;
    }
    if (calls->used < (*place)->used)
      *place = calls;
  }
  return NULL;
}

/* Room for one more call. */
static bool sent_grow(struct calls *calls) {
  if (calls->total < calls->room || calls->room == SENT_CALLS)
    return true;
  uint32_t room = calls->room == 0 ? ROOM_FIRST : 2 * calls->room;
  const void **addresses = realloc(calls->addresses, room * sizeof(*addresses));
  if (addresses == NULL)
    return false;
  calls->addresses = addresses;
  calls->room = room;
  return true;
}

void sent_note(struct sent *sent, uint64_t key, const void *address) {
  struct calls *place;
  pthread_mutex_lock(&sent->lock);
  struct calls *calls = sent_find(sent, key, &place);
  if (calls == NULL) {
    calls = place;
    *calls = (struct calls){
        .key = key, .used = ++sent->clock, .addresses = place->addresses, .room = place->room};
  }
  if (sent_grow(calls)) {
    calls->addresses[calls->total++ % calls->room] = address;
    calls->ahead = 0;
  }
  pthread_mutex_unlock(&sent->lock);
}

/* The address of so many calls before the last. */
static const void *sent_before(const struct calls *calls, uint32_t back) {
  return calls->addresses[(calls->total - 1 - back) % calls->room];
}

/* Of how many calls, from the last one on, it is true that the one a round earlier was equal. */
static uint32_t sent_repeated(const struct calls *calls, uint32_t kept, uint32_t round) {
  uint32_t length = 0;
  while (length < kept - round && sent_before(calls, length) == sent_before(calls, round + length))
    length++;
  return length;
}

static void find_round(struct calls *calls) {
  uint32_t kept = calls->total < calls->room ? (uint32_t)calls->total : calls->room;
  uint32_t longest = 0;
  calls->round = 1;
  calls->told = kept == 1;
  for (uint32_t round = 1; round < kept; round++) {
    uint32_t length = sent_repeated(calls, kept, round);
    if (length > longest) {
      longest = length;
      calls->round = round;
      calls->told = true;
    }
    if (length < (SENT_REPEATS - 1) * round)
      continue;
    calls->round = round;
    return;
  }
}

const void *sent_next(struct sent *sent, uint64_t key, bool *told) {
  const void *address = NULL;
  struct calls *place;
  pthread_mutex_lock(&sent->lock);
  struct calls *calls = sent_find(sent, key, &place);
  if (calls != NULL && calls->total > 0) {
    if (calls->ahead == 0)
      find_round(calls);
    address = sent_before(calls, calls->round - 1 - calls->ahead++ % calls->round);
    *told = calls->told;
  }
  pthread_mutex_unlock(&sent->lock);
  return address;
}
