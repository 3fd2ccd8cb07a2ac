/* The rhythm of a loop, as a joined rank sees it: when the next unit comes that others commit.
 *
 * For each place of the loop (the position in the body that has been learnt) it keeps how long the
 * last few units that came there took since the unit before, and says when to sleep and when to
 * look. A rank that follows by rhythm is not rung for what others commit (team_nap.h): it wakes
 * itself shortly before the unit is due, and looks for it until it comes.
 *
 * What that may cost is a budget of processor time, a token bucket: a RHYTHM_SHARE-th of the time
 * that passes. Where the budget, or what is known, does not reach, the advice is the bell.
 *
 * Pure: all times are passed in, nanoseconds of any clock that only goes forward and is not 0. One
 * thread at a time.
 */
#ifndef NCCL_JOIN_CORE_RHYTHM_H
#define NCCL_JOIN_CORE_RHYTHM_H

#include <stdbool.h>
#include <stdint.h>

/* One part in so many of the time: 4 %. With what the shadows cost themselves it is to be below 5.
 */
#define RHYTHM_SHARE 25

/* Processor time that may be saved up, in nanoseconds. */
#define RHYTHM_SAVED 4000000

/* A loop whose rounds are shorter may cost what a rank costs that sleeps for every unit: the sleep
 * and the look before it (rhythm_budget_grant). */
#define RHYTHM_LONG 9000000

enum rhythm_advice {
  RHYTHM_BELL,  /* nothing is known, or it is too late by far: sleep until somebody rings */
  RHYTHM_SLEEP, /* sleep until that time, look, and ask again */
  RHYTHM_LOOK,  /* look all the time until then, and ask again */
};

struct rhythm_plan {
  enum rhythm_advice advice;
  uint64_t until; /* not for RHYTHM_BELL */
};

/* A rank's processor time, and what sleeping costs it. */
struct rhythm_budget {
  int64_t left;       /* may be used now; below 0: has been overdrawn */
  uint64_t at;        /* when that was so */
  uint64_t nap;       /* processor time that one sleep takes */
  uint64_t overshoot; /* how much later than asked for it ends, mostly at most */
};

struct rhythm;

/* NULL if there is no memory. Owned by the caller. */
struct rhythm *rhythm_create(void);
void rhythm_destroy(struct rhythm *rhythm);

/* The rank begins to wait, or comes back to it: when the last unit came is not known. What has been
 * learnt stays. */
void rhythm_begin(struct rhythm *rhythm);

/* At this time nothing had come. */
void rhythm_looked(struct rhythm *rhythm, uint64_t now);

/* A unit has been found, after which the loop stands at `place`: any number that names the place,
 * and not 0. */
void rhythm_saw(struct rhythm *rhythm, uint32_t place, uint64_t now);

/* What to do until the next unit. */
struct rhythm_plan rhythm_plan(const struct rhythm *rhythm, const struct rhythm_budget *budget,
                               uint64_t now);

/* How long the last round of the loop took, from a place to the same place; 0: not known. */
uint64_t rhythm_round(const struct rhythm *rhythm);

/* ---- the budget ---- */

void rhythm_budget_begin(struct rhythm_budget *budget, uint64_t now);

/* What the time since the last call has brought. */
void rhythm_budget_earn(struct rhythm_budget *budget, uint64_t now);

/* So much processor time has been used. */
void rhythm_budget_spend(struct rhythm_budget *budget, uint64_t used);

/* A sleep that was to end at `until` has ended by itself at `now`, and took so much processor time.
 */
void rhythm_budget_slept(struct rhythm_budget *budget, uint64_t until, uint64_t now, uint64_t used);

/* A unit of a loop with short rounds: at least a sleep, and so much of looking, may be used for
 * the next one. */
void rhythm_budget_grant(struct rhythm_budget *budget, uint64_t looking);

#endif
