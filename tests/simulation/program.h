/* Random training programs for the simulation: what each rank issues, in order, in which team.
 *
 * A program has a loop body of collectives on up to three axes (all ranks, tensor parallel, data
 * parallel), run for a number of iterations that may differ by replica or by rank, and by epoch; an
 * optional log unit every k iterations, and 0 to 3 units after each epoch. Without a unit after the
 * epochs nothing marks their ends, and they are one.
 */
#ifndef NCCL_JOIN_TESTS_SIMULATION_PROGRAM_H
#define NCCL_JOIN_TESTS_SIMULATION_PROGRAM_H

#include <stdbool.h>
#include <stdint.h>

#include "core/unit.h"

#define PROGRAM_RANKS_MAX 64
#define PROGRAM_TEAMS_MAX 40
#define PROGRAM_SLOTS_MAX 8
#define PROGRAM_EPOCHS_MAX 12
#define PROGRAM_AFTER_MAX 3
#define PROGRAM_MEMBERS_MAX 2

enum program_kind {
  KIND_SINGLE,     /* one team, one communicator */
  KIND_TWICE,      /* two communicators of the same ranks: one team */
  KIND_HALVES,     /* all ranks, and two halves of them */
  KIND_GRID,       /* tensor and data parallel */
  KIND_GRID_WORLD, /* the same, and all ranks */
  KINDS,
};

enum imbalance { IMBALANCE_NONE, IMBALANCE_CONSTANT, IMBALANCE_VARYING };

/* A rank has one communicator, and one team, on each axis that the program uses. */
enum axis { AXIS_WORLD, AXIS_TENSOR, AXIS_DATA, AXES };

struct slot {
  enum axis axis;
  uint32_t nmembers;
  struct member members[PROGRAM_MEMBERS_MAX]; /* comm: which communicator of the team, 0 or 1 */
};

enum ending {
  ENDING_EXIT,    /* leaves all teams at once */
  ENDING_DESTROY, /* one after the other, all ranks alike */
  ENDING_MIXED,   /* each rank in an order of its own */
};

/* When the rank that fails does so. */
enum failing { FAILING_NEVER, FAILING_RUNNING, FAILING_PARKED, FAILING_SHADOWING };

struct program_team {
  uint32_t nranks;
  uint16_t ranks[PROGRAM_RANKS_MAX];
};

struct program {
  enum program_kind kind;
  uint32_t nranks, nteams, tensor_size;
  struct program_team teams[PROGRAM_TEAMS_MAX];
  uint16_t team_of[AXES][PROGRAM_RANKS_MAX];
  bool has_axis[AXES];

  uint32_t epochs, nbody, nafter;
  uint32_t log_every; /* 0: no log unit */
  struct slot body[PROGRAM_SLOTS_MAX], log, after[PROGRAM_AFTER_MAX];
  enum imbalance imbalance;
  bool by_replica; /* ranks that share a tensor parallel team have equal counts */
  bool torn;       /* ranks may leave an epoch inside an iteration */
  bool alike;      /* a unit of the body, not the first, looks like the last one after the epochs */
  uint32_t iterations[PROGRAM_EPOCHS_MAX][PROGRAM_RANKS_MAX];
  uint32_t torn_at[PROGRAM_EPOCHS_MAX][PROGRAM_RANKS_MAX]; /* slots left out of the last iteration
                                                            */
  enum ending ending;
  enum failing failing;
  uint32_t failing_rank, failing_step;

  /* How it runs. */
  bool one_stream;     /* all communicators of a rank share a stream; or else each has its own */
  uint32_t run_ahead;  /* units that a stream holds before the rank has to wait */
  uint32_t sync_every; /* iterations between synchronisations with the device; 0: only at the end */
  bool sync_after;     /* synchronises after each epoch's units */
  bool throws;         /* early termination; not part of what is random */
  bool hasty; /* ranks yield although it is not quiet: only what is never to happen counts */
  uint32_t speed[PROGRAM_RANKS_MAX]; /* how often a rank is scheduled, 1 to 8 */
};

/* One unit of one rank, and where in the program it stands. */
struct step {
  struct member members[PROGRAM_MEMBERS_MAX];
  uint32_t nmembers;
  uint16_t team;
  bool synchronise; /* afterwards the rank waits until all its units are done */
  uint64_t point; /* the same on two ranks only for the same place: epoch, iteration, place in it */
};

/* Deterministic by seed. */
void program_random(struct program *program, uint64_t seed);

/* The steps of a rank, in order, into *steps, which grows as needed (`room` of them). Returns how
 * many, or aborts without memory. */
uint64_t program_steps(const struct program *program, uint32_t rank, struct step **steps,
                       uint64_t *room);

/* "2x2 by replica, varying": what a program's share is counted under. */
const char *program_row_name(uint32_t row);
uint32_t program_row(const struct program *program);
#define PROGRAM_ROWS 26

/* Rows whose shares are asked for together. */
enum program_group {
  GROUP_ONE_CONSTANT,
  GROUP_ONE_VARYING,
  GROUP_ALIKE_CONSTANT,
  GROUP_ALIKE_VARYING,
  GROUP_SEVERAL_BY_REPLICA,
  GROUP_SEVERAL_BY_RANK,
  GROUP_NONE,
};
enum program_group program_row_group(uint32_t row);

/* xorshift64*, so that a seed means the same everywhere. */
uint64_t random_next(uint64_t *state);
uint32_t random_below(uint64_t *state, uint32_t bound);

#endif
