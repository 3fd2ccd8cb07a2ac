/* Segments from outside (segment_view.h). */
#include "core/transport/segment_view.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/transport/segment.h"

struct viewed_plane {
  struct plane plane; /* first: a plane is cast to its viewed_plane */
  const struct segment_map *map;
  uint32_t *slot_of;
};

struct segment_view {
  struct segment_map map;
  struct viewed_plane seen;
};

static bool view_map(struct segment_map *map, const char *path, char *reason) {
  struct segment_header header;
  struct stat status;
  map->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (map->fd < 0 && (errno == ENOENT || errno == ESRCH))
    return false; /* it has gone in this moment */
  if (map->fd < 0 || fstat(map->fd, &status) != 0) {
    segment_explain(reason, "cannot open %s: %s", path, strerror(errno));
    return false;
  }
  if (pread(map->fd, &header, sizeof(header), 0) != sizeof(header) ||
      header.magic != SEGMENT_MAGIC) {
    segment_explain(reason, "%s is not a segment of nccl-join", path);
    return false;
  }
  if (header.version != PLANE_VERSION) {
    segment_explain(
        reason,
        "it runs with another version of nccl-join (plane version %u, this one's is %u): use that",
        header.version, PLANE_VERSION);
    return false;
  }
  if (header.slots == 0 || header.slots > PLANE_RANKS_MAX ||
      header.bytes != segment_bytes(header.slots) || status.st_size != (off_t)header.bytes) {
    segment_explain(reason, "%s is damaged", path);
    return false;
  }
  map->slots = header.slots;
  map->bytes = header.bytes;
  void *base =
      mmap(NULL, map->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, map->fd, 0);
  map->own = calloc(map->slots, sizeof(*map->own)); /* none is */
  if (base == MAP_FAILED || map->own == NULL) {
    segment_explain(reason, "no memory to look at %s", path);
    if (base != MAP_FAILED)
      munmap(base, map->bytes);
    return false;
  }
  map->base = base;
  return true;
}

struct segment_view *segment_view_open(const char *path, char *reason) {
  struct segment_view *view = calloc(1, sizeof(*view));
  if (view == NULL) {
    segment_explain(reason, "no memory");
    return NULL;
  }
  if (view_map(&view->map, path, reason))
    return view;
  segment_view_close(view);
  return NULL;
}

void segment_view_close(struct segment_view *view) {
  if (view->map.base != NULL)
    munmap(view->map.base, view->map.bytes);
  if (view->map.fd >= 0)
    close(view->map.fd);
  free(view->map.own);
  free(view->seen.slot_of);
  free(view->seen.plane.logs);
  free(view);
}

uint32_t segment_view_slots(const struct segment_view *view) {
  return view->map.slots;
}

bool segment_view_slot(const struct segment_view *view, uint32_t slot, struct segment_seen *seen) {
  if (!segment_slot_is_ready(&view->map, slot))
    return false;
  const struct segment_slot *of = segment_slot(&view->map, slot);
  *seen = (struct segment_seen){
      .mark = of->introduction, .pid = of->pid, .alive = segment_slot_is_held(&view->map, slot)};
  snprintf(seen->machine, sizeof(seen->machine), "%.*s", (int)sizeof(of->machine), of->machine);
  seen->stopped = seen->alive && segment_slot_is_stopped(&view->map, slot);
  if (!seen->alive)
    segment_look_how_it_ended(&view->map, slot);
  seen->fate = segment_fate(&view->map, slot);
  return true;
}

/* ---- the plane ---- */

static void viewed_ring(struct plane *plane) {
  (void)plane;
}

static bool viewed_spin(struct plane *plane, uint64_t *since) {
  (void)plane;
  (void)since;
  return false;
}

static void viewed_wait(struct plane *plane, uint32_t seen, unsigned milliseconds) {
  (void)plane;
  (void)seen;
  (void)milliseconds;
}

static void viewed_nap(struct plane *plane, uint32_t seen, uint64_t until) {
  (void)plane;
  (void)seen;
  (void)until;
}

static bool viewed_alive(struct plane *plane, uint32_t rank) {
  const struct viewed_plane *seen = (const struct viewed_plane *)plane;
  return segment_slot_is_held(seen->map, seen->slot_of[rank]);
}

static bool viewed_stopped(const struct plane *plane, uint32_t rank) {
  const struct viewed_plane *seen = (const struct viewed_plane *)plane;
  return segment_slot_is_stopped(seen->map, seen->slot_of[rank]);
}

static struct plane_fate viewed_fate(const struct plane *plane, uint32_t rank) {
  const struct viewed_plane *seen = (const struct viewed_plane *)plane;
  return segment_fate(seen->map, seen->slot_of[rank]);
}

struct plane *segment_view_plane(struct segment_view *view, uint32_t rank, uint32_t nranks,
                                 const uint32_t *slot_of) {
  const struct segment_map *map = &view->map;
  struct viewed_plane *seen = &view->seen;
  seen->map = map;
  seen->slot_of = calloc(nranks, sizeof(*slot_of));
  seen->plane = (struct plane){
      .rank = rank,
      .nranks = nranks,
      .team = (struct plane_team *)(map->base + segment_team_offset(map->slots)),
      .logs = calloc(nranks, sizeof(struct plane_log *)),
      .ring = viewed_ring,
      .spin = viewed_spin,
      .wait = viewed_wait,
      .nap = viewed_nap,
      .pause = viewed_ring,
      .alive = viewed_alive,
      .stopped = viewed_stopped,
      .fate = viewed_fate,
  };
  if (seen->slot_of == NULL || seen->plane.logs == NULL)
    return NULL;
  for (uint32_t i = 0; i < nranks; i++) {
    seen->slot_of[i] = slot_of[i];
    seen->plane.logs[i] =
        (struct plane_log *)(map->base + segment_log_offset(map->slots, slot_of[i]));
  }
  return &seen->plane;
}
