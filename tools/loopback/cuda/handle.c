/* A hash set of addresses. */
#include "tools/loopback/cuda/handle.h"

#include <stdint.h>
#include <stdlib.h>

#define CAPACITY_FIRST 64

/* Where a handle was removed; a search goes on past it. */
static const char removed;

static size_t slot_of(const struct handle_set *set, const void *handle) {
  /* Fibonacci hashing (Knuth, The Art of Computer Programming 3, 6.4): addresses differ in their
   * middle bits. */
  uint64_t hash = (uint64_t)(uintptr_t)handle * UINT64_C(0x9e3779b97f4a7c15);
  return (size_t)(hash >> 32) & (set->capacity - 1);
}

static const void **find(const struct handle_set *set, const void *handle) {
  size_t slot = slot_of(set, handle);
  while (set->slots[slot] && set->slots[slot] != handle)
    slot = (slot + 1) & (set->capacity - 1);
  return &set->slots[slot];
}

/* Also drops the removed slots, so that searches stay short. */
static bool rebuild(struct handle_set *set) {
  size_t live = 0;
  for (size_t i = 0; i < set->capacity; i++)
    live += set->slots[i] && set->slots[i] != &removed;
  struct handle_set next = {.capacity = CAPACITY_FIRST};
  while (next.capacity < live * 4)
    next.capacity *= 2;
  next.slots = calloc(next.capacity, sizeof *next.slots);
  if (!next.slots)
    return false;
  for (size_t i = 0; i < set->capacity; i++)
    if (set->slots[i] && set->slots[i] != &removed)
      *find(&next, set->slots[i]) = set->slots[i];
  next.filled = live;
  free(set->slots);
  *set = next;
  return true;
}

bool handle_add(struct handle_set *set, const void *handle) {
  if (handle_is_live(set, handle))
    return true;
  if ((set->filled + 1) * 2 > set->capacity && !rebuild(set))
    return false;
  *find(set, handle) = handle;
  set->filled++;
  return true;
}

void handle_remove(struct handle_set *set, const void *handle) {
  if (handle_is_live(set, handle))
    *find(set, handle) = &removed;
}

bool handle_is_live(const struct handle_set *set, const void *handle) {
  return handle && handle != &removed && set->capacity && *find(set, handle) == handle;
}
