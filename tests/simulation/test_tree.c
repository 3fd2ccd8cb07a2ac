/* Programs as trees: what a rank does, and where it stands (tree.h, core/place/place.h). */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "tests/simulation/random.h"
#include "tests/simulation/test_program.h"

/* The last node of the place of a point's first unit. */
static struct place_node last_of(uint8_t point) {
  for (uint16_t at = 0; at < program.tree.nnodes; at++)
    if (program.tree.nodes[at].kind == NODE_UNIT && program.tree.nodes[at].point == point)
      return places[at].nodes[places[at].nnodes - 1];
  cr_assert_fail("no point %u", point);
  return (struct place_node){0};
}

static void expect_last(uint8_t point, uint16_t order, uint16_t since, uint16_t until) {
  struct place_node node = last_of(point);
  cr_expect_eq(node.order, order, "point %u: order %u", point, node.order);
  cr_expect_eq(node.since, since, "point %u: since %u", point, node.since);
  cr_expect_eq(node.until, until, "point %u: until %u", point, node.until);
  cr_expect_eq(node.flags & (PLACE_ORDERED | PLACE_LOOP | PLACE_OPAQUE), PLACE_ORDERED);
}

/*    unit 1
 *    for each epoch {                                   order 2
 *      unit 2                                                 3
 *      if (rank == 0) { unit 3 } else { unit 4 }              4, 5
 *      if (1 in 4 by this rank's data) break;
 *      unit 5                                                 6
 *      train() { unit 6; 3 times { unit 7 } }                 7: 1, 2, 3
 *    }
 *    unit 8                                                   8 */
static void build(void) {
  tree_begin(&builder, &program.tree);
  unit(1);
  open_block(NODE_LOOP, ROUNDS_EPOCHS, 0);
  unit(2);
  open_block(NODE_BRANCH, WHEN_RANK, 0);
  unit(3);
  tree_otherwise(&builder);
  unit(4);
  tree_close(&builder);
  open_block(NODE_BRANCH, WHEN_LOCAL, 4);
  tree_add(&builder, NODE_BREAK, 0, 0);
  tree_close(&builder);
  unit(5);
  open_block(NODE_CALL, FUNCTION_TRAIN, 0);
  unit(6);
  open_block(NODE_LOOP, ROUNDS_FIXED, 3);
  unit(7);
  tree_close(&builder);
  tree_close(&builder);
  tree_close(&builder);
  unit(8);
}

Test(tree, nodes_have_order_and_what_surely_follows_and_precedes) {
  build();
  tree_places(&program.tree, SIGHT_VISIBLE, places);
  expect_last(1, 1, 1, 8);
  expect_last(2, 3, 3, 7);
  expect_last(3, 4, 4, 4);
  expect_last(4, 5, 5, 5);
  expect_last(5, 6, 6, 7);
  expect_last(6, 1, 1, 3);
  expect_last(7, 3, 3, 3);
  expect_last(8, 8, 1, 8);
}

Test(tree, a_place_is_the_way_through_loops_and_functions) {
  build();
  tree_places(&program.tree, SIGHT_VISIBLE, places);
  const struct place *deep = NULL;
  for (uint16_t at = 0; at < program.tree.nnodes; at++)
    if (program.tree.nodes[at].point == 7)
      deep = &places[at];
  cr_assert_not_null(deep);
  cr_assert_eq(deep->nnodes, 5);
  const uint16_t orders[] = {0, 2, 7, 2, 3};
  /* who leaves the loop of epochs does not come to train() */
  const uint16_t flags[] = {0, PLACE_LOOP | PLACE_ALWAYS, 0, PLACE_LOOP | PLACE_ALWAYS,
                            PLACE_ALWAYS};
  for (uint32_t i = 0; i < 5; i++) {
    cr_expect_eq(deep->nodes[i].order, orders[i]);
    cr_expect_eq(deep->nodes[i].flags, flags[i] | (i > 0 ? PLACE_ORDERED : 0));
    cr_expect_neq(deep->nodes[i].id, 0);
  }
}

Test(tree, what_is_not_seen_is_not_in_the_place) {
  build();
  tree_places(&program.tree, SIGHT_UNORDERED, places);
  struct place_node node = last_of(5);
  cr_expect_eq(node.order + node.since + node.until + node.flags, 0);
  cr_expect_neq(node.id, 0);
  tree_places(&program.tree, SIGHT_HIDDEN, places);
  for (uint16_t at = 0; at < program.tree.nnodes; at++)
    cr_expect_eq(places[at].id, 0);
}

/* ---- what places say is true of every way through the program ---- */

/* Orders of the nodes that have been come through in one round of a loop, or one call of a
 * function: those of its inner loops, too. */
struct way {
  uint32_t count;
  uint16_t orders[4096];
};

static uint64_t random_state;
static uint64_t checked;

/* A unit below a node; 0: none. */
static uint16_t unit_below(uint16_t at) {
  const struct node *node = &program.tree.nodes[at];
  if (node->kind == NODE_UNIT)
    return at;
  for (uint16_t child = node->first; child != 0; child = program.tree.nodes[child].next)
    if (unit_below(child) != 0)
      return unit_below(child);
  for (uint16_t child = node->otherwise; child != 0; child = program.tree.nodes[child].next)
    if (unit_below(child) != 0)
      return unit_below(child);
  return 0;
}

static void check_node(const struct way *way, const struct place_node *node) {
  uint32_t first = UINT32_MAX, last = UINT32_MAX;
  cr_assert(node->flags & PLACE_ORDERED);
  for (uint32_t i = 0; i < way->count; i++)
    if (way->orders[i] == node->order) {
      first = first == UINT32_MAX ? i : first;
      last = i;
    }
  cr_assert(last != UINT32_MAX || !(node->flags & PLACE_ALWAYS), "not always %u", node->order);
  for (uint32_t i = 0; i < way->count; i++) {
    uint16_t order = way->orders[i];
    if (order >= node->since && order < node->order)
      cr_assert(last != UINT32_MAX && last > i, "%u is not followed by %u", order, node->order);
    if (order > node->order && order <= node->until)
      cr_assert(first < i, "%u has not come through %u", order, node->order);
    checked++;
  }
}

/* All nodes that stand directly in the loop or function. */
static void check_block(const struct way *way, uint16_t first, uint32_t level) {
  for (uint16_t at = first; at != 0; at = program.tree.nodes[at].next) {
    const struct node *node = &program.tree.nodes[at];
    if (node->kind == NODE_BRANCH) {
      check_block(way, node->first, level);
      check_block(way, node->otherwise, level);
    } else if (unit_below(at) != 0) {
      check_node(way, &places[unit_below(at)].nodes[level]);
    }
  }
}

/* Goes through a block as it pleases. Whether it has come to its end. */
static bool walk(struct way *way, uint16_t first, uint32_t level) {
  for (uint16_t at = first; at != 0; at = program.tree.nodes[at].next) {
    const struct node *node = &program.tree.nodes[at];
    if (node->kind == NODE_BREAK || node->kind == NODE_CONTINUE)
      return false;
    if (node->kind == NODE_BRANCH) {
      if (!walk(way, random_one_in(&random_state, 2) ? node->first : node->otherwise, level))
        return false;
      continue;
    }
    way->orders[way->count++] = places[unit_below(at)].nodes[level].order;
    uint32_t rounds = node->kind == NODE_CALL ? 1 : random_below(&random_state, 4);
    for (uint32_t round = 0; round < rounds && node->kind != NODE_UNIT; round++) {
      struct way inner = {0};
      walk(&inner, node->first, level + 1);
      check_block(&inner, node->first, level + 1);
      for (uint32_t i = 0; i < inner.count && node->kind == NODE_LOOP; i++)
        way->orders[way->count++] = inner.orders[i];
    }
  }
  return true;
}

Test(tree, what_surely_follows_and_precedes_does_so_on_every_way) {
  static struct way way;
  for (uint64_t seed = 0; seed < 2 * ROWS; seed++) {
    struct row row = row_of_seed(seed);
    if (row.sight == SIGHT_WRAPPED || row.sight == SIGHT_ENGINE)
      continue;
    program_random(&program, seed);
    tree_places(&program.tree, SIGHT_VISIBLE, places);
    random_state = random_seeded(seed);
    for (uint32_t times = 0; times < 4; times++) {
      way.count = 0;
      walk(&way, program.tree.nodes[0].first, 1); /* behind main itself */
      check_block(&way, program.tree.nodes[0].first, 1);
    }
  }
  cr_assert_gt(checked, 100000);
}

/* ---- what ranks do ---- */

Test(tree, each_rank_goes_through_it_with_its_own_data) {
  struct step *steps = NULL;
  uint64_t room = 0;
  program = (struct program){.nranks = 2, .epochs = 2};
  tree_begin(&builder, &program.tree);
  open_block(NODE_LOOP, ROUNDS_EPOCHS, 0);
  open_block(NODE_LOOP, ROUNDS_TRAINING, 0);
  unit(1);
  tree_close(&builder);
  unit(2);
  tree_close(&builder);
  program.data.training[0][0] = 3;
  program.data.training[0][1] = 1;
  program.data.training[1][1] = 2;
  cr_assert_eq(program_steps(&program, 0, &steps, &room), 3 + 1 + 0 + 1);
  cr_assert_eq(steps[2].instance.iteration, 2);
  cr_assert_eq(steps[4].instance.point, 2);
  cr_assert_eq(steps[4].instance.epoch, 1);
  cr_assert_eq(program_steps(&program, 1, &steps, &room), 1 + 1 + 2 + 1);
  cr_assert_eq(steps[2].instance.epoch, 1);
  cr_assert_eq(steps[3].instance.iteration, 1);
  free(steps);
}

/* until done { if (batch < batches) 1; else if (batches of the validation set are left) 2; else 3;
 * } */
Test(tree, states_of_a_loop_come_one_after_the_other_and_mean_what_loops_would) {
  static const struct instance expected[] = {{.point = 1, .iteration = 0},
                                             {.point = 1, .iteration = 1},
                                             {.point = 2, .iteration = 0},
                                             {.point = 3},
                                             {.point = 2, .epoch = 1, .iteration = 0},
                                             {.point = 2, .epoch = 1, .iteration = 1},
                                             {.point = 3, .epoch = 1}};
  struct step *steps = NULL;
  uint64_t room = 0, nsteps = sizeof(expected) / sizeof(expected[0]);
  program = (struct program){.nranks = 1, .epochs = 2};
  tree_begin(&builder, &program.tree);
  open_block(NODE_LOOP, ROUNDS_EPOCHS, 0);
  open_block(NODE_LOOP, ROUNDS_STATES, 1);
  open_block(NODE_BRANCH, WHEN_TRAINS, 0);
  unit(1);
  tree_otherwise(&builder);
  open_block(NODE_BRANCH, WHEN_VALIDATES, 0);
  unit(2);
  tree_otherwise(&builder);
  unit(3);
  program.data.training[0][0] = 2;
  program.data.validation[0][0] = 1;
  program.data.validation[1][0] = 2;
  cr_assert_eq(program_steps(&program, 0, &steps, &room), nsteps);
  for (uint64_t i = 0; i < nsteps; i++) {
    cr_expect_eq(steps[i].instance.point, expected[i].point, "step %lu", i);
    cr_expect_eq(steps[i].instance.epoch, expected[i].epoch, "step %lu", i);
    cr_expect_eq(steps[i].instance.iteration, expected[i].iteration, "step %lu", i);
  }
  free(steps);
}

/* Nothing stands between them. */
Test(tree, epochs_that_nothing_marks_the_end_of_are_one) {
  struct step *steps = NULL;
  uint64_t room = 0;
  program = (struct program){.nranks = 1, .epochs = 2};
  tree_begin(&builder, &program.tree);
  open_block(NODE_LOOP, ROUNDS_EPOCHS, 0);
  open_block(NODE_LOOP, ROUNDS_TRAINING, 0);
  unit(1);
  tree_close(&builder);
  tree_close(&builder);
  program.data.training[0][0] = program.data.training[1][0] = 2;
  cr_assert_eq(program_steps(&program, 0, &steps, &room), 4);
  for (uint32_t i = 0; i < 4; i++) {
    cr_expect_eq(steps[i].instance.epoch, 0);
    cr_expect_eq(steps[i].instance.iteration, i);
  }
  free(steps);
}

/* for each epoch { for each batch { unit 1; if (when) unit 2 }; if (after) unit 3 } */
static bool counts_own_steps(enum when when, bool after) {
  tree_begin(&builder, &program.tree);
  open_block(NODE_LOOP, ROUNDS_EPOCHS, 0);
  open_block(NODE_LOOP, ROUNDS_TRAINING, 0);
  unit(1);
  open_block(NODE_BRANCH, when, 5);
  unit(2);
  tree_close(&builder);
  tree_close(&builder);
  if (after)
    unit(3);
  tree_close(&builder);
  return tree_counts_own_steps(&program.tree);
}

Test(tree, what_each_rank_counts_for_itself_is_told_from_what_all_count_alike) {
  cr_expect(counts_own_steps(WHEN_STEPS, true));
  cr_expect(counts_own_steps(WHEN_UPDATES, true));
  cr_expect_not(counts_own_steps(WHEN_BATCHES, true));
  cr_expect(counts_own_steps(WHEN_BATCHES, false), "epochs count as one");
  cr_expect_not(counts_own_steps(WHEN_EPOCH, false));
}

static void open_if(enum when when) {
  open_block(NODE_BRANCH, when, 4);
}

/* if (...) 1; else 2;  if (...) { 3; if (...) 4; else 5; 6 }  The ways leave gaps. */
Test(tree, what_is_reached_by_either_half_of_a_branch_is_reached) {
  tree_begin(&builder, &program.tree);
  open_if(WHEN_RANK);
  unit(1);
  tree_otherwise(&builder);
  unit(2);
  tree_close(&builder);
  open_if(WHEN_LOCAL);
  unit(3);
  open_if(WHEN_RANK);
  unit(4);
  tree_otherwise(&builder);
  unit(5);
  tree_close(&builder);
  unit(6);
  tree_close(&builder);
  tree_places(&program.tree, SIGHT_VISIBLE, places);
  for (uint8_t point = 1; point <= 2; point++) {
    cr_expect_eq(last_of(point).reach_from, last_of(3).order);
    cr_expect_eq(last_of(point).reach_to, last_of(6).order);
  }
  cr_expect_eq(last_of(4).reach_from, last_of(6).order);
}

static bool goes_from_loop_to_loop(bool unit_between) {
  tree_begin(&builder, &program.tree);
  open_block(NODE_LOOP, ROUNDS_EPOCHS, 0);
  open_block(NODE_CALL, FUNCTION_TRAIN, 0);
  open_block(NODE_LOOP, ROUNDS_TRAINING, 0);
  unit(1);
  tree_close(&builder);
  tree_close(&builder);
  if (unit_between)
    unit(2);
  open_block(NODE_CALL, FUNCTION_VALIDATE, 0);
  open_block(NODE_LOOP, ROUNDS_VALIDATION, 0);
  unit(3);
  return tree_goes_from_loop_to_loop(&program.tree);
}

Test(tree, a_loop_behind_that_of_training_is_found_unless_something_stands_between) {
  cr_expect(goes_from_loop_to_loop(false));
  cr_expect_not(goes_from_loop_to_loop(true));
}

Test(tree, a_point_taken_out_leaves_nothing_empty) {
  build();
  tree_remove_point(&program.tree, 6);
  tree_remove_point(&program.tree, 7);
  tree_places(&program.tree, SIGHT_VISIBLE, places);
  expect_last(8, 7, 1, 7);
}

/* Ranks of even programs have the same signatures in the same order, whatever the row. */
Test(tree, even_programs_are_even) {
  for (uint64_t seed = 0; seed < 4 * ROWS; seed++) {
    if (row_of_seed(seed).imbalance != IMBALANCE_NONE)
      continue;
    program_random(&program, seed);
    if (program.nteams == 1)
      cr_assert(program_is_even(&program), "seed %lu", seed);
  }
}
