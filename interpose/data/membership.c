/* Waiting for ranks to pass an index (membership.h). */
#include "interpose/data/membership.h"

#include "interpose/self/environment.h"
#include "interpose/comm/clock.h"
#include "interpose/comm/report.h"
#include "interpose/nccl/real.h"

/* One turn of a wait for other ranks to pass an index; false if it has lasted too long or has been
 * broken off. */
static bool wait_for(struct endpoint *end, uint64_t index, uint64_t *deadline_ms) {
  uint64_t now = now_ms(), looked_ms = now;
  if (*deadline_ms == 0)
    *deadline_ms = now + join_settings()->timeout_s * 1000;
  team_wait_others(end->team, index, WAIT_ALONE_MS);
  if (now_ms() - now >= WAIT_ALONE_MS)
    team_look_for_the_dead(end->team);
  *deadline_ms += clock_stopped(&looked_ms, now_ms());
  return now < *deadline_ms && !atomic_load(&end->broken);
}

int membership_of(struct endpoint *end, uint64_t index, uint32_t rank, uint64_t *deadline_ms) {
  bool active = false;
  enum team_verdict verdict;
  while ((verdict = team_is_active(end->team, index, rank, &active)) == TEAM_PARKED)
    if (!wait_for(end, index, deadline_ms))
      return -1;
  return verdict == TEAM_REAL ? active : -1;
}

int membership_of_all(struct endpoint *end, uint64_t index, bool *active, uint64_t *deadline_ms) {
  enum team_verdict verdict;
  while ((verdict = team_active(end->team, index, active)) == TEAM_PARKED)
    if (!wait_for(end, index, deadline_ms))
      return -1;
  if (verdict != TEAM_REAL)
    return -1;
  int count = 0;
  for (uint32_t rank = 0; rank < end->team->plane->nranks; rank++)
    count += active[rank];
  return count;
}

static bool is_own_error(const struct endpoint *end, struct lossy_event *event) {
  return team_find_event(end->team, event) && !team_has_shadowed(end->team, event->index);
}

bool membership_is_unheard(const struct endpoint *end) {
  struct lossy_event event;
  return is_own_error(end, &event) && event.index >= end->lossy_told;
}

bool membership_own_error(const struct endpoint *end) {
  struct lossy_event event;
  if (!is_own_error(end, &event))
    return false;
  report_lossy_event(end, &event);
  last_error_is_final(ncclInvalidUsage);
  return true;
}

bool membership_own_error_at(const struct endpoint *end, uint64_t index) {
  return end->lossy_told == index + 1 || membership_own_error(end);
}
