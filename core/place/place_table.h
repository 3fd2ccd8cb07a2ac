/* The places that a team's agreed sequence has had: of each its description, and what all ranks
 * know of it. All ranks of a team fill it alike, as they pass the same sequence.
 *
 * The place that has not been added to for longest is forgotten. One thread at a time.
 */
#ifndef NCCL_JOIN_CORE_PLACE_TABLE_H
#define NCCL_JOIN_CORE_PLACE_TABLE_H

#include "core/place/place.h"

/* More than a team knows units (unit.h): a unit that is known has a place that is known, but where
 * a program comes to thousands of places. */
#ifndef PLACE_TABLE_PLACES /* tests/simulation/many.h */
#define PLACE_TABLE_PLACES 4096u
#endif

struct known_place {
  struct place place;
  /* All ranks have claimed a unit from this very place at one index: it is in the program of
   * each. */
  bool common;
  bool again;        /* ... and once more since */
  bool shared;       /* all ranks have claimed the unit of this place at one index, from wherever */
  uint64_t all_at;   /* index after the last one at which they did */
  uint64_t asked_at; /* index after the last one at which a rank claimed it */
  /* How often this rank has issued from this very place, as far as it matters. Other ranks may
   * count otherwise. */
  uint32_t uses;
  uint32_t epochs; /* how often this rank has issued the unit of this place for real; wraps */
  uint32_t
      epochs_outside; /* team_epochs.c: what it had issued outside the loop by the first of them */
  /* On how many levels all have once said the same round of the loops around it, and of as many. */
  uint8_t counted;
  bool met; /* ranks have waited for each other here */
  /* team_runs.c: of the times that a loop was gone into with this place, how many units it had the
   * last time, and the least. As far as this rank has counted; 0: not known. */
  uint32_t run, run_least;
};

struct place_table;

/* Allocates 4.6 MiB, of which it touches 16 KiB and 1.1 KiB for each place; NULL if there is no
 * memory. Owned by the caller. */
struct place_table *place_table_create(void);
void place_table_destroy(struct place_table *table);

/* NULL if the place has not been added, or is forgotten, or id is 0. Valid until the next add. */
struct known_place *place_table_find(struct place_table *table, uint32_t id);

/* The first of those from `*at` on, which moves behind it; NULL: there are no more. */
const struct known_place *place_table_next(const struct place_table *table, uint32_t *at);

/* How many have been added so far; wraps. */
uint32_t place_table_added(const struct place_table *table);

/* The place, added if it is new; a description replaces none. NULL if its id is 0. */
struct known_place *place_table_add(struct place_table *table, const struct place *place);

#endif
