/* What met (meetings.h). */
#include "tests/simulation/meetings.h"

#include <stdlib.h>

struct issued {
  uint64_t signature;
  struct instance instance; /* of the first real unit; point 0: none yet */
  enum meeting worst;
};

/* Where an instance was issued first: open addressing. */
struct seen {
  uint64_t key; /* 0: free */
  uint64_t index;
};

struct meetings {
  struct issued *issued;
  uint64_t room, indices;
  struct seen *seen;
  uint64_t nseen, seen_room; /* a power of 2 */
  uint64_t split, told;      /* told: the first index; UINT64_MAX */
};

static void *array(uint64_t count, size_t size) {
  void *memory = calloc(count, size);
  if (memory == NULL)
    abort();
  return memory;
}

struct meetings *meetings_create(void) {
  struct meetings *meetings = array(1, sizeof(*meetings));
  *meetings = (struct meetings){.room = 256, .seen_room = 512, .told = UINT64_MAX};
  meetings->issued = array(meetings->room, sizeof(*meetings->issued));
  meetings->seen = array(meetings->seen_room, sizeof(*meetings->seen));
  return meetings;
}

void meetings_destroy(struct meetings *meetings) {
  free(meetings->issued);
  free(meetings->seen);
  free(meetings);
}

static uint64_t key_of(const struct instance *instance) {
  return (uint64_t)instance->point << 48 | (uint64_t)instance->epoch << 40 |
         (uint64_t)instance->iteration << 16 | instance->inner;
}

static struct seen *find_seen(struct seen *seen, uint64_t room, uint64_t key) {
  uint64_t at = key * UINT64_C(0x9e3779b97f4a7c15) >> 32;
  while (seen[at & (room - 1)].key != 0 && seen[at & (room - 1)].key != key)
    at++;
  return &seen[at & (room - 1)];
}

static void grow_seen(struct meetings *meetings) {
  uint64_t room = 2 * meetings->seen_room;
  struct seen *seen = array(room, sizeof(*seen));
  for (uint64_t i = 0; i < meetings->seen_room; i++)
    if (meetings->seen[i].key != 0)
      *find_seen(seen, room, meetings->seen[i].key) = meetings->seen[i];
  free(meetings->seen);
  meetings->seen = seen;
  meetings->seen_room = room;
}

static void note_instance(struct meetings *meetings, uint64_t index,
                          const struct instance *instance) {
  uint64_t key = key_of(instance);
  struct seen *seen = find_seen(meetings->seen, meetings->seen_room, key);
  if (seen->key == key) {
    meetings->split += seen->index != index;
    return;
  }
  *seen = (struct seen){key, index};
  if (2 * ++meetings->nseen > meetings->seen_room)
    grow_seen(meetings);
}

static struct issued *at_index(struct meetings *meetings, uint64_t index) {
  if (index >= meetings->room) {
    uint64_t room = 2 * index;
    struct issued *issued = array(room, sizeof(*issued));
    for (uint64_t i = 0; i < meetings->indices; i++)
      issued[i] = meetings->issued[i];
    free(meetings->issued);
    meetings->issued = issued;
    meetings->room = room;
  }
  if (index >= meetings->indices)
    meetings->indices = index + 1;
  return &meetings->issued[index];
}

static enum meeting compare(const struct instance *a, const struct instance *b) {
  return a->point != b->point                                   ? MEETING_WRONG
         : a->epoch != b->epoch                                 ? MEETING_OTHER_EPOCH
         : a->iteration != b->iteration || a->inner != b->inner ? MEETING_OTHER_ITERATION
                                                                : MEETING_SAME;
}

enum meeting meetings_add(struct meetings *meetings, uint64_t index, uint64_t signature,
                          const struct instance *instance, bool *mismatch) {
  struct issued *issued = at_index(meetings, index);
  if (issued->signature == 0)
    issued->signature = signature;
  *mismatch |= issued->signature != signature;
  if (instance == NULL)
    return MEETING_SAME;
  note_instance(meetings, index, instance);
  if (issued->instance.point == 0)
    issued->instance = *instance;
  enum meeting meeting = compare(&issued->instance, instance);
  if (meeting > issued->worst)
    issued->worst = meeting;
  return meeting;
}

void meetings_told(struct meetings *meetings, uint64_t index) {
  if (index < meetings->told)
    meetings->told = index;
}

struct meetings_sum meetings_sum(const struct meetings *meetings) {
  struct meetings_sum sum = {.indices = meetings->indices, .split = meetings->split};
  for (uint64_t index = 0; index < meetings->indices; index++) {
    bool untold = meetings->told > index;
    switch (meetings->issued[index].worst) {
    case MEETING_SAME:
      sum.met++;
      break;
    case MEETING_OTHER_ITERATION:
    case MEETING_OTHER_EPOCH:
      sum.silent_apart |= untold && sum.other_epoch + sum.other_iteration == 0;
      *(meetings->issued[index].worst == MEETING_OTHER_EPOCH ? &sum.other_epoch
                                                             : &sum.other_iteration) += 1;
      break;
    case MEETING_WRONG:
      sum.silent |= untold && sum.wrong == 0;
      sum.wrong++;
      break;
    }
  }
  return sum;
}
