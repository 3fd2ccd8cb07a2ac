/* The plane of processes on one machine: a segment of shared memory for each communicator, found by
 * name, with one log per rank, futexes to wake each other, and record locks by which a death is
 * noticed.
 *
 * Life of a segment:
 *   1. Before its real ncclCommInit… each rank attaches: it opens the segment by name, or creates
 *      it, and marks its slot with what others must know of it.
 *   2. That call returns only once all ranks have entered it. So afterwards every rank sees all
 *      marks, or knows at once that some rank is on another machine or runs without nccl-join. No
 *      timeout is needed for that.
 *   3. Ranks of the communicator whose set of processes has no team yet make the segment's logs
 *      their team's plane.
 *   4. The name is unlinked as soon as it is no longer needed; the memory goes with the last
 *      process.
 *
 * Slots are numbered before the ranks of the communicator may be known (ncclCommSplit): the plane
 * is made with a map from rank to slot.
 *
 * The file is /dev/shm/nccl-join-<uid>-<name>, mode 0600; segment.h has its layout and locks. A
 * slot costs 512 bytes of /dev/shm, a slot that is taken a struct plane_log more. Memory is taken
 * before it is touched: a full /dev/shm is an error here, never a SIGBUS later. What peers have
 * written is checked before use; only a peer that truncates the file can still do harm (SIGBUS).
 *
 * A process loses its locks, and looks dead to the others, when it closes any descriptor of the
 * file: nothing else in the process may open a segment.
 */
#ifndef NCCL_JOIN_CORE_PLANE_SHM_H
#define NCCL_JOIN_CORE_PLANE_SHM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/transport/plane.h"

#define SEGMENT_NAME_SIZE 33    /* 32 hexadecimal digits, and the terminator */
#define SEGMENT_COMMS_MAX 60    /* communicators that a rank lists */
#define SEGMENT_REASON_SIZE 256 /* room for a sentence */
#define SEGMENT_TELLS_SIZE 232  /* text that a rank compares with the others */

/* What a rank tells the others of itself when it attaches. */
struct attachment {
  uint64_t identity; /* random; equal for all communicators of one device of one process, and for
                        nothing else */
  int32_t key;       /* ncclCommSplit: orders the ranks; 0 otherwise */
  uint32_t ncomms;   /* tags of the communicators that the rank has, the latest SEGMENT_COMMS_MAX */
  uint32_t comms[SEGMENT_COMMS_MAX];
  char tells[SEGMENT_TELLS_SIZE]; /* what must be alike on all ranks (interpose/comm/alike.h) */
};

struct segment;

/* Attaches this process to a slot of the named segment, creating it with that many slots (1 to
 * PLANE_RANKS_MAX) if it is not there. Several slots may belong to one process (one call each; the
 * handles share one mapping). name: 32 hexadecimal digits. expected: how many slots will be taken
 * in all; whoever takes the last one unlinks the name. 0: not known, segment_unlink does it later.
 *
 * NULL on failure, with a sentence in reason (SEGMENT_REASON_SIZE bytes) that says what happened
 * and what to do: full or read-only /dev/shm, no permission, another version, a slot taken twice,
 * another number of slots. A slot is taken once: not again after its rank has died or detached.
 * errno is EPROTO for another version, and 0 otherwise; the ranks in the segment are told of that
 * (segment_stranger).
 *
 * A segment left by a dead job under the same name (nobody alive holds a lock on it) is replaced.
 * Those left under other names, by jobs killed before their last rank attached, are removed by the
 * first process of the same user that creates a segment, once in its life.
 * Takes a fraction of a millisecond, or up to SEGMENT_ATTACH_SECONDS (segment.h) if another process
 * is stopped while it attaches. Thread-safe. */
struct segment *segment_attach(const char *name, uint32_t slots, uint32_t slot, uint32_t expected,
                               const struct attachment *me, char *reason);

/* Slots taken so far, by the living and the dead. */
uint32_t segment_attached(const struct segment *segment);

/* What the rank in a slot said; false if the slot is not taken. ncomms is at most
 * SEGMENT_COMMS_MAX; the rest is what the peer wrote. */
bool segment_attachment(const struct segment *segment, uint32_t slot,
                        struct attachment *attachment);

/* Whether a rank with another PLANE_VERSION has come to the segment: reason says which. */
bool segment_stranger(const struct segment *segment, char *reason);

/* Removes the name, if it still is this segment's. May be called by several ranks, several times;
 * thread-safe. Only when nobody else is to attach: a later rank would create a segment of its
 * own. */
void segment_unlink(struct segment *segment);

/* This slot's side of a team over the segment's logs: nranks of them, slot_of[rank], which is
 * copied; slot_of[rank of the caller] is the handle's own. All slots of the team must be taken.
 * Owned by the segment; one per handle. NULL if there is no memory, or an argument is not as said.
 *
 * Of the plane, ring, wait and alive may be called by any thread until segment_detach. wait spins
 * for 20 us first if the process may use more processors than the team has ranks, and ends early at
 * a signal. */
struct plane *segment_plane(struct segment *segment, uint32_t rank, uint32_t nranks,
                            const uint32_t *slot_of);

/* This process is about to end with a status: its peers hear that from their planes (fate).
 * Async-signal-safe. */
void segment_say_end(int status);

/* Lets go of the slot: its lock is released, so that to the others it looks like the end of the
 * process; the memory is unmapped with the last handle of this process, and a name that is still
 * there goes with the last handle of all. Frees the handle and its plane. NULL is allowed.
 * Thread-safe. */
void segment_detach(struct segment *segment);

/* In a forked child: closes what was inherited without touching the parent's locks or the shared
 * memory, in whose place the child gets private zeros. Handles and planes from before are inert
 * (alive says true, detach only frees); new ones may be attached. Async-signal-safe. */
void segment_forget_all(void);

#endif
