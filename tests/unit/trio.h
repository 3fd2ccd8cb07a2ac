/* Three ranks of a team in one process, for tests of the agreed sequence, and what they issue.
 */
#ifndef TESTS_UNIT_TRIO_H
#define TESTS_UNIT_TRIO_H

#include "tests/unit/planes.h"
#include "core/team/team.h"

#define RANKS 3

extern struct planes *memory;
extern struct team *teams[RANKS];

/* Of three signatures, once units() has been called. */
extern struct member A, B, C;

/* Before and after each test. */
void trio_start(void);
void trio_stop(void);

/* An all-reduce of that many floats. */
struct member member(uint64_t count);

void units(void);

static inline struct unit unit(const struct member *of) {
  return (struct unit){of, 1};
}

/* All ranks claim a unit and get it, or commit it. */
void all_issue(struct member *of);

/* A loop of A that all expect to go on. */
void learn_loop(void);

#endif
