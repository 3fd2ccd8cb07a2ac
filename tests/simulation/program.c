/* Random training programs (program.h). */
#include "tests/simulation/program.h"

#include <stdio.h>
#include <stdlib.h>

uint64_t random_next(uint64_t *state) {
  uint64_t x = *state;
  x ^= x >> 12;
  x ^= x << 25;
  x ^= x >> 27;
  *state = x;
  return x * UINT64_C(2685821657736338717);
}

uint32_t random_below(uint64_t *state, uint32_t bound) {
  return (uint32_t)((random_next(state) >> 32) * bound >> 32);
}

static bool random_one_in(uint64_t *state, uint32_t n) {
  return random_below(state, n) == 0;
}

/* ---- teams ---- */

static void add_team(struct program *program, enum axis axis, uint32_t first, uint32_t stride,
                     uint32_t nranks) {
  struct program_team *team = &program->teams[program->nteams];
  team->nranks = nranks;
  for (uint32_t i = 0; i < nranks; i++) {
    team->ranks[i] = (uint16_t)(first + i * stride);
    program->team_of[axis][team->ranks[i]] = (uint16_t)program->nteams;
  }
  program->has_axis[axis] = true;
  program->nteams++;
}

/* Mostly few ranks, as few show most; now and then many. */
static uint32_t random_size(uint64_t *state, uint32_t most) {
  uint32_t few = most < 4 ? most : 4;
  return 2 + random_below(state, (random_one_in(state, 8) ? most : few) - 1);
}

static void random_teams(struct program *program, uint64_t *state) {
  static const uint8_t shares[KINDS] = {[KIND_SINGLE] = 6,
                                        [KIND_TWICE] = 2,
                                        [KIND_HALVES] = 4,
                                        [KIND_GRID] = 3,
                                        [KIND_GRID_WORLD] = 5};
  uint32_t draw = random_below(state, 20), kind = 0;
  while (draw >= shares[kind])
    draw -= shares[kind++];
  program->kind = (enum program_kind)kind;
  uint32_t a, b;
  program->tensor_size = 1;
  switch (program->kind) {
  case KIND_SINGLE:
  case KIND_TWICE:
    program->nranks =
        random_one_in(state, 16) ? 2 + random_below(state, 63) : 2 + random_below(state, 10);
    add_team(program, AXIS_WORLD, 0, 1, program->nranks);
    return;
  case KIND_HALVES:
    a = random_size(state, 32);
    program->nranks = 2 * a;
    program->tensor_size = a;
    add_team(program, AXIS_WORLD, 0, 1, 2 * a);
    add_team(program, AXIS_DATA, 0, 1, a);
    add_team(program, AXIS_DATA, a, 1, a);
    return;
  case KIND_GRID:
  case KIND_GRID_WORLD:
    a = random_one_in(state, 2) ? 2 : random_size(state, 8);
    b = random_one_in(state, 2) ? 2 : random_size(state, 8);
    program->nranks = a * b;
    program->tensor_size = a;
    if (program->kind == KIND_GRID_WORLD)
      add_team(program, AXIS_WORLD, 0, 1, a * b);
    for (uint32_t i = 0; i < b; i++)
      add_team(program, AXIS_TENSOR, i * a, 1, a);
    for (uint32_t i = 0; i < a; i++)
      add_team(program, AXIS_DATA, i, a, b);
    return;
  case KINDS:
    break;
  }
}

/* ---- units ---- */

enum { DATATYPE_INT32 = 2, DATATYPE_FLOAT32 = 7 };

static struct member all_reduce(uint64_t count, uint8_t datatype) {
  return (struct member){.count = count,
                         .root = ROOT_NONE,
                         .reduction = 0,
                         .kind = MEMBER_ALLREDUCE,
                         .datatype = datatype};
}

static enum axis random_axis(const struct program *program, uint64_t *state) {
  enum axis axis;
  do
    axis = (enum axis)random_below(state, AXES);
  while (!program->has_axis[axis]);
  return axis;
}

static struct slot one(enum axis axis, struct member member) {
  return (struct slot){axis, 1, {member}};
}

/* Forward and backward units of tensor parallel teams, then buckets of data parallel ones; where
 * there is one team, buckets. The second communicator takes its turn where there are two. */
static void random_body(struct program *program, uint64_t *state) {
  bool grid = program->has_axis[AXIS_TENSOR];
  program->nbody = 1 + random_below(state, PROGRAM_SLOTS_MAX);
  uint32_t kinds = 1 + random_below(state, program->nbody);
  uint32_t ntensor = grid ? random_below(state, program->nbody + 1) : 0;
  for (uint32_t i = 0; i < program->nbody; i++) {
    enum axis axis = i < ntensor                    ? AXIS_TENSOR
                     : program->has_axis[AXIS_DATA] ? AXIS_DATA
                                                    : AXIS_WORLD;
    if (program->kind == KIND_HALVES && random_one_in(state, 4))
      axis = AXIS_WORLD;
    struct slot slot =
        one(axis, all_reduce(UINT64_C(1000) << random_below(state, kinds), DATATYPE_FLOAT32));
    if (random_one_in(state, 8)) {
      slot.members[1] = all_reduce(77, DATATYPE_FLOAT32);
      slot.nmembers = 2;
    }
    if (program->kind == KIND_TWICE)
      for (uint32_t k = 0; k < slot.nmembers; k++)
        slot.members[k].comm = random_below(state, 2);
    program->body[i] = slot;
  }
}

/* Buckets are large; what is logged and evaluated is small, and of a signature of its own (but see
 * random_alike). Where no team has all ranks, one of each axis marks the end of an epoch. */
static void random_others(struct program *program, uint64_t *state) {
  program->log = one(random_axis(program, state), all_reduce(1, DATATYPE_FLOAT32));
  program->log_every = random_one_in(state, 2) ? 0 : 1 + random_below(state, 12);
  program->nafter = random_below(state, PROGRAM_AFTER_MAX + 1);
  if (program->kind == KIND_GRID && program->nafter == 1)
    program->nafter = 2;
  for (uint32_t i = 0; i < program->nafter; i++)
    program->after[i] = one(random_axis(program, state),
                            all_reduce(2 + random_below(state, 8) * 8 + i, DATATYPE_INT32));
  if (program->nafter == 0)
    return;
  if (program->kind == KIND_GRID) {
    program->after[0].axis = AXIS_TENSOR;
    program->after[1].axis = AXIS_DATA;
  } else {
    program->after[random_below(state, program->nafter)].axis = AXIS_WORLD;
  }
}

/* One element, as a loss that is summed in each iteration and a barrier after them. No protocol can
 * tell a unit after the loop from one that looks like it and begins the loop, nor know of a loop
 * that a rank has no part in from the beginning. */
static void random_alike(struct program *program, uint64_t *state) {
  program->alike =
      program->nteams == 1 && program->nbody > 1 && program->nafter > 0 && random_one_in(state, 4);
  for (uint32_t rank = 0; rank < program->nranks; rank++)
    program->alike &= program->iterations[0][rank] > 0;
  if (!program->alike)
    return;
  struct slot scalar = one(AXIS_WORLD, all_reduce(1, DATATYPE_FLOAT32));
  program->body[1 + random_below(state, program->nbody - 1)] = scalar;
  program->after[program->nafter - 1] = scalar;
  program->log.members[0].datatype = DATATYPE_INT32;
}

static void random_iterations(struct program *program, uint64_t *state) {
  program->imbalance = (enum imbalance)random_below(state, 3);
  program->by_replica = program->tensor_size > 1 && !random_one_in(state, 3);
  program->torn = random_one_in(state, 12);
  uint32_t many = program->nranks > 16 ? 8 : 30;
  uint32_t base =
      random_one_in(state, 4) ? 1 + random_below(state, 4) : 1 + random_below(state, many);
  for (uint32_t epoch = 0; epoch < program->epochs; epoch++)
    for (uint32_t rank = 0; rank < program->nranks; rank++) {
      uint32_t *n = &program->iterations[epoch][rank];
      uint32_t *torn = &program->torn_at[epoch][rank];
      if (program->by_replica && rank % program->tensor_size != 0) {
        *n = n[-1];
        *torn = torn[-1];
        continue;
      }
      if (program->imbalance == IMBALANCE_NONE)
        *n = base;
      else if (program->imbalance == IMBALANCE_CONSTANT && epoch > 0)
        *n = program->iterations[0][rank];
      else
        *n = random_one_in(state, 8) ? 0 : base + random_below(state, base + 2);
      if (program->torn && *n > 0 && random_one_in(state, 2))
        *torn = random_below(state, program->nbody);
    }
}

static void random_run(struct program *program, uint64_t *state) {
  program->one_stream = random_below(state, 2);
  program->run_ahead = 1 + random_below(state, 64);
  program->sync_every = random_below(state, 2) ? 0 : 1 + random_below(state, 10);
  program->sync_after = random_below(state, 2);
  program->hasty = program->nteams > 1 && random_one_in(state, 16);
  program->one_stream &= !program->hasty;
  program->ending = (enum ending)random_below(state, 3);
  for (uint32_t rank = 0; rank < program->nranks; rank++)
    program->speed[rank] = 1 + random_below(state, 8);
  if (!random_one_in(state, 12))
    return;
  program->failing = (enum failing)(1 + random_below(state, 3));
  program->failing_rank = random_below(state, program->nranks);
  program->failing_step =
      random_below(state, program->epochs * program->nbody * (1 + program->iterations[0][0]));
}

void program_random(struct program *program, uint64_t seed) {
  uint64_t state = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
  for (int i = 0; i < 4; i++)
    random_next(&state);
  *program = (struct program){0};
  random_teams(program, &state);
  program->epochs = 1 + random_below(&state, random_one_in(&state, 4) ? PROGRAM_EPOCHS_MAX : 5);
  random_body(program, &state);
  random_others(program, &state);
  random_iterations(program, &state);
  random_run(program, &state);
  random_alike(program, &state);
}

/* ---- steps ---- */

static uint64_t point(uint32_t epoch, uint64_t iteration, uint32_t place) {
  return (uint64_t)epoch << 48 | iteration << 8 | place;
}

enum { PLACE_LOG = 100, PLACE_AFTER = 200 };

static struct step make_step(const struct program *program, uint32_t rank, const struct slot *slot,
                             uint64_t where) {
  struct step step = {
      .nmembers = slot->nmembers, .team = program->team_of[slot->axis][rank], .point = where};
  for (uint32_t i = 0; i < slot->nmembers; i++) {
    step.members[i] = slot->members[i];
    /* Tags are equal on all ranks of a communicator, and differ between communicators. */
    step.members[i].comm += 1 + 2u * step.team;
  }
  return step;
}

uint64_t program_steps(const struct program *program, uint32_t rank, struct step **steps_io,
                       uint64_t *room) {
  uint64_t need = 1, count = 0;
  for (uint32_t epoch = 0; epoch < program->epochs; epoch++)
    need += (uint64_t)program->iterations[epoch][rank] * (program->nbody + 1) + program->nafter;
  if (need > *room) {
    free(*steps_io);
    *steps_io = calloc(need, sizeof(**steps_io));
    *room = need;
  }
  struct step *steps = *steps_io;
  if (steps == NULL)
    abort();
  uint64_t iteration = 0;
  uint32_t marked = 0; /* epochs that something marked the end of */
  for (uint32_t epoch = 0; epoch < program->epochs; epoch++) {
    uint32_t n = program->iterations[epoch][rank];
    for (uint32_t i = 0; i < n; i++, iteration++) {
      uint32_t left_out = i + 1 == n ? program->torn_at[epoch][rank] : 0;
      for (uint32_t k = 0; k + left_out < program->nbody; k++)
        steps[count++] = make_step(program, rank, &program->body[k], point(marked, iteration, k));
      if (left_out == 0 && program->log_every != 0 &&
          iteration % program->log_every == program->log_every - 1)
        steps[count++] =
            make_step(program, rank, &program->log, point(marked, iteration, PLACE_LOG));
      if (program->sync_every != 0 && iteration % program->sync_every == 0 && count > 0)
        steps[count - 1].synchronise = true;
    }
    for (uint32_t i = 0; i < program->nafter; i++) {
      steps[count] = make_step(program, rank, &program->after[i], point(epoch, 0, PLACE_AFTER + i));
      steps[count++].synchronise = program->sync_after;
    }
    if (program->nafter != 0) {
      iteration = 0;
      marked = epoch + 1;
    }
  }
  return count;
}

/* ---- rows ---- */

enum {
  ROW_TORN = KINDS * 4,
  ROW_TORN_SEVERAL,
  ROW_HASTY,
  ROW_FAILING,
  ROW_ALIKE_CONSTANT,
  ROW_ALIKE_VARYING
};
_Static_assert(ROW_ALIKE_VARYING < PROGRAM_ROWS, "there is a row for everything");

uint32_t program_row(const struct program *program) {
  if (program->failing != FAILING_NEVER)
    return ROW_FAILING;
  if (program->hasty)
    return ROW_HASTY;
  if (program->torn)
    return program->nteams > 1 ? ROW_TORN_SEVERAL : ROW_TORN;
  uint32_t varying = program->imbalance == IMBALANCE_VARYING;
  if (program->alike)
    return varying ? ROW_ALIKE_VARYING : ROW_ALIKE_CONSTANT;
  return program->kind * 4 + (program->by_replica ? 0 : 2) + varying;
}

static bool has_several_teams(uint32_t row) {
  return row / 4 >= KIND_HALVES && row < ROW_TORN;
}

const char *program_row_name(uint32_t row) {
  static const char *const kinds[KINDS] = {"one team", "same ranks twice", "all and halves",
                                           "a x b", "a x b and all"};
  static char name[64];
  switch (row) {
  case ROW_TORN:
    return "leaving inside iterations, one team";
  case ROW_TORN_SEVERAL:
    return "leaving inside iterations, several teams";
  case ROW_HASTY:
    return "yielding too early";
  case ROW_FAILING:
    return "a rank fails";
  case ROW_ALIKE_CONSTANT:
    return "a loss like the barrier, constant";
  case ROW_ALIKE_VARYING:
    return "a loss like the barrier, varying";
  default:
    break;
  }
  bool by_replica = row % 4 < 2;
  if (row > ROW_ALIKE_VARYING || (by_replica && !has_several_teams(row)))
    return NULL;
  snprintf(name, sizeof(name), "%s%s, %s", kinds[row / 4],
           !has_several_teams(row) ? ""
           : by_replica            ? ", by replica"
                                   : ", by rank",
           row % 2 ? "varying" : "constant");
  return name;
}

enum program_group program_row_group(uint32_t row) {
  if (row == ROW_ALIKE_CONSTANT)
    return GROUP_ALIKE_CONSTANT;
  if (row == ROW_ALIKE_VARYING)
    return GROUP_ALIKE_VARYING;
  if (row >= ROW_TORN)
    return GROUP_NONE;
  if (has_several_teams(row))
    return row % 4 < 2 ? GROUP_SEVERAL_BY_REPLICA : GROUP_SEVERAL_BY_RANK;
  return row % 2 ? GROUP_ONE_VARYING : GROUP_ONE_CONSTANT;
}
