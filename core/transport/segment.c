/* Attaching to segments and leaving them (plane_shm.h, segment.h): who creates one, who finds it,
 * and who removes it. Called where communicators begin and end, never on the fast path.
 *
 * Why all ranks of a communicator meet in one segment, although any of them may create it, die, or
 * find a dead job's file:
 *   - Whoever wants to take a slot, or to remove the name, does so between taking and releasing the
 *     gate of the file that it has opened, and only after it has seen, with the gate, that the name
 *     still is this file's.
 *   - So while a process has the gate of the file that has the name, the name stays: only a holder
 *     of that gate removes it, and nothing replaces a name that has not been removed. A file that
 *     has lost the name never gets it back.
 *   - A file is taken for dead, and loses its name, when a holder of the gate sees that nobody
 *     holds a slot. Suppose that a living rank A is in file 1, and a rank B takes a slot of file 2
 *     under the same name. Then somebody has removed the name from file 1. Before A took its slot?
 *     Then A, with the gate, did not see the name as file 1's, and tried again. After? Then A's
 *     lock showed, and file 1 was not taken for dead. So all expected slots had been taken, or
 *     segment_unlink had been called: nobody else was to come.
 *   - A file is empty until a holder of the gate lays it out, and it holds a slot when it
 *     releases the gate. If it dies in between, nobody holds a slot, and the file is dead.
 *
 * A process drops all its locks on a file when it closes any descriptor of it. Hence the register:
 * one descriptor for each file. A file that is opened by its name is never one of the register's:
 * those that have their names are found there first, and a name does not come back.
 */
#include "core/transport/segment.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Atomic because segment_forget_all walks the register without its lock. */
static struct segment_map *_Atomic registry;
static struct segment_map *forgotten; /* in a forked child: handles may still point to them */
static pthread_mutex_t registry_lock = PTHREAD_MUTEX_INITIALIZER;

bool segment_map_is_valid(const struct segment_map *map) {
  uint32_t own = 0;
  for (uint32_t slot = 0; slot < map->slots; slot++)
    own += atomic_load(&map->own[slot]);
  return map->fd >= 0 && map->base != NULL && map->slots >= 1 && map->slots <= PLANE_RANKS_MAX &&
         own == map->handles && map->bytes == segment_bytes(map->slots);
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
  while (atomic_load(link) != wanted)
    link = &atomic_load(link)->next;
  atomic_store(link, atomic_load(&wanted->next));
}

/* ---- Coming to a segment; with the register's lock ---- */

enum entry {
  ENTERED, /* in the register, with the gate */
  AGAIN,   /* the name is another file's by now, or nobody's */
  REFUSED, /* reason says why */
  STRANGE, /* likewise: another version */
};

static enum entry enter_known(struct segment_map *map, uint32_t slots, int64_t deadline,
                              char *reason) {
  if (!segment_gate_enter(map, deadline, reason))
    return REFUSED;
  if (segment_has_name(map) && map->slots == slots)
    return ENTERED;
  map->unlinked = !segment_has_name(map);
  segment_gate_leave(map);
  if (map->unlinked)
    return AGAIN;
  segment_explain(reason, "%s has %u slots, this rank wants %u: do the ranks agree on nranks?",
                  map->path, map->slots, slots);
  return REFUSED;
}

static enum entry enter_opened(struct segment_map *map, uint32_t slot, int64_t deadline,
                               char *reason) {
  struct stat status;
  if (!segment_gate_enter(map, deadline, reason))
    return REFUSED;
  if (!segment_has_name(map))
    return AGAIN;
  if (segment_is_held_by_others(map)) {
    if (!segment_map_join(map, reason))
      return segment_map_disagree(map, slot) ? STRANGE : REFUSED;
  } else if (fstat(map->fd, &status) != 0 || status.st_size != 0) {
    segment_remove_name(map); /* a dead job's */
    return AGAIN;
  } else if (!segment_map_create(map, reason)) {
    segment_remove_name(map);
    return REFUSED;
  } else {
    map->laid_out_here = true;
  }
  registry_add(map);
  return ENTERED;
}

static struct segment_map *map_enter(const char *name, uint32_t slots, uint32_t slot,
                                     char *reason) {
  int64_t deadline = segment_now() + SEGMENT_ATTACH_SECONDS * INT64_C(1000000000);
  do {
    struct segment_map *map = registry_find(name);
    bool known = map != NULL;
    if (!known && (map = segment_map_open(name, slots, reason)) == NULL)
      return NULL;
    enum entry entry = known ? enter_known(map, slots, deadline, reason)
                             : enter_opened(map, slot, deadline, reason);
    if (entry == ENTERED)
      return map;
    if (!known)
      segment_map_close(map); /* the gate goes with it */
    errno = entry == STRANGE ? EPROTO : 0;
    if (entry != AGAIN)
      return NULL;
  } while (segment_now() < deadline);
  segment_explain(reason, "segment %s in %s keeps disappearing: what cleans that folder?", name,
                  segment_folder);
  return NULL;
}

/* After this process's last handle, with the gate if it could be had: closes, and does not leave a
 * name behind that nobody needs. */
static void map_leave(struct segment_map *map, bool gated) {
  if (gated && !segment_is_held_by_others(map))
    segment_remove_name(map);
  registry_remove(map);
  segment_map_close(map);
}

static uint32_t count_ready(const struct segment_map *map) {
  uint32_t count = 0;
  for (uint32_t slot = 0; slot < map->slots; slot++)
    count += segment_slot_is_ready(map, slot);
  return count;
}

/* With the gate: one rank only sees the last slot taken. */
static bool take_slot(struct segment_map *map, uint32_t slot, uint32_t expected,
                      const struct introduction *me, char *reason) {
  struct segment_slot *taken = segment_slot(map, slot);
  if (atomic_load(&map->own[slot]) || !segment_lock_slot(map, slot)) {
    segment_explain(reason, "slot %u of %s is taken: do two ranks have the same number?", slot,
                    map->path);
    return false;
  }
  if (atomic_load(&taken->ready) != 0)
    segment_explain(reason, "slot %u of %s was taken by a rank that has ended or left", slot,
                    map->path);
  else if (segment_allocate_log(map, slot, reason)) {
    taken->introduction = *me;
    segment_fill_process(taken);
    atomic_store_explicit(&taken->ready, 1, memory_order_release);
    atomic_store(&map->own[slot], true);
    map->handles++;
    if (expected != 0 && count_ready(map) >= expected)
      segment_remove_name(map);
    return true;
  }
  segment_unlock_slot(map, slot);
  return false;
}

/* ---- plane_shm.h ---- */

static bool is_open_here(dev_t device, ino_t inode) {
  struct segment_map *map = atomic_load(&registry);
  while (map != NULL && (map->device != device || map->inode != inode))
    map = atomic_load(&map->next);
  return map != NULL;
}

/* Once in a process, and of a job's ranks only by the one that has laid out a segment. With the
 * register's lock: nobody opens or closes a file meanwhile. */
static void clean_up_once(const struct segment_map *map) {
  static bool done;
  if (!map->laid_out_here || done)
    return;
  done = true;
  segment_remove_dead(is_open_here);
}

struct segment *segment_attach(const char *name, uint32_t slots, uint32_t slot, uint32_t expected,
                               const struct introduction *me, char *reason) {
  reason[0] = '\0';
  errno = 0;
  if (!segment_is_name(name) || slots == 0 || slots > PLANE_RANKS_MAX || slot >= slots ||
      expected > slots || me->ncomms > INTRODUCTION_COMMS_MAX) {
    segment_explain(reason, "cannot attach rank %u of %u (%u on this machine): at most %u ranks",
                    slot, slots, expected, PLANE_RANKS_MAX);
    return NULL;
  }
  struct segment *segment = calloc(1, sizeof(*segment));
  if (segment == NULL) {
    segment_explain(reason, "no memory for a segment's handle");
    return NULL;
  }
  pthread_mutex_lock(&registry_lock);
  struct segment_map *map = map_enter(name, slots, slot, reason);
  bool taken = map != NULL && take_slot(map, slot, expected, me, reason);
  if (map != NULL && map->handles == 0) {
    map_leave(map, true);
  } else if (map != NULL) {
    segment_gate_leave(map);
    assert(segment_map_is_valid(map));
    clean_up_once(map);
  }
  int error = map == NULL && errno == EPROTO ? EPROTO : 0;
  pthread_mutex_unlock(&registry_lock);
  if (!taken) {
    free(segment);
    errno = error;
    return NULL;
  }
  *segment = (struct segment){.map = map, .slot = slot};
  return segment;
}

uint32_t segment_attached(const struct segment *segment) {
  return count_ready(segment->map);
}

bool segment_introduction(const struct segment *segment, uint32_t slot,
                          struct introduction *introduction) {
  if (slot >= segment->map->slots || !segment_slot_is_ready(segment->map, slot))
    return false;
  *introduction = segment_slot(segment->map, slot)->introduction;
  if (introduction->ncomms > INTRODUCTION_COMMS_MAX)
    introduction->ncomms = INTRODUCTION_COMMS_MAX;
  return true;
}

bool segment_stranger(const struct segment *segment, char *reason) {
  const struct segment_header *header = (const struct segment_header *)segment->map->base;
  uint32_t stranger = atomic_load(&header->stranger);
  if (stranger != 0)
    segment_explain(reason,
                    "rank %u's nccl-join has plane version %u, this one's has %u: use the same "
                    "nccl-join on all ranks",
                    stranger - 1, atomic_load(&header->stranger_version), PLANE_VERSION);
  return stranger != 0;
}

void segment_unlink(struct segment *segment) {
  struct segment_map *map = segment->map;
  int64_t deadline = segment_now() + SEGMENT_UNLINK_SECONDS * INT64_C(1000000000);
  char reason[ATTACHMENT_REASON_SIZE];
  pthread_mutex_lock(&registry_lock);
  if (registry_has(map) && !map->unlinked && segment_gate_enter(map, deadline, reason)) {
    segment_remove_name(map);
    segment_gate_leave(map);
  }
  pthread_mutex_unlock(&registry_lock);
}

/* Without the register's lock, which this thread may hold: then nothing is said. */
void segment_say_end(int status) {
  if (pthread_mutex_trylock(&registry_lock) != 0)
    return;
  for (struct segment_map *map = atomic_load(&registry); map != NULL; map = atomic_load(&map->next))
    for (uint32_t slot = 0; slot < map->slots; slot++)
      if (atomic_load(&map->own[slot]))
        atomic_store(&segment_slot(map, slot)->ended,
                     (uint32_t)END_STATUS << 16 | (uint32_t)(status & 0xff));
  pthread_mutex_unlock(&registry_lock);
}

static bool enter_to_leave(struct segment_map *map) {
  char ignored[ATTACHMENT_REASON_SIZE];
  return segment_gate_enter(map, segment_now() + SEGMENT_LEAVE_MS * INT64_C(1000000), ignored);
}

void segment_detach(struct segment *segment) {
  if (segment == NULL)
    return;
  struct segment_map *map = segment->map;
  pthread_mutex_lock(&registry_lock);
  if (registry_has(map)) { /* not so in a forked child */
    atomic_store(&map->own[segment->slot], false);
    map->handles--;
    if (map->handles > 0)
      segment_unlock_slot(map, segment->slot);
    else
      map_leave(map, !map->unlinked && enter_to_leave(map));
  }
  pthread_mutex_unlock(&registry_lock);
  plane_shm_destroy(segment->plane);
  free(segment);
}

void segment_forget_all(void) {
  int error = errno;
  struct segment_map *first = atomic_exchange(&registry, NULL), *last = NULL;
  for (struct segment_map *map = first; map != NULL; map = atomic_load(&map->next)) {
    (void)close(map->fd);
    map->fd = -1;
    /* Private zeros in the place of the team's memory: what the child still does with a handle
     * neither crashes nor reaches the others. */
    (void)mmap(map->base, map->bytes, PROT_READ | PROT_WRITE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
    last = map;
  }
  if (last != NULL) {
    atomic_store(&last->next, forgotten);
    forgotten = first;
  }
  /* Another thread of the parent may have held it, and does not exist here. */
  registry_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
  errno = error;
}
