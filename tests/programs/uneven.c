/* The models of PyTorch's test_ddp_uneven_inputs (torch/testing/_internal/distributed/
 * distributed_test.py), as the collectives that DistributedDataParallel makes for them.
 *
 * Before the first forward pass after gradients have been summed once, DDP lays its buckets out
 * anew and broadcasts that, unless it looks for unused parameters; then come the buffers, unless
 * the last iteration was one of no_sync; in the backward pass the buckets, one after the other, or
 * what a communication hook makes of them; then the map of used parameters. With --interval k
 * iterations are within no_sync except each k-th, from the first on. After an epoch comes what Join
 * does when all have joined: the largest of the ranks with the most iterations is found, and
 * broadcasts its model. Each epoch has a new instance of DDP.
 *
 * With --static-graph 1 DDP looks for unused parameters by itself, in the first iteration. With
 * --buffer-hook 1 buffers are summed after the forward pass, by a hook of the user's, instead of
 * broadcast before it.
 *
 * Sizes of more than ten thousand elements are a thousandth of what they are there.
 *
 * Results: "layout <epoch> <half>" and "buffer <epoch> <iteration> <type>" with (rank + 1) * 100 of
 * whose they are, and 1 or its forward passes so far; "hooked <epoch> <iteration>
 * 0", "bucket <epoch> <iteration> <bucket>" and "factor <epoch> <iteration> <which>" with the mask
 * of the ranks that took part, and the sum of their iteration + 1; "used <epoch> <iteration>" with
 * how many ranks used the first parameter, and the second; "model <epoch>" with (rank + 1) * 100 of
 * whose it is, and its iterations.
 */
#include "tests/programs/options.h"
#include "tests/programs/ranks.h"
#include "tests/programs/tape.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BUCKETS_MAX = 35, ELEMENTS_MAX = 25558 };

struct model {
  const char *name;
  int first;                /* elements of the only bucket before the new layout */
  int buckets[BUCKETS_MAX]; /* those after it; ends with 0 */
  int parameters;
  int running, tracked; /* elements of buffers: statistics, batches */
  bool unused;          /* rank `unused_rank` does not use the first of two parameters */
  int unused_rank;
  int factor; /* PowerSGD of rank 1: elements of each factor of the one matrix; 0: not compressed */
};

static const struct model models[] = {
    {.name = "batch_norm_net",
     .first = 248,
     .buckets = {248},
     .parameters = 4,
     .running = 8,
     .tracked = 1},
    {.name = "large_conv_model", .first = 222, .buckets = {222}, .parameters = 6},
    {.name = "small_model", .first = 1000, .buckets = {1000}, .parameters = 1},
    {.name = "unjoined_rank_with_unused_params_model",
     .first = 8,
     .buckets = {8},
     .parameters = 2,
     .unused = true,
     .unused_rank = 1},
    {.name = "joined_rank_with_unused_params_model",
     .first = 8,
     .buckets = {8},
     .parameters = 2,
     .unused = true,
     .unused_rank = 0},
    {.name = "small_model_allreduce_hook", .first = 1000, .buckets = {1000}, .parameters = 1},
    {.name = "small_model_power_sgd_hook",
     .first = 1000,
     .buckets = {1000},
     .parameters = 1,
     .factor = 1000},
    {.name = "resnet50",
     .first = 25558,
     .buckets = {2049, 1053, 2361, 1050, 1053, 2361, 1050, 2102, 1053, 2361, 526, 265,
                 591,  263,  265,  591,  263,  265,  591,  263,  265,  591,  263, 265,
                 591,  263,  527,  265,  591,  346,  281,  281,  265,  269,  139},
     .parameters = 161,
     .running = 54,
     .tracked = 53},
};

static const char *iterations = "5,7", *model_name = "batch_norm_net", *end = "finalize";
static int interval = 1, static_graph = 0, buffer_hook = 0;

static const struct option options[] = {
    {"--iterations", &iterations, NULL, "per rank and epoch: 3,5,5 or 3+1 or 3,5/5,3"},
    {"--model", &model_name, NULL, "the name in PyTorch's test"},
    {"--interval", NULL, &interval, "iterations from one that sums gradients to the next"},
    {"--static-graph", NULL, &static_graph, "1: the graph is said never to change"},
    {"--buffer-hook", NULL, &buffer_hook, "1: buffers are summed after the forward pass"},
    {"--end", &end, NULL, "finalize, destroy, abort, return, exit; one, or one per rank"},
    {0},
};

/* An instance of DDP. */
struct trainer {
  struct ranks ranks;
  ncclComm_t comm;
  struct tape *tape;
  const struct model *model;
  void *device; /* ELEMENTS_MAX of any type */
  int epoch;
  int synced, seen;  /* backward passes that summed gradients, and forward passes in all */
  bool rebuilt;      /* buckets have their final layout */
  bool sync_buffers; /* the last iteration was not one of no_sync */
};

static bool looks_for_unused(const struct model *model) {
  return model->unused && !static_graph;
}

static const struct model *find_model(void) {
  for (size_t m = 0; m < sizeof models / sizeof *models; m++)
    if (strcmp(models[m].name, model_name) == 0)
      return &models[m];
  fprintf(stderr, "no model is called %s\n", model_name);
  exit(2);
}

/* Broadcasts rank 0's, as it is here before, in place. */
static void start_broadcast(struct trainer *trainer, ncclDataType_t datatype, int count,
                            double odd) {
  tape_fill(trainer->tape, datatype, trainer->device, (size_t)count,
            (trainer->ranks.rank + 1) * 100, odd);
  CHECK_NCCL(
      ncclBcast(trainer->device, (size_t)count, datatype, 0, trainer->comm, trainer->ranks.stream));
}

static void broadcast_layout(struct trainer *trainer) {
  int nbuckets = 0;
  while (nbuckets < BUCKETS_MAX && trainer->model->buckets[nbuckets] > 0)
    nbuckets++;
  const int counts[] = {trainer->model->parameters + 1, nbuckets};
  for (int half = 0; half < 2; half++) {
    start_broadcast(trainer, ncclInt32, counts[half], 1);
    tape_read(trainer->tape, ncclInt32, trainer->device, 1, 1, "layout %d %d", trainer->epoch,
              half);
    tape_play(trainer->tape); /* the host needs it */
  }
  trainer->rebuilt = true;
}

static void broadcast_buffers(struct trainer *trainer, int i) {
  start_broadcast(trainer, ncclFloat, trainer->model->running, trainer->seen);
  tape_read(trainer->tape, ncclFloat, trainer->device, 1, (size_t)trainer->model->running,
            "buffer %d %d float32", trainer->epoch, i);
  start_broadcast(trainer, ncclInt64, trainer->model->tracked, trainer->seen);
  tape_read(trainer->tape, ncclInt64, trainer->device, 1, 1, "buffer %d %d int64", trainer->epoch,
            i);
}

static void sum(struct trainer *trainer, int count, const char *name, int i, int which) {
  tape_fill(trainer->tape, ncclFloat, trainer->device, (size_t)count, 1 << trainer->ranks.rank,
            i + 1);
  CHECK_NCCL(ncclAllReduce(trainer->device, trainer->device, (size_t)count, ncclFloat, ncclSum,
                           trainer->comm, trainer->ranks.stream));
  tape_read(trainer->tape, ncclFloat, trainer->device, 1, (size_t)count, "%s %d %d %d", name,
            trainer->epoch, i, which);
}

static void go_forward(struct trainer *trainer, int i, bool sync) {
  const struct model *model = trainer->model;
  if (trainer->synced > 0 && !trainer->rebuilt && !looks_for_unused(model))
    broadcast_layout(trainer);
  bool buffers = model->running > 0 && trainer->sync_buffers;
  if (buffers && !buffer_hook)
    broadcast_buffers(trainer, i);
  trainer->sync_buffers = sync;
  trainer->seen++;
  if (buffers && buffer_hook)
    sum(trainer, model->running, "hooked", i, 0);
}

static void sum_used(struct trainer *trainer, int i) {
  tape_fill(trainer->tape, ncclInt32, trainer->device, (size_t)trainer->model->parameters,
            trainer->ranks.rank != trainer->model->unused_rank, 1);
  CHECK_NCCL(ncclAllReduce(trainer->device, trainer->device, (size_t)trainer->model->parameters,
                           ncclInt32, ncclSum, trainer->comm, trainer->ranks.stream));
  tape_read(trainer->tape, ncclInt32, trainer->device, 1, (size_t)trainer->model->parameters,
            "used %d %d", trainer->epoch, i);
}

/* PowerSGD sums whole buckets the first time, then one factor, and, made from it, the other. */
static void go_back(struct trainer *trainer, int i) {
  const struct model *model = trainer->model;
  if (!trainer->rebuilt) {
    sum(trainer, model->first, "bucket", i, 0);
  } else if (model->factor > 0) {
    sum(trainer, model->factor, "factor", i, 0);
    sum(trainer, model->factor, "factor", i, 1);
  } else {
    for (int b = 0; b < BUCKETS_MAX && model->buckets[b] > 0; b++)
      sum(trainer, model->buckets[b], "bucket", i, b);
  }
  if (looks_for_unused(model))
    sum_used(trainer, i);
  trainer->synced++;
}

/* Returns the largest of the ranks that did the most iterations. */
static int find_last(struct trainer *trainer, int n) {
  int nranks = trainer->ranks.nranks, largest = 0;
  int32_t *device = trainer->device;
  const int32_t mine = n * nranks + trainer->ranks.rank;
  CHECK_CUDA(
      cudaMemcpyAsync(device, &mine, sizeof mine, cudaMemcpyHostToDevice, trainer->ranks.stream));
  CHECK_NCCL(
      ncclAllReduce(device, device, 1, ncclInt32, ncclMax, trainer->comm, trainer->ranks.stream));
  ranks_synchronise(&trainer->ranks);
  CHECK_CUDA(cudaMemcpy(&largest, device, sizeof largest, cudaMemcpyDeviceToHost));
  return largest % nranks;
}

static void share_model(struct trainer *trainer, int n) {
  tape_play(trainer->tape);
  int last = find_last(trainer, n);
  size_t count = (size_t)trainer->model->first;
  tape_fill(trainer->tape, ncclFloat, trainer->device, count, (trainer->ranks.rank + 1) * 100, n);
  CHECK_NCCL(
      ncclBcast(trainer->device, count, ncclFloat, last, trainer->comm, trainer->ranks.stream));
  tape_read(trainer->tape, ncclFloat, trainer->device, 1, count, "model %d", trainer->epoch);
  tape_play(trainer->tape);
}

static void train(struct trainer *trainer) {
  int n = schedule_iterations(iterations, trainer->epoch, trainer->ranks.rank);
  for (int i = 0; i < n; i++) {
    bool sync = i % interval == 0;
    go_forward(trainer, i, sync);
    if (sync)
      go_back(trainer, i);
    tape_play(trainer->tape); /* PyTorch's test waits for the device in each iteration */
  }
  share_model(trainer, n);
}

int main(int argc, char **argv) {
  (void)argc;
  options_read(argv, "The models of PyTorch's test of uneven inputs.", options);
  struct trainer trainer = {.model = find_model()};
  ranks_begin(&trainer.ranks);
  trainer.comm = ranks_communicator(&trainer.ranks);
  trainer.tape = tape_create(&trainer.ranks);
  CHECK_CUDA(cudaMalloc(&trainer.device, (size_t)ELEMENTS_MAX * sizeof(double)));
  for (trainer.epoch = 0; trainer.epoch < schedule_epochs(iterations); trainer.epoch++) {
    trainer.synced = trainer.seen = 0;
    trainer.rebuilt = false;
    trainer.sync_buffers = true;
    train(&trainer);
  }
  return ranks_leave(&trainer.ranks, ending_named(list_item(end, trainer.ranks.rank)));
}
