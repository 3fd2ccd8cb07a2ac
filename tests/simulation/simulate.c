/* The simulation (simulate.h): a random scheduler over ranks that are small state machines. */
#include "tests/simulation/simulate.h"

#include <stdio.h>
#include <stdlib.h>

#include "tests/simulation/messages.h"
#include "tests/simulation/random.h"
#include "tests/simulation/ranks.h"

/* With many ranks one that is parked sleeps until its team's bell rings, as the product's ranks do.
 * Whether it sleeps on. */
static bool sleeps(const struct sim *sim, struct sim_rank *rank) {
  struct plane *plane = rank->ends[0].core->plane;
  if (!sim->by_bell)
    return false;
  if (rank->sleeps && plane_bell(plane) == rank->bell)
    return true;
  rank->bell = plane_bell(plane);
  plane_say_waiting(plane_shared(plane));
  return false;
}

/* One step of a rank; its machine hears that it is about to wait. */
static bool step(struct sim *sim, struct sim_rank *rank) {
  if (sleeps(sim, rank))
    return false;
  bool moved = rank_step(sim, rank), parked = rank_is_parked(rank);
  rank->sleeps =
      parked && !moved && !device_is_full(sim->device, rank->number, rank->ends[0].team, false);
  machines_say_waits(sim->machines, rank->number, parked);
  if (parked && !moved && rank->moved)
    machines_wait(sim->machines, rank->number);
  rank->moved = moved;
  return moved;
}

/* ---- when nobody can move ---- */

/* Ranks give up their teams in different orders, and wait for each other: what the product sees
 * after a while. */
static bool leave_in_another_order(struct sim *sim) {
  for (uint32_t i = 0; i < sim->program->nranks; i++) {
    struct sim_rank *rank = &sim->ranks[i];
    if (rank->mode != MODE_PARKED || rank->next != rank->nsteps)
      continue;
    for (uint32_t k = 0; k < rank->nends; k++) {
      struct sim_end *end = &rank->ends[k];
      if (end->left || !end->core->claim.open || !team_all_leaving(end->core))
        continue;
      rank_say(sim, rank, end, "goes on", NULL, NULL);
      rank_left_team(sim, rank, end);
      return true;
    }
  }
  return false;
}

/* Whether a rank waits for a message: it is at work to the others, who wait for it. */
static bool somebody_works(const struct sim *sim) {
  for (uint32_t i = 0; i < sim->program->nranks; i++)
    if (sim->ranks[i].mode == MODE_RUNNING && messages_hold(sim, &sim->ranks[i]))
      return true;
  return false;
}

/* The rank that has to wait for the shortest time yields. */
static bool let_one_yield(struct sim *sim) {
  if (somebody_works(sim))
    return false;
  struct sim_rank *next = NULL;
  uint64_t least = OVERLAP_NEVER;
  for (uint32_t i = 0; i < sim->program->nranks; i++) {
    struct sim_rank *rank = &sim->ranks[i];
    uint64_t delay = rank_is_parked(rank) ? overlap_delay(rank->overlap) : OVERLAP_NEVER;
    if (delay >= least)
      continue;
    least = delay;
    next = rank;
  }
  if (next == NULL)
    return false;
  next->quiet = least;
  /* It may have decided to answer where something else is to be answered first: time goes on. */
  return step(sim, next) || overlap_delay(next->overlap) != least;
}

/* Of the ranks that wait for those behind the one that does so for the shortest time goes on. */
static bool let_one_go_on(struct sim *sim) {
  struct sim_rank *next = NULL;
  uint64_t least = OVERLAP_NEVER;
  for (uint32_t i = 0; i < sim->program->nranks; i++) {
    uint64_t patience = rank_patience(&sim->ranks[i]);
    if (patience >= least)
      continue;
    least = patience;
    next = &sim->ranks[i];
  }
  if (next == NULL)
    return false;
  next->in_vain = true;
  return step(sim, next);
}

/* After a failure: those who look for the dead find them; who waits for the device gets NCCL's own
 * error. */
static bool notice_failure(struct sim *sim) {
  if (!sim->failed)
    return false;
  for (uint32_t i = 0; i < sim->program->nranks; i++) {
    struct sim_rank *rank = &sim->ranks[i];
    if (rank->mode != MODE_PARKED)
      continue;
    for (uint32_t k = 0; k < rank->nends; k++)
      if (rank->ends[k].core->claim.open)
        team_look_for_the_dead(rank->ends[k].core);
    if (step(sim, rank))
      return true;
  }
  for (uint32_t i = 0; i < sim->program->nranks; i++) {
    struct sim_rank *rank = &sim->ranks[i];
    bool full = false;
    for (uint32_t k = 0; k < rank->nends; k++)
      full |= device_is_full(sim->device, i, rank->ends[k].team, false);
    if (rank->mode == MODE_ENDED || rank->mode == MODE_DEAD || (rank->mode == MODE_PARKED && !full))
      continue;
    rank_fail(sim, rank);
    return true;
  }
  return false;
}

static bool all_ended(const struct sim *sim) {
  for (uint32_t i = 0; i < sim->program->nranks; i++)
    if (sim->ranks[i].mode != MODE_ENDED && sim->ranks[i].mode != MODE_DEAD)
      return false;
  return true;
}

static void say_who_is_stuck(const struct sim *sim) {
  if (sim->trace)
    device_print(sim->device);
  static const char *const modes[] = {[MODE_RUNNING] = "runs",
                                      [MODE_PARKED] = "parked",
                                      [MODE_WAITING] = "waits for those behind",
                                      [MODE_WAITING_AFTER] =
                                          "waits for those behind what it has issued",
                                      [MODE_SYNCHRONISING] = "waits for the device",
                                      [MODE_ENDED] = "ended",
                                      [MODE_DEAD] = "dead"};
  for (uint32_t i = 0; sim->trace && i < sim->program->nranks; i++) {
    const struct sim_rank *rank = &sim->ranks[i];
    uint32_t point = rank->next < rank->nsteps ? rank->steps[rank->next].instance.point : 0;
    printf("rank %2u  %s, next is point %u;", i, modes[rank->mode], point);
    for (uint32_t k = 0; k < rank->nends; k++) {
      const struct team *team = rank->ends[k].core;
      printf(" team %u: %llu units%s%s%s", rank->ends[k].team, (unsigned long long)team->head,
             rank->ends[k].left ? ", left"
             : team->claim.open ? ", claims"
                                : "",
             team_is_yielding(team) ? ", yields" : "", k + 1 < rank->nends ? ";" : "\n");
    }
  }
}

static bool waits_for_device(const struct sim *sim) {
  for (uint32_t i = 0; i < sim->program->nranks; i++)
    if (sim->ranks[i].mode == MODE_RUNNING || sim->ranks[i].mode == MODE_SYNCHRONISING)
      return true;
  return false;
}

/* Picks ranks by their speeds, in bursts, until all have ended or none can move. */
static void schedule(struct sim *sim) {
  uint32_t nranks = sim->program->nranks;
  while (!all_ended(sim)) {
    bool moved = false;
    for (uint32_t turn = 0; turn < nranks; turn++) {
      uint32_t at = random_below(&sim->random, nranks);
      for (uint32_t burst = sim->program->speed[at]; burst > 0; burst--) {
        if (!step(sim, &sim->ranks[at]))
          break;
        moved = true;
      }
      machines_step(sim->machines);
    }
    for (uint32_t i = 0; !moved && i < nranks; i++)
      moved = step(sim, &sim->ranks[i]);
    moved = moved || machines_drain(sim->machines);
    if (!moved && !notice_failure(sim) && !leave_in_another_order(sim) && !let_one_yield(sim) &&
        !let_one_go_on(sim)) {
      *(waits_for_device(sim) ? &sim->result.stuck_on_device : &sim->result.deadlock) = true;
      say_who_is_stuck(sim);
      return;
    }
  }
}

/* ---- from beginning to end ---- */

static void begin_rank(struct sim *sim, uint32_t number) {
  const struct program *program = sim->program;
  struct sim_rank *rank = &sim->ranks[number];
  rank->number = number;
  rank->overlap = overlap_create(number);
  for (uint32_t axis = 0; axis < AXES; axis++) {
    if (!program->has_axis[axis])
      continue;
    struct sim_end *end = &rank->ends[rank->nends++];
    end->team = program->team_of[axis][number];
    const struct program_team *team = &program->teams[end->team];
    uint64_t identities[PROGRAM_RANKS_MAX];
    uint32_t mine = 0;
    for (uint32_t i = 0; i < team->nranks; i++) {
      identities[i] = team->ranks[i];
      if (team->ranks[i] == number)
        mine = i;
    }
    end->core = team_create(machines_plane(sim->machines, end->team, mine));
    if (end->core == NULL)
      abort();
    end->place = overlap_add(rank->overlap, end->core, identities);
  }
  rank_take_steps(sim, rank);
}

/* How many units all ranks begin with alike. */
static uint64_t common_steps(const struct sim *sim) {
  const struct sim_rank *first = &sim->ranks[0];
  for (uint64_t i = 0;; i++)
    for (uint32_t rank = 0; rank < sim->program->nranks; rank++) {
      const struct sim_rank *other = &sim->ranks[rank];
      if (i == first->nsteps || i == other->nsteps ||
          nccl_signature(step_unit(&first->steps[i])) !=
              nccl_signature(step_unit(&other->steps[i])))
        return i;
    }
}

/* With one team the place is known. */
static void check_stop(struct sim *sim) {
  uint64_t common = sim->program->nteams == 1 ? common_steps(sim) : 0;
  for (uint32_t i = 0; i < sim->program->nranks; i++) {
    const struct sim_rank *rank = &sim->ranks[i];
    sim->result.left_over |= !device_is_idle(sim->device, i);
    sim->result.inexact |= sim->result.shadows != 0;
    sim->result.inexact |= sim->program->nteams == 1 && sim->result.stopped && rank->next != common;
  }
}

static void end_rank(struct sim *sim, struct sim_rank *rank) {
  bool ran =
      !sim->failed && !sim->result.deadlock && !sim->result.stuck_on_device && !sim->result.stopped;
  if (ran && rank->next != rank->nsteps)
    sim->result.wrong_order = true;
  for (uint32_t i = 0; i < rank->nends; i++) {
    overlap_remove(rank->overlap, rank->ends[i].core);
    team_destroy(rank->ends[i].core);
  }
  overlap_destroy(rank->overlap);
  free(rank->steps);
}

static void end_team(struct sim *sim, struct sim_team *team) {
  struct meetings_sum sum = meetings_sum(team->meetings);
  struct simulation *result = &sim->result;
  result->indices += sum.indices;
  result->met += sum.met;
  result->wrong += sum.wrong;
  result->other_epoch += sum.other_epoch;
  result->other_iteration += sum.other_iteration;
  result->split += sum.split;
  result->silent |= sum.silent;
  result->silent_apart |= sum.silent_apart;
  meetings_destroy(team->meetings);
}

struct simulation simulate(const struct program *program, uint64_t seed, bool trace) {
  struct layout layout = {.nmachines = 1, .fanout = 1};
  return simulate_on(program, &layout, seed, trace);
}

struct simulation simulate_on(const struct program *program, const struct layout *layout,
                              uint64_t seed, bool trace) {
  struct sim sim = {
      .program = program, .random = seed * 2 + 1, .trace = trace, .by_bell = layout->by_bell};
  sim.ranks = calloc(program->nranks, sizeof(*sim.ranks));
  sim.teams = calloc(program->nteams, sizeof(*sim.teams));
  sim.device = device_create(program);
  sim.machines = machines_create(program, layout, seed);
  if (sim.ranks == NULL || sim.teams == NULL)
    abort();
  for (uint32_t i = 0; i < program->nteams; i++)
    sim.teams[i].meetings = meetings_create();
  for (uint32_t i = 0; i < program->nranks; i++)
    begin_rank(&sim, i);
  schedule(&sim);
  if (program->throws && !sim.failed)
    check_stop(&sim);
  for (uint32_t i = 0; i < program->nranks; i++)
    end_rank(&sim, &sim.ranks[i]);
  for (uint32_t i = 0; i < program->nteams; i++)
    end_team(&sim, &sim.teams[i]);
  sim.result.traffic = machines_traffic(sim.machines);
  machines_destroy(sim.machines);
  device_destroy(sim.device);
  free(sim.ranks);
  free(sim.teams);
  return sim.result;
}
