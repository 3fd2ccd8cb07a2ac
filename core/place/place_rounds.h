/* In which rounds of the loops around it a call is made.
 *
 * A place says where in the program a call stands; not how often its rank has gone round the loops
 * there. Some loops say it themselves: the iterator of a Python `for` over numbers or a list
 * counts, and knows how many rounds there are in all.
 *
 * Of two ranks in one round of the innermost loop around both, whoever stands at the earlier place
 * comes first. So does who is in an earlier round of a loop that has as many rounds on both ranks,
 * as that of epochs has: of batches each has its own, and in which round a rank comes to what is
 * behind the last of them says nothing. Nor do rounds of a loop of which each rank may leave out
 * others (`if (item % world != rank) continue;`): so each round must come to the places, or to an
 * inner loop that they stand in; of two ranks in one round, to one of the places.
 *
 * All of this is pure.
 */
#ifndef NCCL_JOIN_CORE_PLACE_ROUNDS_H
#define NCCL_JOIN_CORE_PLACE_ROUNDS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/place/place.h"

/* So many of the outermost loops of a place count, a level each. */
#define PLACE_LEVELS 2u

/* What a loop says. Above PLACE_ROUND_MAX nothing. */
struct place_round {
  uint32_t number; /* from 1 on; 0: not known */
  uint32_t total;  /* how many there are; 0: not known. Of two numbers one in 16,383 pairs counts as
                      equal */
};
#define PLACE_ROUND_MAX ((1u << 18) - 2u)

/* Of the nodes of a place, what each loop among them says. */
place_rounds_t place_rounds_of(const struct place_node *nodes, uint32_t nnodes,
                               const struct place_round *rounds);

/* Where the rank of one call is, and that of another, as far as the loops around both tell. alike:
 * all ranks have been seen to be in one round of the outermost loop, and never in different ones,
 * where they came to one collective; then each round counts, whatever the code leaves open. */
enum place_pass {
  PASS_UNKNOWN,
  PASS_BEFORE, /* the first is in an earlier round than the second */
  PASS_SAME,   /* both are in one round of the innermost loop around both */
  PASS_AFTER,
};
enum place_pass place_compare_rounds(const struct place *a, place_rounds_t rounds_a,
                                     const struct place *b, place_rounds_t rounds_b, bool alike);

/* Of a call, and one before it of the same rank: whether that has gone round a loop around the
 * innermost one around the place since then. It may have where these loops do not all say their
 * rounds. */
enum place_turn { TURN_UNKNOWN, TURN_SAME, TURN_ROUND };
enum place_turn place_rounds_turn(const struct place *place, place_rounds_t before,
                                  place_rounds_t now);

/* The outermost level at which two ranks are in different rounds, or only one says in which;
 * PLACE_LEVELS: none. */
uint32_t place_rounds_differ(place_rounds_t a, place_rounds_t b);

/* On how many levels, from the outermost on, both say the round, and how many there are, and both
 * the same. */
uint32_t place_rounds_alike(place_rounds_t a, place_rounds_t b);

/* How many loops are around both. */
uint32_t place_loops_around(const struct place *a, const struct place *b);

/* In which round of the loop at a level its rank stands, and how many there are, where these may be
 * epochs: both known, and at most PLACE_EPOCHS_MAX. Otherwise 0, 0. */
struct place_round place_epoch(place_rounds_t rounds, uint32_t level);

/* Where a round of a loop around a place begins, as a place of its own: before all that stands in
 * the loop. */
struct place_begin {
  struct place place;
  uint32_t number; /* place_rounds_number */
  /* Each round comes to the place that was asked about, or to an inner loop around it, or none does
   * (PLACE_FIXED). */
  bool comes;
};

/* A loop of more rounds is taken for one of batches. */
#define PLACE_EPOCHS_MAX 4000u

/* The round of a loop of which only that is known, how many rounds are left, give or take two. It
 * is said as a round of PLACE_EPOCHS_MAX, so that ranks can compare theirs. {0, 0} if more are
 * left. */
static inline struct place_round place_round_left(int64_t left) {
  const int64_t least = -2;
  if (left < least || left >= PLACE_EPOCHS_MAX + least)
    return (struct place_round){0, 0};
  return (struct place_round){PLACE_EPOCHS_MAX - (uint32_t)(left - least), PLACE_EPOCHS_MAX};
}

/* The round of the loop at a level, as one number with those of the loops around it: that goes up
 * from one to the next. What is known of how many there are may be one less than there are: so it
 * does not count. Of rounds that place_epoch knows. */
#define PLACE_NUMBERS_MAX (1u << 24)
uint32_t place_rounds_number(place_rounds_t rounds, uint32_t level);

/* Its parts: the number at that level alone, and that of the round of the loop around; 0: there is
 * none. */
struct place_numbers {
  uint32_t number, around;
};
struct place_numbers place_numbers_of(uint32_t number);
uint32_t place_number_of(struct place_numbers parts);

/* How many of the outermost loops around a place, 0 to PLACE_LEVELS, have rounds that may be
 * epochs. A loop counts if it says how many rounds it has, PLACE_EPOCHS_MAX at most, and is known
 * to be the one at its level; none behind the first that does not. The second one must have another
 * loop in it, as that of models which are trained one after the other has that of their batches; so
 * must the outermost one, if only what is left of it is known (place_round_left): else it may be a
 * loop of batches, of which each rank has its own. */
uint32_t place_rounds_begin(const struct place *place);

/* Of the loop at a level. False: it is none of these. */
bool place_round_begins(const struct place *place, uint32_t level, struct place_begin *begin);

/* Whether it is such a place. */
bool place_is_begin(const struct place *place);

/* Without what is said of a level and those within. place_rounds_refuse: and says so. A rank has
 * seen that ranks at one place count their rounds there differently: these tell nothing, whoever
 * says them. */
place_rounds_t place_rounds_only(place_rounds_t rounds, uint32_t levels);
place_rounds_t place_rounds_refuse(place_rounds_t rounds, uint32_t levels);

/* The outermost level that is refused; PLACE_LEVELS: none. */
uint32_t place_rounds_refused(place_rounds_t rounds);

#endif
