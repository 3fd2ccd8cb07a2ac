/* The collectives of PyTorch's DistributedDataParallel, in its order, with what users put around
 * them.
 *
 * One iteration: one forward pass, or several, before each of which buffers are broadcast from rank
 * 0, and in which a layer may sum over all ranks; a loss that may do so too; the backward pass, in
 * which gradients are all-reduced in place, bucket by bucket, and then the map of the parameters
 * used; now and then a metric. The first iteration has other buckets than all after it, and two
 * broadcasts of the new layout with a wait between come before the second, as DDP rebuilds its
 * buckets once. Gradients may be compressed by DDP's communication hooks. After an epoch come a
 * barrier (one element, and a wait) or an evaluation.
 *
 * Results: "bucket <epoch> <iteration> <bucket>", "part <epoch> <iteration> <bucket> <part>" of a
 * compressed one, "layer", "loss" and "metric <epoch> <iteration>" with the mask of the ranks that
 * took part and the sum of their epoch * 1000 + iteration + 1; "buffer <epoch> <iteration> <type>"
 * with (rank + 1) * 100 of the rank whose buffers came, and its forward passes so far; "layout
 * <half>" the same, with 1; "used <epoch> <iteration>" with how many ranks used the even parameters
 * and the odd ones; "barrier <epoch>" the mask of ranks; "evaluation <epoch> <batch>".
 */
#include "tests/programs/options.h"
#include "tests/programs/ranks.h"
#include "tests/programs/tape.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { FIRST_BUCKETS = 3, BUCKETS = 4 };

/* Elements in a bucket, for the first iteration and the rest: the same number of parameters, laid
 * out anew. Two buckets are alike, as in real models. */
static const size_t first_buckets[FIRST_BUCKETS] = {256, 1024, 520};
static const size_t buckets[BUCKETS] = {264, 512, 512, 512};

static const char *iterations = "3+1", *end = "finalize", *after = "none",
                  *synchronise = "iteration", *hook = "none";
static int sync_every = 1, metric_every = 0, metric_elements = 3, buffers = 0, batches = 3,
           forwards = 1, forward_only_every = 0, layer = 0, loss = 0, unused = 0;

static const struct option options[] = {
    {"--iterations", &iterations, NULL, "per rank and epoch: 3,5,5 or 3+1 or 3,5/5,3"},
    {"--sync-every", NULL, &sync_every, "gradients are summed in every k-th iteration only"},
    {"--metric-every", NULL, &metric_every, "a metric is summed in every k-th iteration; 0: never"},
    {"--metric-elements", NULL, &metric_elements, "1 to 3; 1: like the barrier"},
    {"--buffers", NULL, &buffers, "1: broadcast buffers from rank 0 before each forward pass"},
    {"--forwards", NULL, &forwards, "forward passes in an iteration"},
    {"--forward-only-every", NULL, &forward_only_every,
     "every k-th iteration has no backward pass; 0: all have one"},
    {"--layer", NULL, &layer, "1: a layer sums over all ranks in each forward pass"},
    {"--loss", NULL, &loss, "1: the loss sums over all ranks, between forward and backward"},
    {"--unused", NULL, &unused, "1: odd ranks do not use odd parameters; the map of use is summed"},
    {"--hook", &hook, NULL, "none, float16 or powersgd: how gradients are compressed"},
    {"--after", &after, NULL, "after each epoch: none, barrier, evaluation or both"},
    {"--batches", NULL, &batches, "batches of an evaluation"},
    {"--sync", &synchronise, NULL, "wait for the device after each iteration, or only at the end"},
    {"--end", &end, NULL, "finalize, destroy, abort, return, exit; one, or one per rank"},
    {0},
};

struct model {
  struct ranks ranks;
  ncclComm_t comm;
  struct tape *tape;
  float *gradients, *metric, *one, *activations, *losses;
  int32_t *used;    /* which parameters this rank has used */
  float *running;   /* buffers: running statistics */
  int64_t *tracked; /* buffers: batches tracked */
  int32_t *layout;  /* which parameter is in which bucket */
  double *evaluation;
  int synced; /* iterations in which gradients were summed */
  int seen;   /* forward passes in all */
};

enum {
  RUNNING = 128,
  TRACKED = 16,
  LAYOUT = 64,
  METRIC = 3,
  EVALUATION = 2,
  GRADIENTS = 2048,
  ACTIVATIONS = 96,
  LOSSES = 5,
  PARAMETERS = 20,
};

/* PowerSGD: gradients are matrices of ROWS rows, of which two factors of this rank are summed, from
 * the third iteration on; vectors are not compressed. */
enum { POWER_WARM_UP = 2, POWER_ROWS = 16, POWER_RANK = 2, POWER_VECTORS = 8 };

static void model_create(struct model *model) {
  ranks_begin(&model->ranks);
  model->comm = ranks_communicator(&model->ranks);
  model->tape = tape_create(&model->ranks);
  CHECK_CUDA(cudaMalloc((void **)&model->gradients, GRADIENTS * sizeof *model->gradients));
  CHECK_CUDA(cudaMalloc((void **)&model->metric, METRIC * sizeof *model->metric));
  CHECK_CUDA(cudaMalloc((void **)&model->one, sizeof *model->one));
  CHECK_CUDA(cudaMalloc((void **)&model->activations, ACTIVATIONS * sizeof *model->activations));
  CHECK_CUDA(cudaMalloc((void **)&model->losses, LOSSES * sizeof *model->losses));
  CHECK_CUDA(cudaMalloc((void **)&model->used, PARAMETERS * sizeof *model->used));
  CHECK_CUDA(cudaMalloc((void **)&model->running, RUNNING * sizeof *model->running));
  CHECK_CUDA(cudaMalloc((void **)&model->tracked, TRACKED * sizeof *model->tracked));
  CHECK_CUDA(cudaMalloc((void **)&model->layout, LAYOUT * sizeof *model->layout));
  CHECK_CUDA(cudaMalloc((void **)&model->evaluation, EVALUATION * sizeof *model->evaluation));
}

/* Each rank's forward pass changes its own buffers; at the next one rank 0's replace them. */
static void broadcast_buffers(struct model *model, int epoch, int i) {
  struct tape *tape = model->tape;
  double mine = (model->ranks.rank + 1) * 100;
  tape_fill(tape, ncclFloat, model->running, RUNNING, mine, model->seen);
  tape_fill(tape, ncclInt64, model->tracked, TRACKED, mine, model->seen);
  CHECK_NCCL(ncclBcast(model->running, RUNNING, ncclFloat, 0, model->comm, model->ranks.stream));
  CHECK_NCCL(ncclBcast(model->tracked, TRACKED, ncclInt64, 0, model->comm, model->ranks.stream));
  tape_read(tape, ncclFloat, model->running, 1, RUNNING, "buffer %d %d float32", epoch, i);
  tape_read(tape, ncclInt64, model->tracked, 1, TRACKED, "buffer %d %d int64", epoch, i);
}

static void broadcast_layout(struct model *model) {
  for (int half = 0; half < 2; half++) {
    size_t count = half == 0 ? LAYOUT : BUCKETS;
    tape_fill(model->tape, ncclInt32, model->layout, count, (model->ranks.rank + 1) * 100, 1);
    CHECK_NCCL(ncclBcast(model->layout, count, ncclInt32, 0, model->comm, model->ranks.stream));
    tape_read(model->tape, ncclInt32, model->layout, 1, count, "layout %d", half);
    tape_play(model->tape); /* the host needs it */
  }
}

/* Sums what this rank contributes to something of an iteration, in place. */
static void start_sum(struct model *model, ncclDataType_t datatype, void *device, size_t count,
                      int epoch, int i) {
  tape_fill(model->tape, datatype, device, count, 1 << model->ranks.rank, 1000 * epoch + i + 1);
  CHECK_NCCL(
      ncclAllReduce(device, device, count, datatype, ncclSum, model->comm, model->ranks.stream));
}

static void sum_floats(struct model *model, float *device, size_t count, const char *name,
                       int epoch, int i) {
  start_sum(model, ncclFloat, device, count, epoch, i);
  tape_read(model->tape, ncclFloat, device, 1, count, "%s %d %d", name, epoch, i);
}

/* What is not a matrix as it is, then one factor of the matrices, then, made from it, the other. */
static void sum_factors(struct model *model, size_t count, int epoch, int i, int b) {
  const size_t parts[] = {POWER_VECTORS, POWER_ROWS * POWER_RANK,
                          (count - POWER_VECTORS) / POWER_ROWS * POWER_RANK};
  for (int part = 0; part < 3; part++) {
    start_sum(model, ncclFloat, model->gradients, parts[part], epoch, i);
    tape_read(model->tape, ncclFloat, model->gradients, 1, parts[part], "part %d %d %d %d", epoch,
              i, b, part);
    if (part == 1)
      tape_play(model->tape); /* the host needs it */
  }
}

static void sum_gradients(struct model *model, int epoch, int i) {
  bool first = model->synced == 0;
  ncclDataType_t datatype = strcmp(hook, "float16") == 0 ? ncclHalf : ncclFloat;
  bool factors = strcmp(hook, "powersgd") == 0 && model->synced >= POWER_WARM_UP;
  if (model->synced == 1)
    broadcast_layout(model);
  for (int b = 0; b < (first ? FIRST_BUCKETS : BUCKETS); b++) {
    size_t count = first ? first_buckets[b] : buckets[b];
    if (factors) {
      sum_factors(model, count, epoch, i, b);
      continue;
    }
    start_sum(model, datatype, model->gradients, count, epoch, i);
    tape_read(model->tape, datatype, model->gradients, 1, count, "bucket %d %d %d", epoch, i, b);
  }
  model->synced++;
}

/* A parameter that no rank has used keeps its gradient. */
static void sum_used(struct model *model, int epoch, int i) {
  tape_fill(model->tape, ncclInt32, model->used, PARAMETERS, 1, model->ranks.rank % 2 == 0);
  CHECK_NCCL(ncclAllReduce(model->used, model->used, PARAMETERS, ncclInt32, ncclSum, model->comm,
                           model->ranks.stream));
  tape_read(model->tape, ncclInt32, model->used, 1, PARAMETERS, "used %d %d", epoch, i);
}

static void go_forward(struct model *model, int epoch, int i) {
  if (buffers)
    broadcast_buffers(model, epoch, i);
  if (layer)
    sum_floats(model, model->activations, ACTIVATIONS, "layer", epoch, i);
  model->seen++;
}

static void iterate(struct model *model, int epoch, int i) {
  for (int forward = 0; forward < forwards; forward++)
    go_forward(model, epoch, i);
  bool backward = forward_only_every == 0 || (i + 1) % forward_only_every != 0;
  if (loss && backward)
    sum_floats(model, model->losses, LOSSES, "loss", epoch, i);
  if (backward && (i + 1) % sync_every == 0) {
    sum_gradients(model, epoch, i);
    if (unused)
      sum_used(model, epoch, i);
  }
  if (metric_every != 0 && (i + 1) % metric_every == 0)
    sum_floats(model, model->metric, (size_t)metric_elements, "metric", epoch, i);
  if (strcmp(synchronise, "iteration") == 0)
    tape_play(model->tape);
}

/* As torch.distributed.barrier on NCCL, but with a contribution that shows who was there. */
static void barrier(struct model *model, int epoch) {
  tape_fill(model->tape, ncclFloat, model->one, 1, 1 << model->ranks.rank, 0);
  CHECK_NCCL(ncclAllReduce(model->one, model->one, 1, ncclFloat, ncclSum, model->comm,
                           model->ranks.stream));
  tape_read(model->tape, ncclFloat, model->one, 1, 1, "barrier %d", epoch);
  tape_play(model->tape);
}

static void evaluate(struct model *model, int epoch) {
  for (int batch = 0; batch < batches; batch++) {
    tape_fill(model->tape, ncclDouble, model->evaluation, EVALUATION, 1 << model->ranks.rank,
              1000 * epoch + batch + 1);
    CHECK_NCCL(ncclAllReduce(model->evaluation, model->evaluation, EVALUATION, ncclDouble, ncclSum,
                             model->comm, model->ranks.stream));
    tape_read(model->tape, ncclDouble, model->evaluation, 1, EVALUATION, "evaluation %d %d", epoch,
              batch);
  }
  tape_play(model->tape);
}

int main(int argc, char **argv) {
  (void)argc;
  options_read(argv, "The collectives of distributed data-parallel training.", options);
  struct model model = {0};
  model_create(&model);
  for (int epoch = 0; epoch < schedule_epochs(iterations); epoch++) {
    int n = schedule_iterations(iterations, epoch, model.ranks.rank);
    for (int i = 0; i < n; i++)
      iterate(&model, epoch, i);
    if (strcmp(after, "evaluation") == 0 || strcmp(after, "both") == 0)
      evaluate(&model, epoch);
    if (strcmp(after, "barrier") == 0 || strcmp(after, "both") == 0)
      barrier(&model, epoch);
  }
  tape_play(model.tape);
  return ranks_leave(&model.ranks, ending_named(list_item(end, model.ranks.rank)));
}
