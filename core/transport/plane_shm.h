/* Shared memory as a transport, for the processes of one machine: a segment for each communicator,
 * found by name, with one log per rank, futexes to wake each other, and record locks by which a
 * death is noticed. For core/transport and its tests: others attach by attachment.h, which says how
 * ranks come together.
 *
 * The file is /dev/shm/nccl-join-<uid>-<name>, mode 0600; segment.h has its layout and locks. A
 * slot costs 576 bytes of /dev/shm, a slot that is taken a struct plane_log more. Memory is taken
 * before it is touched: a full /dev/shm is an error here, never a SIGBUS later. What peers have
 * written is checked before use; only a peer that truncates the file can still do harm (SIGBUS).
 * The name is unlinked as soon as it is no longer needed; the memory goes with the last process.
 *
 * A process loses its locks, and looks dead to the others, when it closes any descriptor of the
 * file: nothing else in the process may open a segment.
 */
#ifndef NCCL_JOIN_CORE_PLANE_SHM_H
#define NCCL_JOIN_CORE_PLANE_SHM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/transport/attachment.h"

struct segment;

/* As attachment_make. Several slots of one process share one mapping. A segment left by a dead job
 * under the same name (nobody alive holds a lock on it) is replaced. Those left under other names,
 * by jobs killed before their last rank attached, are removed by the first process of the same user
 * that creates a segment, once in its life.
 * Takes a fraction of a millisecond, or up to SEGMENT_ATTACH_SECONDS (segment.h) if another process
 * is stopped while it attaches. */
struct segment *segment_attach(const char *name, uint32_t slots, uint32_t slot, uint32_t expected,
                               const struct introduction *me, char *reason);

/* Slots taken so far, by the living and the dead. */
uint32_t segment_attached(const struct segment *segment);

/* As attachment_read, attachment_stranger and attachment_complete: the last removes the name, if it
 * still is this segment's. */
bool segment_introduction(const struct segment *segment, uint32_t slot,
                          struct introduction *introduction);
bool segment_stranger(const struct segment *segment, char *reason);
void segment_unlink(struct segment *segment);

/* As attachment_plane. wait spins for 20 us first if the process may use more processors than the
 * team has ranks, and ends early at a signal. */
struct plane *segment_plane(struct segment *segment, uint32_t rank, uint32_t nranks,
                            const uint32_t *slot_of);

/* As attachment_plane_early: takes the memory of those that have not come, too. */
struct plane *segment_plane_early(struct segment *segment, uint32_t rank, uint32_t nranks,
                                  const uint32_t *slot_of);

/* As attachment_say_end. */
void segment_say_end(int status);

/* As attachment_detach: the slot's lock is released; the memory is unmapped with the last handle of
 * this process, and a name that is still there goes with the last handle of all. */
void segment_detach(struct segment *segment);

/* As attachment_forget_all: in the place of the shared memory the child gets private zeros. */
void segment_forget_all(void);

#endif
