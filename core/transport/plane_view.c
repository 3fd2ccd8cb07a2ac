/* Questions to a rank's log (plane_view.h). */
#include "core/transport/plane_view.h"

#include "core/transport/logs.h"
#include "core/transport/operations.h"

uint64_t plane_passed(const struct plane *plane, uint32_t rank) {
  return log_passed(log_of(plane, rank));
}

bool plane_is_parked(const struct plane *plane, uint32_t rank) {
  const struct plane_log *log = log_of(plane, rank);
  return log_claimed(log) == log_passed(log) + 1;
}

enum rank_state plane_state(const struct plane *plane, uint32_t rank) {
  return log_state(log_of(plane, rank));
}

bool plane_has_failed(const struct plane *plane) {
  for (uint32_t rank = 0; rank < plane->nranks; rank++)
    if (plane_state(plane, rank) == RANK_FAILED)
      return true;
  return false;
}

bool plane_has_died(const struct plane *plane) {
  for (uint32_t rank = 0; rank < plane->nranks; rank++)
    if (log_has_died(log_of(plane, rank)))
      return true;
  return false;
}

bool plane_has_given_up(const struct plane *plane, uint32_t rank) {
  const struct plane_log *log = log_of(plane, rank);
  return log_state(log) == RANK_FAILED && !log_has_died(log);
}

bool plane_has_followed(const struct plane *plane, uint32_t rank) {
  return log_has_followed(log_of(plane, rank));
}

bool plane_is_leaving(const struct plane *plane, uint32_t rank) {
  return log_is_leaving(log_of(plane, rank));
}

uint64_t plane_parked_since(const struct plane *plane, uint32_t rank) {
  return log_parked_since(log_of(plane, rank));
}

void plane_say_parked(struct plane *plane, uint64_t since_ms) {
  log_say_parked(plane->logs[plane->rank], since_ms);
}

/* Time and since when are one word: who reads it while it is written has both of one moment. */
struct plane_joined plane_joined(const struct plane *plane, uint32_t rank, uint64_t now_ms) {
  const struct plane_log *log = log_of(plane, rank);
  uint64_t time = log_joined_time(log);
  uint32_t since = (uint32_t)time;
  return (struct plane_joined){.shadows = log_shadows(log),
                               .ms = (time >> 32) + (since == 0 ? 0 : (uint32_t)now_ms - since)};
}

void plane_say_joined(struct plane *plane, struct plane_joined joined, uint64_t since_ms) {
  uint32_t since = (uint32_t)since_ms;
  if (since == 0 && since_ms != 0)
    since = 1;
  log_say_joined(plane->logs[plane->rank], joined.shadows, joined.ms << 32 | since);
}

bool plane_leave_parts(struct plane *plane, struct plane_parts more) {
  struct plane_log *own = plane->logs[plane->rank];
  log_say_parts(own, log_parts(own) + ((uint64_t)more.teams << 32 | more.shadows));
  return !log_is_summed_up(log_of(plane, 0));
}

struct plane_parts plane_take_parts(struct plane *plane) {
  uint64_t parts = 0;
  log_say_summed_up(plane->logs[plane->rank]);
  for (uint32_t rank = 0; rank < plane->nranks; rank++)
    parts += log_parts(log_of(plane, rank));
  return (struct plane_parts){(uint32_t)(parts >> 32), (uint32_t)parts};
}

const char *plane_machine(const struct plane *plane, uint32_t rank) {
  return plane->machine == NULL ? NULL : plane->machine(plane, rank);
}

bool plane_has_machines(const struct plane *plane) {
  for (uint32_t rank = 0; rank < plane->nranks; rank++)
    if (plane_machine(plane, rank) != NULL)
      return true;
  return false;
}

uint64_t plane_operations(const struct plane *plane, uint32_t rank) {
  return pairs_issued(log_of(plane, rank));
}

struct plane_fate plane_fate(const struct plane *plane, uint32_t rank) {
  return plane->fate(plane, rank);
}

uint32_t plane_flags(const struct plane *plane, uint32_t rank, uint64_t index) {
  return log_flags(log_of(plane, rank), index);
}

bool plane_hash(const struct plane *plane, uint32_t rank, uint64_t index, uint64_t *hash) {
  const struct plane_log *log = log_of(plane, rank);
  struct log_claim claim;
  if (log_passed(log) > index) {
    *hash = log_hash(log, index);
    return true;
  }
  if (!log_read_claim(log, index, &claim))
    return false;
  *hash = claim.hash;
  return !(claim.flags & CLAIM_YIELD);
}

bool plane_set_apart(struct plane *plane) {
  if (atomic_exchange(&plane->team->apart, 1) != 0)
    return false;
  plane_add_event(plane->team, NULL);
  plane->ring(plane);
  return true;
}
