/* Planes over either transport (planes.h). */
#include "tests/unit/planes.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "core/transport/plane_memory.h"
#include "core/transport/segment.h"

struct planes {
  uint32_t nranks;
  struct plane_memory *memory; /* NULL: the slots of a segment */
  struct segment **slots;
  struct plane **of;
};

static bool is_shm(void) {
  const char *transport = getenv("UNIT_TRANSPORT");
  if (transport == NULL || *transport == '\0' || strcmp(transport, "memory") == 0)
    return false;
  cr_assert_str_eq(transport, "shm", "UNIT_TRANSPORT is neither memory nor shm");
  return true;
}

static void attach_all(struct planes *planes) {
  char name[SEGMENT_NAME_SIZE], reason[SEGMENT_REASON_SIZE] = "";
  uint64_t random[2];
  uint32_t nranks = planes->nranks, *slot_of = calloc(nranks, sizeof *slot_of);
  cr_assert_eq(getrandom(random, sizeof random, 0), (ssize_t)sizeof random);
  snprintf(name, sizeof name, "%016llx%016llx", (unsigned long long)random[0],
           (unsigned long long)random[1]);
  for (uint32_t rank = 0; rank < nranks; rank++) {
    struct attachment me = {.identity = rank + 1};
    slot_of[rank] = rank;
    planes->slots[rank] = segment_attach(name, nranks, rank, nranks, &me, reason);
    cr_assert_not_null(planes->slots[rank], "%s", reason);
  }
  for (uint32_t rank = 0; rank < nranks; rank++)
    planes->of[rank] = segment_plane(planes->slots[rank], rank, nranks, slot_of);
  free(slot_of);
}

struct planes *planes_create(uint32_t nranks) {
  struct planes *planes = calloc(1, sizeof *planes);
  *planes = (struct planes){.nranks = nranks,
                            .slots = calloc(nranks, sizeof *planes->slots),
                            .of = calloc(nranks, sizeof *planes->of)};
  if (is_shm()) {
    attach_all(planes);
  } else {
    planes->memory = plane_memory_create(nranks);
    cr_assert_not_null(planes->memory);
    for (uint32_t rank = 0; rank < nranks; rank++)
      planes->of[rank] = plane_memory_rank(planes->memory, rank);
  }
  for (uint32_t rank = 0; rank < nranks; rank++)
    cr_assert_not_null(planes->of[rank]);
  return planes;
}

void planes_destroy(struct planes *planes) {
  if (planes == NULL)
    return;
  for (uint32_t rank = 0; rank < planes->nranks; rank++)
    segment_detach(planes->slots[rank]);
  plane_memory_destroy(planes->memory);
  free(planes->slots);
  free(planes->of);
  free(planes);
}

struct plane *planes_rank(struct planes *planes, uint32_t rank) {
  return planes->of[rank];
}

/* Its lock is gone, as after the end of its process; its plane stays, as the test has it. */
void planes_kill(struct planes *planes, uint32_t rank) {
  if (planes->memory != NULL) {
    plane_memory_kill(planes->memory, rank);
    return;
  }
  struct segment_map *map = planes->slots[rank]->map;
  atomic_store(&map->own[rank], false);
  segment_unlock_slot(map, rank);
}

uint32_t planes_rings(struct planes *planes) {
  return plane_bell(planes->of[0]);
}
