/* Teams for the time until a communicator is made (gathering.h). */
#include "interpose/comm/gathering.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "core/report/log.h"
#include "interpose/comm/communicator.h"

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

static uint64_t gathering_hash(const uint64_t *identities, uint32_t nranks, uint64_t hash) {
  for (uint32_t i = 0; i < nranks; i++) {
    hash = (hash ^ identities[i]) * UINT64_C(0xff51afd7ed558ccd);
    hash ^= hash >> 32;
  }
  return hash;
}

/* Identities are random: no other ranks have the name, and nobody can guess it. */
static bool name_gathering(char name[ATTACHMENT_NAME_SIZE], const uint64_t *identities,
                           uint32_t nranks) {
  uint64_t a = gathering_hash(identities, nranks, UINT64_C(0x9216d5d98979fb1b));
  uint64_t times = count_gathering(a);
  a = gathering_hash(&times, 1, a);
  snprintf(name, ATTACHMENT_NAME_SIZE, "%016llx%016llx", (unsigned long long)a,
           (unsigned long long)gathering_hash(identities, nranks, ~a));
  return times != 0;
}

/* ---- */

static struct attachment *gathering_attach(char name[ATTACHMENT_NAME_SIZE],
                                           const uint64_t *identities, uint32_t nranks,
                                           uint32_t own) {
  struct introduction me = {.identity = identities[own]};
  char reason[ATTACHMENT_REASON_SIZE] = "out of memory";
  struct attachment *attachment = NULL;
  if (name_gathering(name, identities, nranks))
    attachment = attachment_make(name, nranks, own, nranks, &me, reason);
  if (attachment == NULL)
    log_line(
        LOG_LEVEL_WARN,
        "a group of %u ranks is made without a meeting of them: %s. If one of them is still in "
        "a loop, they wait for each other for ever",
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

struct endpoint *gathering_begin(struct endpoint *whole, const uint32_t *ranks, uint32_t nranks,
                                 uint32_t own) {
  char name[ATTACHMENT_NAME_SIZE];
  uint64_t *identities = calloc(nranks, sizeof(*identities));
  if (identities == NULL)
    return NULL;
  for (uint32_t i = 0; i < nranks; i++)
    identities[i] = whole->identities[ranks[i]];
  struct attachment *attachment = gathering_attach(name, identities, nranks, own);
  struct endpoint *end = attachment == NULL
                             ? NULL
                             : gathering_create(whole, attachment, identities, ranks, nranks, own);
  if (end != NULL)
    end->tag = attachment_tag(name);
  else
    attachment_detach(attachment);
  free(identities);
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
