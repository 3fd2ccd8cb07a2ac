/* What a rank knows of one of its teams, part by part: who fills a part is said above it. Part of
 * team.h, which says what is done with it; a team belongs to one thread at a time.
 */
#ifndef NCCL_JOIN_CORE_TEAM_STATE_H
#define NCCL_JOIN_CORE_TEAM_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/p2p/peers.h"
#include "core/place/place_rounds.h"
#include "core/place/place_table.h"
#include "core/predict/learner.h"
#include "core/transport/questions.h"
#include "core/unit/look.h"
#include "core/unit/unit.h"

enum team_failure {
  FAILURE_NONE,
  FAILURE_RANK,    /* a rank was killed, ended with an error, or aborted inside its loop */
  FAILURE_ENDED,   /* a rank has ended although this one goes on */
  FAILURE_MEMORY,  /* no memory on this rank */
  FAILURE_TOO_BIG, /* a unit of more than UNIT_MEMBERS_MAX members would have to be shadowed */
  FAILURE_UNSURE,  /* this rank's unit may be another point of the program (CLAIM_SURE) */
  /* What a peer published cannot be right: another version, or memory overwritten. */
  FAILURE_CORRUPT,
};

#define TEAM_LEAVES 64u

/* Places of this rank that have come to be taken for others, at most. */
#define TEAM_ALIASES 64u

/* A unit that this rank has issued for one whose place is another. */
struct team_alias {
  uint64_t own;   /* unit_hash of the unit as this rank has it; 0: free */
  uint64_t taken; /* unit_hash of the unit in the agreed sequence */
  uint32_t place; /* of that */
  uint32_t place_own;
  uint32_t uses; /* how often, as far as it matters */
};

/* How far ahead what may be committed is looked up, in units. */
#define TEAM_FORESEEN 128u

enum guess_kind {
  GUESS_ORDER,  /* one rank's unit went before that of another */
  GUESS_SAME,   /* the other's has been taken for the one */
  GUESS_APART,  /* ... has not, though it may be the same */
  GUESS_BLIND,  /* nothing yet: it cannot be seen where the rank's unit stands */
  GUESS_EPOCH,  /* none: one rank is found to be some epochs ahead of the other */
  GUESS_MIXED,  /* none: the ranks are not in the same round of a loop of theirs */
  GUESS_HIDDEN, /* the other rank has joined, and it cannot be seen where its unit stands */
  GUESS_BEHIND, /* the other rank has left a loop to send or receive, and waits until this one has */
  GUESS_BESIDE, /* ... and does not wait */
};

struct team_guess {
  enum guess_kind kind;
  uint32_t rank, other;
  uint32_t epochs; /* GUESS_EPOCH: how many the other is ahead */
  /* GUESS_MIXED (place_rounds.h): */
  uint32_t level;              /* of the loop whose rounds these are */
  uint32_t round, other_round; /* of the two ranks */
  bool are_left;               /* they are how many rounds are left */
  uint64_t begun;              /* the index where the one's begins */
  uint64_t other_begun;        /* that of the other's, plus one; 0: not known */
  struct member member;        /* the first one of the other's unit */
  char place[PLACE_TEXT_MAX], other_place[PLACE_TEXT_MAX];
};

/* The claim of this rank. Written by team_claim.c, team_text.c and team_epochs.c; read by
 * core/overlap and by who asks whether the rank is parked. */
struct team_claim {
  bool open, written, text_written;
  bool for_room; /* the unit is expected, the slowest rank too far behind: others do not see it */
  bool behind;   /* others do not see it before peers have left a loop (team_behind.c) */
  bool looks_known;
  bool left;        /* others have committed the end of the loop that it stands in (team_is_left) */
  bool passed;      /* ... have gone past it in its loop, and that has been told */
  struct unit unit; /* nmembers 0: LEAVE. As the team has it (team_class) */
  uint64_t hash;    /* of that */
  uint64_t signature;
  uint64_t own_hash;      /* unit_hash of the unit as this rank has it */
  struct place own_place; /* where this rank claims it */
  struct place place;     /* of the unit as the team has it; id 0: not known */
  uint32_t flags;
  uint32_t text;
  uint32_t epoch; /* team_epoch */
  place_rounds_t rounds;
  /* Whether what this rank has counted there fits what it has counted elsewhere (team_epochs.c);
   * looked at once for each claim, during which it issues nothing. */
  enum { CLOCK_UNKNOWN, CLOCK_FITS, CLOCK_NONE } clock;
  struct member *members;    /* UNIT_MEMBERS_MAX, the claim's own copy */
  look_t *looks;             /* by member, likewise; meaningless unless looks_known */
  const struct posts *posts; /* of an exchange: the caller's; NULL: it is none */
};

/* An exchange that this rank has claimed, and then issued outside of the sequence: the claim as
 * others see it. For team_claim.c. */
struct team_outside {
  uint64_t index; /* plus one; 0: none */
  uint64_t hash;
  uint32_t text;
};

/* From a place of a unit to one of sends and receives (team_leaves_by). */
struct team_way {
  uint32_t from, to; /* 0: none */
  uint32_t added;    /* how many places were known then */
  bool leaves;
};

/* So many of what a rank announces one after the other are looked at. */
#define TEAM_BEHIND_PLACES 5u

/* What this rank has announced of sends and receives with which it leaves a loop of collectives
 * (peers.h): team_behind.c. */
struct team_behind {
  bool some; /* something: since it last issued a unit for real, if it has issued as many now */
  uint32_t reals; /* how many that were */
  bool held;      /* it waits until its peers have left the loop, with no claim */
  bool ahead;     /* at the present index one of them goes on in the loop */
  bool was_ahead; /* ... or was at one before */
  bool goes_on;   /* nothing tells whether to wait for that, and this rank does not */
  bool told;      /* what nothing tells has been told */
  bool strict;    /* nor is anything to be guessed */
  uint32_t loop;  /* place of a unit of the loop */
  bool
      in_order; /* this rank's device does what was announced last and the loop one after the other */
  struct place place; /* where that stands */
  /* Where the rest stands that was announced since then, the last first: once of each row of the
   * same. */
  struct place before[TEAM_BEHIND_PLACES];
  uint32_t nbefore;
  struct team_way ways[64]; /* by the low bits of both ends */
  /* By the low bits of a place: how often in a row all had left the loop whenever this rank came
   * there. */
  struct {
    uint32_t place, times;
  } calm[16];
};

/* Why nothing will settle any more: team_others.c. */
struct team_failed {
  enum team_failure how;
  uint32_t rank;
  uint64_t index;
};

/* After TEAM_STOPPED: team_stop.h. */
struct team_stop {
  uint32_t rank;
  bool elsewhere, exhausted;
};

/* What may be committed from here on, if nothing else comes in between; ends with team_nothing.
 * What has been committed of it, up to `expected`, has not been learnt yet (team_catch_up).
 * team_commit.c. */
struct team_ahead {
  struct known_unit *foreseen[TEAM_FORESEEN + 1];
  uint32_t depth;  /* how far to look ahead the next time */
  uint32_t rounds; /* length of `foreseen` if it is whole rounds of the loop body, otherwise 0 */
  uint32_t rounds_again; /* how often they have been committed that have not been counted */
  bool rounds_used;      /* they have been committed at least once */
  bool rounds_in_loop;   /* and they stay in one innermost loop */
};

/* What is known of places: team_places.c. */
struct team_places {
  struct place_table *table; /* of units in G */
  struct place_table *own;   /* where this rank has claimed */
  uint32_t levels;           /* of rounds, that tell something (settle_levels) */
  uint32_t last;             /* id of the last unit's in G that had one */
  uint64_t steady_since; /* index since which G is as the learner expects, and nobody has waited */
  bool unsteady;         /* a rank has said so (log_say_unsteady) */
  uint64_t met_at;       /* index after the last ENTRY_MEETING */
  uint64_t asked_at;     /* ... after the last unit that ranks have claimed */
  uint64_t lone_at;      /* ... after the last unit at a place that not all have come to; 0: none */
  uint32_t
      run_begin; /* team_runs.c: place with which the innermost loop was gone into; 0: not known */
  uint32_t run;  /* ... and how many units it has had since */
  place_rounds_t
      rounds; /* in which this rank stood when it last claimed, or looked before a commit */
  uint32_t
      begins; /* the level, plus one, of a loop of which a round begins with this rank's next unit; 0: none that is known */
  uint32_t begins_end;         /* ... and the last one plus one that is looked at */
  uint64_t says[PLACE_LEVELS]; /* ... and what it says of it, by level: team_says; 0: nothing */
  uint64_t said[PLACE_LEVELS]; /* ... and had said before */
  /* The index behind the last mark of this rank where a round begins; and behind what it had issued
   * for real before. */
  uint64_t mark_end, mark_before;
  bool may_be_over; /* but for that loop, which may be over, the next unit would be expected */
  struct team_alias aliases[TEAM_ALIASES];
  uint32_t naliases;
};

/* What is known of units without a place: team_hidden.c. */
struct team_hidden {
  uint64_t deviated;     /* index after the last ENTRY_DEVIATION */
  uint64_t meetings[64]; /* bit set over (unit before, unit): where ranks wait for each other */
};

/* What this rank has to say of guesses: team_guess.c. */
struct team_telling {
  /* What was agreed on last is a guess, and it is this rank that tells. Reset by who says so. */
  bool guessed;
  struct team_guess guess;
  uint64_t pairs[16]; /* hashes of pairs of units that have been told of, or 0 */
  uint32_t npairs;
  bool blind;      /* it has been told that places cannot be seen */
  bool doubted;    /* this rank has told that it cannot see its places */
  bool was_uneven; /* ranks have wanted different units, or have waited for each other */
};

/* Questions to the owner of the team, who sets them. */
struct team_owner {
  bool may_mix; /* epochs may: GUESS_MIXED is none. The same on all ranks */
  /* Whether a rank that shadows this unit would spoil its result (NULL: never). Must be the same
   * function of the unit and the rank on all ranks. */
  bool (*is_lossy)(void *context, struct unit unit, uint32_t rank);
  void *is_lossy_context;
  /* Whether the thread that polls answers what is posted to this rank (NULL: always): not if sends
   * and receives are another thread's. */
  bool (*is_answering)(void *context);
  void *is_answering_context;
  /* Whether the present index must not be passed yet, asked when it could: units of other teams
   * come first (NULL: never). */
  bool (*is_held)(void *context);
  void *is_held_context;
  /* Whether the unit that is expected may be committed (NULL: always). Asked when there is room
   * again for a unit that was to be committed before. */
  bool (*may_commit)(void *context);
  void *may_commit_context;
};

/* All claims of an index, summed up to be settled: team_settle.c. */
struct team_settling {
  struct settle *sum;
  rank_set_t *sets;             /* SETTLE_UNITS_MAX, by `set` of what they claim: who does */
  rank_set_t *issuers;          /* who issues the winner's unit for real */
  struct place *places;         /* SETTLE_UNITS_MAX, of what they claim */
  _Atomic uint32_t *lossy_seen; /* nranks; read by any thread */
};

/* The unit that was read last from another rank's log: team_follow.c, team_text.c. */
struct team_followed {
  struct member *members; /* UNIT_MEMBERS_MAX, what team_poll hands out */
  struct place place;
  look_t *looks;            /* of the text read last, or of mirrors */
  uint64_t looks_of;        /* unit_hash of that text's unit; 0: it had none */
  const look_t *handed_out; /* see team_looks */
};

struct team {
  /* What a commit touches (team.h, team_commit.c). */
  struct plane_log *own;
  struct plane_team *shared;
  uint64_t head;     /* index of the next unit */
  uint64_t limit;    /* indices below it need not ask how far the slowest rank is */
  uint64_t crowded;  /* index plus one at which only room was missing for a commit; 0: nowhere */
  plane_calm_t calm; /* the events that this rank has attended to */
  struct known_unit **expected; /* what may be committed next, or team_nothing; in ahead.foreseen */
  uint32_t reals;     /* units this rank has issued for real; wraps. In all its teams: overlap.h */
  uint32_t run_start; /* index where the present run of reals, or of shadows, began; wraps */
  bool run_real;
  bool was_last; /* at the last rejoin, whether this rank was one of the last */

  struct plane *plane;
  struct learner *learner;
  struct unit_table *table;
  symbol_t symbol_expected; /* the learner's, whether it may be committed or not */

  /* Of the units that have been passed (team_commit.c, team_past.c). */
  symbol_t symbol_last;  /* of the last unit in G */
  uint32_t source;       /* rank that the last unit settled by a poll was taken from */
  uint32_t last_joiner;  /* at the last rejoin */
  uint32_t epoch_behind; /* low 8 bits: in which epoch the last ENTRY_BEHIND was issued */
  uint32_t apart;        /* which unit was apart from the expected one at the last ENTRY_APART */
  uint64_t shadows;      /* shadows since the last unit issued for real */
  uint64_t shadows_total;
  uint64_t own_units; /* marks and resynchronised buffers: no collectives of the program */
  uint64_t together;  /* index after the last rejoin */
  uint64_t leaves;    /* how many of the indices passed were no units: LEAVEs, and stops */
  uint64_t left_at[TEAM_LEAVES]; /* indices of the last of `leaves` */
  uint64_t text_end;             /* bytes of text written so far */

  uint64_t yielded; /* index plus one at which this rank has yielded; below head + 1: none open */
  uint64_t stopped; /* the same of a yield because it was stopped in another team */

  struct team_claim claim;
  struct team_outside outside;
  struct team_behind behind;
  struct team_failed failed;
  struct team_stop stop;
  struct team_ahead ahead;
  struct team_places places;
  struct team_hidden hidden;
  struct team_telling telling;
  struct team_owner owner;
  struct team_settling settling;
  struct team_followed followed;
  struct peers *peers; /* point to point */
};

#endif
