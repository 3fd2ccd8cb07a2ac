/* Batch normalisation over all ranks (PyTorch's SyncBatchNorm): with NCCL_JOIN_LOSSY=zero results
 * are those of the active ranks alone, in the forward pass and in the backward pass.
 *
 * What is expected is worked out from all samples of the active ranks, not from the statistics of
 * each.
 */
#include "tests/join/expected.h"
#include "tests/join/run.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* As in programs/normalised.c. */
enum { LAYERS = 2, CHANNELS = 3 };

/* Sizes of the ranks' batches. Where those of the active ranks add up to a power of two, every mean
 * is exact, and so are sums over ranks in any order. */
struct batches {
  int counts[8];
  bool buffers;
};

static double sample(int rank, int i, int layer, int channel, int k) {
  int spread = 1 << (rank + channel + layer) % 3;
  int mean = (rank + 1) * (channel + 1) + 2 * i + layer;
  return k % 2 == 0 ? mean + spread : mean - spread;
}

static double output_gradient(int rank, int k) {
  return (k % 2 == 0 ? 3 : 1) * (rank + 1);
}

/* A channel of a layer over all samples of some ranks. */
struct statistics {
  double count, mean, variance, gradients, products; /* products: of gradient and x - mean */
};

static struct statistics over_all_samples(const struct batches *batches, unsigned ranks, int i,
                                          int layer, int channel) {
  struct statistics all = {0};
  double squares = 0;
  for (int rank = 0; rank < 8; rank++)
    for (int k = 0; (ranks >> rank & 1) && k < batches->counts[rank]; k++) {
      double x = sample(rank, i, layer, channel, k);
      all.count++;
      all.mean += x;
      squares += x * x;
      all.gradients += output_gradient(rank, k);
      all.products += output_gradient(rank, k) * x;
    }
  all.mean /= all.count;
  all.variance = squares / all.count - all.mean * all.mean;
  all.products -= all.gradients * all.mean;
  return all;
}

static void add_channel(struct lines *lines, const struct batches *batches, unsigned active,
                        int rank, int i, int layer, int channel) {
  struct statistics all = over_all_samples(batches, active, i, layer, channel);
  double x = sample(rank, i, layer, channel, 0) - all.mean, dy = output_gradient(rank, 0);
  double dx = (dy - all.gradients / all.count - x * all.products / all.count / all.variance) /
              sqrt(all.variance);
  lines_add(lines, rank, "forward %d %d %d %.9g %.9g %.9g", i, layer, channel, all.count, all.mean,
            all.variance);
  lines_add(lines, rank, "backward %d %d %d %.9g %.9g %.6g", i, layer, channel, all.gradients,
            all.products, dx);
  lines_add(lines, rank, "gradient %d %d %d %.6g %.9g", i, layer, channel,
            all.products / sqrt(all.variance), all.gradients);
}

static void add_iterations(struct lines *lines, const struct schedule *schedule,
                           const struct batches *batches) {
  for (int rank = 0; rank < schedule->nranks; rank++)
    for (int i = 0; i < schedule->n[0][rank]; i++) {
      unsigned active = schedule_active(schedule, 0, i);
      if (batches->buffers)
        lines_add(lines, rank, "buffer %d %d %d", i, 100 * (set_lowest(active) + 1), i);
      for (int layer = 0; layer < LAYERS; layer++)
        for (int channel = 0; channel < CHANNELS; channel++)
          add_channel(lines, batches, active, rank, i, layer, channel);
    }
}

static const char *options_text(const struct schedule *schedule, const struct batches *batches) {
  static char text[256];
  size_t length = (size_t)snprintf(text, sizeof text, "--iterations %s --buffers %d --counts %d",
                                   schedule_text(schedule), batches->buffers, batches->counts[0]);
  for (int rank = 1; rank < schedule->nranks; rank++)
    length += (size_t)snprintf(text + length, sizeof text - length, ",%d", batches->counts[rank]);
  return text;
}

static struct run *run_normalised(const struct schedule *schedule, const struct batches *batches,
                                  const char *environment) {
  return run(&(struct launch){.nranks = schedule->nranks,
                              .program = "normalised",
                              .options = options_text(schedule, batches),
                              .environment = environment});
}

static void check(const struct schedule *schedule, const struct batches *batches) {
  struct run *result = run_normalised(schedule, batches, "NCCL_JOIN_LOSSY=zero");
  assert_went_well(result);
  struct lines *lines = lines_create();
  add_iterations(lines, schedule, batches);
  lines_add_left(lines, schedule->nranks);
  finish_run(result, lines);
}

static const struct batches small_first = {.counts = {2, 2, 4, 8}};
static const struct batches large_first = {.counts = {8, 4, 2, 2}};

Test(normalised, ranks_leave_one_after_the_other) {
  check(&(struct schedule){4, 1, {{9, 6, 4, 2}}}, &small_first);
  check(&(struct schedule){4, 1, {{2, 4, 6, 9}}}, &large_first);
}
Test(normalised, ranks_leave_once_the_loop_is_learnt) {
  check(&(struct schedule){4, 1, {{30, 24, 18, 12}}}, &small_first);
  check(&(struct schedule){4, 1, {{12, 18, 24, 30}}}, &large_first);
}
Test(normalised, ranks_without_iterations) {
  check(&(struct schedule){4, 1, {{0, 5, 5, 8}}}, &large_first);
  check(&(struct schedule){4, 1, {{7, 0, 0, 0}}}, &small_first);
}

/* Under DDP, which broadcasts the running statistics of rank 0, or of whom it is replaced by. */
Test(normalised, running_statistics_are_broadcast_too) {
  const struct batches batches = {.counts = {8, 4, 2, 2}, .buffers = true};
  check(&(struct schedule){4, 1, {{3, 6, 9, 12}}}, &batches);
  check(&(struct schedule){4, 1, {{12, 12, 20, 16}}}, &batches);
}

/* Whether a line of a rank and iteration is among what a run printed. */
static void assert_has_lines_of(const struct run *run, const struct run *other, int least) {
  char *copy = strdup(other->output), *rest = copy;
  int compared = 0;
  for (char *line; (line = strsep(&rest, "\n")) != NULL;) {
    char kind[32];
    int rank, i;
    if (sscanf(line, "RESULT %d %31s %d", &rank, kind, &i) != 3 || i < least)
      continue;
    cr_assert(strstr(run->output, line) != NULL, "not there: %s", line);
    compared++;
  }
  cr_assert_gt(compared, 0);
  free(copy);
}

/* The same program with the active ranks alone, and without nccl-join, prints the same: whatever
 * the layer makes of what it gathers. */
Test(normalised, active_ranks_alone_get_the_same) {
  struct run *joined = run_normalised(&(struct schedule){4, 1, {{20, 20, 12, 12}}}, &small_first,
                                      "NCCL_JOIN_LOSSY=zero");
  struct run *alone = run(&(struct launch){.nranks = 2,
                                           .program = "normalised",
                                           .options = "--iterations 20,20 --counts 2,2",
                                           .without = RUN_ALL_RANKS});
  assert_went_well(joined);
  assert_went_well(alone);
  assert_has_lines_of(joined, alone, 12);
  run_free(joined);
  run_free(alone);
}

/* PyTorch's test of it: rank 0 has 10 iterations, the others 5, and all stop after those. */
Test(normalised, all_stop_together_where_that_is_asked_for) {
  const struct schedule schedule = {4, 1, {{10, 5, 5, 5}}}, done = {4, 1, {{5, 5, 5, 5}}};
  struct run *result = run(&(struct launch){.nranks = 4,
                                            .program = "normalised",
                                            .options = options_text(&schedule, &small_first),
                                            .environment = "NCCL_JOIN_EARLY_EXIT=throw",
                                            .each = true});
  struct lines *lines = lines_create();
  add_iterations(lines, &done, &small_first);
  for (int rank = 0; rank < 4; rank++) {
    char exhausted[64];
    snprintf(exhausted, sizeof exhausted, "Rank %d exhausted all inputs.", rank);
    cr_assert_eq(run_says(result, exhausted), rank != 0, "%s", result->errors);
    cr_assert_eq(result->rank_status[rank], 1);
    lines_add(lines, rank, "error 5 %s", rank == 0 ? "ncclAllGather" : "ncclCommFinalize");
  }
  finish_run(result, lines);
}

/* By default it is refused, and the message names the setting that it needs. */
Test(normalised, refused_without_the_setting) {
  struct run *result = run_normalised(&(struct schedule){4, 1, {{2, 4, 6, 9}}}, &large_first, "");
  cr_assert_neq(result->status, 0);
  cr_assert_not(result->timed_out);
  cr_assert(run_says_in_a_line(result, "allgather", "rank 0, which has joined", "SyncBatchNorm",
                               "NCCL_JOIN_LOSSY=allgather:zero", NULL),
            "%s", result->errors);
  run_free(result);
}

Test(normalised, hangs_without_join) {
  assert_stuck_without(4, "normalised", "--iterations 2,4,6,9");
}
