/* The plane of processes on one machine: a segment of shared memory for each communicator, found by name, with one log per
 * rank, futexes to wake each other, and record locks by which a death is noticed.
 *
 * Life of a segment:
 *   1. Before its real ncclCommInit… each rank attaches: it opens the segment by name, or creates it, and marks its slot with
 *      what others must know of it.
 *   2. That call returns only once all ranks have entered it. So afterwards every rank sees all marks, or knows at once that some
 *      rank is on another machine or runs without nccl-join. No timeout is needed for that.
 *   3. Ranks of the communicator whose set of processes has no team yet make the segment's logs their team's plane.
 *   4. The name is unlinked as soon as it is no longer needed; the memory goes with the last process.
 *
 * Slots are numbered before the ranks of the communicator may be known (ncclCommSplit): the plane is made with a map
 * from rank to slot.
 */
#ifndef NCCL_JOIN_CORE_PLANE_SHM_H
#define NCCL_JOIN_CORE_PLANE_SHM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/plane.h"

#define SEGMENT_NAME_SIZE 33     /* 32 hexadecimal digits, and the terminator */
#define SEGMENT_COMMS_MAX 60     /* communicators that a rank lists */
#define SEGMENT_REASON_SIZE 256  /* room for a sentence */

/* What a rank tells the others of itself when it attaches. */
struct attachment {
  uint64_t identity; /* random; equal for all communicators of one device of one process, and for nothing else */
  int32_t key;       /* ncclCommSplit: orders the ranks; 0 otherwise */
  uint32_t ncomms;   /* tags of the communicators that the rank has, the latest SEGMENT_COMMS_MAX of them */
  uint32_t comms[SEGMENT_COMMS_MAX];
};

struct segment;

/* Attaches this process to a slot of the named segment, creating it with that many slots if it is not there. Several slots may
 * belong to one process (one call each; the handles share one mapping). name: 32 hexadecimal digits. expected: how many slots
 * will be taken in all; the one who takes the last unlinks the name. 0: not known, segment_unlink does it later.
 * NULL on failure, with a sentence in reason that says what happened and what to do (full or read-only /dev/shm, no permission,
 * another version, a slot taken twice, another number of slots). A segment left by a dead job under the same name is
 * recognised (nobody alive holds a lock on it) and replaced. Thread-safe. */
struct segment *segment_attach(const char *name, uint32_t slots, uint32_t slot, uint32_t expected,
                               const struct attachment *me, char *reason);

/* Slots taken so far. */
uint32_t segment_attached(const struct segment *segment);

/* What the rank in a slot said; false if the slot is not taken. */
bool segment_attachment(const struct segment *segment, uint32_t slot, struct attachment *attachment);

/* Removes the name, if it still is this segment's. May be called by several ranks, several times. */
void segment_unlink(struct segment *segment);

/* This slot's side of a team over the segment's logs. slot_of[rank], nranks of them, is copied. Owned by the segment; one per handle.
 * NULL if there is no memory. */
struct plane *segment_plane(struct segment *segment, uint32_t rank, uint32_t nranks,
                            const uint32_t *slot_of);

/* Lets go of the slot: its lock is released, so that to the others it looks like the end of the process; the memory is unmapped
 * with the last handle of this process. */
void segment_detach(struct segment *segment);

/* In a forked child: closes what was inherited without touching the parent's locks or the shared memory. Async-signal-safe. */
void segment_forget_all(void);

#endif
