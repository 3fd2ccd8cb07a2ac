/* Shared memory as a transport (attachment.h): an attachment is a slot of a segment. */
#include "core/transport/attachment.h"
#include "core/transport/segment.h"

static struct segment *segment_of(struct attachment *attachment) {
  return (struct segment *)attachment;
}

static const struct segment *segment_read(const struct attachment *attachment) {
  return (const struct segment *)attachment;
}

static struct attachment *shm_make(const char *name, uint32_t slots, uint32_t slot,
                                   uint32_t expected, const struct introduction *me, char *reason) {
  struct segment *segment = segment_attach(name, slots, slot, expected, me, reason);
  if (segment == NULL)
    return NULL;
  segment->attachment.transport = &transport_shm;
  return &segment->attachment;
}

static bool shm_read(const struct attachment *attachment, uint32_t slot,
                     struct introduction *introduction) {
  return segment_introduction(segment_read(attachment), slot, introduction);
}

static bool shm_stranger(const struct attachment *attachment, char *reason) {
  return segment_stranger(segment_read(attachment), reason);
}

static void shm_complete(struct attachment *attachment) {
  segment_unlink(segment_of(attachment));
}

static struct plane *shm_plane(struct attachment *attachment, uint32_t rank, uint32_t nranks,
                               const uint32_t *slot_of, bool early) {
  return early ? segment_plane_early(segment_of(attachment), rank, nranks, slot_of)
               : segment_plane(segment_of(attachment), rank, nranks, slot_of);
}

static bool shm_is_beyond(const struct attachment *attachment) {
  const struct segment_map *map = segment_read(attachment)->map;
  uint32_t slot = 0;
  while (slot < map->slots &&
         (!segment_slot_is_ready(map, slot) || segment_slot(map, slot)->machine[0] == '\0'))
    slot++;
  return slot < map->slots;
}

static void shm_reach_beyond(struct attachment *attachment,
                             const struct attachment_beyond *beyond) {
  segment_reach_beyond(segment_of(attachment)->map, beyond);
}

static void shm_detach(struct attachment *attachment) {
  segment_detach(segment_of(attachment));
}

const struct transport transport_shm = {
    .make = shm_make,
    .read = shm_read,
    .stranger = shm_stranger,
    .complete = shm_complete,
    .plane = shm_plane,
    .is_beyond = shm_is_beyond,
    .reach_beyond = shm_reach_beyond,
    .detach = shm_detach,
    .forget_all = segment_forget_all,
    .say_end = segment_say_end,
};
