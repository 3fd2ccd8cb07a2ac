/* Communicators made from others while ranks have different numbers of iterations: a rank that has
 * left its loop for a split waits there, one that has joined takes part without getting anything.
 */
#include "tests/join/expected.h"
#include "tests/join/run.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#define EVERY 4

struct shape {
  const char *mode, *end;
  int colours, uses; /* uses: 0 counts as 2, -1 as 0 */
  bool nonblocking;
};

static unsigned of_colour(unsigned ranks, int rank, int colours) {
  unsigned same = 0;
  for (int other = 0; other < 32; other++)
    if ((ranks >> other & 1) != 0 && other % colours == rank % colours)
      same |= 1u << other;
  return same;
}

/* The child of those ranks that have the colour of this one; its ranks are in the opposite order.
 */
static unsigned add_made(struct lines *lines, int rank, unsigned ranks, int colours, int epoch,
                         int i) {
  unsigned child = of_colour(ranks, rank, colours);
  lines_add(lines, rank, "made %d %d %d %d", epoch, i, set_size(child >> rank) - 1,
            set_size(child));
  return child;
}

static int uses_of(const struct shape *shape) {
  return shape->uses == 0 ? 2 : shape->uses < 0 ? 0 : shape->uses;
}

static void add_child(struct lines *lines, const struct shape *shape, int rank, unsigned child,
                      int epoch, int i) {
  for (int k = 0; k < uses_of(shape); k++)
    lines_add(lines, rank, "child %d %d %u", epoch, i, child);
}

static void add_epoch(struct lines *lines, const struct schedule *schedule,
                      const struct shape *shape, int epoch, int rank) {
  unsigned all = set_of_all(schedule->nranks);
  bool inside = strcmp(shape->mode, "inside") == 0,
       of_epoch = strcmp(shape->mode, "epoch") == 0 || strcmp(shape->mode, "keep") == 0;
  unsigned own = of_epoch ? add_made(lines, rank, all, shape->colours, epoch, -1) : all;
  for (int i = 0; i < schedule->n[epoch][rank]; i++) {
    unsigned active = schedule_active(schedule, epoch, i);
    lines_add(lines, rank, "sum %d %d %u", epoch, i, active & own);
    if (strcmp(shape->mode, "copy") == 0)
      lines_add(lines, rank, "copy %d %d %u", epoch, i, active);
    if (inside && i % EVERY == EVERY - 1)
      add_child(lines, shape, rank, add_made(lines, rank, active, shape->colours, epoch, i), epoch,
                i);
  }
  if (inside)
    lines_add(lines, rank, "end %d %u", epoch, all);
  if (strcmp(shape->mode, "after") == 0)
    add_child(lines, shape, rank, add_made(lines, rank, all, shape->colours, epoch, -1), epoch, -1);
  if (strcmp(shape->mode, "pair") != 0)
    return;
  add_child(lines, shape, rank, all, epoch, 0);
  if (rank % 2 == 0)
    add_child(lines, shape, rank, of_colour(all, 0, 2), epoch, 1);
}

static const char *options_of(const struct schedule *schedule, const struct shape *shape) {
  static char text[512];
  snprintf(text, sizeof text,
           "--iterations %s --mode %s --end %s --colours %d --uses %d --blocking %d",
           schedule_text(schedule), shape->mode, shape->end, shape->colours, uses_of(shape),
           !shape->nonblocking);
  return text;
}

static void check(const struct schedule *schedule, struct shape shape) {
  shape.colours = shape.colours ? shape.colours : 1;
  shape.end = shape.end ? shape.end : "destroy";
  struct run *result = run(&(struct launch){.nranks = schedule->nranks,
                                            .program = "children",
                                            .options = options_of(schedule, &shape),
                                            .environment = "NCCL_JOIN_TIMEOUT=10"});
  assert_went_well(result);
  struct lines *lines = lines_create();
  for (int rank = 0; rank < schedule->nranks; rank++)
    for (int epoch = 0; epoch < schedule->epochs; epoch++)
      add_epoch(lines, schedule, &shape, epoch, rank);
  if (strcmp(shape.end, "destroy") == 0)
    lines_add_left(lines, schedule->nranks);
  finish_run(result, lines);
}

/* Ranks leave their loops into the split: all take part. */

Test(children, split_after_an_uneven_loop_meets_all) {
  check(&(struct schedule){3, 1, {{3, 5, 4}}}, (struct shape){.mode = "after"});
}
Test(children, split_after_loops_of_ranks_without_iterations) {
  check(&(struct schedule){4, 3, {{2, 0, 5, 1}, {0, 6, 3, 3}, {12, 12, 9, 14}}},
        (struct shape){.mode = "after"});
}
Test(children, split_into_halves_after_uneven_loops) {
  check(&(struct schedule){4, 3, {{20, 26, 23, 20}, {12, 9, 17, 21}, {20, 26, 23, 20}}},
        (struct shape){.mode = "after", .colours = 2});
}
/* What has come at the same place often is still not taken for granted: who stood in for itself
 * would not be in the child. */
Test(children, split_after_even_epochs_and_then_an_uneven_one) {
  check(
      &(struct schedule){3, 6, {{3, 3, 3}, {3, 3, 3}, {3, 3, 3}, {3, 3, 3}, {3, 3, 3}, {3, 5, 2}}},
      (struct shape){.mode = "after", .uses = -1});
}
Test(children, two_splits_in_a_group_after_an_uneven_loop) {
  check(&(struct schedule){4, 2, {{3, 6, 4, 4}, {7, 2, 2, 5}}}, (struct shape){.mode = "pair"});
}
Test(children, split_that_does_not_block_after_an_uneven_loop) {
  check(&(struct schedule){3, 2, {{3, 5, 4}, {6, 2, 2}}},
        (struct shape){.mode = "after", .nonblocking = true});
}

/* Ranks split in the loop: who has joined is not in the child. */

Test(children, split_in_the_loop_leaves_out_who_has_joined) {
  check(&(struct schedule){4, 1, {{9, 3, 6, 2}}}, (struct shape){.mode = "inside"});
}
Test(children, split_in_the_loop_after_learning) {
  check(&(struct schedule){4, 2, {{20, 26, 23, 31}, {14, 9, 17, 3}}},
        (struct shape){.mode = "inside"});
}
Test(children, split_in_the_loop_into_halves) {
  check(&(struct schedule){4, 2, {{9, 17, 13, 8}, {4, 8, 14, 12}}},
        (struct shape){.mode = "inside", .colours = 2});
}
Test(children, split_in_the_loop_while_another_returns_from_main) {
  check(&(struct schedule){3, 1, {{9, 5, 14}}}, (struct shape){.mode = "inside", .end = "return"});
}
Test(children, split_that_does_not_block_in_the_loop) {
  check(&(struct schedule){3, 1, {{9, 3, 6}}},
        (struct shape){.mode = "inside", .nonblocking = true});
}

/* Communicators come and go. */

Test(children, another_communicator_in_each_epoch) {
  check(&(struct schedule){3, 4, {{3, 13, 9}, {5, 2, 8}, {4, 4, 4}, {0, 7, 1}}},
        (struct shape){.mode = "epoch"});
}
Test(children, other_halves_in_each_epoch) {
  check(&(struct schedule){4, 3, {{3, 13, 9, 5}, {5, 2, 8, 8}, {4, 4, 4, 0}}},
        (struct shape){.mode = "epoch", .colours = 2});
}
/* Ranks come to the split while others are still in the loops of smaller teams. */
Test(children, split_of_all_while_halves_are_in_their_loops) {
  check(&(struct schedule){4, 3, {{3, 13, 9, 6}, {5, 2, 8, 9}, {4, 4, 4, 4}}},
        (struct shape){.mode = "keep", .colours = 2});
}
Test(children, split_of_all_while_halves_are_in_loops_that_have_been_learnt) {
  check(&(struct schedule){4, 3, {{33, 23, 29, 36}, {25, 22, 38, 29}, {44, 14, 24, 34}}},
        (struct shape){.mode = "keep", .colours = 2});
}
Test(children, communicators_of_all_that_are_kept) {
  check(&(struct schedule){3, 3, {{3, 13, 9}, {5, 2, 8}, {0, 4, 4}}},
        (struct shape){.mode = "keep"});
}
Test(children, copy_in_turn_with_the_original) {
  check(&(struct schedule){3, 1, {{20, 33, 26}}}, (struct shape){.mode = "copy"});
}

/* What the tests above are worth. */

Test(children, split_after_an_uneven_loop_hangs_without_join) {
  assert_stuck_without(3, "children", "--iterations 3,5,4 --mode after");
}
Test(children, split_in_an_uneven_loop_hangs_without_join) {
  assert_stuck_without(3, "children", "--iterations 9,3,6 --mode inside");
}

/* Nobody is left waiting in a split for a rank that will not come, nor gets a child without it. */
static void check_failure(const char *after, int status) {
  char options[128];
  snprintf(options, sizeof options, "--iterations 3,5,4 --mode after --after on,%s,on", after);
  struct run *result = run(&(struct launch){.nranks = 3,
                                            .program = "children",
                                            .options = options,
                                            .environment = "NCCL_JOIN_TIMEOUT=60",
                                            .each = true});
  cr_assert_not(result->timed_out, "%s%s", result->output, result->errors);
  cr_assert_eq(result->rank_status[1], status);
  cr_assert_eq(strstr(result->output, "made"), NULL, "%s", result->output);
  for (int rank = 0; rank < 3; rank += 2) {
    char line[64];
    snprintf(line, sizeof line, "RESULT %d error 6 ", rank); /* ncclRemoteError */
    cr_assert_eq(result->rank_status[rank], 1);
    cr_assert_neq(strstr(result->output, line), NULL, "%s%s", result->output, result->errors);
  }
  cr_assert(run_says_in_a_line(result, "rank 1 failed after", "parked in split on comm", NULL),
            "%s", result->errors);
  run_free(result);
}

Test(children, split_that_a_killed_rank_does_not_come_to) {
  check_failure("kill", 128 + SIGKILL);
}
Test(children, split_that_a_rank_ends_with_status_1_before) {
  check_failure("fail", 1);
}

/* What each leaves behind is some hundred bytes (interpose/comm/communicator.c, endpoint.c); a team
 * that stayed would be a megabyte. The C library's arenas keep more or less of what has been freed,
 * as the threads come: up to 800 KB on a busy machine. */
static void check_many(int colours) {
  enum { KILOBYTES_EACH = 16 };
  int splits = run_adds_in_any_order() ? 20 : 200; /* NVIDIA's NCCL takes half a second for one */
  char options[128];
  snprintf(options, sizeof options, "--iterations 1 --mode many --splits %d --uses 1 --colours %d",
           splits, colours);
  struct run *result =
      run(&(struct launch){.nranks = 4, .program = "children", .options = options});
  assert_went_well(result);
  /* Sanitizers keep what has been freed. */
  bool plain = strchr(run_build_folder(), '-') == NULL;
  for (int rank = 0; plain && rank < 4; rank++)
    cr_expect_leq(run_time(result, rank, "kilobytes"), splits / 2 * KILOBYTES_EACH,
                  "rank %d has %g", rank, run_time(result, rank, "kilobytes"));
  run_free(result);
}

Test(children, many_of_all_ranks_one_after_the_other) {
  check_many(1);
}
Test(children, many_of_half_the_ranks_one_after_the_other) {
  check_many(2);
}
