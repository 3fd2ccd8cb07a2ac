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
  struct attachment **slots;
  struct plane **of;
};

static const struct transport *planes_transport(void) {
  const char *transport = getenv("UNIT_TRANSPORT");
  if (transport == NULL || *transport == '\0' || strcmp(transport, "memory") == 0)
    return &transport_memory;
  cr_assert_str_eq(transport, "shm", "UNIT_TRANSPORT is neither memory nor shm");
  return &transport_shm;
}

void planes_name(char name[ATTACHMENT_NAME_SIZE]) {
  uint64_t random[2];
  attachment_use(planes_transport());
  cr_assert_eq(getrandom(random, sizeof random, 0), (ssize_t)sizeof random);
  snprintf(name, ATTACHMENT_NAME_SIZE, "%016llx%016llx", (unsigned long long)random[0],
           (unsigned long long)random[1]);
}

struct planes *planes_create(uint32_t nranks) {
  struct planes *planes = calloc(1, sizeof *planes);
  *planes = (struct planes){.nranks = nranks,
                            .slots = calloc(nranks, sizeof(struct attachment *)),
                            .of = calloc(nranks, sizeof(struct plane *))};
  char name[ATTACHMENT_NAME_SIZE], reason[ATTACHMENT_REASON_SIZE] = "";
  uint32_t *slot_of = calloc(nranks, sizeof *slot_of);
  planes_name(name);
  for (uint32_t rank = 0; rank < nranks; rank++) {
    struct introduction me = {.identity = rank + 1};
    slot_of[rank] = rank;
    planes->slots[rank] = attachment_make(name, nranks, rank, nranks, &me, reason);
    cr_assert_not_null(planes->slots[rank], "%s", reason);
  }
  for (uint32_t rank = 0; rank < nranks; rank++) {
    planes->of[rank] = attachment_plane(planes->slots[rank], rank, nranks, slot_of);
    cr_assert_not_null(planes->of[rank]);
  }
  free(slot_of);
  return planes;
}

void planes_destroy(struct planes *planes) {
  if (planes == NULL)
    return;
  for (uint32_t rank = 0; rank < planes->nranks; rank++)
    attachment_detach(planes->slots[rank]);
  free(planes->slots);
  free(planes->of);
  free(planes);
}

struct plane *planes_rank(struct planes *planes, uint32_t rank) {
  return planes->of[rank];
}

/* In shared memory its lock is gone, as after the end of its process; its plane stays, as the test
 * has it. */
void planes_kill(struct planes *planes, uint32_t rank) {
  if (planes->slots[rank]->transport == &transport_memory) {
    transport_memory_kill(planes->slots[rank]);
    return;
  }
  struct segment_map *map = ((struct segment *)planes->slots[rank])->map;
  atomic_store(&map->own[rank], false);
  segment_unlock_slot(map, rank);
}

uint32_t planes_rings(struct planes *planes) {
  return plane_bell(planes->of[0]);
}
