/* Looking at a segment (plane_shm.h) from outside, for tools: as it is in this moment. Nothing that
 * is done here reaches the ranks: the file is opened for reading, and its memory is a private copy
 * of every page that is written to. Works while ranks are stopped. */
#ifndef NCCL_JOIN_CORE_SEGMENT_VIEW_H
#define NCCL_JOIN_CORE_SEGMENT_VIEW_H

#include <stdbool.h>
#include <stdint.h>

#include "core/transport/plane_shm.h"

struct segment_view;

/* Of a file with a segment; path: such as /proc/PID/fd/N, as the name is gone once all ranks have
 * attached. NULL, and a sentence in reason (ATTACHMENT_REASON_SIZE bytes): it cannot be opened, or
 * is of another version. Nothing is written there if it is gone. */
struct segment_view *segment_view_open(const char *path, char *reason);
void segment_view_close(struct segment_view *view);

uint32_t segment_view_slots(const struct segment_view *view);

/* What the rank in a slot has said of itself, and its process; false if the slot is not taken. */
#define SEGMENT_SEEN_MACHINE 64
struct segment_seen {
  struct introduction mark;
  char machine[SEGMENT_SEEN_MACHINE]; /* on which it is; "": this one. On another, pid is 0 */
  int32_t pid;
  bool alive;   /* its process has not ended */
  bool stopped; /* and stands still (plane.h) */
  struct plane_fate fate;
};
bool segment_view_slot(const struct segment_view *view, uint32_t slot, struct segment_seen *seen);

/* The plane of a team as this rank has it, for questions: waiting and ringing do nothing. slot_of:
 * the slot of each rank. Owned by the view. NULL: no memory. */
struct plane *segment_view_plane(struct segment_view *view, uint32_t rank, uint32_t nranks,
                                 const uint32_t *slot_of);

#endif
