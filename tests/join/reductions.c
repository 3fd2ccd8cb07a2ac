/* What a rank contributes once it has joined: nothing, in every datatype and every reduction. */
#include "tests/join/expected.h"
#include "tests/join/run.h"

#include <criterion/criterion.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static const struct {
  const char *name;
  bool is_signed;
} datatypes[] = {
    {"int8", true},    {"uint8", false},   {"int32", true},      {"uint32", false},
    {"int64", true},   {"uint64", false},  {"float16", true},    {"float32", true},
    {"float64", true}, {"bfloat16", true}, {"float8e4m3", true}, {"float8e5m2", true},
};
enum { DATATYPES = sizeof datatypes / sizeof *datatypes };

static const char *const reductions[] = {"sum", "prod", "max", "min", "avg", "premulsum"};
enum { REDUCTIONS = sizeof reductions / sizeof *reductions };

/* The reduction over the active ranks of what programs/reductions contributes: 1 or 2, negative at
 * odd places. */
static double reduced(const char *reduction, unsigned active, bool negative) {
  double sum = 0, product = 1, smallest = 2, largest = 1;
  for (; active != 0; active &= active - 1) {
    int rank = set_lowest(active);
    double value = 1 + rank % 2;
    sum += value;
    product *= negative ? -value : value;
    smallest = value < smallest ? value : smallest;
    largest = value > largest ? value : largest;
  }
  if (strcmp(reduction, "prod") == 0)
    return product;
  if (strcmp(reduction, "max") == 0)
    return negative ? -smallest : largest;
  if (strcmp(reduction, "min") == 0)
    return negative ? -largest : smallest;
  if (strcmp(reduction, "premulsum") == 0)
    sum *= 2;
  return negative ? -sum : sum; /* averages are of nranks times the value, over nranks */
}

/* root: the only rank with a result, or -1. */
static void check_reductions(const struct schedule *schedule, const char *options, int root) {
  char text[256];
  snprintf(text, sizeof text, "--iterations %s --float8 1 %s", schedule_text(schedule), options);
  struct run *result =
      run(&(struct launch){.nranks = schedule->nranks, .program = "reductions", .options = text});
  assert_went_well(result);
  struct lines *lines = lines_create();
  for (int rank = 0; rank < schedule->nranks; rank++)
    for (int i = 0; i < schedule->n[0][rank] && (root < 0 || rank == root); i++) {
      unsigned active = schedule_active(schedule, 0, i);
      for (int d = 0; d < DATATYPES; d++)
        for (int r = 0; r < REDUCTIONS; r++)
          lines_add(lines, rank, "reduced %d %s %s %.9g %.9g", i, datatypes[d].name, reductions[r],
                    reduced(reductions[r], active, false),
                    reduced(reductions[r], active, datatypes[d].is_signed));
    }
  lines_add_left(lines, schedule->nranks);
  finish_run(result, lines);
}

/* All ranks but one do more iterations than that one. */
static void check_joiner(int nranks, int joiner, int few, int many) {
  struct schedule schedule = {.nranks = nranks, .epochs = 1};
  for (int rank = 0; rank < nranks; rank++)
    schedule.n[0][rank] = rank == joiner ? few : many;
  check_reductions(&schedule, "", -1);
}

/* Never seen before: the joined rank has no iterations at all. */
Test(reductions, rank_0_of_four_joins_before_the_first) {
  check_joiner(4, 0, 0, 2);
}
Test(reductions, rank_1_of_four_joins_before_the_first) {
  check_joiner(4, 1, 0, 2);
}
Test(reductions, rank_2_of_four_joins_before_the_first) {
  check_joiner(4, 2, 0, 2);
}
Test(reductions, rank_3_of_four_joins_before_the_first) {
  check_joiner(4, 3, 0, 2);
}

/* Learnt: it leaves a loop that has been repeated. */
Test(reductions, rank_0_of_four_joins_later) {
  check_joiner(4, 0, 4, 6);
}
Test(reductions, rank_1_of_four_joins_later) {
  check_joiner(4, 1, 4, 6);
}
Test(reductions, rank_2_of_four_joins_later) {
  check_joiner(4, 2, 4, 6);
}
Test(reductions, rank_3_of_four_joins_later) {
  check_joiner(4, 3, 4, 6);
}

Test(reductions, either_rank_of_two_joins) {
  check_joiner(2, 0, 1, 3);
  check_joiner(2, 1, 1, 3);
}

Test(reductions, two_ranks_have_joined) {
  check_reductions(&(struct schedule){4, 1, {{5, 2, 5, 3}}}, "", -1);
}

Test(reductions, reduce_to_an_active_root) {
  check_reductions(&(struct schedule){4, 1, {{3, 5, 5, 1}}}, "--collective reduce --root 2", 2);
}

/* The others' loops go on; its result is nobody's. */
Test(reductions, reduce_to_a_joined_root) {
  check_reductions(&(struct schedule){3, 1, {{2, 5, 5}}}, "--collective reduce --root 0", 0);
}

Test(reductions, reduce_scatter) {
  check_reductions(&(struct schedule){4, 1, {{3, 5, 5, 1}}}, "--collective reducescatter", -1);
}
