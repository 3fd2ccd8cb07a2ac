/* The file, slots and locks of a segment (plane_shm.h, segment.h). Called where communicators begin
 * and end, never on the hot path.
 *
 * Why all ranks of a communicator meet in one segment, although any of them may create it, die, or
 * find a dead job's file:
 *   - Whoever wants to take a slot, or to remove the name, does so between taking and releasing the
 * gate of the file that he has opened, and only after he has seen, with the gate, that the name
 * still is this file's.
 *   - So while a process has the gate of the file that has the name, the name stays: only a holder
 * of that gate removes it, and nothing replaces a name without removing it first. A file that has
 * lost the name never gets it back.
 *   - A file is taken for dead, and its name removed, by a holder of the gate who sees that nobody
 * holds a slot. Suppose that a living rank A is in file 1 and a rank B takes a slot of file 2 under
 * the same name. Then somebody removed the name from file 1. Before A took its slot? Then A, with
 * the gate, did not see the name as file 1's, and tried again. After? Then A's lock showed, and
 * file 1 was not taken for dead. What is left is that all expected slots were taken, or that
 * segment_unlink was called: nobody else was to come.
 *   - A file is empty until a holder of the gate lays it out, and he holds a slot when he releases
 * the gate. If he dies in between, nobody holds a slot, and the file is dead.
 *
 * A process drops all its locks on a file when it closes any descriptor of it. Hence the register:
 * one descriptor for each file. An opened file is never one of the register's: those that have
 * their names are found there first, and a name does not come back.
 */
#include "core/segment.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* How long a rank tries to attach. Others hold the gate for microseconds, unless they are stopped
 * in a debugger. */
#define ATTACH_SECONDS 30
#define GATE_POLL_NANOSECONDS 100000

/* Atomic because segment_forget_all walks the register without its lock. */
static struct segment_map *_Atomic registry;
static struct segment_map *forgotten; /* handles may still point to them */
static pthread_mutex_t registry_lock = PTHREAD_MUTEX_INITIALIZER;

bool segment_map_is_valid(const struct segment_map *map) {
  uint32_t own = 0;
  for (uint32_t slot = 0; slot < map->slots; slot++)
    own += atomic_load(&map->own[slot]);
  return map->fd >= 0 && map->slots >= 1 && map->slots <= PLANE_RANKS_MAX && own == map->handles &&
         map->bytes == segment_bytes(map->slots);
}

/* ---- The register; with its lock ---- */

static struct segment_map *registry_find(const char *name) {
  struct segment_map *map = atomic_load(&registry);
  while (map != NULL && (map->unlinked || strcmp(map->name, name) != 0))
    map = atomic_load(&map->next);
  return map;
}

static bool registry_has(const struct segment_map *wanted) {
  struct segment_map *map = atomic_load(&registry);
  while (map != NULL && map != wanted)
    map = atomic_load(&map->next);
  return map != NULL;
}

static void registry_add(struct segment_map *map) {
  atomic_store(&map->next, atomic_load(&registry));
  atomic_store(&registry, map);
}

static void registry_remove(struct segment_map *wanted) {
  struct segment_map *_Atomic *link = &registry;
  for (struct segment_map *map; (map = atomic_load(link)) != NULL; link = &map->next)
    if (map == wanted) {
      atomic_store(link, atomic_load(&map->next));
      return;
    }
}

static void map_close(struct segment_map *map) {
  registry_remove(map);
  if (map->base != NULL)
    munmap(map->base, map->bytes);
  close(map->fd);
  free(map->own);
  free(map);
}

/* Without a handle of this process left: closes, and removes the name of a segment that nobody is
 * left in. */
static void map_release(struct segment_map *map, bool gated) {
  if (map->handles > 0)
    return;
  if (!map->unlinked && (gated || segment_set_lock(map->fd, F_WRLCK, SEGMENT_GATE)) &&
      !segment_is_locked(map->fd, 0, 0))
    segment_remove_name(map);
  map_close(map);
}

enum entry {
  ENTERED, /* the map is registered, and its gate is taken */
  AGAIN,   /* the name has gone to another file */
  REFUSED, /* reason says why */
};

static enum entry enter_known(struct segment_map *map, uint32_t slots, int64_t deadline,
                              char *reason) {
  if (!segment_gate_enter(map, deadline, reason))
    return REFUSED;
  if (!segment_has_name(map)) {
    map->unlinked = true;
    segment_gate_leave(map);
    return AGAIN;
  }
  if (map->slots == slots)
    return ENTERED;
  segment_explain(reason, "%s has %u slots, but this rank wants %u: do all ranks use one communicator?",
          map->path, map->slots, slots);
  segment_gate_leave(map);
  return REFUSED;
}

static enum entry enter_opened(struct segment_map *map, int64_t deadline, char *reason) {
  struct stat status;
  if (!segment_gate_enter(map, deadline, reason))
    return REFUSED;
  if (!segment_has_name(map))
    return AGAIN;
  if (fstat(map->fd, &status) != 0) {
    segment_explain_errno(reason, errno, map->path, map->slots);
    return REFUSED;
  }
  if (segment_is_locked(map->fd, 0, 0)) {
    if (!segment_check_layout(map, reason) || !segment_map_memory(map, reason))
      return REFUSED;
  } else if (status.st_size != 0) {
    segment_remove_name(map); /* a dead job's */
    return AGAIN;
  } else if (!segment_lay_out(map, reason)) {
    segment_remove_name(map);
    return REFUSED;
  }
  registry_add(map);
  return ENTERED;
}

/* The segment of that name, with its gate. */
static struct segment_map *map_enter(const char *name, uint32_t slots, char *reason) {
  int64_t deadline = segment_now() + ATTACH_SECONDS * INT64_C(1000000000);
  enum entry entry = AGAIN;
  while (entry == AGAIN && segment_now() < deadline) {
    struct segment_map *map = registry_find(name);
    if (map != NULL) {
      entry = enter_known(map, slots, deadline, reason);
    } else if ((map = segment_map_open(name, slots, reason)) != NULL) {
      entry = enter_opened(map, deadline, reason);
      if (entry != ENTERED)
        map_close(map); /* the gate goes with it */
    } else {
      return NULL;
    }
    if (entry == ENTERED)
      return map;
  }
  if (entry == AGAIN)
    segment_explain(reason, "%s/nccl-join-%u-%s keeps disappearing: does something clean that folder?",
            segment_folder, (unsigned)geteuid(), name);
  return NULL;
}

/* ---- Slots ---- */

static uint32_t count_ready(const struct segment_map *map) {
  uint32_t count = 0;
  for (uint32_t slot = 0; slot < map->slots; slot++)
    count += segment_slot_is_ready(map, slot);
  return count;
}

/* With the gate. */
static bool take_slot(struct segment_map *map, uint32_t slot, uint32_t expected,
                      const struct attachment *me, char *reason) {
  if (atomic_load(&map->own[slot]) || !segment_set_lock(map->fd, F_WRLCK, slot)) {
    segment_explain(reason, "slot %u of %s is taken already: do two ranks have the same number?", slot,
            map->path);
    return false;
  }
  struct segment_slot *taken = segment_slot(map, slot);
  if (atomic_load(&taken->ready) != 0) {
    segment_explain(reason, "slot %u of %s was taken by a process that has ended or left", slot, map->path);
    segment_set_lock(map->fd, F_UNLCK, slot);
    return false;
  }
  if (!segment_allocate(map, segment_log_offset(map->slots, slot), sizeof(struct plane_log), reason)) {
    segment_set_lock(map->fd, F_UNLCK, slot);
    return false;
  }
  taken->attachment = *me;
  atomic_store_explicit(&taken->ready, 1, memory_order_release);
  atomic_store(&map->own[slot], true);
  map->handles++;
  if (expected != 0 && count_ready(map) >= expected)
    segment_remove_name(map);
  return true;
}

static bool is_name(const char *name) {
  return strlen(name) == SEGMENT_NAME_SIZE - 1 &&
         strspn(name, "0123456789abcdefABCDEF") == SEGMENT_NAME_SIZE - 1;
}

struct segment *segment_attach(const char *name, uint32_t slots, uint32_t slot, uint32_t expected,
                               const struct attachment *me, char *reason) {
  reason[0] = '\0';
  if (!is_name(name) || slots == 0 || slots > PLANE_RANKS_MAX || slot >= slots ||
      expected > slots || me->ncomms > SEGMENT_COMMS_MAX) {
    segment_explain(reason,
            "slot %u of %u, %u expected, %u communicators: not a segment (at most %u ranks)", slot,
            slots, expected, me->ncomms, PLANE_RANKS_MAX);
    return NULL;
  }
  struct segment *segment = calloc(1, sizeof(*segment));
  if (segment == NULL) {
    segment_explain(reason, "no memory");
    return NULL;
  }
  pthread_mutex_lock(&registry_lock);
  struct segment_map *map = map_enter(name, slots, reason);
  bool taken = map != NULL && take_slot(map, slot, expected, me, reason);
  if (taken) {
    *segment = (struct segment){.map = map, .slot = slot};
    segment_gate_leave(map);
    assert(segment_map_is_valid(map));
  } else if (map != NULL) {
    if (map->handles > 0)
      segment_gate_leave(map);
    map_release(map, true);
  }
  pthread_mutex_unlock(&registry_lock);
  if (taken)
    return segment;
  free(segment);
  return NULL;
}

uint32_t segment_attached(const struct segment *segment) {
  return count_ready(segment->map);
}

bool segment_attachment(const struct segment *segment, uint32_t slot,
                        struct attachment *attachment) {
  if (slot >= segment->map->slots || !segment_slot_is_ready(segment->map, slot))
    return false;
  *attachment = segment_slot(segment->map, slot)->attachment;
  if (attachment->ncomms > SEGMENT_COMMS_MAX)
    attachment->ncomms = SEGMENT_COMMS_MAX;
  return true;
}

void segment_unlink(struct segment *segment) {
  struct segment_map *map = segment->map;
  char reason[SEGMENT_REASON_SIZE];
  pthread_mutex_lock(&registry_lock);
  if (registry_has(map) && !map->unlinked &&
      segment_gate_enter(map, segment_now() + INT64_C(1000000000), reason)) {
    segment_remove_name(map);
    segment_gate_leave(map);
  }
  pthread_mutex_unlock(&registry_lock);
}

void segment_detach(struct segment *segment) {
  if (segment == NULL)
    return;
  struct segment_map *map = segment->map;
  pthread_mutex_lock(&registry_lock);
  if (registry_has(map)) { /* not in a forked child */
    atomic_store(&map->own[segment->slot], false);
    map->handles--;
    if (map->handles > 0)
      segment_set_lock(map->fd, F_UNLCK, segment->slot);
    else
      map_release(map, false);
  }
  pthread_mutex_unlock(&registry_lock);
  plane_shm_destroy(segment->plane);
  free(segment);
}

void segment_forget_all(void) {
  int error = errno;
  struct segment_map *first = atomic_exchange(&registry, NULL), *last = NULL;
  for (struct segment_map *map = first; map != NULL; map = atomic_load(&map->next)) {
    close(map->fd);
    map->fd = -1;
    /* Private zeros in the place of the team's memory: a handle that the child still uses neither
     * crashes nor writes there. */
    mmap(map->base, map->bytes, PROT_READ | PROT_WRITE,
         MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
    last = map;
  }
  if (last != NULL) {
    atomic_store(&last->next, forgotten);
    forgotten = first;
  }
  /* Another thread of the parent may have held it: that thread does not exist here. */
  registry_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
  errno = error;
}
