/* What the ranks of a simulation do, step by step (ranks.h). */
#include "tests/simulation/ranks.h"

#include <stdio.h>
#include <stdlib.h>

#include "core/team/team_stop.h"
#include "tests/simulation/messages.h"
#include "tests/simulation/random.h"

/* There is no clock: all that is told from it is that a rank is parked. */
#define PARKED_AT 1

/* ---- what is printed ---- */

void rank_say(const struct sim *sim, const struct sim_rank *rank, const struct sim_end *end,
              const char *what, const struct unit *unit, const struct step *step) {
  char described[256] = "", where[64] = "";
  if (!sim->trace)
    return;
  if (step != NULL)
    snprintf(where, sizeof(where), "point %u, epoch %u, iteration %u.%u", step->instance.point,
             step->instance.epoch, step->instance.iteration, step->instance.inner);
  printf("rank %2u  team %2u  [%4llu]  %-8s %s  %s\n", rank->number, end->team,
         (unsigned long long)end->core->head, what,
         unit == NULL ? "" : unit_describe(*unit, described, sizeof(described)), where);
}

/* ---- what has been issued ---- */

uint64_t nccl_signature(struct unit unit) {
  struct member members[SLOT_MEMBERS_MAX];
  if (unit.nmembers == 0 || unit.nmembers > SLOT_MEMBERS_MAX)
    return unit_hash(unit);
  memcpy(members, unit.members, unit.nmembers * sizeof(*members));
  members[0].number = 0;
  return unit_hash((struct unit){members, unit.nmembers});
}

/* step: NULL if it is a shadow. */
static void record(struct sim *sim, struct sim_rank *rank, struct sim_end *end, struct unit unit,
                   const struct step *step) {
  uint64_t index = team_index(end->core);
  enum meeting meeting = meetings_add(sim->teams[end->team].meetings, index, nccl_signature(unit),
                                      step != NULL ? &step->instance : NULL, &sim->result.mismatch);
  *(step != NULL ? &sim->result.reals : &sim->result.shadows) += 1;
  device_issue(sim->device, rank->number, end->team, index, step != NULL);
  overlap_issued(rank->overlap, end->core, unit);
  if (meeting == MEETING_WRONG)
    rank_say(sim, rank, end, "WRONG", NULL, step);
  else if (meeting != MEETING_SAME)
    rank_say(sim, rank, end, "APART", NULL, step);
}

/* What interpose/ would log as a WARN. */
static void hear_guesses(struct sim *sim, struct sim_rank *rank, struct sim_end *end) {
  struct unit requested;
  struct member yielded_to;
  bool guessed = end->core->telling.guessed;
  end->core->telling.guessed = false;
  if (guessed)
    meetings_told(sim->teams[end->team].meetings, end->core->head - 1);
  if (rank->nends > 1 && overlap_guessed(rank->overlap, &requested, &yielded_to)) {
    guessed = true;
    for (uint32_t i = 0; i < rank->nends; i++)
      meetings_told(sim->teams[rank->ends[i].team].meetings, rank->ends[i].core->head);
  }
  if (guessed)
    rank_say(sim, rank, end, "WARN", NULL, NULL);
  sim->result.told |= guessed && end->core->telling.guess.kind != GUESS_BLIND;
}

/* ---- failing ---- */

/* The process is gone, without a word. */
static void kill_rank(struct sim *sim, struct sim_rank *rank) {
  machines_kill(sim->machines, rank->number);
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
void rank_fail(struct sim *sim, struct sim_rank *rank) {
  for (uint32_t i = 0; i < rank->nends; i++)
    if (!rank->ends[i].left)
      team_end(rank->ends[i].core, RANK_FAILED);
  if (sim->trace)
    printf("rank %2u  ends with an error\n", rank->number);
  rank->mode = MODE_DEAD;
}

/* ---- ranks ---- */

static struct sim_end *end_of(struct sim_rank *rank, const struct step *step) {
  for (uint32_t i = 0; i < rank->nends; i++)
    if (rank->ends[i].team == step->team)
      return &rank->ends[i];
  abort();
}

/* ---- early termination ---- */

static bool has_requests(const struct sim_rank *rank) {
  for (uint32_t i = 0; i < rank->nends; i++)
    if (rank->ends[i].core->claim.open && !rank->ends[i].left)
      return true;
  return false;
}

/* As interpose/park/stopping.c does it. */
static void stop_rank(struct sim *sim, struct sim_rank *rank, struct sim_end *stopped) {
  rank_say(sim, rank, stopped, "STOPPED", NULL, NULL);
  sim->result.stopped = rank->stopped = stopped->heard = true;
  for (uint32_t i = 0; i < rank->nends; i++) {
    struct sim_end *end = &rank->ends[i];
    if (end == stopped || end->left || end->heard || end->core->claim.open)
      continue;
    team_stop(end->core);
    end->heard = true;
  }
}

/* ---- the program ---- */

/* The step at `next` has been issued for real. */
static void issued_real(struct sim *sim, struct sim_rank *rank, struct sim_end *end) {
  struct step *step = &rank->steps[rank->next++];
  record(sim, rank, end, step_unit(step), step);
  rank->mode = step->synchronise ? MODE_SYNCHRONISING : MODE_RUNNING;
}

static void leave(struct sim *sim, struct sim_rank *rank, struct sim_end *end) {
  rank_say(sim, rank, end, "LEAVE", NULL, NULL);
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
  overlap_park(rank->overlap, PARKED_AT);
  for (uint32_t i = 0; i < rank->nends; i++)
    team_say_leaving(rank->ends[i].core, true);
}

/* The only places where core is told of places. */
static struct place place_of(const struct step *step) {
  struct place place = *step->place;
  place.rounds = step->rounds;
  return place;
}

static bool commit_step(struct sim_rank *rank, struct team *team, struct unit unit,
                        const struct step *step) {
  if (overlap_may_commit(rank->overlap, team) && team_commit(team, unit))
    return true;
  struct place place = place_of(step);
  return place.id != 0 && team_look_here(team, &place) && overlap_may_commit(rank->overlap, team) &&
         team_commit(team, unit);
}

static void claim_step(const struct sim *sim, struct sim_rank *rank, struct sim_end *end,
                       const struct step *step) {
  struct unit unit = step_unit(step);
  uint32_t flags = overlap_claim_flags(rank->overlap, end->core, unit);
  if (sim->program->throws)
    flags |= CLAIM_TOGETHER;
  if (sim->program->row.sight == SIGHT_HIDDEN)
    flags |= CLAIM_BLIND;
  struct place place = place_of(step);
  team_claim(end->core, unit, flags, place.id != 0 ? &place : NULL);
}

static const struct place nowhere;

/* Whether the place of a step is not seen. Of a thread that another one waits for it is not read in
 * half of the programs, and in the others now and then, on some rank alone. */
static bool is_unseen(const struct program *program, const struct step *step, uint64_t *random) {
  return program->tree.nodes[step->node].by_engine &&
         ((program->data.draws & 2) != 0 || random_one_in(random, 4));
}

void rank_take_steps(struct sim *sim, struct sim_rank *rank) {
  uint64_t random = sim->program->data.draws + rank->number;
  rank->nsteps = program_steps(sim->program, rank->number, &rank->steps, &rank->room);
  for (uint64_t i = 0; i < rank->nsteps; i++) {
    struct step *step = &rank->steps[i];
    if (is_unseen(sim->program, step, &random))
      step->place = &nowhere;
    step->members[0].number = step->place->id;
  }
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
  if (device_is_full(sim->device, rank->number, end->team, true) || messages_hold(sim, rank))
    return false;
  if (!rank->in_vain && overlap_must_wait(rank->overlap, end->core, &rank->behind)) {
    sim->result.waits++;
    overlap_wait(rank->overlap, PARKED_AT);
    rank->mode = MODE_WAITING;
    return true;
  }
  rank->in_vain = false;
  struct unit unit = step_unit(step);
  bool meets = sim->program->throws && team_must_meet(end->core);
  if (!meets && commit_step(rank, end->core, unit, step)) {
    sim->result.commits++;
    rank_say(sim, rank, end, "commit", &unit, step);
    issued_real(sim, rank, end);
    return true;
  }
  sim->result.claims++;
  rank_say(sim, rank, end, "claim", &unit, step);
  claim_step(sim, rank, end, step);
  overlap_park(rank->overlap, PARKED_AT);
  rank->mode = MODE_PARKED;
  return true;
}

static void came_back(struct sim_rank *rank) {
  overlap_return(rank->overlap);
  for (uint32_t i = 0; i < rank->nends; i++)
    team_say_leaving(rank->ends[i].core, false);
}

/* The LEAVE of one team has settled. */
void rank_left_team(struct sim *sim, struct sim_rank *rank, struct sim_end *end) {
  end->left = true;
  overlap_remove(rank->overlap, end->core);
  end->place = NULL;
  if (rank->next != rank->nsteps)
    sim->result.wrong_order = true;
  for (uint32_t i = 0; i < rank->nends; i++)
    if (rank->ends[i].core->claim.open && !rank->ends[i].left)
      return;
  came_back(rank);
  rank->mode = MODE_RUNNING;
}

/* It has asked, and others may not have come yet to what it has issued. */
static void wait_for_all(struct sim *sim, struct sim_rank *rank) {
  came_back(rank);
  if (!overlap_must_wait(rank->overlap, NULL, &rank->behind))
    return;
  sim->result.waits++;
  overlap_wait(rank->overlap, PARKED_AT);
  rank->then = rank->mode;
  rank->mode = MODE_WAITING_AFTER;
}

static bool poll_end(struct sim *sim, struct sim_rank *rank, struct sim_end *end) {
  struct unit unit;
  bool requested = end->core->claim.open;
  enum team_verdict verdict = team_poll(end->core, &unit);
  hear_guesses(sim, rank, end);
  switch (verdict) {
  case TEAM_PARKED:
    return false;
  case TEAM_REAL:
    unit = step_unit(&rank->steps[rank->next]);
    rank_say(sim, rank, end, "real", &unit, &rank->steps[rank->next]);
    issued_real(sim, rank, end);
    wait_for_all(sim, rank);
    return true;
  case TEAM_SHADOW:
    rank_say(sim, rank, end, "shadow", &unit, NULL);
    record(sim, rank, end, unit, NULL);
    if (fails_now(sim, rank, FAILING_SHADOWING))
      kill_rank(sim, rank);
    return true;
  case TEAM_LEFT:
    rank_say(sim, rank, end, "left", NULL, NULL);
    rank_left_team(sim, rank, end);
    return true;
  case TEAM_FAILED:
    if (!requested)
      return false;
    if (sim->trace)
      printf("rank %2u  team %2u  failure %d: rank %u at %llu\n", rank->number, end->team,
             (int)end->core->failed.how, end->core->failed.rank,
             (unsigned long long)end->core->failed.index);
    if (!sim->failed)
      *(sim->program->throws ? &sim->result.wrong_failure : &sim->result.mismatch) = true;
    rank_fail(sim, rank);
    return true;
  case TEAM_STOPPED:
    stop_rank(sim, rank, end);
    return true;
  case TEAM_MIRROR:
  case TEAM_OUTSIDE:
  case TEAM_REFUSED:
    break;
  }
  sim->result.mismatch = true;
  rank->mode = MODE_DEAD;
  return true;
}

bool rank_is_parked(const struct sim_rank *rank) {
  return rank->mode == MODE_PARKED || rank->mode == MODE_WAITING ||
         rank->mode == MODE_WAITING_AFTER;
}

static bool poll(struct sim *sim, struct sim_rank *rank, struct sim_end *end) {
  uint64_t before = end->core->head;
  bool moved = poll_end(sim, rank, end);
  moved |= end->core->head != before; /* where it has heard of a stop elsewhere it says nothing */
  if (rank->stopped && rank->mode != MODE_DEAD && !has_requests(rank))
    rank_fail(sim, rank);
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
    if (end->core->claim.open && !end->left &&
        !device_is_full(sim->device, rank->number, end->team, false))
      moved |= poll(sim, rank, end);
  }
  for (uint32_t i = 0; i < rank->nends && rank_is_parked(rank); i++) {
    struct sim_end *end = &rank->ends[i];
    if (end->left || end->core->claim.open ||
        device_is_full(sim->device, rank->number, end->team, false))
      continue;
    bool yielding = team_is_yielding(end->core);
    if (!overlap_answers(end->place))
      continue;
    if (!yielding && team_is_yielding(end->core)) {
      sim->result.yields++;
      sim->result.late_yields += quiet != 0;
      rank_say(sim, rank, end, quiet ? "YIELD" : "yield", NULL, NULL);
      moved = true;
    }
    moved |= poll(sim, rank, end);
  }
  return moved;
}

/* The team of the unit that a rank waits before; NULL: after one. */
static const struct team *waits_before(struct sim_rank *rank) {
  return rank->mode == MODE_WAITING ? end_of(rank, &rank->steps[rank->next])->core : NULL;
}

uint64_t rank_patience(struct sim_rank *rank) {
  return rank->mode == MODE_WAITING || rank->mode == MODE_WAITING_AFTER
             ? overlap_patience(rank->overlap, waits_before(rank), &rank->behind)
             : OVERLAP_NEVER;
}

/* Where it has waited in vain before, it may give up at any moment. */
static bool gives_up(struct sim *sim, struct sim_rank *rank) {
  uint64_t patience = rank_patience(rank);
  return rank->in_vain || (patience < OVERLAP_PATIENCE_MS &&
                           random_below(&sim->random, OVERLAP_PATIENCE_MS) >= patience);
}

/* Those it has waited for have come, or it has waited for long enough. */
static bool go_on(struct sim *sim, struct sim_rank *rank) {
  bool after = rank->mode == MODE_WAITING_AFTER;
  bool waits = overlap_must_wait(rank->overlap, waits_before(rank), &rank->behind);
  if (waits && !gives_up(sim, rank))
    return false;
  overlap_waited(rank->overlap, &rank->behind, waits);
  rank->in_vain = waits && !after; /* of the unit that comes now */
  came_back(rank);
  rank->mode = after ? rank->then : MODE_RUNNING;
  return true;
}

/* One step of one rank; false if it could do nothing. */
bool rank_step(struct sim *sim, struct sim_rank *rank) {
  switch (rank->mode) {
  case MODE_RUNNING:
    return start_next(sim, rank);
  case MODE_PARKED:
    return look_around(sim, rank);
  case MODE_WAITING:
  case MODE_WAITING_AFTER:
    return go_on(sim, rank) || look_around(sim, rank);
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
