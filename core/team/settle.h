/* The winner rule: which unit an index gets when all ranks of a team have claimed it and do not
 * agree.
 *
 * What is needed of the claims is a summary: the few distinct things that are claimed, each with
 * counts, maxima and bits of those who claim it. Summaries of sets of ranks can be added up in any
 * order. A pure function of it and of what all ranks know, so every rank comes to the same answer
 * by itself.
 */
#ifndef NCCL_JOIN_CORE_SETTLE_H
#define NCCL_JOIN_CORE_SETTLE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/place/place_rounds.h"

/* One thing that is claimed, and what is known of those who claim it. */
struct claimed {
  uint64_t hash;      /* unit_hash of the unit, place included; 0: LEAVE, or a yield */
  uint64_t signature; /* unit_signature: what NCCL would compare */
  uint32_t mark;      /* enum mark; 0: a unit, or LEAVE */
  uint32_t kinds;     /* of enum claim_flag, those that make it another thing: CLAIM_KINDS */
  uint32_t any, all;  /* enum claim_flag: of any of the claimants, of all of them */
  uint32_t claimants;
  uint32_t rank;     /* the lowest of them */
  uint32_t text;     /* where that one has written the members */
  uint64_t bytes;    /* what the unit moves: the sum of its members' sizes */
  uint32_t place_id; /* of the unit's place; 0: not known */
  bool elsewhere;    /* not all of them say so */
  uint32_t epoch;    /* in which epoch its claimants stand (team_epochs.c); 0: not known */
  /* In which rounds all of its claimants stand; 0: not known, or not all in the same. */
  place_rounds_t rounds;
  uint32_t
      rounds_differ; /* the outermost level at which they do not say the same, plus one; 0: none */
  uint32_t
      apart_levels; /* PLACE_LEVELS less those on which all of them say the same round, of as many */
  uint64_t last_real; /* the largest index, plus one, at which one of them has issued for real */
  uint32_t set;       /* which of SETTLE_UNITS_MAX sets of ranks, the caller's, is of them */

  /* What all ranks know of the unit; not summed up. */
  bool expected; /* it is what the learner expects here */
  bool apart;    /* a rank that claims it says that what is expected is another */
  bool seen;     /* it has been in the agreed sequence before */
  bool common;   /* all ranks have issued from its place (place_table.h) */
  bool again;    /* ... and did so once more */
  bool shared;   /* all ranks have issued it, and who claims it comes from its place */
  bool by_root;  /* it is claimed by its root alone */
  bool by_ways;  /* all ranks have issued it, but not all from its place */
  bool alike;    /* all ranks count the rounds of the outermost loop alike (team_counts_rounds) */
  bool even;     /* no rank has shadowed anything yet (CLAIM_EVEN of all) */
  /* Of a unit that the agreed sequence has not had: so many nodes of the way to its place are those
   * of a place that it has had. */
  uint32_t along;
  place_nodes_t clocks;      /* loops around it whose rounds all ranks count (team_clocks) */
  const struct place *place; /* NULL: not known */
  /* Where a unit of its signature stands that has been in the agreed sequence before, in another
   * branch of a condition (place_are_branches), to which claimants in that one come; NULL: there is
   * none. */
  const struct place *in_branch;
};

/* More distinct things than these at one index: those with the least standing and the largest hash
 * are left out, whoever adds up. Their ranks follow what the others agree on, and count as ranks
 * that shadow it. */
#define SETTLE_UNITS_MAX 16u

struct settle {
  struct claimed units[SETTLE_UNITS_MAX]; /* in order of standing and hash */
  uint32_t nunits;
  uint32_t nranks, any, all; /* claims added up, and enum claim_flag of any and of all of them */
  uint32_t refused; /* the outermost level of rounds that a rank refuses, plus one; 0: none */
  const struct place *last; /* of the last unit in the sequence whose place is known, or NULL */
};

/* Adds what one rank claims, or what several do (claimants, any, all and so on of a summary).
 * Returns the thing that it is part of, whose set is to hold those ranks too: nothing else if it
 * has no other claimants. NULL: it is left out. */
struct claimed *settle_add(struct settle *settle, const struct claimed *claimed);

/* Whether two units of one signature are different all the same, because they stand at different
 * points of the program. They are, if
 *   - a rank has said that one of them is apart from the expected unit, which is the other
 *     (CLAIM_APART);
 *   - one is always followed by the other, and all ranks are known to have one of them in their
 *     programs, or ranks stand at both;
 *   - one stands in a loop in which the other does not stand, and all ranks are known to have one
 *     of them, or one rank has both: as long as nothing has been shadowed, if who stands at one
 *     must come to the other, or have been there;
 *   - they come by two conditions of one round, all ranks have come to each, and some rank has
 *     shadowed something.
 * They never are, where
 *   - one of the two places is not known: another rank may see it;
 *   - a root waits in a broadcast, while the others claim one from it to which they come by ways of
 *     their own: as long as nothing has been shadowed that root is the one who sends
 *     (settle_is_sent);
 *   - both are one collective of a function that two branches call (place_are_one_call);
 *   - both are of loops that do the same, in two branches of one condition, and ranks have come to
 *     these in one round of the loop around them: nothing has been shadowed so far, and each has
 *     issued a point of each round as often as the other. They meet as without nccl-join. */
bool settle_is_distinct(const struct claimed *a, const struct claimed *b);

/* Whether one is a broadcast that its root claims, and the other what comes from it: see above. Of
 * equal signatures. */
bool settle_is_sent(const struct claimed *a, const struct claimed *b);

/* Whether NCCL may be given one for the other, and shall: equal signatures, and not distinct. */
bool settle_is_same(const struct claimed *a, const struct claimed *b);

/* Whether they may be one unit all the same: no rank has shadowed anything yet, so the program may
 * be even, and each rank come to one of them. Where it is not known that one of them is in the
 * program of each, or that who stands at the later one has been at the other; or a compiler may
 * have made two calls of one (place_are_twins). */
bool settle_may_be_one(const struct claimed *a, const struct claimed *b);

/* Whether ranks that stand at both do so in one round of the innermost loop around both: they count
 * its rounds. And whether a rank that claims a unit stands at its place. */
bool settle_are_counted(const struct claimed *a, const struct claimed *b);
bool settle_is_stood_at(const struct claimed *claimed);

/* Whether it is a guess that they are the same, by how their places are related (place_relate). It
 * is one where they look alike, both are known, and
 *   - they part in code that cannot be followed (place_parts_unseen), or are of threads that begin
 *     in different functions (place_roots_differ);
 *   - who comes to one comes to the other (PLACE_SEQUENTIAL);
 *   - each can be come to alone (PLACE_ALTERNATIVE), one thread can come from one to the other, and
 *     all ranks come to both, or all have issued one of them, from wherever: who is there again has
 *     gone round a loop, while the other may go on in it;
 *   - the same, and their order is not known: they may be two branches, or one behind the other.
 *     Not where the root alone claims one of them;
 *   - they stand in a loop in which they come by conditions of which one changes
 *     (place_takes_turns);
 *   - they are two branches of one condition in a loop around both, which one of them may end. Not
 *     where each rank stays in its branch (place_stays_apart), or the root alone claims one of
 *     them: unless one is known to be in the program of all. Nor of loops, if ranks count the
 *     rounds of the loop around both;
 *   - they part, go into one function, and all this but the last holds of what they are in it
 *     (place_in_one_function): each rank calls it in a branch of its own;
 *   - one stands in a loop in which the other does not stand, and one thread can come from one to
 *     the other, or their order is not known: a rank without data comes past a loop without a call
 *     in it;
 *   - each stands in a loop in which the other does not stand, by a condition of that loop which
 *     changes, and these are not one point of two loops that do the same (place_turns_differ). */
bool settle_is_doubtful(const struct claimed *a, const struct claimed *b);

/* Index of the unit that wins; a yield wins only where nothing else is claimed. The rule, the first
 * difference deciding:
 *   1. a unit, or the begin of a round, before a mark, a mark before LEAVE (unit.h, enum mark);
 *   2. of two units that are not the same (settle_is_same), the one that goes before in the
 *      program: the one in an earlier round of a loop around both, or in one round the one that
 *      comes first in it, where loops say in which round ranks are (place_compare_rounds); the
 *      begin of a round, before a unit of the same loop of which rounds do not tell that it is in
 *      an earlier one; of two branches one from which its ranks come to what looks like the other;
 *      of two loops one that some ranks have no part in; what stands in front of a loop before what
 *      stands in it, if neither has been seen; what goes round a loop, before what has not been
 *      seen though all have gone round it; otherwise place_order;
 *   3. of two units that are not the same, the one whose ranks have issued for real last: who is
 *      still in the loop has issued since who left it;
 *   4. what the learner expects;
 *   5. of units that are the same, one at whose place one of its claimants stands;
 *   6. a unit seen before;
 *   7. what its rank's predictor says (never said by ranks of one team only);
 *   8. the larger unit (gradients before a metric);
 *   9. the most claimants, then the lowest rank.
 * Of units that are the same, 4 to 9 only choose the name. Then, of what is claimed as that unit in
 * several epochs (settle_is_out_of_step), the earliest. */
uint32_t settle_winner(const struct settle *settle);

/* Whether the winner is a choice without knowledge over another unit, or is taken for it without
 * knowledge; returned in *loser. Of units that are the same it looks only at places where somebody
 * stands: who claims what it has been taken for knows better itself (team_guess.c). */
bool settle_is_guess(const struct settle *settle, uint32_t winner, uint32_t *loser);

/* The levels of rounds that tell something after this index: on which no rank has refused them, and
 * ranks that claim one unit, from its place, count alike. */
uint32_t settle_levels(const struct settle *settle);

/* Whether two things claimed are one unit in two epochs: their ranks are out of step. */
bool settle_is_out_of_step(const struct claimed *a, const struct claimed *b);

/* Whether all claim the winner, or the same but for the place. */
bool settle_is_unanimous(const struct settle *settle, uint32_t winner);

#endif
