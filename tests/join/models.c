/* A real model, trained by ranks with uneven data: is it the model that serial training, other
 * ways of coping with uneven data, and arithmetic give? */
#include "tests/join/regression.h"
#include "tests/join/run.h"

#include <criterion/criterion.h>
#include <string.h>

/* Trains, and compares every rank's weights after every step. Returns the models at the end. */
static struct trained check_training(const struct regression *wanted, uint64_t without) {
  struct run *result = run(&(struct launch){.nranks = wanted->schedule.nranks,
                                            .program = "regression",
                                            .options = regression_text(wanted),
                                            .without = without});
  assert_went_well(result);
  struct lines *lines = lines_create();
  struct trained trained = lines_add_regression(lines, wanted);
  finish_run(result, lines);
  return trained;
}

static void check_stuck(const struct regression *wanted) {
  assert_stuck_without(wanted->schedule.nranks, "regression", regression_text(wanted));
}

/* ---- serial training ---- */

/* Rank r has 2 (r + 1) batches of one sample. The loss is the sum of outputs, as in PyTorch's test,
 * so that what is learnt does not depend on the order; all numbers are small multiples of 1/64, so
 * that sums are exact. */
static void check_equivalence(int nranks) {
  struct regression wanted = {.schedule = {.nranks = nranks, .epochs = 1}, .outputs = true};
  int samples[256], nsamples = 0;
  for (int rank = 0; rank < nranks; rank++) {
    wanted.schedule.n[0][rank] = 2 * (rank + 1);
    for (int i = 0; i < 2 * (rank + 1); i++)
      samples[nsamples++] = i * nranks + rank;
  }
  struct trained trained = check_training(&wanted, 0);
  double serial[REGRESSION_WEIGHTS];
  train_serially(serial, samples, nsamples);
  cr_assert_eq(trained.last, nranks - 1);
  for (int w = 0; w < REGRESSION_WEIGHTS; w++)
    cr_assert_eq(trained.weights[trained.last][w], serial[w], "weight %d", w);
  check_stuck(&wanted);
}

Test(models, two_ranks_learn_what_serial_training_does) {
  check_equivalence(2);
}
Test(models, four_ranks_learn_what_serial_training_does) {
  check_equivalence(4);
}
Test(models, eight_ranks_learn_what_serial_training_does) {
  check_equivalence(8);
}

/* ---- few samples ---- */

/* Accelerate's: three samples over two ranks, [0, 2] and [1]. */
Test(models, three_samples_over_two_ranks) {
  const struct regression wanted = {.schedule = {.nranks = 2}, .samples = 3};
  check_training(&wanted, 0);
  check_stuck(&wanted);
}

/* [0, 1], [4, 5] and [2, 3], [6]: as many batches each, one of them smaller. */
Test(models, seven_samples_in_batches_of_two) {
  const struct regression wanted = {.schedule = {.nranks = 2}, .samples = 7, .batch = 2};
  check_training(&wanted, 0);
  check_training(&wanted, RUN_ALL_RANKS);
}
Test(models, five_samples_in_batches_of_two_over_two_ranks) {
  const struct regression wanted = {.schedule = {.nranks = 2}, .samples = 5, .batch = 2};
  check_training(&wanted, 0);
  check_stuck(&wanted);
}

/* A rank that gets none at all. */
Test(models, two_samples_over_three_ranks) {
  const struct regression wanted = {.schedule = {.nranks = 3}, .samples = 2, .by_samples = true};
  check_training(&wanted, 0);
  check_stuck(&wanted);
}

/* ---- fairseq's dummy batches ---- */

/* Joined ranks, and ranks that go on with a batch of which nothing counts, make the same model: the
 * sum of gradients over the number of samples in all. Dummies need no preload. */
Test(models, joined_ranks_are_worth_dummy_batches) {
  struct regression wanted = {.schedule = {3, 1, {{7, 25, 16}}}, .batch = 2, .by_samples = true};
  struct trained joined = check_training(&wanted, 0);
  check_stuck(&wanted);
  wanted.dummy = true;
  struct trained dummies = check_training(&wanted, RUN_ALL_RANKS);
  for (int rank = 0; rank < 3; rank++)
    for (int w = 0; w < REGRESSION_WEIGHTS; w++)
      cr_assert_eq(dummies.weights[rank][w], joined.weights[joined.last][w], "rank %d, weight %d",
                   rank, w);
}

/* ---- gradient accumulation ---- */

/* Steps of three batches; ranks end in the middle of one, and drop what is too few. */
Test(models, batches_too_few_for_a_step_are_dropped) {
  const struct regression wanted = {.schedule = {3, 1, {{8, 20, 13}}}, .accumulate = 3};
  check_training(&wanted, 0);
  check_stuck(&wanted);
}

/* They make a smaller step of it, which meets a whole one of the others. */
Test(models, batches_too_few_for_a_step_make_one) {
  const struct regression wanted = {
      .schedule = {3, 1, {{8, 20, 13}}}, .accumulate = 3, .tail = true, .by_samples = true};
  check_training(&wanted, 0);
  check_stuck(&wanted);
}

/* Not enough batches for a single step. */
Test(models, rank_that_ends_in_the_middle_of_its_first_step) {
  const struct regression wanted = {.schedule = {3, 1, {{3, 30, 17}}}, .accumulate = 4};
  check_training(&wanted, 0);
}

/* ---- the model of the rank that trained to the end ---- */

static void check_last(const struct schedule *schedule, int last) {
  struct regression wanted = {.schedule = *schedule, .take_over = TAKE_OVER_WEIGHTS};
  cr_assert_eq(check_training(&wanted, 0).last, last);
}

Test(models, model_of_the_last_rank_reaches_all) {
  check_last(&(struct schedule){3, 1, {{3, 5, 9}}}, 2);
  check_last(&(struct schedule){3, 1, {{12, 5, 9}}}, 0);
  check_last(&(struct schedule){4, 1, {{0, 20, 3, 9}}}, 1);
  check_stuck(
      &(struct regression){.schedule = {3, 1, {{3, 5, 9}}}, .take_over = TAKE_OVER_WEIGHTS});
}
Test(models, of_several_last_ranks_it_is_the_largest) {
  check_last(&(struct schedule){4, 1, {{9, 4, 9, 7}}}, 2);
  check_last(&(struct schedule){3, 1, {{9, 9, 9}}}, 2);
}
Test(models, another_rank_is_last_in_each_epoch) {
  check_last(&(struct schedule){3, 3, {{5, 8, 6}, {9, 4, 9}, {7, 3, 2}}}, 0);
}

/* ---- the optimizer's state ---- */

static bool same_weights(const struct trained *trained, int rank, int other) {
  return memcmp(trained->weights[rank], trained->weights[other], sizeof trained->weights[rank]) ==
         0;
}

/* The limitation that docs/limits.md states: an uneven epoch, after which all take over the weights
 * alone, then an even one. Rank 0's moments and steps are those of its last own iteration, so the
 * models drift apart, as they do with PyTorch's Join. */
Test(models, weights_alone_are_not_enough_for_adam) {
  const struct regression wanted = {
      .schedule = {3, 2, {{6, 12, 12}, {8, 8, 8}}}, .adam = true, .take_over = TAKE_OVER_WEIGHTS};
  struct trained trained = check_training(&wanted, 0);
  cr_assert(same_weights(&trained, 1, 2), "ranks 1 and 2 did the same");
  cr_assert(!same_weights(&trained, 0, 2), "rank 0 has a state of its own");
}

/* With the state taken over as well all stay equal. */
Test(models, weights_and_state_are_enough_for_adam) {
  const struct regression wanted = {.schedule = {3, 3, {{6, 12, 9}, {8, 8, 8}, {12, 5, 7}}},
                                    .adam = true,
                                    .take_over = TAKE_OVER_ALL};
  struct trained even = check_training(
      &(struct regression){
          .schedule = {3, 2, {{6, 12, 9}, {8, 8, 8}}}, .adam = true, .take_over = TAKE_OVER_ALL},
      0);
  cr_assert(same_weights(&even, 0, 2) && same_weights(&even, 1, 2));
  check_training(&wanted, 0);
  check_stuck(&wanted);
}

/* ---- many ranks ---- */

/* 64 processes, two epochs with ranks that leave at many different times, some with nothing at all.
 * NVIDIA's NCCL takes one device for each, of which the loopback has eight. */
Test(models, sixty_four_ranks) {
  static struct regression wanted = {
      .schedule = {.nranks = 64, .epochs = 2}, .adam = true, .take_over = TAKE_OVER_ALL};
  if (run_adds_in_any_order())
    wanted.schedule.nranks = 8;
  for (int rank = 0; rank < wanted.schedule.nranks; rank++) {
    wanted.schedule.n[0][rank] = rank * 7 % 16;
    wanted.schedule.n[1][rank] = 20 - rank * 5 % 17;
  }
  check_training(&wanted, 0);
}
