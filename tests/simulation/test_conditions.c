/* Conditions in programs as trees (tree.h): points that look alike behind two of them, or behind
 * one, and what places tell of them. */
#include <criterion/criterion.h>

#include "tests/simulation/test_program.h"

static void open_if(enum when when) {
  open_block(NODE_BRANCH, when, 4);
}

/* Two points in a loop, of the same signature or not, each by the condition given, or by the same
 * half of one. */
static bool has_twins(bool alike, bool one_condition, bool in_two_loops) {
  tree_begin(&builder, &program.tree);
  open_block(NODE_LOOP, ROUNDS_TRAINING, 0);
  open_if(WHEN_LOCAL);
  unit(1);
  if (!one_condition) {
    tree_close(&builder);
    if (in_two_loops) {
      tree_close(&builder);
      open_block(NODE_LOOP, ROUNDS_TRAINING, 0);
    }
    open_if(WHEN_LOCAL);
  }
  unit(2);
  if (alike)
    program.tree.nodes[program.tree.nnodes - 1].slot.members[0].count = 1;
  return tree_has_twins(&program.tree);
}

/* for (...) if (...) { if (...) 1; else 2; } */
Test(conditions, halves_of_a_condition_under_another_are_twins) {
  tree_begin(&builder, &program.tree);
  open_block(NODE_LOOP, ROUNDS_TRAINING, 0);
  open_if(WHEN_LOCAL);
  open_if(WHEN_LOCAL);
  unit(1);
  tree_otherwise(&builder);
  unit(2);
  cr_expect_not(tree_has_twins(&program.tree));
  program.tree.nodes[program.tree.nnodes - 1].slot.members[0].count = 1;
  cr_expect(tree_has_twins(&program.tree));
}

Test(conditions, two_points_of_a_loop_that_look_alike_and_come_by_conditions_are_twins) {
  cr_expect(has_twins(true, false, false));
  cr_expect_not(has_twins(false, false, false));
  cr_expect_not(has_twins(true, true, false), "who comes to one comes to the other");
  cr_expect_not(has_twins(true, false, true));
}

/* if (...) 1; else if (...) 2;  in a loop, or not. */
static bool has_halves(bool alike, bool in_loop) {
  tree_begin(&builder, &program.tree);
  open_block(in_loop ? NODE_LOOP : NODE_CALL, in_loop ? ROUNDS_TRAINING : FUNCTION_TRAIN, 0);
  open_if(WHEN_LOCAL);
  unit(1);
  tree_otherwise(&builder);
  open_if(WHEN_LOCAL);
  unit(2);
  if (alike)
    program.tree.nodes[program.tree.nnodes - 1].slot.members[0].count = 1;
  return tree_has_halves(&program.tree);
}

Test(conditions, what_looks_alike_in_two_branches_of_a_loop_makes_halves) {
  cr_expect(has_halves(true, true));
  cr_expect_not(has_halves(false, true));
  cr_expect_not(has_halves(true, false));
}

/* for (...) if (rank == 0) 1; else 1; and the same in a function, or under another condition */
static bool has_halves_by_rank(bool in_function, bool by_data) {
  tree_begin(&builder, &program.tree);
  open_block(NODE_LOOP, ROUNDS_EPOCHS, 0);
  open_block(in_function ? NODE_CALL : NODE_LOOP, in_function ? FUNCTION_TRAIN : ROUNDS_TRAINING,
             0);
  if (by_data)
    open_block(NODE_BRANCH, WHEN_LOCAL, 2);
  open_block(NODE_BRANCH, WHEN_RANK, 0);
  unit(1);
  tree_otherwise(&builder);
  unit(1);
  return tree_has_halves(&program.tree);
}

Test(conditions, halves_by_rank_are_none_where_it_is_seen_that_a_rank_stays_in_one) {
  cr_expect_not(has_halves_by_rank(false, false));
  cr_expect(has_halves_by_rank(true, false));
  cr_expect(has_halves_by_rank(false, true));
}

/* What is known of the conditions that lead to a point. */
static uint16_t condition_of(enum when when, enum when around) {
  tree_begin(&builder, &program.tree);
  open_block(NODE_LOOP, ROUNDS_TRAINING, 0);
  if (around != when)
    open_block(NODE_BRANCH, around, 2);
  open_block(NODE_BRANCH, when, 1);
  unit(1);
  tree_places(&program.tree, SIGHT_VISIBLE, places);
  const struct place *place = &places[program.tree.nnodes - 1];
  return place->nodes[place->nnodes - 1].flags & ~(uint32_t)PLACE_ORDERED;
}

Test(conditions, places_tell_of_conditions_whether_they_change) {
  cr_expect_eq(condition_of(WHEN_RANK, WHEN_RANK), PLACE_FIXED);
  cr_expect_eq(condition_of(WHEN_RANK, WHEN_LOCAL), 0);
  cr_expect_geq(condition_of(WHEN_STEPS, WHEN_STEPS), 1u << PLACE_TURN_SHIFT);
  cr_expect_eq(condition_of(WHEN_RANK, WHEN_STEPS), condition_of(WHEN_STEPS, WHEN_STEPS));
  cr_expect_eq(condition_of(WHEN_LOCAL, WHEN_LOCAL), 0);
}
