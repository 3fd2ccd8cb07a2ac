/* A program as a tree (tree.h) that tests of trees build by hand, with the places of its units. For
 * one test at a time: each file that includes this has its own.
 */
#ifndef TESTS_SIMULATION_TEST_PROGRAM_H
#define TESTS_SIMULATION_TEST_PROGRAM_H

#include "tests/simulation/program.h"

static struct program program;
static struct builder builder;
__attribute__((unused)) static struct place places[TREE_NODES_MAX];

/* Appends an all-reduce of as many elements as the point has for its number: no two look alike. */
static inline void unit(uint8_t point) {
  struct node *node = tree_add(&builder, NODE_UNIT, 0, 0);
  node->point = point;
  node->slot = (struct slot){AXIS_WORLD, 1, {{.count = point, .kind = MEMBER_ALLREDUCE}}};
}

/* Appends a loop, branch or call, and opens its block. */
static inline void open_block(enum node_kind kind, uint32_t what, uint32_t value) {
  tree_add(&builder, kind, what, value);
  tree_open(&builder);
}

#endif
