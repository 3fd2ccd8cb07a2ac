/* Running many random programs, counting what came of them by row, and what must come of them.
 */
#ifndef NCCL_JOIN_TESTS_SIMULATION_RUN_H
#define NCCL_JOIN_TESTS_SIMULATION_RUN_H

#include "tests/simulation/simulate.h"

/* What is counted. Up to MEASURE_SHADOWED: programs. */
enum measure {
  MEASURE_PROGRAMS,
  MEASURE_WITH_DATA, /* every rank has at least one iteration in the first epoch */
  MEASURE_WITHOUT,   /* not so; of both only programs without twins (requirements.c) */
  MEASURE_WRONG,     /* units of different points met */
  MEASURE_WRONG_WITH_DATA,
  MEASURE_WRONG_WITHOUT,
  MEASURE_SILENT,         /* and no WARN had come by then */
  MEASURE_TOLD,           /* a WARN other than that places cannot be seen */
  MEASURE_TOLD_WHOLE,     /* the same of programs without halves that look alike (requirements.c) */
  MEASURE_NEEDLESS,       /* and nothing but units of one instance met */
  MEASURE_APART,          /* units of one point met, but of different epochs or iterations */
  MEASURE_SILENT_APART,   /* and no WARN had come by then */
  MEASURE_HANGS,          /* nobody can move, or ranks wait for their devices for ever */
  MEASURE_MISMATCHES,     /* different units at one index, or a rank's are not its program */
  MEASURE_SHADOWED,       /* there were shadows */
  MEASURE_INDICES,        /* of all agreed sequences */
  MEASURE_UNMET,          /* real units of different instances (meetings.h) */
  MEASURE_COMMON_INDICES, /* of programs where it can be told (requirements.c) */
  MEASURE_COMMON_UNMET,
  MEASURE_WRONG_INDICES, /* real units of different points; the next two: of one point only */
  MEASURE_OTHER_EPOCH,
  MEASURE_OTHER_ITERATION,
  MEASURE_SPLIT, /* real units whose instance another rank has issued at another index */
  MEASURE_REALS,
  MEASURE_SHADOWS,
  MEASURE_CLAIMS,
  MEASURE_YIELDS,
  MEASURE_LATE_YIELDS,
  MEASURE_WAITS,
  MEASURE_MESSAGES, /* between machines, and their bytes */
  MEASURE_BYTES,
  MEASURE_STILLS, /* of programs of one team without a failure: struct traffic */
  MEASURES,
};
extern const char *const measures[MEASURES];

struct tally_row {
  uint64_t count[MEASURES];
  uint64_t seed[MEASURES]; /* of the first program that counts, plus one; 0: none */
};

struct tally {
  struct tally_row rows[ROWS];
};

void tally_add(struct tally *tally, const struct tally *more);

/* Runs the program of a seed, and counts it. Returns NULL, or what happened that never may:
 * mismatches; that ranks wait for ever, unless they yield although others are at work. Then streams
 * may come to wait for each other; those programs are there to see that no units of different kinds
 * meet even so. */
const char *run_program(uint64_t seed, struct tally *tally);

/* How many machines all programs run on from now on: at most. 1 at first. */
void run_on_machines(uint32_t nmachines);

/* The same, of a program at hand. */
const char *run_this(const struct program *program, uint64_t seed, struct tally_row *row);

/* ---- requirements ---- */

/* Of all rows that it speaks of together: count[of] is at most `goal` of count[per]. */
struct requirement {
  const char *name;
  uint32_t sights, imbalances; /* bit sets */
  uint32_t traits, without;    /* enum class_trait: at least one of them, if any; none of these */
  enum measure of, per;
  double goal;
  double today; /* what is asserted until the goal is reached */
};

#define REQUIREMENTS 19
extern const struct requirement requirements[REQUIREMENTS];

/* What is asserted. */
double requirement_limit(const struct requirement *requirement);

bool requirement_is_of(const struct requirement *requirement, struct row row);

/* All rows that a requirement speaks of. worst: the row with the highest share. */
struct tally_row requirement_sum(const struct requirement *requirement, const struct tally *tally,
                                 struct row *worst);

/* of / per; 0 if there are none. */
double row_share(const struct tally_row *row, enum measure of, enum measure per);

#endif
