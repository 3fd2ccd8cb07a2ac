/* The in-memory plane (plane_memory.h): logs in one allocation, a bell that only counts. */
#include "core/transport/plane_memory.h"

#include <stdlib.h>
#include <string.h>

#include "core/transport/words.h"

struct rank_plane {
  struct plane plane; /* first: a plane is cast to its rank_plane */
  struct plane_memory *memory;
  /* Of a team that is not of all (plane_memory_set_team); NULL: a rank is the slot. */
  struct plane_log **logs;
  uint32_t *slot_of;
};

struct plane_memory {
  struct plane_team team;
  uint64_t rings;
  uint32_t nranks;
  void *storage; /* of the logs, aligned there; zero, as memory of a new file is */
  struct plane_log **logs;
  struct rank_plane **ranks; /* NULL: nobody has asked for it */
  bool *dead;
};

static void memory_ring(struct plane *plane) {
  ((struct rank_plane *)plane)->memory->rings++;
  atomic_fetch_add(&plane->team->bell, 1);
}

static bool memory_spin(struct plane *plane, uint64_t *since) {
  (void)plane;
  (void)since;
  return false;
}

static void memory_wait(struct plane *plane, uint32_t seen, unsigned milliseconds) {
  (void)plane;
  (void)seen;
  (void)milliseconds;
}

static void memory_nap(struct plane *plane, uint32_t seen, uint64_t until) {
  (void)plane;
  (void)seen;
  (void)until;
}

static void memory_pause(struct plane *plane) {
  (void)plane;
}

static bool memory_alive(struct plane *plane, uint32_t rank) {
  const struct rank_plane *own = (const struct rank_plane *)plane;
  return rank < plane->nranks &&
         !own->memory->dead[own->slot_of == NULL ? rank : own->slot_of[rank]];
}

static bool memory_stopped(const struct plane *plane, uint32_t rank) {
  (void)plane;
  (void)rank;
  return false;
}

static struct plane_fate memory_fate(const struct plane *plane, uint32_t rank) {
  (void)plane;
  (void)rank;
  return (struct plane_fate){.how = END_UNKNOWN};
}

struct plane_memory *plane_memory_create(uint32_t nranks) {
  struct plane_memory *memory = aligned_alloc(64, (sizeof(*memory) + 63) / 64 * 64);
  if (memory == NULL)
    return NULL;
  *memory = (struct plane_memory){.nranks = nranks};
  memory->storage = calloc(1, nranks * sizeof(struct plane_log) + _Alignof(struct plane_log));
  memory->logs = calloc(nranks, sizeof(struct plane_log *));
  memory->ranks = calloc(nranks, sizeof(struct rank_plane *));
  memory->dead = calloc(nranks, sizeof(*memory->dead));
  if (memory->storage == NULL || memory->logs == NULL || memory->ranks == NULL ||
      memory->dead == NULL) {
    plane_memory_destroy(memory);
    return NULL;
  }
  uintptr_t at = (uintptr_t)memory->storage + _Alignof(struct plane_log) - 1;
  struct plane_log *first = (struct plane_log *)(at - at % _Alignof(struct plane_log));
  for (uint32_t rank = 0; rank < nranks; rank++)
    memory->logs[rank] = &first[rank];
  return memory;
}

void plane_memory_destroy(struct plane_memory *memory) {
  if (memory == NULL)
    return;
  for (uint32_t slot = 0; memory->ranks != NULL && slot < memory->nranks; slot++) {
    if (memory->ranks[slot] == NULL)
      continue;
    free(memory->ranks[slot]->logs);
    free(memory->ranks[slot]->slot_of);
    free(memory->ranks[slot]);
  }
  free(memory->storage);
  free(memory->logs);
  free(memory->ranks);
  free(memory->dead);
  free(memory);
}

static struct rank_plane *rank_plane_of(struct plane_memory *memory, uint32_t slot) {
  struct rank_plane *own = memory->ranks[slot];
  if (own != NULL)
    return own;
  own = memory->ranks[slot] = calloc(1, sizeof(*own));
  if (own != NULL)
    *own = (struct rank_plane){
        .plane = {slot, memory->nranks, &memory->team, memory->logs, 0, memory_ring, memory_spin,
                  memory_wait, memory_nap, memory_pause, memory_alive, memory_stopped, memory_fate,
                  NULL},
        .memory = memory,
    };
  return own;
}

struct plane *plane_memory_rank(struct plane_memory *memory, uint32_t rank) {
  struct rank_plane *own = rank_plane_of(memory, rank);
  return own == NULL ? NULL : &own->plane;
}

bool plane_memory_set_team(struct plane_memory *memory, uint32_t rank, uint32_t nranks,
                           const uint32_t *slot_of) {
  struct rank_plane *own = rank_plane_of(memory, slot_of[rank]);
  if (own == NULL)
    return false;
  own->logs = calloc(nranks, sizeof(struct plane_log *));
  own->slot_of = calloc(nranks, sizeof(*slot_of));
  if (own->logs == NULL || own->slot_of == NULL)
    return false;
  for (uint32_t i = 0; i < nranks; i++) {
    own->logs[i] = memory->logs[slot_of[i]];
    own->slot_of[i] = slot_of[i];
  }
  own->plane.rank = rank;
  own->plane.nranks = nranks;
  own->plane.logs = own->logs;
  return true;
}

void plane_memory_kill(struct plane_memory *memory, uint32_t slot) {
  memory->dead[slot] = true;
}

uint64_t plane_memory_rings(const struct plane_memory *memory) {
  return memory->rings;
}
