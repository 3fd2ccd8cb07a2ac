/* Random training programs: their teams, their data, and how they run (program.h). */
#include "tests/simulation/program.h"

#include <stdlib.h>

#include "tests/simulation/random.h"

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
static uint32_t random_size(uint64_t *random, uint32_t most) {
  uint32_t few = most < 4 ? most : 4;
  bool many = random_one_in(random, 8);
  return 2 + random_below(random, (many ? most : few) - 1);
}

static void add_world(struct program *program, uint64_t *random) {
  if (random_one_in(random, 32))
    program->nranks = 2 + random_below(random, 63);
  else if (random_one_in(random, 3))
    program->nranks = 2 + random_below(random, 9);
  else
    program->nranks = 2 + random_below(random, 3);
  add_team(program, AXIS_WORLD, 0, 1, program->nranks);
}

static void add_halves(struct program *program, uint64_t *random) {
  uint32_t a = random_size(random, 32);
  program->nranks = 2 * a;
  program->tensor_size = a;
  add_team(program, AXIS_WORLD, 0, 1, 2 * a);
  add_team(program, AXIS_DATA, 0, 1, a);
  add_team(program, AXIS_DATA, a, 1, a);
}

static void add_grid(struct program *program, uint64_t *random) {
  uint32_t a = random_one_in(random, 2) ? 2 : random_size(random, 8);
  uint32_t b = random_one_in(random, 2) ? 2 : random_size(random, 8);
  program->nranks = a * b;
  program->tensor_size = a;
  if (program->kind == KIND_GRID_WORLD)
    add_team(program, AXIS_WORLD, 0, 1, a * b);
  for (uint32_t i = 0; i < b; i++)
    add_team(program, AXIS_TENSOR, i * a, 1, a);
  for (uint32_t i = 0; i < a; i++)
    add_team(program, AXIS_DATA, i, a, b);
}

static enum program_kind kind_of(enum class class, uint64_t *random) {
  switch (class) {
  case CLASS_TWICE:
    return KIND_TWICE;
  case CLASS_HALVES_BY_REPLICA:
  case CLASS_HALVES_BY_RANK:
    return KIND_HALVES;
  case CLASS_GRID_BY_REPLICA:
  case CLASS_GRID_BY_RANK:
    return KIND_GRID;
  case CLASS_GRID_WORLD_BY_REPLICA:
  case CLASS_GRID_WORLD_BY_RANK:
    return KIND_GRID_WORLD;
  case CLASS_BREAK_SEVERAL:
  case CLASS_HASTY:
    return (enum program_kind)(KIND_HALVES + random_below(random, 3));
  case CLASS_FAILING:
    return (enum program_kind)random_below(random, KINDS);
  default:
    return KIND_SINGLE;
  }
}

void program_random_teams(struct program *program, uint64_t *random) {
  enum class class = program->row.class;
  program->kind = kind_of(class, random);
  program->tensor_size = 1;
  if (program->kind <= KIND_TWICE)
    add_world(program, random);
  else if (program->kind == KIND_HALVES)
    add_halves(program, random);
  else
    add_grid(program, random);
  program->by_replica = program->nteams > 1 && !row_has(program->row, TRAIT_BY_RANK);
  if (class == CLASS_BREAK_SEVERAL || class == CLASS_HASTY || class == CLASS_FAILING)
    program->by_replica &= !random_one_in(random, 3);
}

/* ---- data ---- */

/* Where ranks may have none: in several teams as in one class of one team each for the first epoch
 * and for later ones. */
static bool has_no_data(const struct program *program, uint32_t epoch, uint32_t rank,
                        uint64_t *random) {
  enum class class = program->row.class;
  if (class == CLASS_NO_DATA_FIRST)
    return epoch == 0 ? rank == program->data.draws % program->nranks || random_one_in(random, 4)
                      : random_one_in(random, 8);
  if (class == CLASS_NO_DATA_LATER)
    return epoch > 0 && random_one_in(random, 3);
  if (class == CLASS_BEGINS)
    return random_one_in(random, epoch > 0 ? 3 : 8);
  return program->nteams > 1 && random_one_in(random, 8);
}

bool program_may_not_evaluate(const struct program *program) {
  return program->row.class == CLASS_EVALUATION_UNEVEN && (program->data.draws & 1);
}

static uint16_t random_count(const struct program *program, uint32_t base, uint64_t *random) {
  if (program->row.class == CLASS_LOG_NEARLY_EVEN)
    return (uint16_t)(base - (base > 1 && random_one_in(random, 3)));
  return (uint16_t)(base + random_below(random, base + 2));
}

static uint32_t random_base(const struct program *program, uint64_t *random) {
  uint32_t many = program->nranks > 16 ? 8 : 30;
  if (program->row.class == CLASS_LOG_NEARLY_EVEN)
    return random_one_in(random, 2) ? 30 : 10 + random_below(random, 21);
  return 1 + random_below(random, random_one_in(random, 4) ? 4 : many);
}

/* One epoch's data, where each rank has its own. */
static void random_epoch(struct program *program, uint64_t *random, uint32_t epoch, uint32_t base,
                         uint32_t nexits) {
  struct data *data = &program->data;
  for (uint32_t rank = 0; rank < program->nranks; rank++) {
    uint16_t *training = &data->training[epoch][rank];
    uint16_t *validation = &data->validation[epoch][rank];
    uint8_t *exit = &data->exits[epoch][rank];
    if (program->by_replica && rank % program->tensor_size != 0) {
      *training = training[-1];
      *validation = validation[-1];
      *exit = exit[-1];
      continue;
    }
    *training = has_no_data(program, epoch, rank, random) ? 0 : random_count(program, base, random);
    *validation = (uint16_t)(!program_may_not_evaluate(program) + random_below(random, 8));
    *exit = (uint8_t)random_below(random, nexits + 1);
  }
}

static bool has_even_evaluation(enum class class) {
  return class == CLASS_EVALUATION_EVEN || class == CLASS_EVALUATION_LIKE_TRAINING_EVEN ||
         class == CLASS_EVALUATION_EQUAL_UNITS || class == CLASS_EVALUATION_IN_LOOP ||
         class == CLASS_NO_DATA_FIRST || class == CLASS_NO_DATA_LATER;
}

void program_random_data(struct program *program, uint64_t *random, uint32_t nexits) {
  struct data *data = &program->data;
  enum imbalance imbalance = program->row.imbalance;
  bool even = imbalance == IMBALANCE_NONE;
  uint32_t base = random_base(program, random);
  for (uint32_t epoch = 0; epoch < program->epochs; epoch++) {
    random_epoch(program, random, epoch, base, nexits);
    for (uint32_t rank = 0; rank < program->nranks; rank++) {
      /* Even programs have epochs without data, too. */
      if (even)
        data->training[epoch][rank] = data->training[epoch][0] != 0 ? (uint16_t)base : 0;
      if (even || has_even_evaluation(program->row.class))
        data->validation[epoch][rank] = data->validation[epoch][0];
      if (even)
        data->exits[epoch][rank] = data->exits[epoch][0];
      if (imbalance == IMBALANCE_CONSTANT && epoch > 0)
        data->training[epoch][rank] = data->training[0][rank];
    }
  }
}

/* ---- how it runs ---- */

static void random_failure(struct program *program, uint64_t *random) {
  struct step *steps = NULL;
  uint64_t room = 0;
  program->failing = (enum failing)(1 + random_below(random, 3));
  program->failing_rank = random_below(random, program->nranks);
  program->failing_step = random_below(
      random, 1 + (uint32_t)program_steps(program, program->failing_rank, &steps, &room));
  free(steps);
}

void program_random_run(struct program *program, uint64_t *random) {
  program->one_stream = random_below(random, 2);
  program->run_ahead = 1 + random_below(random, 64);
  program->sync_every = random_below(random, 2) ? 0 : 1 + random_below(random, 10);
  program->sync_after = random_below(random, 2);
  program->hasty = program->row.class == CLASS_HASTY;
  program->one_stream &= !program->hasty;
  program->ending = (enum ending)random_below(random, 3);
  for (uint32_t rank = 0; rank < program->nranks; rank++)
    program->speed[rank] = 1 + random_below(random, 8);
  if (program->row.class == CLASS_FAILING)
    random_failure(program, random);
  program->messages = program->nteams > 1 && program->row.imbalance == IMBALANCE_NONE &&
                      program->row.class != CLASS_FAILING && random_below(random, 2);
}

/* By itself, so that it changes nothing else. */
static enum counting counting_of(uint64_t seed) {
  uint64_t random = random_seeded(seed) ^ UINT64_C(0x636f756e74);
  return (enum counting)random_below(&random, COUNTINGS);
}

void program_random(struct program *program, uint64_t seed) {
  uint64_t random = random_seeded(seed);
  *program = (struct program){.row = row_of_seed(seed)};
  program->counting = program->row.class == CLASS_SHARES ? COUNTING_ALL : counting_of(seed);
  program_random_teams(program, &random);
  program->epochs = 1 + random_below(&random, 5);
  if (random_one_in(&random, 8))
    program->epochs = 1 + random_below(&random, PROGRAM_EPOCHS_MAX);
  if (program->nteams == 1 && program->epochs == 1)
    program->epochs = 2;
  program->data.draws = random_next(&random);
  uint32_t nexits = program_random_tree(program, &random);
  tree_places(&program->tree, program->row.sight, program->places);
  program_random_data(program, &random, nexits);
  program_random_run(program, &random);
}
