/* A unit of the loop and one after it that look alike (core/team/team_places.c): a loss that is
 * summed in each iteration and a barrier after the loop, both of one element. Programs with epochs
 * of uneven lengths run on ranks in memory, and all real units at an index must stand at the same
 * place. */
#include <criterion/criterion.h>
#include <stdio.h>

#include "core/transport/plane_memory.h"
#include "core/team/team.h"

enum { RANKS_MAX = 4, EPOCHS_MAX = 6, STEPS_MAX = 4096, BUCKETS = 3 };

enum { LOSS = 8, LOG, BARRIER, EVALUATION }; /* points of the program */

struct shape {
  int loss_after;  /* buckets before the loss in an iteration */
  bool equal;      /* buckets are of one size */
  int log_every;   /* iterations between log units; 0: none */
  int evaluations; /* units of an evaluation after each epoch, before the barrier */
};

struct schedule {
  int nranks, epochs, n[EPOCHS_MAX][RANKS_MAX];
};

/* for (epoch) { for (batch) { buckets, a loss, a log line } for (...) evaluations; barrier; } */
static struct place place_of(int point) {
  struct place place = {
      .id = 1 + (uint32_t)point,
      .nnodes = 2,
      .nodes = {{.id = 99}, {.id = 100, .order = 1, .flags = PLACE_LOOP | PLACE_ORDERED}}};
  uint16_t order = 40;
  if (point <= LOG) {
    place.nodes[place.nnodes++] =
        (struct place_node){.id = 101, .order = 2, .flags = PLACE_LOOP | PLACE_ORDERED};
    order = (uint16_t)(3 + point);
  } else if (point >= EVALUATION) {
    place.nodes[place.nnodes++] =
        (struct place_node){.id = 102, .order = 20, .flags = PLACE_LOOP | PLACE_ORDERED};
    order = (uint16_t)(10 + point);
  }
  place.nodes[place.nnodes++] = (struct place_node){.id = 200 + (uint32_t)point,
                                                    .order = order,
                                                    .since = order,
                                                    .until = order,
                                                    .flags = PLACE_ORDERED};
  return place;
}

struct step {
  uint64_t count;
  int place; /* epoch, iteration and place in it: the same only for the same */
};

struct program {
  struct step steps[STEPS_MAX];
  int nsteps, at;
  bool logs; /* a log line may be expected where a loop ends */
};

static struct program programs[RANKS_MAX];
static int places[STEPS_MAX * RANKS_MAX];

static void add(struct program *program, uint64_t count, int epoch, int iteration, int place) {
  cr_assert(program->nsteps < STEPS_MAX);
  program->steps[program->nsteps++] = (struct step){count, (epoch * 1000 + iteration) * 16 + place};
}

static void write_program(struct program *program, const struct shape *shape,
                          const struct schedule *schedule, int rank) {
  program->nsteps = program->at = 0;
  program->logs = shape->log_every != 0;
  for (int epoch = 0; epoch < schedule->epochs; epoch++) {
    for (int i = 0; i < schedule->n[epoch][rank]; i++) {
      for (int bucket = 0; bucket < BUCKETS; bucket++) {
        add(program, shape->equal ? 5000 : 5000 - 1000 * (uint64_t)bucket, epoch, i, bucket);
        if (bucket + 1 == shape->loss_after)
          add(program, 1, epoch, i, LOSS);
      }
      if (shape->log_every != 0 && (i + 1) % shape->log_every == 0)
        add(program, 9, epoch, i, LOG);
    }
    for (int i = 0; i < shape->evaluations; i++)
      add(program, 2, epoch, 999, EVALUATION + i);
    add(program, 1, epoch, 999, BARRIER);
  }
}

/* One step of a rank. Returns whether it has left. */
static bool go_on(struct team *team, struct program *program, int *wrong) {
  struct step *step = &program->steps[program->at];
  struct place where = place_of(step->place % 16);
  struct member member = {.count = step->count,
                          .root = ROOT_NONE,
                          .kind = MEMBER_ALLREDUCE,
                          .datatype = 7,
                          .number = where.id};
  struct unit unit = {&member, 1};
  bool real = false;
  if (!team->claim.open && program->at < program->nsteps && step->place % 16 == BARRIER &&
      !program->logs)
    cr_expect(team_is_between_iterations(team), "step %d", program->at);
  if (team->claim.open) {
    enum team_verdict verdict = team_poll(team, &unit);
    cr_assert(verdict == TEAM_PARKED || verdict == TEAM_REAL || verdict == TEAM_SHADOW ||
              verdict == TEAM_LEFT);
    real = verdict == TEAM_REAL;
    if (verdict == TEAM_LEFT)
      return true;
  } else if (program->at == program->nsteps) {
    team_claim_leave(team);
  } else if (team_commit(team, unit)) {
    real = true;
  } else {
    team_claim(team, unit, 0, &where);
  }
  if (real) {
    int *place = &places[team_index(team)];
    *wrong += *place != 0 && *place != step->place;
    *place = step->place;
    program->at++;
  }
  return false;
}

struct outcome {
  int wrong;   /* units that met another place's */
  int guesses; /* that would be warned of */
};

static struct outcome run(const struct shape *shape, const struct schedule *schedule) {
  struct plane_memory *memory = plane_memory_create((uint32_t)schedule->nranks);
  struct team *teams[RANKS_MAX];
  bool left[RANKS_MAX] = {false};
  struct outcome outcome = {0, 0};
  memset(places, 0, sizeof places);
  for (int rank = 0; rank < schedule->nranks; rank++) {
    teams[rank] = team_create(plane_memory_rank(memory, (uint32_t)rank));
    write_program(&programs[rank], shape, schedule, rank);
  }
  for (int turn = 0, here = schedule->nranks; here > 0; turn++) {
    cr_assert(turn < 64 * STEPS_MAX, "nobody can move");
    for (int rank = 0; rank < schedule->nranks; rank++) {
      if (left[rank])
        continue;
      left[rank] = go_on(teams[rank], &programs[rank], &outcome.wrong);
      here -= left[rank];
      outcome.guesses += teams[rank]->telling.guessed;
      teams[rank]->telling.guessed = false;
    }
  }
  for (int rank = 0; rank < schedule->nranks; rank++)
    team_destroy(teams[rank]);
  plane_memory_destroy(memory);
  return outcome;
}

/* "9,8/5,9": a row an epoch. */
static struct schedule schedule_of(const char *text) {
  struct schedule schedule = {0};
  for (int rank = 0, taken; *text != '\0'; text += taken) {
    cr_assert(sscanf(text, "%d%n", &schedule.n[schedule.epochs][rank++], &taken) == 1);
    if (text[taken] != ',') {
      schedule.nranks = rank;
      schedule.epochs++;
      rank = 0;
    }
    taken += text[taken] != '\0';
  }
  return schedule;
}

static void all_meet(const struct shape *shape, const char *text) {
  struct schedule schedule = schedule_of(text);
  cr_expect_eq(run(shape, &schedule).wrong, 0, "%s, loss after %d buckets, a log line every %d",
               text, shape->loss_after, shape->log_every);
}

Test(places, a_rank_leaves_before_the_loop_is_learnt) {
  all_meet(&(struct shape){.loss_after = 3}, "9,8,5,2/5,9,11,6/10,2,4,9");
  all_meet(&(struct shape){.loss_after = 1}, "2,12,7,30/2,12,7,30");
}

Test(places, epochs_of_a_length_become_a_body_of_their_own) {
  all_meet(&(struct shape){.loss_after = 3}, "100,101/100,101/100,101/100,101");
  all_meet(&(struct shape){.loss_after = 3}, "10,11/10,11/10,11/10,11");
}

Test(places, the_body_takes_the_barrier_for_a_loss) {
  all_meet(&(struct shape){.loss_after = 3}, "22,21,10,3/22,21,10,3/22,21,10,3/22,21,10,3");
}

Test(places, an_even_epoch_comes_first) {
  all_meet(&(struct shape){.loss_after = 3, .log_every = 5}, "9,9/7,3/6,3");
}

Test(places, a_barrier_right_after_a_log_line_waits_for_the_loop) {
  all_meet(&(struct shape){.loss_after = 3, .log_every = 5}, "10,10/5,8/6,4");
}

Test(places, equal_buckets_are_no_loop) {
  all_meet(&(struct shape){.loss_after = 3, .equal = true}, "5,7/5,7");
  all_meet(&(struct shape){.loss_after = 3, .equal = true}, "28,31,20/28,31,20/28,31,20");
}

Test(places, a_rank_leaves_after_a_log_line) {
  all_meet(&(struct shape){.loss_after = 3, .log_every = 5}, "5,3/5,3/5,3");
  all_meet(&(struct shape){.loss_after = 3, .log_every = 5},
           "4,11,17,17/4,11,17,17/4,11,17,17/4,11,17,17");
}

Test(places, the_barrier_after_an_evaluation_is_none_of_the_loop) {
  all_meet(&(struct shape){.loss_after = 3, .evaluations = 3}, "9,8,5,2/5,9,11,6/10,2,4,9");
}

/* It is known by then what goes on and what ends it. */
Test(places, a_known_barrier_is_no_guess) {
  struct schedule schedule = schedule_of("100,101/100,101/100,101/100,101");
  struct outcome outcome = run(&(struct shape){.loss_after = 3}, &schedule);
  cr_assert_eq(outcome.wrong, 0);
  cr_assert_eq(outcome.guesses, 0);
}

static uint32_t below(uint64_t *state, uint32_t bound) { /* xorshift64*, Vigna 2016 */
  *state ^= *state >> 12;
  *state ^= *state << 25;
  *state ^= *state >> 27;
  return (uint32_t)((*state * UINT64_C(2685821657736338717) >> 32) * bound >> 32);
}

static void random_schedules(bool constant, int least, int most) {
  uint64_t state = 20261121;
  for (int i = 0; i < 300; i++) {
    struct shape shape = {.loss_after = 1 + (int)below(&state, BUCKETS)};
    struct schedule schedule = {.nranks = 2 + (int)below(&state, RANKS_MAX - 1),
                                .epochs = 2 + (int)below(&state, EPOCHS_MAX - 1)};
    for (int epoch = 0; epoch < schedule.epochs; epoch++)
      for (int rank = 0; rank < schedule.nranks; rank++)
        schedule.n[epoch][rank] = constant && epoch > 0
                                      ? schedule.n[0][rank]
                                      : least + (int)below(&state, (uint32_t)(most - least + 1));
    cr_expect_eq(run(&shape, &schedule).wrong, 0, "schedule %d", i);
  }
}

Test(places, epochs_of_constant_lengths) {
  random_schedules(true, 2, 30);
}

Test(places, epochs_of_varying_lengths) {
  random_schedules(false, 3, 30);
}
