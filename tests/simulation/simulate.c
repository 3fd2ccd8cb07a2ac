/* The simulation (simulate.h): a random scheduler over ranks that are small state machines. */
#include "tests/simulation/simulate.h"

#include <stdio.h>
#include <stdlib.h>

#include "core/overlap.h"
#include "core/plane_memory.h"
#include "core/team_stop.h"
#include "tests/simulation/device.h"

enum rank_mode {
  MODE_RUNNING,
  MODE_PARKED,  /* with a wish, or leaving */
  MODE_WAITING, /* until others have passed what it has issued in another team */
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
  enum rank_mode mode;
  uint64_t quiet; /* milliseconds, for the next look around */
  bool stopped;   /* in one of its teams: it ends with an error once its wishes have settled */
};

/* What a team has at an index, as the first rank to issue it said. */
struct issued {
  uint64_t hash, point;
  bool any_real, scattered;
};

struct sim_team {
  struct plane_memory *memory;
  struct issued *issued;
  uint64_t room, indices;
};

struct sim {
  const struct program *program;
  struct simulation result;
  struct sim_rank *ranks;
  struct sim_team *teams;
  struct device *device;
  uint64_t random;
  bool trace, failed; /* some rank has */
};

/* ---- what is printed ---- */

static const char *step_name(uint64_t point, char *text, size_t size) {
  uint32_t place = point & 0xff;
  snprintf(text, size, "epoch %u %s %u", (uint32_t)(point >> 48),
           place >= 200   ? "after"
           : place == 100 ? "log"
                          : "iteration",
           place >= 200 ? place - 200 : (uint32_t)(point >> 8 & 0xffffff));
  return text;
}

static void say(const struct sim *sim, const struct sim_rank *rank, const struct sim_end *end,
                const char *what, struct unit unit, uint64_t point) {
  char described[256] = "", where[64] = "";
  if (!sim->trace)
    return;
  if (point != UINT64_MAX)
    step_name(point, where, sizeof(where));
  printf("rank %2u  team %2u  [%4llu]  %-8s %s  %s\n", rank->number, end->team,
         (unsigned long long)end->core->head, what,
         unit_is_leave(unit) ? "" : unit_describe(unit, described, sizeof(described)), where);
}

/* ---- what has been issued ---- */

static void record(struct sim *sim, struct sim_rank *rank, struct sim_end *end, struct unit unit,
                   bool real, uint64_t point) {
  struct sim_team *team = &sim->teams[end->team];
  uint64_t index = team_index(end->core);
  if (index >= team->room) {
    uint64_t room = team->room ? 2 * team->room : 256;
    while (room <= index)
      room *= 2;
    struct issued *issued = realloc(team->issued, room * sizeof(*issued));
    if (issued == NULL)
      abort();
    memset(issued + team->room, 0, (room - team->room) * sizeof(*issued));
    team->issued = issued;
    team->room = room;
  }
  struct issued *at = &team->issued[index];
  uint64_t hash = unit_hash(unit);
  if (at->hash == 0)
    at->hash = hash;
  else if (at->hash != hash)
    sim->result.mismatch = true;
  if (index >= team->indices)
    team->indices = index + 1;
  sim->result.reals += real;
  sim->result.shadows += !real;
  device_issue(sim->device, rank->number, end->team, index, real);
  overlap_issued(rank->overlap, end->core, unit);
  if (!real)
    return;
  if (at->any_real && at->point != point) {
    if (!at->scattered && sim->trace)
      printf("rank %2u  team %2u  [%4llu]  meets another place of the program\n", rank->number,
             end->team, (unsigned long long)index);
    at->scattered = true;
  }
  at->any_real = true;
  at->point = point;
}

/* ---- failing ---- */

/* The process is gone, without a word. */
static void kill_rank(struct sim *sim, struct sim_rank *rank) {
  const struct program *program = sim->program;
  for (uint32_t i = 0; i < rank->nends; i++) {
    const struct program_team *team = &program->teams[rank->ends[i].team];
    for (uint32_t k = 0; k < team->nranks; k++)
      if (team->ranks[k] == rank->number)
        plane_memory_kill(sim->teams[rank->ends[i].team].memory, k);
  }
  if (sim->trace)
    printf("rank %2u  is killed\n", rank->number);
  rank->mode = MODE_DEAD;
  sim->failed = true;
}

static bool fails_now(const struct sim *sim, const struct sim_rank *rank, enum failing how) {
  const struct program *program = sim->program;
  return program->failing == how && rank->number == program->failing_rank &&
         rank->next >= program->failing_step;
}

/* The program has got an error from a call, and ends with it. */
static void fail_rank(struct sim *sim, struct sim_rank *rank) {
  for (uint32_t i = 0; i < rank->nends; i++)
    if (!rank->ends[i].left)
      team_end(rank->ends[i].core, RANK_FAILED);
  if (sim->trace)
    printf("rank %2u  ends with an error\n", rank->number);
  rank->mode = MODE_DEAD;
}

/* ---- ranks ---- */

static struct unit unit_of(const struct step *step) {
  return (struct unit){step->members, step->nmembers};
}

static struct sim_end *end_of(struct sim_rank *rank, const struct step *step) {
  for (uint32_t i = 0; i < rank->nends; i++)
    if (rank->ends[i].team == step->team)
      return &rank->ends[i];
  abort();
}

/* ---- early termination ---- */

static bool has_wishes(const struct sim_rank *rank) {
  for (uint32_t i = 0; i < rank->nends; i++)
    if (rank->ends[i].core->claimed && !rank->ends[i].left)
      return true;
  return false;
}

/* As interpose/stopping.c does it. */
static void stop_rank(struct sim *sim, struct sim_rank *rank, struct sim_end *stopped) {
  say(sim, rank, stopped, "STOPPED", (struct unit){0}, UINT64_MAX);
  sim->result.stopped = rank->stopped = stopped->heard = true;
  for (uint32_t i = 0; i < rank->nends; i++) {
    struct sim_end *end = &rank->ends[i];
    if (end == stopped || end->left || end->heard || end->core->claimed)
      continue;
    team_stop(end->core);
    end->heard = true;
  }
}

/* ---- the program ---- */

/* The step at `next` has been issued for real. */
static void issued_real(struct sim *sim, struct sim_rank *rank, struct sim_end *end) {
  struct step *step = &rank->steps[rank->next++];
  record(sim, rank, end, unit_of(step), true, step->point);
  rank->mode = step->synchronise ? MODE_SYNCHRONISING : MODE_RUNNING;
}

static void leave(struct sim *sim, struct sim_rank *rank, struct sim_end *end) {
  say(sim, rank, end, "LEAVE", (struct unit){0}, UINT64_MAX);
  team_claim_leave(end->core);
}

/* Gives up one team after the other, or all at once; waits for the device before. */
static void leave_next(struct sim *sim, struct sim_rank *rank) {
  if (!device_is_idle(sim->device, rank->number)) {
    rank->mode = MODE_SYNCHRONISING;
    return;
  }
  uint32_t first = sim->program->ending == ENDING_MIXED ? rank->number : 0;
  rank->mode = MODE_ENDED;
  for (uint32_t i = 0; i < rank->nends; i++) {
    struct sim_end *end = &rank->ends[(first + i) % rank->nends];
    if (end->left)
      continue;
    rank->mode = MODE_PARKED;
    leave(sim, rank, end);
    if (sim->program->ending != ENDING_EXIT)
      break;
  }
  overlap_park(rank->overlap, 0);
  for (uint32_t i = 0; i < rank->nends; i++)
    team_say_leaving(rank->ends[i].core, true);
}

static bool start_next(struct sim *sim, struct sim_rank *rank) {
  if (fails_now(sim, rank, FAILING_RUNNING)) {
    kill_rank(sim, rank);
    return true;
  }
  if (rank->next == rank->nsteps) {
    leave_next(sim, rank);
    return true;
  }
  const struct step *step = &rank->steps[rank->next];
  struct sim_end *end = end_of(rank, step);
  if (device_is_full(sim->device, rank->number, end->team, true))
    return false;
  struct overlap_behind behind;
  if (overlap_must_wait(rank->overlap, end->core, &behind)) {
    sim->result.waits++;
    overlap_wait(rank->overlap, 0);
    rank->mode = MODE_WAITING;
    return true;
  }
  struct unit unit = unit_of(step);
  bool meets = sim->program->throws && team_must_meet(end->core);
  if (!meets && overlap_may_commit(rank->overlap, end->core) && team_commit(end->core, unit)) {
    sim->result.commits++;
    say(sim, rank, end, "commit", unit, step->point);
    issued_real(sim, rank, end);
    return true;
  }
  sim->result.claims++;
  say(sim, rank, end, "claim", unit, step->point);
  team_claim(end->core, unit,
             overlap_claim_flags(rank->overlap, end->core, unit) |
                 (sim->program->throws ? CLAIM_TOGETHER : 0),
             NULL);
  overlap_park(rank->overlap, 0);
  rank->mode = MODE_PARKED;
  return true;
}

static void came_back(struct sim_rank *rank) {
  overlap_return(rank->overlap);
  for (uint32_t i = 0; i < rank->nends; i++)
    team_say_leaving(rank->ends[i].core, false);
}

/* The LEAVE of one team has settled. */
static void left_team(struct sim *sim, struct sim_rank *rank, struct sim_end *end) {
  end->left = true;
  overlap_remove(rank->overlap, end->core);
  end->place = NULL;
  if (rank->next != rank->nsteps)
    sim->result.wrong_order = true;
  for (uint32_t i = 0; i < rank->nends; i++)
    if (rank->ends[i].core->claimed && !rank->ends[i].left)
      return;
  came_back(rank);
  rank->mode = MODE_RUNNING;
}

static bool poll_end(struct sim *sim, struct sim_rank *rank, struct sim_end *end) {
  struct unit unit;
  bool wished = end->core->claimed;
  switch (team_poll(end->core, &unit)) {
  case TEAM_PARKED:
    return false;
  case TEAM_REAL:
    say(sim, rank, end, "real", unit_of(&rank->steps[rank->next]), rank->steps[rank->next].point);
    issued_real(sim, rank, end);
    came_back(rank);
    return true;
  case TEAM_SHADOW:
    say(sim, rank, end, "shadow", unit, UINT64_MAX);
    record(sim, rank, end, unit, false, 0);
    if (fails_now(sim, rank, FAILING_SHADOWING))
      kill_rank(sim, rank);
    return true;
  case TEAM_LEFT:
    say(sim, rank, end, "left", (struct unit){0}, UINT64_MAX);
    left_team(sim, rank, end);
    return true;
  case TEAM_FAILED:
    if (!wished)
      return false;
    if (!sim->failed)
      *(sim->program->throws ? &sim->result.wrong_failure : &sim->result.mismatch) = true;
    fail_rank(sim, rank);
    return true;
  case TEAM_STOPPED:
    stop_rank(sim, rank, end);
    return true;
  case TEAM_MIRROR:
  case TEAM_REFUSED:
    break;
  }
  sim->result.mismatch = true;
  rank->mode = MODE_DEAD;
  return true;
}

static bool is_parked(const struct sim_rank *rank) {
  return rank->mode == MODE_PARKED || rank->mode == MODE_WAITING;
}

static bool poll(struct sim *sim, struct sim_rank *rank, struct sim_end *end) {
  uint64_t before = end->core->head;
  bool moved = poll_end(sim, rank, end);
  moved |= end->core->head != before; /* where it has heard of a stop elsewhere it says nothing */
  if (rank->stopped && rank->mode != MODE_DEAD && !has_wishes(rank))
    fail_rank(sim, rank);
  return moved;
}

static bool look_around(struct sim *sim, struct sim_rank *rank) {
  bool moved = false;
  if (fails_now(sim, rank, FAILING_PARKED)) {
    kill_rank(sim, rank);
    return true;
  }
  uint64_t quiet = rank->quiet;
  rank->quiet = 0;
  if (sim->program->hasty && random_below(&sim->random, 8) == 0)
    quiet = OVERLAP_NEVER - 1;
  for (uint32_t i = 0; i < rank->nends; i++)
    if (!rank->ends[i].left)
      overlap_set_available(rank->ends[i].place,
                            !device_is_full(sim->device, rank->number, rank->ends[i].team, false));
  overlap_look(rank->overlap, quiet);
  for (uint32_t i = 0; i < rank->nends && rank->mode == MODE_PARKED; i++) {
    struct sim_end *end = &rank->ends[i];
    if (end->core->claimed && !end->left &&
        !device_is_full(sim->device, rank->number, end->team, false))
      moved |= poll(sim, rank, end);
  }
  for (uint32_t i = 0; i < rank->nends && is_parked(rank); i++) {
    struct sim_end *end = &rank->ends[i];
    if (end->left || end->core->claimed ||
        device_is_full(sim->device, rank->number, end->team, false))
      continue;
    bool yielding = team_is_yielding(end->core);
    if (!overlap_answers(end->place))
      continue;
    if (!yielding && team_is_yielding(end->core)) {
      sim->result.yields++;
      sim->result.late_yields += quiet != 0;
      say(sim, rank, end, quiet ? "YIELD" : "yield", (struct unit){0}, UINT64_MAX);
      moved = true;
    }
    moved |= poll(sim, rank, end);
  }
  return moved;
}

/* Whether those it has waited for have come. */
static bool go_on(struct sim_rank *rank) {
  const struct step *step = &rank->steps[rank->next];
  struct overlap_behind behind;
  if (overlap_must_wait(rank->overlap, end_of(rank, step)->core, &behind))
    return false;
  came_back(rank);
  rank->mode = MODE_RUNNING;
  return true;
}

/* One step of one rank; false if it could do nothing. */
static bool step(struct sim *sim, struct sim_rank *rank) {
  switch (rank->mode) {
  case MODE_RUNNING:
    return start_next(sim, rank);
  case MODE_PARKED:
    return look_around(sim, rank);
  case MODE_WAITING:
    return go_on(rank) || look_around(sim, rank);
  case MODE_SYNCHRONISING:
    if (!device_is_idle(sim->device, rank->number))
      return false;
    rank->mode = MODE_RUNNING;
    return true;
  case MODE_ENDED:
  case MODE_DEAD:
    return false;
  }
  return false;
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
      if (end->left || !end->core->claimed || !team_all_leaving(end->core))
        continue;
      say(sim, rank, end, "goes on", (struct unit){0}, UINT64_MAX);
      left_team(sim, rank, end);
      return true;
    }
  }
  return false;
}

/* The rank that has to wait for the shortest time yields. */
static bool let_one_yield(struct sim *sim) {
  struct sim_rank *next = NULL;
  uint64_t least = OVERLAP_NEVER;
  for (uint32_t i = 0; i < sim->program->nranks; i++) {
    struct sim_rank *rank = &sim->ranks[i];
    uint64_t delay = is_parked(rank) ? overlap_delay(rank->overlap) : OVERLAP_NEVER;
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
      if (rank->ends[k].core->claimed)
        team_look_for_the_dead(rank->ends[k].core);
    if (step(sim, rank))
      return true;
  }
  for (uint32_t i = 0; i < sim->program->nranks; i++) {
    struct sim_rank *rank = &sim->ranks[i];
    bool full = false;
    for (uint32_t k = 0; k < rank->nends; k++)
      full |= device_is_full(sim->device, i, rank->ends[k].team, false);
    if (rank->mode != MODE_RUNNING && rank->mode != MODE_WAITING &&
        rank->mode != MODE_SYNCHRONISING && !(rank->mode == MODE_PARKED && full))
      continue;
    fail_rank(sim, rank);
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
  static const char *const modes[] = {
      "runs", "parked", "waits for those behind", "waits for the device", "ended", "dead"};
  for (uint32_t i = 0; sim->trace && i < sim->program->nranks; i++) {
    const struct sim_rank *rank = &sim->ranks[i];
    char where[64] = "";
    if (rank->next < rank->nsteps)
      step_name(rank->steps[rank->next].point, where, sizeof(where));
    printf("rank %2u  %s, next is %s;", i, modes[rank->mode], where);
    for (uint32_t k = 0; k < rank->nends; k++) {
      const struct team *team = rank->ends[k].core;
      printf(" team %u: %llu units%s%s%s", rank->ends[k].team, (unsigned long long)team->head,
             rank->ends[k].left ? ", left"
             : team->claimed    ? ", claims"
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
    }
    for (uint32_t i = 0; !moved && i < nranks; i++)
      moved = step(sim, &sim->ranks[i]);
    if (!moved && !notice_failure(sim) && !leave_in_another_order(sim) && !let_one_yield(sim)) {
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
    end->core = team_create(plane_memory_rank(sim->teams[end->team].memory, mine));
    if (end->core == NULL)
      abort();
    end->place = overlap_add(rank->overlap, end->core, identities);
  }
  rank->nsteps = program_steps(program, number, &rank->steps, &rank->room);
}

/* How many units all ranks begin with alike. */
static uint64_t common_steps(const struct sim *sim) {
  const struct sim_rank *first = &sim->ranks[0];
  for (uint64_t i = 0;; i++)
    for (uint32_t rank = 0; rank < sim->program->nranks; rank++) {
      const struct sim_rank *other = &sim->ranks[rank];
      if (i == first->nsteps || i == other->nsteps ||
          !unit_equal(unit_of(&first->steps[i]), unit_of(&other->steps[i])))
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

struct simulation simulate(const struct program *program, uint64_t seed, bool trace) {
  struct sim sim = {.program = program, .random = seed * 2 + 1, .trace = trace};
  sim.ranks = calloc(program->nranks, sizeof(*sim.ranks));
  sim.teams = calloc(program->nteams, sizeof(*sim.teams));
  sim.device = device_create(program);
  if (sim.ranks == NULL || sim.teams == NULL)
    abort();
  for (uint32_t i = 0; i < program->nteams; i++)
    if ((sim.teams[i].memory = plane_memory_create(program->teams[i].nranks)) == NULL)
      abort();
  for (uint32_t i = 0; i < program->nranks; i++)
    begin_rank(&sim, i);
  schedule(&sim);
  if (program->throws && !sim.failed)
    check_stop(&sim);
  for (uint32_t i = 0; i < program->nranks; i++)
    end_rank(&sim, &sim.ranks[i]);
  for (uint32_t i = 0; i < program->nteams; i++) {
    const struct sim_team *team = &sim.teams[i];
    sim.result.indices += team->indices;
    for (uint64_t index = 0; index < team->indices; index++)
      sim.result.met += !team->issued[index].scattered;
    free(team->issued);
    plane_memory_destroy(team->memory);
  }
  device_destroy(sim.device);
  free(sim.ranks);
  free(sim.teams);
  return sim.result;
}
