/* Random training programs (program.h). */
#include "tests/simulation/program.h"

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

enum { DATATYPE_INT32 = 2, DATATYPE_FLOAT32 = 7 };

static struct member all_reduce(uint64_t count, uint8_t datatype) {
  return (struct member){.count = count,
                         .root = ROOT_NONE,
                         .reduction = 0,
                         .kind = MEMBER_ALLREDUCE,
                         .datatype = datatype};
}

/* Buckets are large; what is logged and evaluated is small, and of a signature of its own: where a
 * unit after the loop looks like one of the loop, no protocol can tell them apart. */
static void random_units(struct program *program, uint64_t *state) {
  program->nbuckets = 1 + random_below(state, PROGRAM_BUCKETS_MAX);
  uint32_t kinds = 1 + random_below(state, program->nbuckets);
  for (uint32_t i = 0; i < program->nbuckets; i++)
    program->buckets[i] =
        all_reduce(UINT64_C(1000) << random_below(state, kinds), DATATYPE_FLOAT32);
  program->log = all_reduce(1, DATATYPE_FLOAT32);
  program->log_every = random_below(state, 2) ? 0 : 1 + random_below(state, 12);
  program->nafter = random_below(state, PROGRAM_AFTER_MAX + 1);
  for (uint32_t i = 0; i < program->nafter; i++)
    program->after[i] = all_reduce(2 + random_below(state, 8) * 8 + i, DATATYPE_INT32);
}

static void random_iterations(struct program *program, uint64_t *state) {
  program->imbalance = (enum imbalance)random_below(state, 3);
  uint32_t base = random_below(state, 4) ? 1 + random_below(state, 40) : 1 + random_below(state, 4);
  for (uint32_t epoch = 0; epoch < program->epochs; epoch++)
    for (uint32_t rank = 0; rank < program->nranks; rank++) {
      uint32_t *n = &program->iterations[epoch][rank];
      if (program->imbalance == IMBALANCE_NONE)
        *n = base;
      else if (program->imbalance == IMBALANCE_CONSTANT && epoch > 0)
        *n = program->iterations[0][rank];
      else
        *n = random_below(state, 8) ? base + random_below(state, base + 2) : 0;
    }
}

void program_random(struct program *program, uint64_t seed) {
  uint64_t state = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
  for (int i = 0; i < 4; i++)
    random_next(&state);
  *program = (struct program){0};
  program->nranks = 2 + random_below(&state, 15);
  program->epochs = 1 + random_below(&state, PROGRAM_EPOCHS_MAX);
  random_units(program, &state);
  random_iterations(program, &state);
  program->run_ahead = 1 + random_below(&state, 64);
  program->sync_every = random_below(&state, 2) ? 0 : 1 + random_below(&state, 10);
  program->sync_after = random_below(&state, 2);
  for (uint32_t rank = 0; rank < program->nranks; rank++)
    program->speed[rank] = 1 + random_below(&state, 8);
}

static uint64_t point(uint32_t epoch, uint64_t iteration, uint32_t place) {
  return (uint64_t)epoch << 48 | iteration << 8 | place;
}

enum { PLACE_LOG = 100, PLACE_AFTER = 200 };

uint64_t program_steps(const struct program *program, uint32_t rank, struct step **steps_out) {
  uint64_t room = 0, count = 0;
  for (uint32_t epoch = 0; epoch < program->epochs; epoch++)
    room += (uint64_t)program->iterations[epoch][rank] * (program->nbuckets + 1) + program->nafter;
  struct step *steps = calloc(room + 1, sizeof(*steps));
  if (steps == NULL)
    abort();
  uint64_t iteration = 0;
  uint32_t marked = 0; /* epochs that something marked the end of */
  for (uint32_t epoch = 0; epoch < program->epochs; epoch++) {
    for (uint32_t i = 0; i < program->iterations[epoch][rank]; i++, iteration++) {
      for (uint32_t bucket = 0; bucket < program->nbuckets; bucket++)
        steps[count++] =
            (struct step){program->buckets[bucket], point(marked, iteration, bucket), false};
      if (program->log_every != 0 && iteration % program->log_every == program->log_every - 1)
        steps[count++] = (struct step){program->log, point(marked, iteration, PLACE_LOG), false};
      if (program->sync_every != 0 && iteration % program->sync_every == 0)
        steps[count - 1].synchronise = true;
    }
    for (uint32_t i = 0; i < program->nafter; i++)
      steps[count++] =
          (struct step){program->after[i], point(epoch, 0, PLACE_AFTER + i), program->sync_after};
    if (program->nafter != 0) {
      iteration = 0;
      marked = epoch + 1;
    }
  }
  *steps_out = steps;
  return count;
}
