/* Whose fault a long wait is (clock.h). */
#include "interpose/comm/clock.h"

#include "interpose/comm/communicator.h"

/* Whether one of the last units that the rank has passed was a shadow. together: index since which
 * that counts. */
static bool has_joined(const struct plane_log *log, uint64_t together) {
  uint64_t head = atomic_load_explicit(&log->head, memory_order_acquire);
  uint64_t from = head > PLANE_RUN_AHEAD ? head - PLANE_RUN_AHEAD : 0;
  for (uint64_t i = from > together ? from : together; i < head; i++)
    if (!(atomic_load_explicit(&log->entries[i % PLANE_RING].flags, memory_order_relaxed) &
          (ENTRY_REAL | ENTRY_NO_UNIT | ENTRY_REFUSED)))
      return true;
  return false;
}

/* For good, or waiting to. */
static bool has_left(const struct plane_log *log) {
  uint32_t state = atomic_load(&log->state);
  return state == RANK_DONE || state == RANK_FAILED || atomic_load(&log->leaving);
}

static bool is_parked(const struct plane_log *log) {
  return atomic_load(&log->claim) == atomic_load(&log->head) + 1;
}

bool clock_is_programs_own(const struct endpoint *end) {
  bool late = false;
  for (const struct endpoint *other = communicator_hold_endpoints(); other != NULL;
       other = other->next) {
    const struct plane *plane = other->team->plane;
    if (other->identity != end->identity)
      continue;
    /* Of another team its own thread may be changing that. */
    uint64_t together = other == end ? other->team->together : 0;
    for (uint32_t rank = 0; rank < plane->nranks; rank++) {
      const struct plane_log *log = plane->logs[rank];
      if (has_joined(log, together) || (rank != plane->rank && has_left(log))) {
        communicator_release_endpoints();
        return false;
      }
      late |= rank != plane->rank && !is_parked(log);
    }
  }
  communicator_release_endpoints();
  return late;
}
