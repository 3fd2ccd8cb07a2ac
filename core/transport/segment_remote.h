/* A segment (plane_shm.h) as the agent of a machine has it: it stands in for the ranks of the other
 * machines. Their slots are taken by it, so that it holds their locks, and their logs are written
 * by it: mirrors of those that are written elsewhere. To the ranks of its machine a rank that it
 * has let go of looks as if its process had ended, and so do all of them when the agent is killed.
 *
 * One process has a segment once, and opens it nowhere else: segment.c is not for it.
 * Not thread-safe. */
#ifndef NCCL_JOIN_CORE_SEGMENT_REMOTE_H
#define NCCL_JOIN_CORE_SEGMENT_REMOTE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/transport/attachment.h"

struct plane_log;
struct plane_team;
struct segment_remote;

/* Opens the segment of that name, with so many slots, in which ranks of this machine are, and takes
 * the memory for all: who says that its ranks are here has room for the others. NULL on failure:
 * reason (ATTACHMENT_REASON_SIZE bytes) says why. Owned by the caller. */
struct segment_remote *segment_remote_open(const char *name, uint32_t slots, char *reason);

/* Lets go of all slots, and frees it. NULL: nothing. */
void segment_remote_close(struct segment_remote *remote);

/* Whether the slot is taken by a rank of this machine, and what it has said of itself. */
bool segment_remote_is_local(const struct segment_remote *remote, uint32_t slot);
bool segment_remote_introduction(const struct segment_remote *remote, uint32_t slot,
                                 struct introduction *introduction);

/* Takes a slot for a rank of another machine. False: reason says why. After the last one
 * segment_remote_complete takes the name away. */
bool segment_remote_take(struct segment_remote *remote, uint32_t slot, const char *machine,
                         const struct introduction *introduction, char *reason);
void segment_remote_complete(struct segment_remote *remote);

/* Whether the process of a rank of this machine is there; how it has ended, as a number that
 * segment_remote_end takes elsewhere: 0 if that is not known. */
bool segment_remote_is_alive(const struct segment_remote *remote, uint32_t slot);
uint32_t segment_remote_fate(const struct segment_remote *remote, uint32_t slot);

/* A rank of another machine has ended. */
void segment_remote_end(struct segment_remote *remote, uint32_t slot, uint32_t fate);

/* How many ranks of this machine wait for the team's bell in this moment. */
uint32_t segment_remote_waiting(const struct segment_remote *remote);

/* Wakes them. */
void segment_remote_ring(struct segment_remote *remote);

struct plane_log *segment_remote_log(const struct segment_remote *remote, uint32_t slot);
struct plane_team *segment_remote_team(const struct segment_remote *remote);

#endif
