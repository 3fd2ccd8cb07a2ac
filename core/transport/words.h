/* The words of a plane (plane.h): what the logs of a team are made of. For core/ alone
 * (tools/lint-layout).
 *
 * The layout is the format between processes of one machine, and what an agent will mirror between
 * machines: fixed size, no pointers, version PLANE_VERSION.
 *
 * Who writes what, and in which order:
 *   - an entry is complete before `head` passes it (release); readers load `head` first (acquire);
 *   - a claim is complete before `claim` names its index (release), and is 0 while it is rewritten;
 *   - a text (the members of a unit) is complete before the entry or claim that names it;
 *   - an operation is complete before `operations_end` passes it, and that is before its pair
 *     counts it; `operations_begin` has passed an operation before its place is written again.
 * No rank runs more than PLANE_RUN_AHEAD units ahead of the slowest, so that the last
 * PLANE_RUN_AHEAD entries before any reader's own index are always there.
 */
#ifndef NCCL_JOIN_CORE_WORDS_H
#define NCCL_JOIN_CORE_WORDS_H

#include <stdatomic.h>

#include "core/transport/plane.h"

#define PLANE_VERSION 10u
#define PLANE_TEXT 65536u /* bytes of a log's texts; a power of two */

/* One unit passed. 24 bytes; fields are atomic only so that a reader may look while the ring is
 * reused. */
struct plane_entry {
  _Atomic uint64_t hash; /* unit_hash; readers check what they follow against it. 0: LEAVE */
  /* Units this rank has issued for real in all its teams, this one included; wraps. Also says which
   * of two units of different teams it came to first (overlap.h). */
  _Atomic uint32_t reals;
  _Atomic uint32_t run_start; /* index where the present run of reals, or shadows, began; wraps */
  /* Low bits entry_flag. Above them, for a real entry, the position of its own text in 8 bytes
   * (wraps), 0 if it was not claimed; where all stopped, 1 if for a rank that was stopped
   * elsewhere.
   */
  _Atomic uint32_t flags;
  /* Two ranks. Low half: whose unit it was, which has issued it for real: its text says which (not
   * of ENTRY_EXPECTED). High half: with ENTRY_REJOIN the last joiner, with ENTRY_BEHIND the low 16
   * bits of the epoch; an entry has one of these two flags at most. */
  _Atomic uint32_t ranks;
};
_Static_assert(PLANE_RANKS_MAX <= 1u << 16, "two ranks in a word");

/* One point to point operation (peers.h). 32 bytes; atomic for the same reason. */
struct plane_operation {
  _Atomic uint64_t count;   /* elements */
  _Atomic uint64_t index;   /* how many units stand before it in its rank's program */
  _Atomic uint32_t comm;    /* tag of the communicator */
  _Atomic uint32_t ordinal; /* which one it is of its pair, from 1; wraps */
  _Atomic uint32_t group;   /* posts of one group are neighbours with the same number; wraps */
  _Atomic uint32_t what;    /* peer's rank in the team << 16 | ncclDataType_t << 8 | look <<
                               OPERATION_LOOK_SHIFT | post_flag */
};

/* How many operations a rank has issued of one pair: a communicator, a peer and a direction. A log
 * has a hash table of them, probed linearly; a key, once there, stays. */
struct plane_pair {
  _Atomic uint64_t key; /* comm << 32 | peer << 1 | whether it receives; 0: a free place */
  _Atomic uint64_t issued;
};

/* A text: one word with the number of members and, in its high half, of the place's nodes plus one
 * (0: no place), and PLANE_TEXT_LOOKS; one with unit_hash; then three words a member; then, if
 * PLANE_TEXT_LOOKS, the looks (look.h) of the members as its rank is about to issue them, four to a
 * word; then, if there is a place, the nodes and what messages say of it, to whole words. A unit of
 * more than UNIT_MEMBERS_MAX members has the first two words only. A text does not wrap: what is
 * left at the ring's end is skipped. */
#define PLANE_TEXT_LOOKS (UINT64_C(1) << 63)
struct plane_log {
  /* Read by everybody, written on every unit. */
  _Alignas(64) _Atomic uint64_t head; /* entries below it are published */

  /* The claim: written when the rank is parked. */
  _Alignas(64) _Atomic uint64_t claim; /* index claimed plus one; 0: none, or being rewritten */
  _Atomic uint64_t claim_hash;         /* unit_hash; 0: LEAVE */
  _Atomic uint64_t claim_signature;    /* unit_signature; 0: LEAVE */
  _Atomic uint64_t claim_bytes;        /* unit_bytes of the unit */
  _Atomic uint64_t claim_last_real;    /* index plus one of what it issued for real last; 0: none */
  _Atomic uint32_t claim_text;         /* position of the members, in 8 bytes; wraps */
  _Atomic uint32_t claim_flags;        /* enum claim_flag */
  _Atomic uint32_t claim_reals;        /* reals when it was made */
  _Atomic uint32_t claim_place;        /* id of the unit's place; 0: not known */
  _Atomic uint32_t
      claim_epoch; /* the how-manieth time the rank comes there (team_epochs.c); 0: not known */

  /* Rarely written. */
  _Alignas(64) _Atomic uint32_t state; /* enum rank_state */
  _Atomic uint32_t leaving; /* the process is parked in a LEAVE of this team or another */
  /* When the rank, or one that it waits for, was last seen at work, in milliseconds of the
   * machine's clock; 0: it is at work. Only in processes of several teams. */
  _Atomic uint64_t busy_until;
  /* Of processes of several teams, while parked: which rank at work it asks about, and which one it
   * holds up (overlap_held.c; identities plus one, 0: none); and how often it has moved. */
  _Atomic uint64_t asks_about;
  _Atomic uint64_t holds;
  _Atomic uint64_t moves;
  _Atomic uint32_t asks; /* 1: out of step; commits nothing (overlap.h) */
  _Atomic uint32_t
      lossy_count; /* lossy units this rank has shadowed although it should be an error */
  _Atomic uint64_t lossy_index; /* the last of them */
  _Atomic uint32_t lossy_kind;  /* and what it was: enum member_kind */
  /* The rank that the last refused unit was refused for, or that all ranks last stopped for. */
  _Atomic uint32_t refused_for;
  _Atomic uint32_t lossy_peer;   /* point to point: the other rank */
  _Atomic uint64_t failed_index; /* units passed when it failed */

  /* Point to point. */
  _Alignas(64) _Atomic uint64_t operations_end; /* operations below it are published */
  _Atomic uint64_t operations_begin;            /* operations below it are no longer there */
  _Atomic uint64_t answering; /* index plus one at which the rank is parked, here or in another
                                 team, and answers what is posted; 0, or past it: it does not */
  _Atomic uint64_t mirrored;  /* index plus one at which it last mirrored something; 0: never */
  _Alignas(64) struct plane_pair pairs[PLANE_PAIRS];

  _Alignas(64) struct plane_entry entries[PLANE_RING];
  _Alignas(64) _Atomic uint64_t text[PLANE_TEXT / 8];
  _Alignas(64) struct plane_operation operations[PLANE_OPERATIONS];
};

/* Shared by the ranks of a team; read on every unit, written only when somebody waits or must be
 * told. */
struct plane_team {
  /* Lowest bit: some rank waits for the bell. It sets the bit before it looks a last time and
   * sleeps; a rank that publishes something and finds the bit set clears it and rings. High half:
   * counts events that every rank must look at (a lossy shadow, a failure). One load tells a rank
   * on its fast path that nobody needs anything. */
  _Alignas(64) _Atomic uint64_t attention;
  _Atomic uint32_t bell;           /* futex word: changes whenever it is rung */
  _Atomic uint32_t point_to_point; /* 1 once a rank has posted anything: others must look */
  _Atomic uint32_t apart; /* 1: ranks do not agree on anything any more (interpose/comm/apart.h) */
  _Atomic uint64_t told;  /* index after the last settlement by guess that a rank has told of */
  /* 1: some rank may sleep that wakes itself in time for what others commit (team_nap.h). Not in
   * `attention`: a commit does not look at it. Whoever claims, posts or waits and finds it set
   * takes it away and rings. Stays set between two sleeps, so that nothing is written that a commit
   * reads. */
  _Atomic uint32_t napping;
};
#define PLANE_WAITING UINT64_C(1)
#define PLANE_EVENT (UINT64_C(1) << 32)

static inline uint32_t plane_bell(const struct plane *plane) {
  return atomic_load_explicit(&plane->team->bell, memory_order_acquire);
}

#endif
