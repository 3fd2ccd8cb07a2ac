/* Teams for the time until a communicator is made (gathering.h). */
#include "interpose/comm/gathering.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "core/report/log.h"
#include "interpose/comm/communicator.h"
#include "interpose/comm/name.h"

/* ---- names ---- */

/* How often these ranks have gathered; kept for good. */
struct gathered {
  uint64_t hash;
  uint64_t times;
  struct gathered *next;
};

static uint64_t count_gathering(uint64_t hash) {
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  static struct gathered *all;
  uint64_t times = 0;
  pthread_mutex_lock(&lock);
  struct gathered *one = all;
  while (one != NULL && one->hash != hash)
    one = one->next;
  if (one == NULL && (one = calloc(1, sizeof(*one))) != NULL) {
    *one = (struct gathered){.hash = hash, .next = all};
    all = one;
  }
  if (one != NULL)
    times = ++one->times;
  pthread_mutex_unlock(&lock);
  return times;
}

/* Identities are random, and so is the name. The seed: how often they have, and who they are. */
static bool name_gathering(char name[ATTACHMENT_NAME_SIZE], uint64_t *seed, uint32_t nranks) {
  size_t size = nranks * sizeof(*seed);
  seed[0] = count_gathering(name_hash(seed + 1, size, 0));
  name_make(name, seed, size + sizeof(*seed));
  return seed[0] != 0;
}

/* ---- */

/* seed: room for a number, and then the identities. */
static struct attachment *gathering_attach(char name[ATTACHMENT_NAME_SIZE], uint64_t *seed,
                                           uint32_t nranks, uint32_t own) {
  struct introduction me = {.identity = seed[1 + own]};
  char reason[ATTACHMENT_REASON_SIZE] = "out of memory";
  struct attachment *attachment = NULL;
  if (name_gathering(name, seed, nranks))
    attachment = attachment_make(name, nranks, own, nranks, &me, reason);
  if (attachment == NULL)
    log_line(LOG_LEVEL_WARN,
             "%u ranks make a communicator and do not wait for each other before: %s. If one of "
             "them is still in a loop, all may wait for ever",
             nranks, reason);
  return attachment;
}

static struct endpoint *gathering_create(struct endpoint *whole, struct attachment *attachment,
                                         const uint64_t *identities, const uint32_t *ranks,
                                         uint32_t nranks, uint32_t own) {
  uint32_t *slots = calloc(nranks, sizeof(*slots)), *copy = calloc(nranks, sizeof(*copy));
  struct endpoint *end = NULL;
  for (uint32_t i = 0; slots != NULL && i < nranks; i++)
    slots[i] = i;
  if (slots != NULL && copy != NULL)
    end = endpoint_create(attachment, attachment_plane_early(attachment, own, nranks, slots),
                          identities);
  free(slots);
  if (end == NULL) {
    free(copy);
    return NULL;
  }
  memcpy(copy, ranks, nranks * sizeof(*copy));
  end->rank_in_whole = copy;
  end->whole = whole;
  end->device = whole->device;
  if (communicator_list_endpoint(end))
    return end;
  endpoint_empty(end);
  return NULL;
}

/* Shared memory is one machine's. */
static bool are_here(const struct plane *plane, const uint32_t *ranks, uint32_t nranks) {
  uint32_t i = 0;
  while (i < nranks && plane_machine(plane, ranks[i]) == NULL)
    i++;
  return i == nranks;
}

struct endpoint *gathering_begin(struct endpoint *whole, const uint32_t *ranks, uint32_t nranks,
                                 uint32_t own) {
  assert(own < nranks);
  char name[ATTACHMENT_NAME_SIZE];
  uint64_t *seed =
      are_here(whole->team->plane, ranks, nranks) ? calloc(1 + nranks, sizeof(*seed)) : NULL;
  if (seed == NULL)
    return NULL;
  for (uint32_t i = 0; i < nranks; i++)
    seed[1 + i] = whole->identities[ranks[i]];
  struct attachment *attachment = gathering_attach(name, seed, nranks, own);
  struct endpoint *end =
      attachment == NULL ? NULL : gathering_create(whole, attachment, seed + 1, ranks, nranks, own);
  if (end != NULL)
    end->tag = attachment_tag(name);
  else
    attachment_detach(attachment);
  free(seed);
  return end;
}

void gathering_look(struct endpoint *end) {
  if (end->whole == NULL || end->whole->team == NULL)
    return;
  struct team *whole = end->whole->team;
  team_look_for_the_dead(whole);
  for (uint32_t rank = 0; rank < end->team->plane->nranks; rank++) {
    enum rank_state state = plane_state(whole->plane, end->rank_in_whole[rank]);
    if (state == RANK_DONE || state == RANK_FAILED)
      team_end_absent(end->team, rank, state);
  }
}

void gathering_end(struct endpoint *end) {
  enum rank_state state = atomic_load(&end->state);
  if (state != RANK_DONE)
    communicator_end_endpoint(end, state == RANK_FAILED ? RANK_FAILED : RANK_DONE);
}
