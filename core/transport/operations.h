/* Sends and receives as the ranks of a team tell each other of them, for core/p2p: a ring of
 * operations in each log, and how many have been issued of each pair. What they mean is peers.h.
 *
 * `own`: for the rank whose log it is, one thread at a time (peers.lock). `log`: any thread of any
 * rank. Operations are numbered from 0; those from log_operations_begin to log_operations_end are
 * there. An operation is complete before the end passes it, and that is before its pair counts it.
 */
#ifndef NCCL_JOIN_CORE_OPERATIONS_H
#define NCCL_JOIN_CORE_OPERATIONS_H

#include "core/transport/plane.h"

struct operation {
  uint64_t count;   /* elements; of an announcement another number (OPERATION_BEHIND) */
  uint64_t index;   /* how many units stand before it in its rank's program */
  uint32_t comm;    /* tag of the communicator */
  uint32_t ordinal; /* which one it is of its pair, from 1; wraps. Of an announcement 0 */
  uint32_t group;   /* operations of one group are neighbours with the same number; wraps */
  uint32_t peer;    /* rank in the team */
  uint32_t place;   /* id of where the group stands in its rank's program (place.h); 0: not known */
  uint8_t datatype; /* ncclDataType_t */
  uint8_t look;     /* enum look_buffer of its buffer */
  bool receives;    /* otherwise it sends */
  uint8_t flags;    /* enum operation_flag */
  bool mirrored;    /* the reader's own: by the look that is under way */
};

enum operation_flag {
  OPERATION_EXCHANGED = 1u << 0, /* of a group that is a unit (MEMBER_EXCHANGE), and agreed on */
  /* Since the one before of its pair its rank has ... */
  OPERATION_LEFT = 1u << 1,  /* left a loop */
  OPERATION_ROUND = 1u << 2, /* gone round one that is around both */
  /* The rank has left a loop of collectives (core/p2p/peers.h). Of an announcement, that it is
   * about to post this one, the ordinal is 0, and which one of its pair it will be is its count. */
  OPERATION_BEHIND = 1u << 3,
};

/* Whether anything is posted in a team: until a rank cannot post, and then for the rest of the
 * team's life no more. */
enum posting { POSTING_UNUSED = 0, POSTING_TRACKED = 1, POSTING_LOST = 2 };
enum posting plane_posting(const struct plane *plane);
void plane_begin_posting(struct plane *plane);
void plane_give_up_posting(struct plane *plane);

/* ---- operations ---- */

/* Acquires: what was there when the end was read can be read, unless it is gone by then. */
uint64_t log_operations_begin(const struct plane_log *log);
uint64_t log_operations_end(const struct plane_log *log);

/* After operations have been read: how many are gone by now, so that those may have been written
 * over while they were read. */
uint64_t log_operations_gone(const struct plane_log *log);

/* Relaxed. Whatever stands there: a peer's is not to be trusted. */
void operation_read(const struct plane_log *log, uint64_t number, struct operation *operation);

/* The operations before a number are needed no more; released to who reads what is written next. */
void log_drop_operations(struct plane_log *own, uint64_t begin);

/* The first writes an operation, at most PLANE_OPERATIONS after the begin. The second releases all
 * up to a number. */
void log_write_operation(struct plane_log *own, uint64_t number, const struct operation *operation);
void log_show_operations(struct plane_log *own, uint64_t end);

/* ---- pairs: a communicator, a peer and a direction ---- */

static inline uint64_t pair_key(uint32_t comm, uint32_t peer, bool receives) {
  return (uint64_t)comm << 32 | peer << 1 | receives;
}

/* Where a key stands in a log's table, or the free place where it would: below PLANE_PAIRS. */
uint32_t pair_place(const struct plane_log *log, uint64_t key);

/* Whether the table has the key, once there it stays; and enters it, where there is room. */
bool pair_is_entered(const struct plane_log *log, uint64_t key);
void pair_enter(struct plane_log *own, uint64_t key);

/* How many operations of a pair a rank has issued. Counting is sequentially consistent, as is the
 * mark of who waits (logs.h): either it sees the operation, or we see it waiting. */
uint64_t pair_issued(const struct plane_log *log, uint64_t key);
void pair_count(struct plane_log *own, uint32_t place, uint64_t issued);

/* The same of all pairs. */
uint64_t pairs_issued(const struct plane_log *log);

#endif
