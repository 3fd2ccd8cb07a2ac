/* Whose fault a long wait is (clock.h). */
#include "interpose/comm/clock.h"

#include "core/transport/plane_view.h"
#include "interpose/comm/communicator.h"

/* Whether one of the last units that the rank has passed was a shadow. together: index since which
 * that counts. */
static bool has_joined(const struct plane *plane, uint32_t rank, uint64_t together) {
  uint64_t head = plane_passed(plane, rank);
  uint64_t from = head > PLANE_RUN_AHEAD ? head - PLANE_RUN_AHEAD : 0;
  for (uint64_t i = from > together ? from : together; i < head; i++)
    if (!(plane_flags(plane, rank, i) & (ENTRY_REAL | ENTRY_NO_UNIT | ENTRY_REFUSED)))
      return true;
  return false;
}

/* For good, or waiting to. */
static bool has_left(const struct plane *plane, uint32_t rank) {
  enum rank_state state = plane_state(plane, rank);
  return state == RANK_DONE || state == RANK_FAILED || plane_is_leaving(plane, rank);
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
      if (has_joined(plane, rank, together) || (rank != plane->rank && has_left(plane, rank))) {
        communicator_release_endpoints();
        return false;
      }
      late |= rank != plane->rank && !plane_is_parked(plane, rank);
    }
  }
  communicator_release_endpoints();
  return late;
}
