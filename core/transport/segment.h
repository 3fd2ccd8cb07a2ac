/* Inside of a segment of plane_shm.h: its file (segment_file.c) and this process's register of open
 * segments (segment.c). For the files of that transport and their tests, and for who looks for what
 * segments have been left behind (tools/doctor).
 *
 * The file: one page of header, then a segment_slot per slot, the plane_team, and a plane_log per
 * slot, each 64-byte aligned. Header, slots and team get their memory when the file is laid out, a
 * log when its slot is taken: a communicator of a thousand ranks costs a machine only the logs of
 * its own. Nobody touches a log before its slot is ready. New memory is zero, which is the initial
 * state of all of it.
 *
 * Locks are POSIX record locks on bytes of the file, which need not exist in it: byte n for slot n,
 * held by the process that owns the slot; byte SEGMENT_GATE while a process decides about the name.
 * Every version keeps to the rule that a segment on which no byte is locked is dead.
 */
#ifndef NCCL_JOIN_CORE_SEGMENT_H
#define NCCL_JOIN_CORE_SEGMENT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/transport/words.h"
#include "core/transport/plane_shm.h"

#define SEGMENT_FOLDER "/dev/shm"
#define SEGMENT_MAGIC UINT64_C(0x4e494f4a4c43434e) /* "NCCLJOIN" */
#define SEGMENT_HEADER_BYTES 4096u
#define SEGMENT_GATE PLANE_RANKS_MAX
#define SEGMENT_PATH_SIZE 256
#define SEGMENT_MACHINE_SIZE 48

/* How long a rank tries to attach, and how long it tries to remove a name. Others hold the gate for
 * milliseconds at most, unless they are stopped, as in a debugger. */
#define SEGMENT_ATTACH_SECONDS 30
#define SEGMENT_UNLINK_SECONDS 1
/* How long one that leaves waits for the gate, in ms: who leaves there sees that this one has not
 * yet left, and the name would stay. */
#define SEGMENT_LEAVE_MS 200

/* Written with the gate before the first slot is taken. Where these fields are is the same in every
 * version. */
struct segment_header {
  uint64_t magic;   /* SEGMENT_MAGIC */
  uint32_t version; /* PLANE_VERSION */
  uint32_t slots;
  uint64_t bytes; /* of the file */
  /* Written with the gate by a rank with another PLANE_VERSION that has found the file: its slot
   * plus one, and its version. */
  _Atomic uint32_t stranger, stranger_version;
  _Atomic uint32_t waiting; /* ranks of this machine that wait for the bell (segment_remote.h) */
};

struct segment_slot {
  _Alignas(64) struct introduction introduction;
  uint64_t pid_space; /* of `pid`: the number of its namespace; 0: not known */
  int32_t pid;
  _Atomic uint32_t ready; /* 1 once the introduction, and what is above, is complete (release) */
  _Atomic uint32_t ended; /* 0: not known; enum plane_end << 16 | number */
  char machine[SEGMENT_MACHINE_SIZE]; /* of a rank that is on another one: its name */
};
_Static_assert(sizeof(struct segment_slot) == 576, "what plane_shm.h says");

/* The agent of ranks on other machines (attachment_beyond). Without a bell there is none: all ranks
 * are on this machine. Any thread looks whether it has turns; the rest is written before. */
struct segment_beyond {
  _Atomic uint32_t *_Atomic bell;
  _Atomic uint32_t *turns;
  uint64_t silence_ms;
  _Atomic uint32_t turn; /* as it was at the last look */
  _Atomic uint64_t looked_ms;
  _Atomic uint64_t still_ms; /* how long there has been none */
};

/* One open segment. Changed with the register's lock; what is read without it is constant or
 * atomic. */
struct segment_map {
  struct segment_map *_Atomic next;
  _Atomic int fd; /* the only descriptor of the file in this process; -1 in a forked child */
  dev_t device;
  ino_t inode;
  char name[ATTACHMENT_NAME_SIZE];
  char path[SEGMENT_PATH_SIZE];
  uint32_t slots;
  uint32_t handles; /* struct segment of this process */
  bool unlinked;    /* the name is no longer this segment's */
  bool laid_out_here;
  unsigned char *base;
  size_t bytes;
  _Atomic bool *own; /* by slot: taken by this process, of whose locks F_GETLK does not tell */
  struct segment_beyond beyond;
};

struct plane_shm;

/* A slot taken by this process. */
struct segment {
  struct attachment attachment; /* first: an attachment is cast to its segment */
  struct segment_map *map;
  uint32_t slot;
  struct plane_shm *plane;
};

/* Where the files are: SEGMENT_FOLDER. Tests set another before they attach. */
extern const char *segment_folder;

/* Offsets in the file; segment_bytes is the whole of it. */
size_t segment_team_offset(uint32_t slots);
size_t segment_log_offset(uint32_t slots, uint32_t slot);
size_t segment_bytes(uint32_t slots);

static inline struct segment_slot *segment_slot(const struct segment_map *map, uint32_t slot) {
  return (struct segment_slot *)(map->base + SEGMENT_HEADER_BYTES) + slot;
}

static inline bool segment_slot_is_ready(const struct segment_map *map, uint32_t slot) {
  return atomic_load_explicit(&segment_slot(map, slot)->ready, memory_order_acquire) == 1;
}

/* The file. Where there is a reason (ATTACHMENT_REASON_SIZE bytes), it is written on failure. */

__attribute__((format(printf, 2, 3))) void segment_explain(char *reason, const char *format, ...);

/* CLOCK_MONOTONIC in nanoseconds, for deadlines. */
int64_t segment_now(void);

/* Opens the file of that name, or creates it empty, and checks whose it is. Not mapped yet. */
struct segment_map *segment_map_open(const char *name, uint32_t slots, char *reason);
void segment_map_close(struct segment_map *map);

/* With the gate: lays out and maps an empty file; or maps one whose layout is as it should be. */
bool segment_map_create(struct segment_map *map, char *reason);
bool segment_map_join(struct segment_map *map, char *reason);

/* With the gate, after segment_map_join has failed: if that is because the file is of another
 * version, tells the ranks in there. False if it is not. */
bool segment_map_disagree(const struct segment_map *map, uint32_t slot);

/* With the gate: memory for a slot's log. */
bool segment_allocate_log(struct segment_map *map, uint32_t slot, char *reason);
/* The same for those of all slots. */
bool segment_allocate_logs(struct segment_map *map, char *reason);

/* Takes the gate before the deadline. */
bool segment_gate_enter(struct segment_map *map, int64_t deadline, char *reason);
void segment_gate_leave(struct segment_map *map);

/* With the gate: whether the name still is this file's; and makes sure that it no longer is. */
bool segment_has_name(const struct segment_map *map);
void segment_remove_name(struct segment_map *map);

/* False if another process has it. */
bool segment_lock_slot(struct segment_map *map, uint32_t slot);
void segment_unlock_slot(struct segment_map *map, uint32_t slot);

/* Whether a living process holds the slot; whether another process holds any lock. True if that
 * cannot be found out. */
bool segment_slot_is_held(const struct segment_map *map, uint32_t slot);
bool segment_is_held_by_others(const struct segment_map *map);

/* Of a slot whose process has ended, if it has not said how: looks while it is a zombie, which its
 * parent has not waited for yet. */
void segment_look_how_it_ended(const struct segment_map *map, uint32_t slot);
struct plane_fate segment_fate(const struct segment_map *map, uint32_t slot);

/* The agent of ranks on other machines; and whether it has had no turn for so long that they count
 * as dead. A look counts for half of that time at most: this process may have been stopped itself,
 * and the agent with it. */
void segment_reach_beyond(struct segment_map *map, const struct attachment_beyond *beyond);
bool segment_beyond_is_still(struct segment_map *map, uint64_t now_ms);

/* Whether the slot's process is stopped. False, too, if that cannot be found out: it is another
 * user's, or its number belongs to another namespace. */
bool segment_slot_is_stopped(const struct segment_map *map, uint32_t slot);

/* Who this process is. */
void segment_fill_process(struct segment_slot *slot);

/* Removes the names of this user's dead segments: of jobs that were killed before the last rank had
 * attached. is_open_here: whether this process has the file open; such a file is not touched. Costs
 * a listing of the folder. */
void segment_remove_dead(bool (*is_open_here)(dev_t device, ino_t inode));

/* Whether it is a segment's name: 32 hexadecimal digits. */
bool segment_is_name(const char *name);

/* In plane_shm.c; NULL is allowed. */
void plane_shm_destroy(struct plane_shm *plane);

/* The invariants; asserted in debug builds. */
bool segment_map_is_valid(const struct segment_map *map);

#endif
