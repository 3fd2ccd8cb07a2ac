/* A segment as the agent of a machine has it (segment_remote.h). */
#include "core/transport/segment_remote.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/transport/segment.h"

struct segment_remote {
  struct segment_map *map; /* own: the slots of other machines' ranks */
  _Atomic bool *local;     /* those that were taken when it was opened */
};

struct segment_remote *segment_remote_open(const char *name, uint32_t slots, char *reason) {
  if (!segment_is_name(name) || slots < 2 || slots > PLANE_RANKS_MAX) {
    segment_explain(reason, "no segment of %u slots", slots);
    return NULL;
  }
  struct segment_remote *remote = calloc(1, sizeof(*remote));
  if (remote == NULL || (remote->local = calloc(slots, sizeof(*remote->local))) == NULL ||
      (remote->map = segment_map_open(name, slots, reason)) == NULL) {
    if (remote == NULL || remote->local == NULL)
      segment_explain(reason, "no memory");
    segment_remote_close(remote);
    return NULL;
  }
  struct segment_map *map = remote->map;
  if (!segment_gate_enter(map, segment_now() + SEGMENT_ATTACH_SECONDS * INT64_C(1000000000),
                          reason)) {
    segment_remote_close(remote);
    return NULL;
  }
  bool joined = false;
  if (!segment_has_name(map) || !segment_is_held_by_others(map)) {
    segment_explain(reason, "the ranks of segment %s have gone", name);
    segment_remove_name(map); /* perhaps it has just been made */
  } else {
    joined = segment_map_join(map, reason) && segment_allocate_logs(map, reason);
  }
  segment_gate_leave(map);
  if (!joined) {
    segment_remote_close(remote);
    return NULL;
  }
  for (uint32_t slot = 0; slot < slots; slot++)
    remote->local[slot] = segment_slot_is_ready(map, slot);
  return remote;
}

void segment_remote_close(struct segment_remote *remote) {
  if (remote == NULL)
    return;
  if (remote->map != NULL)
    segment_map_close(remote->map); /* the locks go with it */
  free(remote->local);
  free(remote);
}

bool segment_remote_is_local(const struct segment_remote *remote, uint32_t slot) {
  return slot < remote->map->slots && remote->local[slot];
}

bool segment_remote_introduction(const struct segment_remote *remote, uint32_t slot,
                                 struct introduction *introduction) {
  if (!segment_remote_is_local(remote, slot))
    return false;
  *introduction = segment_slot(remote->map, slot)->introduction;
  return true;
}

bool segment_remote_take(struct segment_remote *remote, uint32_t slot, const char *machine,
                         const struct introduction *introduction, char *reason) {
  struct segment_map *map = remote->map;
  if (slot >= map->slots || segment_slot_is_ready(map, slot) ||
      introduction->ncomms > INTRODUCTION_COMMS_MAX) {
    segment_explain(reason, "slot %u of %s is taken twice: do two ranks have the same number?",
                    slot, map->path);
    return false;
  }
  if (!segment_lock_slot(map, slot)) {
    segment_explain(reason, "slot %u of %s is locked", slot, map->path);
    return false;
  }
  struct segment_slot *taken = segment_slot(map, slot);
  taken->introduction = *introduction;
  snprintf(taken->machine, sizeof(taken->machine), "%s", machine);
  atomic_store(&map->own[slot], true);
  atomic_store_explicit(&taken->ready, 1, memory_order_release);
  return true;
}

void segment_remote_complete(struct segment_remote *remote) {
  char reason[ATTACHMENT_REASON_SIZE];
  if (segment_gate_enter(remote->map, segment_now() + SEGMENT_UNLINK_SECONDS * INT64_C(1000000000),
                         reason)) {
    segment_remove_name(remote->map);
    segment_gate_leave(remote->map);
  }
}

bool segment_remote_is_alive(const struct segment_remote *remote, uint32_t slot) {
  if (segment_slot_is_held(remote->map, slot))
    return true;
  segment_look_how_it_ended(remote->map, slot);
  return false;
}

uint32_t segment_remote_fate(const struct segment_remote *remote, uint32_t slot) {
  return atomic_load(&segment_slot(remote->map, slot)->ended);
}

void segment_remote_end(struct segment_remote *remote, uint32_t slot, uint32_t fate) {
  if (slot >= remote->map->slots || !atomic_load(&remote->map->own[slot]))
    return;
  atomic_store(&segment_slot(remote->map, slot)->ended, fate);
  atomic_store(&remote->map->own[slot], false);
  segment_unlock_slot(remote->map, slot);
}

uint32_t segment_remote_waiting(const struct segment_remote *remote) {
  return atomic_load(&((struct segment_header *)remote->map->base)->waiting);
}

void segment_remote_ring(struct segment_remote *remote) {
  struct plane_team *team = segment_remote_team(remote);
  atomic_fetch_add(&team->bell, 1);
  syscall(SYS_futex, &team->bell, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

struct plane_log *segment_remote_log(const struct segment_remote *remote, uint32_t slot) {
  const struct segment_map *map = remote->map;
  return (struct plane_log *)(map->base + segment_log_offset(map->slots, slot));
}

struct plane_team *segment_remote_team(const struct segment_remote *remote) {
  return (struct plane_team *)(remote->map->base + segment_team_offset(remote->map->slots));
}
