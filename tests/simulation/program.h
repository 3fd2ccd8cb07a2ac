/* Random training programs for the simulation: what each rank issues, in order, in which team, and
 * where in the program that stands.
 *
 * A program is a tree (tree.h) that all ranks execute, each with its own data. What kind of program
 * a seed gives, its row, is told by the seed alone (rows.h): its class, how uneven the ranks' data
 * are, and what is seen of its places.
 */
#ifndef NCCL_JOIN_TESTS_SIMULATION_PROGRAM_H
#define NCCL_JOIN_TESTS_SIMULATION_PROGRAM_H

#include "tests/simulation/meetings.h"
#include "tests/simulation/rows.h"
#include "tests/simulation/tree.h"

#ifndef PROGRAM_RANKS_MAX     /* many.h */
#define PROGRAM_RANKS_MAX 512 /* random ones have up to 64 */
#define PROGRAM_TEAMS_MAX 40
#endif
#define PROGRAM_EPOCHS_MAX 12

enum program_kind {
  KIND_SINGLE,     /* one team, one communicator */
  KIND_TWICE,      /* two communicators of the same ranks: one team */
  KIND_HALVES,     /* all ranks, and two halves of them */
  KIND_GRID,       /* tensor and data parallel */
  KIND_GRID_WORLD, /* the same, and all ranks */
  KINDS,
};

enum ending {
  ENDING_EXIT,    /* leaves all teams at once */
  ENDING_DESTROY, /* one after the other, all ranks alike */
  ENDING_MIXED,   /* each rank in an order of its own */
};

/* Which loops say in which round a rank is (core/place/place_rounds.h). */
enum counting { COUNTING_NONE, COUNTING_EPOCHS, COUNTING_ALL, COUNTINGS };

/* When the rank that fails does so. */
enum failing { FAILING_NEVER, FAILING_RUNNING, FAILING_PARKED, FAILING_SHADOWING };

struct program_team {
  uint32_t nranks;
  uint16_t ranks[PROGRAM_RANKS_MAX];
};

/* What ranks have of their own. */
struct data {
  uint16_t training[PROGRAM_EPOCHS_MAX][PROGRAM_RANKS_MAX]; /* iterations */
  uint16_t validation[PROGRAM_EPOCHS_MAX][PROGRAM_RANKS_MAX];
  /* By which exit (WHEN_DATA_ENDS) the rank leaves its last iteration; 0: at its end. */
  uint8_t exits[PROGRAM_EPOCHS_MAX][PROGRAM_RANKS_MAX];
  uint64_t draws; /* what WHEN_LOCAL and WHEN_AGREED come from */
};

struct program {
  struct row row;
  enum program_kind kind;
  uint32_t nranks, nteams, tensor_size;
  struct program_team teams[PROGRAM_TEAMS_MAX];
  uint16_t team_of[AXES][PROGRAM_RANKS_MAX];
  bool has_axis[AXES];

  uint32_t epochs;
  struct tree tree;
  struct place places[TREE_NODES_MAX]; /* of the tree's units, by node */
  struct data data;
  enum counting counting;
  bool by_replica; /* ranks that share a tensor parallel team have equal data */
  enum ending ending;
  enum failing failing;
  uint32_t failing_rank, failing_step;

  /* How it runs. */
  bool one_stream;     /* all communicators of a rank share a stream; or else each has its own */
  uint32_t run_ahead;  /* units that a stream holds before the rank has to wait */
  uint32_t sync_every; /* iterations between synchronisations with the device; 0: only at the end */
  bool sync_after;     /* synchronises after each epoch's units */
  bool throws;         /* early termination; not part of what is random */
  bool messages;       /* ranks wait for each other outside of NCCL, too (messages.h) */
  bool hasty; /* ranks yield although it is not quiet: only what is never to happen counts */
  uint32_t speed[PROGRAM_RANKS_MAX]; /* how often a rank is scheduled, 1 to 8 */
};

/* One unit of one rank. */
struct step {
  struct member members[SLOT_MEMBERS_MAX];
  uint32_t nmembers;
  uint16_t team, node;
  bool synchronise;          /* afterwards the rank waits until all its units are done */
  struct instance instance;  /* what it means */
  const struct place *place; /* the program's */
  place_rounds_t rounds;
};

/* The program of a seed. Deterministic. */
void program_random(struct program *program, uint64_t seed);

/* What program_random begins with: teams of the row's class, how it runs. */
void program_random_teams(struct program *program, uint64_t *random);
void program_random_run(struct program *program, uint64_t *random);

/* Whether ranks may have no batch of the validation set in an epoch. */
bool program_may_not_evaluate(const struct program *program);

/* How much data each rank has. nexits: how many exits from an iteration there are. */
void program_random_data(struct program *program, uint64_t *random, uint32_t nexits);

/* The tree of the row's class (shapes.c). Returns how many exits its iterations have. */
uint32_t program_random_tree(struct program *program, uint64_t *random);

/* The steps of a rank, in order, into *steps, which grows as needed (*room of them). Returns how
 * many, or aborts without memory. */
uint64_t program_steps(const struct program *program, uint32_t rank, struct step **steps,
                       uint64_t *room);

/* Of programs of one team: whether all ranks issue the same. */
bool program_is_even(const struct program *program);

/* Prints the program as source, and each rank's data. */
void program_print(const struct program *program);

#endif
