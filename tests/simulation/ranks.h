/* What the files of the simulation share: simulate.c schedules ranks, ranks.c moves them. Not for
 * anybody else. */
#ifndef NCCL_JOIN_TESTS_SIMULATION_RANKS_H
#define NCCL_JOIN_TESTS_SIMULATION_RANKS_H

#include "core/overlap/overlap.h"
#include "tests/simulation/device.h"
#include "tests/simulation/machines.h"
#include "tests/simulation/simulate.h"

enum rank_mode {
  MODE_RUNNING,
  MODE_PARKED,        /* with a request, or leaving */
  MODE_WAITING,       /* until others have passed what it has issued in another team */
  MODE_WAITING_AFTER, /* the same of what it has just issued, having asked */
  MODE_SYNCHRONISING,
  MODE_ENDED, /* has left all its teams */
  MODE_DEAD,  /* killed, or ended by a failure of another */
};

/* A rank's end of one of its teams. */
struct sim_end {
  uint32_t team; /* of the program */
  struct team *core;
  struct overlap_team *place;
  bool left;
  bool heard; /* of a stop */
};

struct sim_rank {
  uint32_t number, nends;
  struct sim_end ends[AXES];
  struct overlap *overlap;
  struct step *steps;
  uint64_t nsteps, room, next;
  enum rank_mode mode, then;    /* then: after MODE_WAITING_AFTER */
  uint64_t quiet;               /* milliseconds, for the next look around */
  struct overlap_behind behind; /* whom it waits for, or has last waited for */
  bool in_vain;                 /* for long enough: it does not before the next unit */
  bool stopped; /* in one of its teams: it ends with an error once its requests have settled */
  bool moved;   /* since it was last about to wait */
  bool sleeps;  /* it has looked since its team's bell was at that, and found nothing */
  uint32_t bell;
};

struct sim_team {
  struct meetings *meetings;
};

struct sim {
  const struct program *program;
  struct simulation result;
  struct sim_rank *ranks;
  struct sim_team *teams;
  struct device *device;
  struct machines *machines;
  uint64_t random;
  bool trace, failed; /* some rank has */
  bool by_bell;       /* struct layout */
};

/* What the rank's program does. */
void rank_take_steps(struct sim *sim, struct sim_rank *rank);

/* One step of one rank; false if it could do nothing. */
bool rank_step(struct sim *sim, struct sim_rank *rank);

bool rank_is_parked(const struct sim_rank *rank);

/* For how long a rank that waits for those behind does so (overlap_patience). */
uint64_t rank_patience(struct sim_rank *rank);

/* The LEAVE of one team has settled. */
void rank_left_team(struct sim *sim, struct sim_rank *rank, struct sim_end *end);

/* The program has got an error from a call, and ends with it. */
void rank_fail(struct sim *sim, struct sim_rank *rank);

/* Prints what a rank does in a team, if that is wanted. unit, step: may be NULL. */
void rank_say(const struct sim *sim, const struct sim_rank *rank, const struct sim_end *end,
              const char *what, const struct unit *unit, const struct step *step);

/* What NCCL sees of a unit: its hash without its place. */
uint64_t nccl_signature(struct unit unit);

static inline struct unit step_unit(const struct step *step) {
  return (struct unit){step->members, step->nmembers};
}

#endif
