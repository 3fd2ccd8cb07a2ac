/* The plane: what the ranks of a team know of each other, and how they wake each other. It is the
 * seam behind which every transport lies.
 *
 * Every rank of a team owns one log. It alone writes it, or for a rank of another machine the agent
 * of this one; but that it has failed, or has ended without a word, others may write. All read it.
 * A log holds the units that the rank has passed (each issued for real or as a shadow) and the
 * claim on which it is parked. Those who agree read and write logs by logs.h; whoever else wants to
 * know something of a rank asks plane_view.h. What a log is made of (words.h) nobody sees but the
 * transports.
 *
 * A transport is what makes a struct plane: where the logs are, so that each rank can read all of
 * them, and the functions below. A commit calls none of these: it writes the rank's own log, and
 * rings only if somebody waits. Transports: plane_shm.c (processes of one machine), plane_memory.c
 * (tests, simulation); tests/unit runs over both.
 */
#ifndef NCCL_JOIN_CORE_PLANE_H
#define NCCL_JOIN_CORE_PLANE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/unit/unit.h"

/* Of all that ranks read of each other: words.h, and the numbers of kinds, marks and datatypes in
 * it. */
#define PLANE_VERSION 41u
#define PLANE_RANKS_MAX 16384u /* ranks of a team */
/* Sizes of a log. tests/simulation/many.h has smaller ones: there each of many machines has all
 * logs. */
#ifndef PLANE_RING
#define PLANE_RING 4096u /* entries; a power of two */
/* A stream's launch queue holds 1024: no rank runs that far ahead. */
#define PLANE_RUN_AHEAD 2048u
#define PLANE_TEXT 65536u      /* bytes of texts; a power of two */
#define PLANE_OPERATIONS 2048u /* point to point operations; a power of two */
#define PLANE_PAIRS 1024u      /* pairs; a power of two */
#endif

enum entry_flag {
  ENTRY_REAL = 1u << 0,      /* issued for real; otherwise as a shadow */
  ENTRY_EXPECTED = 1u << 1,  /* the unit is the one every rank's learner expects here: no text */
  ENTRY_LEAVE = 1u << 2,     /* not a unit: here all ranks of the team had left */
  ENTRY_MEETING = 1u << 3,   /* all claimed it after a rank had waited for it: never expect it */
  ENTRY_REFUSED = 1u << 4,   /* agreed not to issue it: a joined rank cannot contribute (lossy) */
  ENTRY_DEVIATION = 1u << 5, /* all claimed this unit although another was expected */
  ENTRY_REJOIN = 1u << 6,    /* all are together again after some had joined, or say so */
  ENTRY_RESYNC = 1u << 7,    /* and the last joiner's buffers follow (MEMBER_STATE) */
  ENTRY_STOPPED = 1u << 8,   /* not a unit: here all ranks stopped (team_stop.h). hash: of the unit
                                that those wanted who had not left */
  ENTRY_ALL = 1u << 9,       /* all claimed it */
  ENTRY_COMMON = 1u << 10,   /* and from this very place: it is in the program of each */
  /* Of a unit claimed here a rank had said that what was expected is another (CLAIM_APART): the
   * entry says which unit. */
  ENTRY_APART = 1u << 11,
  ENTRY_BEHIND = 1u << 12, /* ranks claim it in several epochs, and those of the earliest, which the
                              entry says, issue it */
  ENTRY_EVEN = 1u << 13,   /* claimed by all, and no rank had shadowed anything before */
  /* All said the same round of the outermost loop, and of as many; or a rank began one where others
   * were in an earlier one, and all said as many. */
  ENTRY_COUNTED = 1u << 14,
  ENTRY_COUNTED_WITHIN = 1u << 15, /* and so of the loop in that one */
};
#define ENTRY_NO_UNIT (ENTRY_LEAVE | ENTRY_STOPPED)

enum claim_flag {
  CLAIM_STRICT = 1u << 0,    /* refuse it on all ranks if a rank that shadows it would spoil it */
  CLAIM_YIELD = 1u << 1,     /* nothing to issue: the rank shadows what the others agree on here */
  CLAIM_PREDICTED = 1u << 2, /* what the rank's own program does next if it goes on as before */
  CLAIM_EXPECTED = 1u << 3,  /* what the team's learner expects here */
  CLAIM_SEEN = 1u << 4,      /* has been in the agreed sequence before */
  CLAIM_RESYNC = 1u << 5,    /* the rank has buffers to be resynchronised, should all meet here */
  CLAIM_TOGETHER = 1u << 6,  /* stop all ranks if not all claim the unit: team_stop.h */
  CLAIM_STOPPED = 1u << 7,   /* a yield of a rank that was stopped in another team: likewise */
  /* The unit's place is where the rank stands; otherwise one that it has come to be taken for. */
  CLAIM_OWN_PLACE = 1u << 8,
  /* The unit expected here is not this one, although their signatures are equal: the rank comes to
   * that one elsewhere in its program. */
  CLAIM_APART = 1u << 9,
  /* Stop all ranks where it would be a guess which unit it is, or which goes first: team_stop.h. */
  CLAIM_SURE = 1u << 10,
  /* The place of this unit should be seen, and cannot be: the ranks are told once. */
  CLAIM_BLIND = 1u << 11,
  /* The unit has a root, and it is this rank. */
  CLAIM_ROOT = 1u << 12,
  /* The rank has issued for real all that there was in the team: it has shadowed nothing yet. */
  CLAIM_EVEN = 1u << 13,
};
/* Those that make a claim another thing. */
#define CLAIM_KINDS (CLAIM_YIELD | CLAIM_STOPPED)

enum rank_state {
  RANK_ABSENT = 0, /* has not attached */
  RANK_PRESENT,
  RANK_DONE,   /* has left for good, cleanly */
  RANK_FAILED, /* killed, ended with an error, or aborted inside its loop */
};

/* How a rank's process has ended, as far as that is known. */
enum plane_end {
  END_UNKNOWN, /* or it has not */
  END_STATUS,  /* with a status: number */
  END_SIGNAL,  /* by a signal: number */
};

struct plane_fate {
  enum plane_end how;
  int number;
};

struct plane_team;
struct plane_log;

/* A transport's side of one team as one rank sees it. */
struct plane {
  uint32_t rank, nranks;
  struct plane_team *team; /* what all share; by plane_shared (logs.h) */
  struct plane_log **logs; /* nranks of them; by log_of */
  uint64_t looks; /* how long `spin` says so, in nanoseconds; 0: more ranks than processors */
  /* Wakes every rank of the team that waits. */
  void (*ring)(struct plane *plane);
  /* Whether to look again at once instead of waiting, because that is cheaper for now; takes a
   * moment. *since: 0 at first, then the transport's. */
  bool (*spin)(struct plane *plane, uint64_t *since);
  /* Waits until the bell is no longer `seen`, or some milliseconds have passed; may return early.
   */
  void (*wait)(struct plane *plane, uint32_t seen, unsigned milliseconds);
  /* The same until a time of the transport's clock in nanoseconds, as exactly as the machine can.
   */
  void (*nap)(struct plane *plane, uint32_t seen, uint64_t until);
  /* Between two looks at the logs: a moment, in which the processor is left to others if there are
   * more ranks than processors. */
  void (*pause)(struct plane *plane);
  /* Whether a rank's process is there; false once it has died without saying so. May cost a system
   * call. */
  bool (*alive)(struct plane *plane, uint32_t rank);
  /* Whether a rank's process stands still: it has been stopped by a signal, or by a debugger. Of a
   * rank on another machine: whether this machine's agent stands still. May cost system calls. */
  bool (*stopped)(const struct plane *plane, uint32_t rank);
  /* Of a rank that is not alive, or about to end: how it ended. */
  struct plane_fate (*fate)(const struct plane *plane, uint32_t rank);
  /* The name of the machine on which a rank is; NULL: this one, or the function is. */
  const char *(*machine)(const struct plane *plane, uint32_t rank);
};

#endif
