/* PyTorch's test_ddp_uneven_inputs: its models, plain and within no_sync, at each of its skews.
 *
 * "Models" are what they are to NCCL (programs/uneven). One or two ranks leave after 0 or 5
 * iterations, the others do 2, 3 or 10 more; of two, the second leaves in the middle of that.
 */
#include "tests/join/expected.h"
#include "tests/join/run.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

enum { NRANKS = 4, SKEWS = 12 };

struct model {
  const char *name;
  int buckets; /* once they are laid out anew; 1 before */
  bool buffers, factors;
  bool unused;
  int unused_rank; /* which does not use the first parameter */
};

static const struct model batch_norm_net = {
    .name = "batch_norm_net", .buckets = 1, .buffers = true};
static const struct model large_conv_model = {.name = "large_conv_model", .buckets = 1};
static const struct model small_model = {.name = "small_model", .buckets = 1};
static const struct model unjoined_rank = {.name = "unjoined_rank_with_unused_params_model",
                                           .buckets = 1,
                                           .unused = true,
                                           .unused_rank = 1};
static const struct model joined_rank = {
    .name = "joined_rank_with_unused_params_model", .buckets = 1, .unused = true, .unused_rank = 0};
static const struct model allreduce_hook = {.name = "small_model_allreduce_hook", .buckets = 1};
static const struct model power_sgd_hook = {
    .name = "small_model_power_sgd_hook", .buckets = 1, .factors = true};
static const struct model resnet50 = {.name = "resnet50", .buckets = 35, .buffers = true};

/* How a model is trained: a column of the matrix. */
struct variant {
  int interval; /* gradients are summed in iterations 0, interval, 2 * interval, ... */
  bool static_graph, buffer_hook;
};

/* ---- what a rank gets ---- */

static bool is_synced(const struct variant *variant, int i) {
  return i % variant->interval == 0;
}

static bool looks_for_unused(const struct model *model, const struct variant *variant) {
  return model->unused && !variant->static_graph;
}

static void add_forward(struct lines *lines, const struct model *model,
                        const struct variant *variant, const struct schedule *schedule, int epoch,
                        int rank, int i) {
  int root = set_lowest(schedule_active(schedule, epoch, i));
  for (int half = 0; half < 2 && i == 1 && !looks_for_unused(model, variant); half++)
    lines_add(lines, rank, "layout %d %d %d", epoch, half, 100 * (root + 1));
  if (!model->buffers || (i > 0 && !is_synced(variant, i - 1)))
    return;
  if (variant->buffer_hook) {
    unsigned active = schedule_active(schedule, epoch, i);
    lines_add(lines, rank, "hooked %d %d 0 %u %d", epoch, i, active, set_size(active) * (i + 1));
    return;
  }
  lines_add(lines, rank, "buffer %d %d float32 %d %d", epoch, i, 100 * (root + 1), i);
  lines_add(lines, rank, "buffer %d %d int64 %d", epoch, i, 100 * (root + 1));
}

static void add_backward(struct lines *lines, const struct model *model,
                         const struct variant *variant, const struct schedule *schedule, int epoch,
                         int rank, int i) {
  unsigned active = schedule_active(schedule, epoch, i);
  const char *name = model->factors && i > 0 ? "factor" : "bucket";
  int sums = i == 0 ? 1 : model->factors ? 2 : model->buckets;
  for (int b = 0; b < sums; b++)
    lines_add(lines, rank, "%s %d %d %d %u %d", name, epoch, i, b, active,
              set_size(active) * (i + 1));
  if (looks_for_unused(model, variant))
    lines_add(lines, rank, "used %d %d %d %d", epoch, i,
              set_size(active & ~(1u << model->unused_rank)), set_size(active));
}

static int find_last(const struct schedule *schedule, int epoch) {
  int last = 0;
  for (int rank = 1; rank < schedule->nranks; rank++)
    if (schedule->n[epoch][rank] >= schedule->n[epoch][last])
      last = rank;
  return last;
}

static struct lines *expected_lines(const struct model *model, const struct variant *variant,
                                    const struct schedule *schedule) {
  struct lines *lines = lines_create();
  for (int epoch = 0; epoch < schedule->epochs; epoch++) {
    int last = find_last(schedule, epoch);
    for (int rank = 0; rank < schedule->nranks; rank++) {
      for (int i = 0; i < schedule->n[epoch][rank]; i++) {
        add_forward(lines, model, variant, schedule, epoch, rank, i);
        if (is_synced(variant, i))
          add_backward(lines, model, variant, schedule, epoch, rank, i);
      }
      lines_add(lines, rank, "model %d %d %d", epoch, 100 * (last + 1), schedule->n[epoch][last]);
    }
  }
  lines_add_left(lines, schedule->nranks);
  return lines;
}

/* ---- skews ---- */

/* As many ranks leave early, after `baseline` iterations; others do `offset` more. */
static void set_skew(int *n, int early, int baseline, int offset) {
  for (int rank = 0; rank < NRANKS; rank++)
    n[rank] = rank >= early ? baseline + offset : rank > 0 ? baseline + offset / 2 : baseline;
}

/* All of PyTorch's, as epochs. */
static struct schedule all_skews(void) {
  static const int baselines[] = {0, 5}, offsets[] = {2, 3, 10};
  struct schedule schedule = {.nranks = NRANKS};
  for (int early = 1; early <= 2; early++)
    for (int b = 0; b < 2; b++)
      for (int o = 0; o < 3; o++)
        set_skew(schedule.n[schedule.epochs++], early, baselines[b], offsets[o]);
  return schedule;
}

/* ---- the matrix ---- */

static const char *options_text(const struct model *model, const struct variant *variant,
                                const struct schedule *schedule) {
  static char text[512];
  snprintf(text, sizeof text,
           "--model %s --interval %d --static-graph %d --buffer-hook %d --iterations %s",
           model->name, variant->interval, variant->static_graph, variant->buffer_hook,
           schedule_text(schedule));
  return text;
}

static void check_case(const struct model *model, const struct variant *variant,
                       const struct schedule *schedule) {
  struct run *result = run(&(struct launch){
      .nranks = NRANKS, .program = "uneven", .options = options_text(model, variant, schedule)});
  assert_went_well(result);
  struct lines *lines = expected_lines(model, variant, schedule);
  finish_run(result, lines);
}

static struct schedule one_skew(const struct schedule *skews, int skew) {
  struct schedule one = {.nranks = NRANKS, .epochs = 1};
  memcpy(one.n[0], skews->n[skew], sizeof one.n[0]);
  return one;
}

/* Each skew in a job of its own. */
static void check_skews(const struct model *model, const struct variant *variant) {
  const struct schedule skews = all_skews();
  cr_assert_eq(skews.epochs, SKEWS);
  for (int skew = 0; skew < skews.epochs; skew++) {
    const struct schedule one = one_skew(&skews, skew);
    check_case(model, variant, &one);
  }
}

static void check_plain(const struct model *model) {
  check_skews(model, &(struct variant){.interval = 1});
}

/* PyTorch's drops communication hooks here. */
static void check_no_sync(const struct model *model) {
  for (int interval = 2; interval <= 4; interval++)
    check_skews(model, &(struct variant){.interval = interval});
}

/* With NCCL_JOIN_EARLY_EXIT=throw: rank 0, which is the first to leave, and all others get an
 * error; as many iterations as rank 0 has have run everywhere, and no more. The program ends with
 * it. */
static void check_thrown(const struct model *model, const struct schedule *schedule) {
  const struct variant plain = {.interval = 1};
  struct run *result = run(&(struct launch){.nranks = NRANKS,
                                            .program = "uneven",
                                            .options = options_text(model, &plain, schedule),
                                            .environment = "NCCL_JOIN_EARLY_EXIT=throw",
                                            .each = true});
  struct lines *lines = lines_create();
  cr_assert(run_says(result, "Rank 0 exhausted all inputs."), "%s", result->errors);
  for (int rank = 0; rank < NRANKS; rank++) {
    for (int i = 0; i < schedule->n[0][0]; i++) {
      add_forward(lines, model, &plain, schedule, 0, rank, i);
      add_backward(lines, model, &plain, schedule, 0, rank, i);
    }
    cr_assert_eq(result->rank_status[rank], 1, "rank %d\n%s", rank, result->errors);
    lines_add(lines, rank, "error 5 %s",
              rank > 0 && model->buffers ? "ncclBcast" : "ncclAllReduce");
  }
  cr_assert(run_says_in_a_line(result, "Detected at least one rank that exhausted inputs.",
                               "rank 0 has left its loop", NULL),
            "%s", result->errors);
  finish_run(result, lines);
}

static void check_throw(const struct model *model) {
  const struct schedule skews = all_skews();
  for (int skew = 0; skew < skews.epochs; skew++) {
    const struct schedule one = one_skew(&skews, skew);
    check_thrown(model, &one);
  }
}

Test(matrix, batch_norm_net) {
  check_plain(&batch_norm_net);
}
Test(matrix, batch_norm_net_within_no_sync) {
  check_no_sync(&batch_norm_net);
}
Test(matrix, large_conv_model) {
  check_plain(&large_conv_model);
}
Test(matrix, large_conv_model_within_no_sync) {
  check_no_sync(&large_conv_model);
}
Test(matrix, small_model) {
  check_plain(&small_model);
}
Test(matrix, small_model_within_no_sync) {
  check_no_sync(&small_model);
}
Test(matrix, unjoined_rank_with_unused_parameters) {
  check_plain(&unjoined_rank);
}
Test(matrix, unjoined_rank_with_unused_parameters_within_no_sync) {
  check_no_sync(&unjoined_rank);
}
Test(matrix, joined_rank_with_unused_parameters) {
  check_plain(&joined_rank);
}
Test(matrix, joined_rank_with_unused_parameters_within_no_sync) {
  check_no_sync(&joined_rank);
}
Test(matrix, small_model_with_allreduce_hook) {
  check_plain(&allreduce_hook);
}
Test(matrix, small_model_with_power_sgd_hook) {
  check_plain(&power_sgd_hook);
}
Test(matrix, resnet50) {
  check_plain(&resnet50);
}
Test(matrix, resnet50_within_no_sync) {
  check_no_sync(&resnet50);
}

Test(matrix, models_that_throw) {
  static const struct model *const models[] = {&batch_norm_net, &large_conv_model, &small_model,
                                               &unjoined_rank, &joined_rank};
  for (size_t m = 0; m < sizeof models / sizeof *models; m++)
    check_throw(models[m]);
}
Test(matrix, resnet50_that_throws) {
  check_throw(&resnet50);
}

/* Not in PyTorch's: there a rank without iterations ends the others. */
Test(matrix, static_graph) {
  const struct variant variant = {.interval = 1, .static_graph = true};
  check_skews(&joined_rank, &variant);
  check_skews(&batch_norm_net, &variant);
  check_skews(&unjoined_rank, &(struct variant){.interval = 3, .static_graph = true});
}

/* Nor this one: PyTorch's Join does not know such hooks yet. */
Test(matrix, buffer_hook_after_the_forward_pass) {
  check_skews(&batch_norm_net, &(struct variant){.interval = 1, .buffer_hook = true});
}

/* All skews in one job, one instance of DDP after the other, as PyTorch's test does it. */
Test(matrix, one_instance_after_the_other) {
  const struct schedule skews = all_skews();
  check_case(&batch_norm_net, &(struct variant){.interval = 1}, &skews);
  check_case(&resnet50, &(struct variant){.interval = 1}, &skews);
}

Test(matrix, hangs_without_join) {
  const struct schedule skews = all_skews();
  assert_stuck_without(NRANKS, "uneven",
                       options_text(&batch_norm_net, &(struct variant){.interval = 1}, &skews));
}
