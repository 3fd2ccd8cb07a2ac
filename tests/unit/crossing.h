/* Three ranks in up to three teams, in memory, for tests of what a parked rank does for its other
 * teams (core/overlap/overlap.h).
 */
#ifndef TESTS_UNIT_CROSSING_H
#define TESTS_UNIT_CROSSING_H

#include "core/overlap/overlap.h"
#include "tests/unit/planes.h"

#define RANKS 3
#define TEAMS 3

/* Rank r of a team is the rank with the number ranks[r]. */
struct group {
  uint32_t nranks, ranks[RANKS];
  struct planes *memory;
};

extern struct group crossing_groups[TEAMS];
extern struct team *crossing_teams[RANKS][TEAMS];
extern struct overlap_team *crossing_places[RANKS][TEAMS];
extern struct overlap *crossing_overlaps[RANKS];

/* Makes a team of these ranks. */
void crossing_add(uint32_t at, uint32_t nranks, const uint32_t *ranks);

/* After each test. */
void crossing_stop(void);

struct member crossing_member(uint64_t count);

/* The rank parks on a unit of that many elements; where: it stands there. */
void crossing_claim(uint32_t rank, uint32_t at, uint64_t count);
void crossing_claim_at(uint32_t rank, uint32_t at, uint64_t count, const struct place *where);

enum team_verdict crossing_poll(uint32_t rank, uint32_t at);

/* Whether the rank answers in a team, after it has been quiet for so long. */
bool crossing_answers(uint32_t rank, uint32_t at, uint64_t quiet_ms);

/* Ranks 0 and 1 in both of two teams. */
void crossing_pair(void);

/* 0 waits for 1 in {0, 1}, 1 for 2 in {1, 2}, 2 for 0 in {0, 2}. */
void crossing_chain(void);

/* All ranks of a team claim the unit and get it. */
void crossing_issue(uint32_t at, uint64_t count);

/* All ranks of a team do a unit; whether they committed it. */
bool crossing_commit(uint32_t at, uint64_t count);

#endif
