/* Programs that all ranks execute alike (alike.h). */
#include "tests/simulation/alike.h"

#include "tests/simulation/test_program.h"

static void begin(struct alike alike, uint16_t batches, uint16_t less, bool machine) {
  uint32_t nranks = alike.nmachines * alike.each;
  program = (struct program){.nranks = nranks, .nteams = 1, .epochs = 1, .run_ahead = 32};
  program.teams[0].nranks = nranks;
  program.has_axis[AXIS_WORLD] = true;
  for (uint32_t rank = 0; rank < nranks; rank++) {
    bool last = rank >= nranks - (machine ? alike.each : 1);
    program.teams[0].ranks[rank] = (uint16_t)rank;
    program.data.training[0][rank] = last ? less : batches;
    program.speed[rank] = 1 + rank % 3;
  }
  tree_begin(&builder, &program.tree);
}

static struct simulation run(struct alike alike) {
  static struct layout layout;
  layout = (struct layout){.nmachines = alike.nmachines,
                           .fanout = 16,
                           .slowness = 1,
                           .by_bell = true,
                           .steps_a_turn = 16};
  for (uint32_t rank = 0; rank < program.nranks; rank++)
    layout.machine_of[rank] = (uint16_t)(rank / alike.each);
  tree_places(&program.tree, SIGHT_VISIBLE, program.places);
  return simulate_on(&program, &layout, 1, false);
}

struct simulation alike_train(struct alike alike, uint16_t batches, uint16_t less, bool machine) {
  begin(alike, batches, less, machine);
  open_block(NODE_LOOP, ROUNDS_TRAINING, 0);
  for (uint8_t point = 1; point <= ALIKE_UNITS; point++)
    unit(point);
  return run(alike);
}

struct simulation alike_claim(struct alike alike, uint8_t units) {
  begin(alike, 1, 1, false);
  for (uint8_t point = 1; point <= units; point++)
    unit(point);
  return run(alike);
}

const char *alike_wrong(const struct simulation *result) {
  return result->mismatch          ? "ranks issued different units at one index"
         : result->deadlock        ? "nobody can move"
         : result->stuck_on_device ? "ranks wait for their devices"
         : result->wrong_order     ? "a rank has not issued its program"
         : result->traffic.stills  ? "nobody could move before agents looked"
                                   : NULL;
}
