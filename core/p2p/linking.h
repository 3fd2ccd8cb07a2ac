/* A look at the ranks that are linked by what they have announced (peers.h), behind a loop of
 * collectives: peers_behind.c goes from one to the next; peers_rounds.c knows of those that stand
 * at an index for more than one round of a loop. Not for anybody else. The lock of the peers is
 * held.
 */
#ifndef NCCL_JOIN_CORE_LINKING_H
#define NCCL_JOIN_CORE_LINKING_H

#include "core/p2p/peers_private.h"

struct linking {
  struct peers *peers;
  const struct standing *standing;
  uint64_t index;
  uint32_t rest; /* the first rank yet to be looked at, in windows[].next_linked; nranks: none */
  uint32_t open; /* likewise, of those that may be about to announce more, in windows[].next_open */
  bool rounds;   /* a rank has gone round without a peer */
  uint32_t ahead;
};

/* Whether a rank has come to what it issues at the index, or is parked; and whether it announces
 * nothing more before that. */
bool linked_has_come(const struct linking *linking, uint32_t rank);
bool linked_announces_no_more(const struct linking *linking, uint32_t rank);

/* Whether a peer does something else before it comes to what a rank has announced, although it has
 * left the loop: the rank has announced something before, and has gone on from there, past loops or
 * round one around both, without a unit. */
bool rounds_is_ahead(const struct linking *linking, uint32_t rank,
                     const struct operation *announced);

/* And whether it waits for that peer: what is posted its device waits for. */
bool rounds_is_kept_by(const struct linking *linking, uint32_t rank,
                       const struct operation *announced);

/* Where such a peer stands. again: the rank has come to the same place before. */
enum peers_stand rounds_stand_of_late(struct linking *linking, uint32_t peer, bool again);

/* Whether all in linking->open hold something back for a rank that has announced all, or for one
 * that does so itself: they announce nothing more before that has shown its claim. */
bool rounds_all_are_kept(struct linking *linking);

/* Whether a rank for which another one is kept goes on before what this one has claimed. */
enum peers_stand rounds_stand(struct linking *linking);

#endif
