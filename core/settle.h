/* The winner rule: which unit an index gets when all ranks of a team have claimed it and do not
 * agree.
 *
 * A pure function of what all ranks have published, so every rank comes to the same answer by
 * itself.
 */
#ifndef NCCL_JOIN_CORE_SETTLE_H
#define NCCL_JOIN_CORE_SETTLE_H

#include <stdbool.h>
#include <stdint.h>

/* What one rank claims, in the order of ranks. */
struct claim {
  uint64_t hash;   /* unit_hash of the unit; 0: LEAVE */
  uint32_t mark;   /* enum mark; 0: a unit, or LEAVE */
  uint64_t bytes;  /* what the unit moves: the sum of its members' sizes */
  uint32_t recent; /* units issued for real since the last index that all ranks issued for real */
  uint32_t recent_elsewhere; /* the same, in all teams of its rank */
  bool on_course; /* what the rank's own program does next if it goes on as before: overlap.h */
  /* How soon the unit came, the time before, after the one at which all ranks last met. Where there
   * is nothing to go by, UINT64_MAX less the number of times that it has come at all. */
  uint64_t order;
  uint32_t unit;    /* the unit as a bit, for the next two; 0: never seen, or too many */
  uint32_t issued;  /* units claimed now that this rank has issued for real before */
  uint32_t skipped; /* those that it has shadowed, and never issued for real */
  uint32_t times;   /* how often the unit has come; not part of the rule, but of what is a guess */
  uint32_t symbol;  /* of the unit (unit.h); not part of the rule */
  bool is_barrier;  /* one element, at which ranks are known to wait for each other here */
  bool goes_on;     /* it has come here before, and ranks do not wait for each other at it; said
                       only where another claims a barrier */
  bool expected;    /* it is what the learner expects here */
  bool seen;        /* it has been in the agreed sequence before */
  uint32_t text;    /* where its members are written; not part of the rule */
  uint32_t flags;   /* enum claim_flag; not part of the rule */
};

/* The rank whose claim wins. The rule, the first difference deciding:
 *   1. any unit before a mark, and a mark before LEAVE (unit.h, enum mark);
 *   2. the most real units since all ranks last met (who is still in the loop has done more than
 * who left it);
 *   3. a unit that those who claim another always skip, if those who claim it do issue the other:
 * they will come to it, and the others never come to theirs (a rank without data in an epoch whose
 * loop the others begin);
 *   4. what goes on as before, before a barrier after it;
 *   5. what came first, the time before, after the unit at which all ranks last met (epochs begin
 * alike);
 *   6. what the learner expects;
 *   7. a unit seen before;
 *   8. what is on its rank's course (never said by ranks of one team only);
 *   9. the most real units in all teams of its rank;
 *   10. the larger unit (gradients before a metric: a guess, for the first index of a program whose
 * ranks begin differently, where nothing better is known);
 *   11. the most claimants;
 *   12. the lowest rank. */
uint32_t settle_winner(const struct claim *claims, uint32_t nranks);

/* Whether the winner is a guess: a rank that claims another unit, which is returned in *loser, has
 * done as much since all last met, and its unit came as soon after that the time before, or has
 * come more often in all: it may be that of a loop, and the winner's of a rank that has skipped the
 * loop. Not if it only marks something, or wants to leave. */
bool settle_is_guess(const struct claim *claims, uint32_t nranks, uint32_t winner, uint32_t *loser);

/* Whether all claim the same. */
bool settle_is_unanimous(const struct claim *claims, uint32_t nranks);

#endif
