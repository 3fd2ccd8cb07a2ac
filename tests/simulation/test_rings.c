/* Ranks of several teams that wait for their devices, and could each wait for another (overlap.h).
 */
#include <criterion/criterion.h>
#include <string.h>

#include "tests/simulation/simulate.h"

static struct program program;

static void add_team(enum axis axis, uint32_t nranks, const uint16_t ranks[]) {
  struct program_team *team = &program.teams[program.nteams];
  team->nranks = nranks;
  for (uint32_t i = 0; i < nranks; i++) {
    team->ranks[i] = ranks[i];
    program.team_of[axis][ranks[i]] = (uint16_t)program.nteams;
  }
  program.has_axis[axis] = true;
  program.nteams++;
}

static void add_unit(struct builder *builder, uint8_t point, enum axis axis, uint64_t count) {
  struct node *node = tree_add(builder, NODE_UNIT, 0, 0);
  node->point = point;
  node->slot = (struct slot){axis, 1, {{.count = count, .kind = MEMBER_ALLREDUCE}}};
}

/* for each epoch { for each batch { tensor; if (data end here) break; data; } } */
static void make_tree(void) {
  struct builder builder;
  tree_begin(&builder, &program.tree);
  tree_add(&builder, NODE_LOOP, ROUNDS_EPOCHS, 0);
  tree_open(&builder);
  tree_add(&builder, NODE_LOOP, ROUNDS_TRAINING, 0);
  tree_open(&builder);
  add_unit(&builder, 1, AXIS_TENSOR, 2000);
  tree_add(&builder, NODE_BRANCH, WHEN_DATA_ENDS, 1);
  tree_open(&builder);
  tree_add(&builder, NODE_BREAK, 0, 0);
  tree_close(&builder);
  add_unit(&builder, 2, AXIS_DATA, 1000);
  tree_places(&program.tree, SIGHT_VISIBLE, program.places);
}

/* Two times three ranks. Some skip the data parallel part of an iteration: without a shadow, they
 * are from then on an iteration ahead of others there. At the end each waits for its device. */
Test(rings, ranks_out_of_step_without_knowing_it_do_not_wait_in_a_ring) {
  static const uint16_t grid[5][3] = {{0, 1, 2}, {3, 4, 5}, {0, 3}, {1, 4}, {2, 5}};
  static const uint16_t batches[2][6] = {{1, 5, 1, 1, 1, 1}, {5, 1, 4, 4, 4, 5}};
  static const uint8_t exits[2][6] = {{0, 1, 0, 0, 0, 1}, {0, 1, 0, 1, 0, 1}};
  for (uint32_t team = 0; team < 5; team++)
    add_team(team < 2 ? AXIS_TENSOR : AXIS_DATA, team < 2 ? 3 : 2, grid[team]);
  program.kind = KIND_GRID;
  program.nranks = 6;
  program.tensor_size = 3;
  program.epochs = 2;
  program.run_ahead = 64;
  for (uint32_t rank = 0; rank < 6; rank++)
    program.speed[rank] = 1;
  for (uint32_t epoch = 0; epoch < 2; epoch++) {
    memcpy(program.data.training[epoch], batches[epoch], sizeof(batches[epoch]));
    memcpy(program.data.exits[epoch], exits[epoch], sizeof(exits[epoch]));
  }
  make_tree();
  for (uint64_t seed = 0; seed < 200; seed++) {
    struct simulation result = simulate(&program, seed, false);
    cr_assert_not(result.stuck_on_device, "seed %lu: ranks wait for the device for ever", seed);
    cr_assert_not(result.deadlock || result.mismatch, "seed %lu", seed);
  }
}
