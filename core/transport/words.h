/* The words of a plane (plane.h): what the logs of a team are made of. For core/transport alone
 * (tools/lint-layout); what they mean, and who may read and write them in which order, is said
 * where others come to them: logs.h, operations.h, texts.h.
 *
 * The layout is the format between processes of one machine: fixed size, no pointers, version
 * PLANE_VERSION (plane.h). Between machines it is mirrored, word by word (mirror.h).
 *
 * What is complete before what:
 *   - an entry, before `head` passes it;
 *   - a claim, before `claim` names its index; that is 0 while it is rewritten;
 *   - a text (the members of a unit), before `text_end` passes it, and that is before the entry or
 *     claim that names it;
 *   - an operation, before `operations_end` passes it, and that is before its pair counts it;
 *     `operations_begin` has passed an operation before its place is written again.
 * No rank runs more than PLANE_RUN_AHEAD units ahead of the slowest, so that the last
 * PLANE_RUN_AHEAD entries before any reader's own index are always there.
 */
#ifndef NCCL_JOIN_CORE_WORDS_H
#define NCCL_JOIN_CORE_WORDS_H

#include <stdatomic.h>

#include "core/transport/plane.h"

/* States that are RANK_FAILED, too: others say so of it (log_fail); it has because another had. */
#define LOG_DIED (RANK_FAILED + 1u)
#define LOG_FOLLOWED (RANK_FAILED + 2u)

/* One index passed: struct log_entry. 24 bytes; fields are atomic only so that a reader may look
 * while the ring is reused. */
struct plane_entry {
  _Atomic uint64_t hash;
  _Atomic uint32_t reals;
  _Atomic uint32_t run_start;
  _Atomic uint32_t flags; /* low bits enum entry_flag; above them the text's position */
  /* Low half: the source. High half: with ENTRY_REJOIN the last joiner. Otherwise its low byte is
   * the epoch (ENTRY_BEHIND), and its high byte the mark of what is apart (ENTRY_APART). */
  _Atomic uint32_t ranks;
};
#define ENTRY_FLAG_BITS 16
#define ENTRY_FLAGS ((1u << ENTRY_FLAG_BITS) - 1)
_Static_assert(ENTRY_COUNTED_WITHIN == 1u << (ENTRY_FLAG_BITS - 1),
               "the highest of enum entry_flag");
_Static_assert(PLANE_RANKS_MAX <= 1u << 16, "two ranks in a word");

/* Flags of a claim: low bits enum claim_flag, above them enum mark of the claim, if it is one. */
#define CLAIM_MARK_SHIFT 14
#define CLAIM_FLAGS ((1u << CLAIM_MARK_SHIFT) - 1)
_Static_assert(CLAIM_EVEN == 1u << (CLAIM_MARK_SHIFT - 1), "the highest of enum claim_flag");

/* One point to point operation: struct operation. 40 bytes; atomic for the same reason. */
struct plane_operation {
  _Atomic uint64_t count;
  _Atomic uint64_t index;
  _Atomic uint32_t comm;
  _Atomic uint32_t ordinal;
  _Atomic uint32_t group;
  _Atomic uint32_t what; /* peer << 16 | datatype << 8 | look << OPERATION_LOOK_SHIFT | whether it
                            receives */
  _Atomic uint32_t place;
  _Atomic uint32_t flags; /* enum operation_flag */
};
#define OPERATION_RECEIVES 1u
#define OPERATION_LOOK_SHIFT 1

/* How many operations a rank has issued of one pair. A log has a hash table of them, probed
 * linearly; a key, once there, stays. */
struct plane_pair {
  _Atomic uint64_t key; /* pair_key; 0: a free place */
  _Atomic uint64_t issued;
};

/* Padded so that what one thread writes all the time shares no cache line with what others read. */
struct plane_log { /* NOLINT(clang-analyzer-optin.performance.Padding) */
  /* Read by everybody, written on every unit. */
  _Alignas(64) _Atomic uint64_t head; /* entries below it are published */

  /* The claim (struct log_claim): written when the rank is parked. */
  _Alignas(64) _Atomic uint64_t claim; /* index claimed plus one; 0: none, or being rewritten */
  _Atomic uint64_t claim_hash;
  _Atomic uint64_t claim_signature;
  _Atomic uint64_t claim_bytes;
  _Atomic uint64_t claim_last_real;
  _Atomic uint64_t claim_rounds;
  _Atomic uint32_t claim_text;
  _Atomic uint32_t claim_flags; /* and its mark: CLAIM_MARK_SHIFT */
  _Atomic uint32_t claim_reals;
  _Atomic uint32_t claim_place;
  _Atomic uint32_t claim_epoch;

  /* Rarely written. */
  _Alignas(64) _Atomic uint32_t state; /* enum rank_state, LOG_DIED or LOG_FOLLOWED */
  _Atomic uint32_t leaving;
  _Atomic uint64_t busy_until;
  _Atomic uint64_t asks_about;
  _Atomic uint64_t holds;
  _Atomic uint64_t moves;
  _Atomic uint32_t asks;
  _Atomic uint32_t lossy_count;
  _Atomic uint64_t lossy_index;
  _Atomic uint32_t lossy_kind;
  _Atomic uint32_t refused_for;
  _Atomic uint32_t lossy_peer;
  _Atomic uint32_t keeps_step;
  _Atomic uint64_t failed_index;
  _Atomic uint64_t parked_ms;
  _Atomic uint64_t shadows; /* issued, in all */
  _Atomic uint64_t
      joined_time;           /* high half: how long, in ms; low half: since when, 0: it has not */
  _Atomic uint64_t parts;    /* struct plane_parts: high half: teams; low half: shadows */
  _Atomic uint64_t text_end; /* bytes of texts written, from the first that was (texts.h) */
  _Atomic uint64_t begun, begun_within; /* log_say_begun */
  _Atomic uint32_t summed_up; /* not 0: it has told what its team has shadowed, and its parts */
  _Atomic uint32_t awaits;    /* not 0: it waits for others without a claim */
  _Atomic uint32_t unsteady;  /* not 0: log_say_unsteady */

  /* Point to point. */
  _Alignas(64) _Atomic uint64_t operations_end; /* operations below it are published */
  _Atomic uint64_t operations_begin;            /* operations below it are no longer there */
  _Atomic uint64_t answering;                   /* index plus one; 0: it does not */
  _Atomic uint64_t mirrored;                    /* index plus one; 0: never */
  _Alignas(64) struct plane_pair pairs[PLANE_PAIRS];

  _Alignas(64) struct plane_entry entries[PLANE_RING];
  _Alignas(64) _Atomic uint64_t text[PLANE_TEXT / 8];
  _Alignas(64) struct plane_operation operations[PLANE_OPERATIONS];
};

/* Shared by the ranks of a team; read on every unit, written only when somebody waits or must be
 * told. */
struct plane_team {
  /* Lowest bit: some rank waits for the bell. High half: counts events that every rank must look
   * at. One load tells a rank on its fast path that nobody needs anything. */
  _Alignas(64) _Atomic uint64_t attention;
  _Atomic uint32_t bell;           /* futex word: changes whenever it is rung */
  _Atomic uint32_t point_to_point; /* enum posting */
  _Atomic uint32_t apart;          /* 1: ranks do not agree on anything any more */
  _Atomic uint64_t told;           /* index after the last settlement by guess that was told of */
  _Atomic uint32_t mixed;          /* 1: it has been told that epochs of ranks mix */
  _Atomic uint32_t napping;        /* 1: some rank may sleep that wakes itself */
};
#define PLANE_WAITING UINT64_C(1)
#define PLANE_EVENT (UINT64_C(1) << 32)

#endif
