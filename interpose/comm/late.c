/* A communicator that is being made, and who looks for its ranks (late.h). */
#include "interpose/comm/late.h"

#include <stdlib.h>

#include "interpose/comm/clock.h"

struct late *late_create(void) {
  struct late *late = calloc(1, sizeof(*late));
  pthread_condattr_t attributes;
  if (late == NULL)
    return NULL;
  pthread_condattr_init(&attributes);
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  pthread_mutex_init(&late->lock, NULL);
  pthread_cond_init(&late->changed, &attributes);
  pthread_condattr_destroy(&attributes);
  atomic_store(&late->holders, 1);
  return late;
}

void late_release(struct late *late) {
  if (atomic_fetch_sub(&late->holders, 1) > 1)
    return;
  pthread_cond_destroy(&late->changed);
  pthread_mutex_destroy(&late->lock);
  free(late);
}

void late_sleep(struct late *late, uint64_t milliseconds) {
  uint64_t until = now_ns() + milliseconds * UINT64_C(1000000);
  struct timespec at = {.tv_sec = (time_t)(until / 1000000000),
                        .tv_nsec = (long)(until % 1000000000)};
  (void)pthread_cond_timedwait(&late->changed, &late->lock, &at);
}

void late_end(struct late **watched) {
  struct late *late = *watched;
  if (late == NULL)
    return;
  *watched = NULL;
  pthread_mutex_lock(&late->lock);
  late->ended = true;
  pthread_cond_signal(&late->changed);
  pthread_mutex_unlock(&late->lock);
  late_release(late);
}
