/* What the files of core/p2p (peers.h) share; what is in which file is said below. Not for anybody
 * else. */
#ifndef NCCL_JOIN_CORE_PEERS_PRIVATE_H
#define NCCL_JOIN_CORE_PEERS_PRIVATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>

#include "core/p2p/peers.h"
#include "core/place/place_table.h"
#include "core/transport/logs.h"
#include "core/transport/operations.h"

/* One rank as seen by a look. */
struct window {
  uint64_t head;             /* of its log */
  uint64_t claim, answering; /* of its log */
  bool ended;                /* RANK_DONE */
  uint64_t first, next,
      last;             /* operations copied: first up to last; those before next come to an end */
  uint64_t group_end;   /* of the group at next; not after next: not known */
  size_t at;            /* where the first one is among peers->operations */
  uint64_t linked;      /* the last search for linked groups that came here */
  uint32_t next_linked; /* the rank that is to be looked at after it there */
  uint32_t next_open;   /* likewise, of those that may be about to announce more (peers_stand) */
  uint64_t walked;      /* the last search that looked at it there */
  bool stuck;     /* what it then held back is not all announced by its peers, or theirs is not */
  uint64_t kept;  /* the last search that found that it is not before another one claims */
  uint32_t round; /* up to which this rank stands behind it there */
  int32_t shift;  /* how many more rounds it counts there than this rank does */
  bool left;      /* it has left the loop, as this rank has (peers_look_inside) */
  bool awaited;   /* it has not, and another one waits there for its side (peers_stand) */
};

/* The last operation of a peer that one of a pair has met, by number; and how far behind the one
 * before: loops come round, so the next one is likely to stand as far behind this one. */
struct peers_met {
  uint64_t at, stride;
};

/* What this rank has announced (peers_announced.c). */
struct peers_announced {
  struct place loop;  /* where a unit of the loop stands that it has left */
  struct place place; /* and what it has announced */
  bool some;          /* since it last issued a unit for real */
  bool held;          /* and it waits (peers_hold) */
  bool in_order;      /* it has waited, and all have left the loop (peers_release) */
  bool inside;        /* this look is for what its loop has (peers_look_inside) */
  bool kept; /* or at an index that not all ranks have passed: they still ask what it was there */
  uint64_t begin; /* the first operation of that */
  uint64_t index; /* how many units it had issued then, at the last one */
  uint32_t group; /* of that */
};

#define PEERS_PLACES 64u /* a power of two; a program has few */

/* From one place of this rank to another: enum operation_flag. */
struct peers_way {
  uint32_t from, to; /* 0: none */
  uint8_t flags;
};

struct peers {
  struct plane *plane;
  struct plane_log *own;
  pthread_mutex_t lock; /* guards all below, and what this rank writes of its log's posts */
  uint64_t end;         /* operations published */
  uint64_t tidy_at;     /* when to see again which operations are done with */
  uint32_t group;
  uint32_t npairs;
  uint64_t counted[PLANE_PAIRS];     /* by place in own->pairs: operations posted */
  struct peers_met met[PLANE_PAIRS]; /* likewise: what was looked at last (struct posts, unequal) */
  bool ordered[PLANE_PAIRS]; /* likewise: both have left a loop for it before (peers_are_ordered) */
  /* Where this rank's operations stand (peers_places.c). */
  struct place_table *described;        /* NULL before the first */
  _Atomic uint32_t known[PEERS_PLACES]; /* some of those described, by their low bits */
  uint32_t stands[PLANE_PAIRS];         /* by place in own->pairs: the last one of this rank */
  uint32_t
      inside[PLANE_PAIRS]; /* likewise: the last that was not behind a loop (OPERATION_BEHIND) */
  struct peers_way ways[4 * PEERS_PLACES]; /* by the low bits of both ends */
  /* Places by their low bits: from where this rank has posted what is no unit; and where a group
   * might have been one, and has met what is none. */
  uint32_t posted_from[PEERS_PLACES], apart[PEERS_PLACES];
  struct peers_announced announced;
  /* What looks know; NULL before the first. */
  uint64_t *done; /* by rank: operations below it come to an end, whatever else happens */
  struct window *windows;
  struct operation *operations;
  size_t noperations, room;
  uint32_t
      *places; /* of operations, by who posted what: a hash table, probed linearly; 0: free, or one
                        more than the place */
  size_t nplaces;    /* a power of two */
  uint64_t searches; /* for linked groups */
};

static inline uint64_t pair_key_of(const struct member *member) {
  return pair_key(member->comm, (uint32_t)member->root, member->kind == MEMBER_RECEIVE);
}

/* Whether it is an announcement (OPERATION_BEHIND). */
static inline bool operation_is_announced(const struct operation *operation) {
  return (operation->flags & OPERATION_BEHIND) && operation->ordinal == 0;
}

/* The operations of a pair that stand before position i in a group. */
uint64_t pair_earlier(const struct member *members, uint32_t i);

/* Whether the peer has issued the other side of an operation of this rank. */
bool operation_is_met(const struct peers *peers, uint32_t rank, const struct operation *operation);

/* Adds this rank's side of an operation of `rank` to nmirrors others that are about to be issued.
 * False if it is not the next one of its pair: then the log is not as it should be. */
bool operation_mirror(const struct peers *peers, uint32_t rank, struct operation *operation,
                      struct member *mirrors, uint32_t nmirrors);

/* What the next operation of a pair says of the way to it from the one before (enum
 * operation_flag), of which it is the one before from now on. The lock is held. */
uint8_t places_come(struct peers *peers, uint32_t pair, uint32_t place);

/* The first of so many operations that this rank has posted, the last of which stands before
 * unequal->end, that meets one that does not belong to it. The lock is held. */
void operations_find_unequal(struct peers *peers, uint32_t noperations, struct unequal *unequal);

/* Posts as a group; the lock is held, and there is room. */
void post_group(struct peers *peers, const struct posts *posts, uint64_t index);

/* Whether a rank's operation, of the last look, is the other side of one of this rank's group that
 * is a unit, and claimed, although it has been issued as part of none: so the ranks of this program
 * do not all come to the unit. */
bool operation_meets(const struct peers *peers, uint32_t rank, const struct operation *operation,
                     const struct posts *pending);

/* Makes room by what has come to an end, or else by what has met a partner. The lock is held. */
bool post_has_room(struct peers *peers, uint32_t nmembers);

/* What a rank had announced when it stood at an index, or has announced since if it has not come
 * there; the last first. And the next of them; false: there are no more. */
struct announcements {
  const struct plane_log *log;
  uint64_t begin, at, since, index;
};
struct announcements announcements_of(const struct peers *peers, uint32_t rank, uint64_t index);
bool announcements_next(struct announcements *all, struct operation *operation);

/* Of what a rank has announced, as it was when the rank, or its peer, stood at an index: whether
 * the rank has posted it; the other side, if the peer has posted that, or has announced it; whether
 * it has done either. */
bool announced_is_posted(const struct peers *peers, uint32_t rank,
                         const struct operation *announced, uint64_t index);
bool announced_find_posted(const struct peers *peers, uint32_t rank,
                           const struct operation *announced, uint64_t index,
                           struct operation *other);
bool announced_find_side(const struct peers *peers, uint32_t rank,
                         const struct operation *announced, uint64_t index,
                         struct operation *other);
bool announced_is_matched(const struct peers *peers, uint32_t rank,
                          const struct operation *announced, uint64_t index);

/* Whether a rank holds it back for its peer no more: it has posted it, or is about to, for its peer
 * has left the loop and posted the other side. And whether it holds anything back. */
bool announced_is_through(const struct peers *peers, uint32_t rank,
                          const struct operation *announced, uint64_t index);
bool announced_holds(const struct peers *peers, uint32_t rank, uint64_t index);

/* How often a rank has come to the place of what it has announced, for the same pair: who comes
 * there again has gone round a loop around both since, without a unit. 0: the place is not known.
 * And whether it has announced anything before. */
uint32_t announced_round(const struct peers *peers, uint32_t rank,
                         const struct operation *announced, uint64_t index);
bool announced_is_later(const struct peers *peers, uint32_t rank, const struct operation *announced,
                        uint64_t index);

/* Whether this rank has announced something since it last issued a unit for real. The lock is held.
 */
bool announced_some(struct peers *peers);

/* The first operation of this rank that is not to be dropped, since others may ask for what has
 * been announced; UINT64_MAX: all are. The lock is held. */
uint64_t announced_begin(struct peers *peers);

/* Whether this rank answers an operation of another one that it has not met: not what that does
 * behind the loop that both have left, for this one comes to it, too. In a look for what that loop
 * has: what stands in it, of a rank that has left it behind that, or will. Who has no part in what
 * comes behind it may have gone round a loop around both. */
bool announced_is_answered(const struct peers *peers, uint32_t rank,
                           const struct operation *operation);

/* These mirrors are about to be posted in front of operations that are held back. So those get
 * later numbers in their pairs, and are announced again. What was announced first counts as posted
 * with them. The lock is held. */
void announced_mirror(struct peers *peers, const struct member *mirrors, uint32_t nmirrors);

/* What was announced has been posted. The lock is held. */
void announced_post(struct peers *peers, const struct member *members, uint32_t nmembers);

/* Room for what looks know of each rank; false without memory. The lock is held. */
bool windows_make(struct peers *peers);

/* Copies what all ranks have posted, and works out how far their devices will come. mirrors: NULL,
 * or room for UNIT_MEMBERS_MAX of them, which this rank shall issue now. False without memory. */
bool follow_operations(struct peers *peers, struct member *mirrors, uint32_t *nmirrors,
                       uint32_t limit);

#endif
