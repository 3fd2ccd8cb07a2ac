/* The shared memory in which the ranks of one communicator meet: its layout, and coming and going.
 *
 * One POSIX shared memory segment per communicator, named after the user and the communicator's
 * hash. The first rank to come creates it (O_EXCL, mode 0600) and allocates every page, so that a
 * full /dev/shm is an error here and not a SIGBUS later. The last rank to come removes the name
 * before anybody goes on: from then on nothing is left behind however the processes end. While the
 * name exists each process holds a shared flock on it; a name that nobody holds was left by a run
 * that died while its ranks were meeting, and the next creation removes it.
 *
 * With LOOPBACK_FOLDER the segments are files there, for ranks in several namespaces of processes,
 * as on several machines. Numbers of processes mean nothing then, so each rank holds a lock on a
 * byte of its own.
 *
 * Who writes what: everything in a segment_rank belongs to that rank, everything in a
 * segment_channel to the side named there. Words that others wait for are atomic; a rank that
 * changes one rings the bell (meeting.h).
 */
#ifndef LOOPBACK_NCCL_SEGMENT_H
#define LOOPBACK_NCCL_SEGMENT_H

#include <nccl.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define SEGMENT_LINE 64 /* ranks write to lines of their own */
#define SEGMENT_RANKS_MAX 256
#define SEGMENT_DESCRIPTION_BYTES 2048
#define SEGMENT_STOP_BYTES 6144
#define SEGMENT_CHANNEL_SLOTS 2
#define SEGMENT_NAME_BYTES 256

enum presence {
  PRESENCE_NONE,
  PRESENCE_CLAIMED,
  PRESENCE_HERE,
  PRESENCE_DESTROYED,
  PRESENCE_ABORTED
};

/* What a rank says about the unit it has come to meet the others for (oracle.h). */
struct segment_descriptor {
  uint64_t hash;
  uint64_t unit;
  char text[SEGMENT_DESCRIPTION_BYTES];
};

/* What a rank brings to a host-side agreement: split, window registration (create.h). */
struct segment_agenda {
  uint32_t kind;
  int32_t color;
  int32_t key;
  uint32_t zero;
  uint64_t number;
};

struct segment_rank {
  _Alignas(SEGMENT_LINE) _Atomic uint32_t presence;
  _Atomic uint32_t connected; /* has issued its first collective */
  _Atomic uint64_t
      registered; /* collectives of registered buffers that it has come to (connect.h) */
  pid_t pid;
  int device;
  uint64_t started; /* the process's start time, so that a pid used again is not taken for it */
  _Alignas(SEGMENT_LINE) _Atomic uint64_t step; /* exchanges arrived at (exchange.h) */
  _Atomic uint64_t agendas;                     /* host-side agreements arrived at */
  _Atomic uint64_t units;                       /* collective units begun, for diagnostics */
  struct segment_agenda agenda[2];              /* by parity of agendas */
  struct segment_descriptor descriptor[2];      /* by parity of the unit */
};

struct segment_slot {
  uint64_t count; /* elements of the whole message */
  uint32_t datatype;
  uint32_t bytes; /* in this slot */
  uint32_t look;  /* of the sender's buffer: registration.h */
};

/* One direction between two ranks: a ring of slots. */
struct segment_channel {
  _Alignas(SEGMENT_LINE) _Atomic uint64_t written; /* slots, by the sender */
  _Atomic uint32_t sender_connected;               /* phase of connecting: connect.h */
  _Alignas(SEGMENT_LINE) _Atomic uint64_t read;    /* slots, by the receiver */
  _Atomic uint32_t receiver_connected;
  struct segment_slot slot[SEGMENT_CHANNEL_SLOTS];
};

enum stop_state { STOP_NONE, STOP_BEING_WRITTEN, STOP_WRITTEN };

struct segment_shared {
  uint32_t version;
  int32_t nranks;
  _Atomic uint32_t ready;    /* the creator has filled this in */
  _Atomic uint32_t attached; /* ranks */
  _Atomic uint32_t complete; /* all came and the name is gone */
  _Atomic uint32_t refused;  /* a rank could not take part: an ncclResult_t for everyone */
  _Alignas(SEGMENT_LINE) _Atomic uint32_t bell;
  _Atomic uint32_t sleepers;
  /* enum stop_state: the run is wrong, everyone ends. */
  _Alignas(SEGMENT_LINE) _Atomic uint32_t stop;
  char stop_text[SEGMENT_STOP_BYTES];
};

/* One rank's view. Filled by segment_open; read-only afterwards, any thread. */
struct segment {
  struct segment_shared *shared;
  size_t size;
  int rank, nranks;
  size_t stage_bytes; /* of one staging buffer */
  size_t slot_bytes;  /* of one channel slot */
  size_t ranks_offset, channels_offset, stages_offset;
  int file;     /* holds the lock while the name exists; -1 afterwards */
  int presence; /* holds this rank's lock as long as the process lives; -1: see segment_is_alive */
  char name[SEGMENT_NAME_BYTES];
};

/* Creates or opens the segment of hash and claims rank's place in it. Does not wait for the others:
 * see communicator_join. ncclSystemError: no shared memory, or more than SEGMENT_RANKS_MAX ranks.
 * ncclInvalidUsage: the ranks that are there disagree on nranks, or have this rank already.
 * report_error has been called. */
ncclResult_t segment_open(struct segment *segment, uint64_t hash, int nranks, int rank, int device);

/* Counts this rank as come, and removes the name if it is the last. Rings no bell. */
void segment_attach(struct segment *segment);

/* The name is no longer needed (everyone is here, or this rank gives up: then it is removed). */
void segment_release_name(struct segment *segment, bool remove);

/* Unmaps. Afterwards nothing of the segment may be used. */
void segment_close(struct segment *segment);

static inline struct segment_rank *segment_rank(const struct segment *segment, int rank) {
  return (struct segment_rank *)((char *)segment->shared + segment->ranks_offset) + rank;
}

/* Messages from sender to receiver. */
struct segment_channel *segment_channel(const struct segment *segment, int sender, int receiver);
void *segment_channel_data(const struct segment *segment, struct segment_channel *channel,
                           uint64_t slot);

/* Rank's staging buffer for an exchange, by the parity of its step. */
void *segment_stage(const struct segment *segment, int rank, uint64_t step);

/* Whether the process of a rank that is here still lives. */
bool segment_is_alive(const struct segment *segment, int rank);

#endif
