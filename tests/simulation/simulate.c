/* The simulation (simulate.h): a random scheduler over ranks that are small state machines. Device
 * time is modelled by one rule: a unit is done once all ranks have issued it. */
#include "tests/simulation/simulate.h"

#include <stdlib.h>

#include "core/plane_memory.h"
#include "core/team.h"

enum rank_mode { MODE_RUNNING, MODE_PARKED, MODE_SYNCHRONISING, MODE_LEAVING, MODE_LEFT };

struct sim_rank {
  struct team *team;
  struct step *steps;
  uint64_t nsteps, next;
  enum rank_mode mode;
};

/* What G has at an index, as the first rank to issue it said. */
struct issued {
  uint64_t hash, point;
  bool any_real, scattered;
};

struct sim {
  const struct program *program;
  struct simulation result;
  struct sim_rank ranks[PROGRAM_RANKS_MAX];
  struct issued *issued;
  uint64_t room, random;
};

static void record(struct sim *sim, uint64_t index, struct unit unit, bool real, uint64_t point) {
  if (index >= sim->room) {
    uint64_t room = sim->room ? 2 * sim->room : 1024;
    while (room <= index)
      room *= 2;
    struct issued *issued = realloc(sim->issued, room * sizeof(*issued));
    if (issued == NULL)
      abort();
    memset(issued + sim->room, 0, (room - sim->room) * sizeof(*issued));
    sim->issued = issued;
    sim->room = room;
  }
  struct issued *at = &sim->issued[index];
  uint64_t hash = unit_hash(unit);
  if (at->hash == 0)
    at->hash = hash;
  else if (at->hash != hash)
    sim->result.mismatch = true;
  if (index >= sim->result.indices)
    sim->result.indices = index + 1;
  sim->result.reals += real;
  sim->result.shadows += !real;
  if (!real)
    return;
  if (at->any_real && at->point != point)
    at->scattered = true;
  at->any_real = true;
  at->point = point;
}

static uint64_t done_by_all(const struct sim *sim) {
  uint64_t done = UINT64_MAX;
  for (uint32_t rank = 0; rank < sim->program->nranks; rank++)
    if (sim->ranks[rank].team->head < done)
      done = sim->ranks[rank].team->head;
  return done;
}

static struct unit unit_of(const struct step *step) {
  return (struct unit){&step->member, 1};
}

/* The step at `next` has been issued for real. */
static void issued_real(struct sim *sim, struct sim_rank *rank) {
  struct step *step = &rank->steps[rank->next++];
  record(sim, team_index(rank->team), unit_of(step), true, step->point);
  rank->mode = step->synchronise ? MODE_SYNCHRONISING : MODE_RUNNING;
}

static bool start_next(struct sim *sim, struct sim_rank *rank) {
  if (rank->next == rank->nsteps) {
    team_claim_leave(rank->team);
    rank->mode = MODE_LEAVING;
    return true;
  }
  struct unit unit = unit_of(&rank->steps[rank->next]);
  if (team_commit(rank->team, unit)) {
    sim->result.commits++;
    issued_real(sim, rank);
    return true;
  }
  sim->result.claims++;
  team_claim(rank->team, unit, 0);
  rank->mode = MODE_PARKED;
  return true;
}

static bool look_around(struct sim *sim, struct sim_rank *rank) {
  struct unit unit;
  switch (team_poll(rank->team, &unit)) {
  case TEAM_PARKED:
    return false;
  case TEAM_REAL:
    if (rank->mode == MODE_LEAVING)
      sim->result.wrong_order = true;
    issued_real(sim, rank);
    return true;
  case TEAM_SHADOW:
    record(sim, team_index(rank->team), unit, false, 0);
    return true;
  case TEAM_LEFT:
    if (rank->mode != MODE_LEAVING)
      sim->result.wrong_order = true;
    rank->mode = MODE_LEFT;
    return true;
  case TEAM_MIRROR:
  case TEAM_REFUSED:
  case TEAM_FAILED:
    break;
  }
  sim->result.mismatch = true;
  rank->mode = MODE_LEFT;
  return true;
}

/* One step of one rank; false if it could do nothing. */
static bool step(struct sim *sim, struct sim_rank *rank) {
  bool queue_full = rank->team->head - done_by_all(sim) >= sim->program->run_ahead;
  switch (rank->mode) {
  case MODE_RUNNING:
    return !queue_full && start_next(sim, rank);
  case MODE_PARKED:
  case MODE_LEAVING:
    return !queue_full && look_around(sim, rank);
  case MODE_SYNCHRONISING:
    if (done_by_all(sim) < rank->team->head)
      return false;
    rank->mode = MODE_RUNNING;
    return true;
  case MODE_LEFT:
    return false;
  }
  return false;
}

static bool all_left(const struct sim *sim) {
  for (uint32_t rank = 0; rank < sim->program->nranks; rank++)
    if (sim->ranks[rank].mode != MODE_LEFT)
      return false;
  return true;
}

/* Picks ranks by their speeds, in bursts, until all have left or none can move. */
static void schedule(struct sim *sim) {
  uint32_t nranks = sim->program->nranks;
  while (!all_left(sim)) {
    bool moved = false;
    for (uint32_t turn = 0; turn < nranks; turn++) {
      struct sim_rank *rank = &sim->ranks[random_below(&sim->random, nranks)];
      for (uint32_t burst = sim->program->speed[rank - sim->ranks]; burst > 0; burst--)
        moved |= step(sim, rank);
    }
    for (uint32_t i = 0; !moved && i < nranks; i++)
      moved = step(sim, &sim->ranks[i]);
    if (!moved) {
      sim->result.deadlock = true;
      return;
    }
  }
}

struct simulation simulate(const struct program *program, uint64_t seed) {
  struct sim sim = {.program = program, .random = seed * 2 + 1};
  struct plane_memory *memory = plane_memory_create(program->nranks);
  if (memory == NULL)
    abort();
  for (uint32_t i = 0; i < program->nranks; i++) {
    struct sim_rank *rank = &sim.ranks[i];
    rank->team = team_create(plane_memory_rank(memory, i));
    if (rank->team == NULL)
      abort();
    rank->nsteps = program_steps(program, i, &rank->steps);
  }
  schedule(&sim);
  for (uint32_t i = 0; i < program->nranks; i++) {
    struct sim_rank *rank = &sim.ranks[i];
    sim.result.wrong_order |= rank->next != rank->nsteps;
    free(rank->steps);
    team_destroy(rank->team);
  }
  plane_memory_destroy(memory);
  for (uint64_t index = 0; index < sim.result.indices; index++)
    sim.result.met += !sim.issued[index].scattered;
  free(sim.issued);
  return sim.result;
}
