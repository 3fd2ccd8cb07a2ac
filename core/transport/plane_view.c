/* Questions to a rank's log (plane_view.h). */
#include "core/transport/plane_view.h"

#include "core/transport/words.h"

static uint64_t plane_acquire(const _Atomic uint64_t *word) {
  return atomic_load_explicit(word, memory_order_acquire);
}

uint64_t plane_passed(const struct plane *plane, uint32_t rank) {
  return atomic_load(&plane->logs[rank]->head);
}

bool plane_is_parked(const struct plane *plane, uint32_t rank) {
  const struct plane_log *log = plane->logs[rank];
  return atomic_load(&log->claim) == atomic_load(&log->head) + 1;
}

enum rank_state plane_state(const struct plane *plane, uint32_t rank) {
  return (enum rank_state)atomic_load(&plane->logs[rank]->state);
}

bool plane_has_failed(const struct plane *plane) {
  for (uint32_t rank = 0; rank < plane->nranks; rank++)
    if (plane_state(plane, rank) == RANK_FAILED)
      return true;
  return false;
}

bool plane_is_leaving(const struct plane *plane, uint32_t rank) {
  return atomic_load(&plane->logs[rank]->leaving) != 0;
}

uint32_t plane_flags(const struct plane *plane, uint32_t rank, uint64_t index) {
  const struct plane_entry *entry = &plane->logs[rank]->entries[index % PLANE_RING];
  return atomic_load_explicit(&entry->flags, memory_order_relaxed);
}

bool plane_hash(const struct plane *plane, uint32_t rank, uint64_t index, uint64_t *hash) {
  const struct plane_log *log = plane->logs[rank];
  bool passed = plane_acquire(&log->head) > index;
  bool claims =
      plane_acquire(&log->claim) == index + 1 && !(atomic_load(&log->claim_flags) & CLAIM_YIELD);
  *hash =
      passed ? atomic_load(&log->entries[index % PLANE_RING].hash) : atomic_load(&log->claim_hash);
  return passed || claims;
}

bool plane_set_apart(struct plane *plane) {
  if (atomic_exchange(&plane->team->apart, 1) != 0)
    return false;
  atomic_fetch_add(&plane->team->attention, PLANE_EVENT);
  plane->ring(plane);
  return true;
}
