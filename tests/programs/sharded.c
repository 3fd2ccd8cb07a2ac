/* Training with sharded state: each rank keeps, and updates, a part of the optimizer's state or of
 * the parameters, and gives the others what they need of it.
 *
 * --style zero: PyTorch's ZeroRedundancyOptimizer after DistributedDataParallel. Gradients are
 * all-reduced, each rank makes the optimizer's step on its shard, and each in turn broadcasts it in
 * place (with --group 1 as one group).
 * --style deepspeed: DeepSpeed's ZeRO. Gradients are reduce-scattered, and the updated shards
 * gathered in place.
 * --style fsdp: FullyShardedDataParallel. Before a layer's forward pass its parameters are
 * gathered, and again before its backward pass, those of the layer before it ahead of time; its
 * gradients are averaged by reduce-scatter. Gathers and reduce-scatters have a stream each. The
 * first layer, the root, keeps its parameters from the forward pass.
 *
 * Steps add the gradient, which is 2^rank at even places of a layer and iteration + 1 at odd ones
 * (times the number of ranks where it is averaged), to parameters that begin with 0. A call that is
 * refused as invalid usage ends the training.
 *
 * Results: "shards <iteration>" with the parameters as this rank has them after the step, a pair
 * for each shard (fsdp: of its own alone); "gathered <iteration> <layer>" with what the forward
 * pass sees; "refused <iteration> <call> <root>".
 */
#include "tests/programs/options.h"
#include "tests/programs/ranks.h"
#include "tests/programs/tape.h"

#include <stdbool.h>
#include <string.h>

static const char *iterations = "3+1", *end = "finalize", *style = "zero";
static int group = 0, owners = 0;

static const struct option options[] = {
    {"--iterations", &iterations, NULL, "per rank: 3,5,5 or 3+1"},
    {"--style", &style, NULL, "zero, deepspeed or fsdp"},
    {"--group", NULL, &group, "1: the broadcasts of an iteration are one group"},
    {"--owners", NULL, &owners,
     "ranks with a shard to broadcast, where parameters are few; 0: all"},
    {"--end", &end, NULL, "finalize, destroy, abort, return, exit; one, or one per rank"},
    {0},
};

enum { LAYERS = 3, SHARD = 64 }; /* elements of a layer on one rank, all alike but for size */

struct layer {
  size_t count;     /* of a shard */
  float *shard;     /* this rank's; in `whole` if that is kept */
  float *whole;     /* nranks shards */
  float *gradients; /* nranks shards */
  float *reduced;   /* a shard */
  double value[2];  /* of this rank's shard, at even and odd places */
};

struct trainer {
  struct ranks ranks;
  ncclComm_t comm;
  struct tape *tape;
  cudaStream_t gather, reduce;
  cudaEvent_t event;
  struct layer layers[LAYERS];
};

static float *buffer(size_t count) {
  float *device;
  CHECK_CUDA(cudaMalloc((void **)&device, count * sizeof *device));
  CHECK_CUDA(cudaMemset(device, 0, count * sizeof *device));
  return device;
}

static void trainer_create(struct trainer *trainer) {
  struct ranks *ranks = &trainer->ranks;
  ranks_begin(ranks);
  trainer->comm = ranks_communicator(ranks);
  trainer->tape = tape_create(ranks);
  CHECK_CUDA(cudaStreamCreate(&trainer->gather));
  CHECK_CUDA(cudaStreamCreate(&trainer->reduce));
  CHECK_CUDA(cudaEventCreateWithFlags(&trainer->event, cudaEventDisableTiming));
  for (int l = 0; l < LAYERS; l++) {
    struct layer *layer = &trainer->layers[l];
    layer->count = SHARD * (size_t)(l + 1);
    layer->whole = buffer(layer->count * (size_t)ranks->nranks);
    layer->gradients = buffer(layer->count * (size_t)ranks->nranks);
    layer->reduced = buffer(layer->count);
    layer->shard = strcmp(style, "fsdp") == 0 ? buffer(layer->count)
                                              : layer->whole + layer->count * (size_t)ranks->rank;
  }
  CHECK_CUDA(cudaDeviceSynchronize()); /* the streams do not wait for the memory to be cleared */
}

/* What `later` does from here on comes after what `earlier` has been given so far. */
static void follow(struct trainer *trainer, cudaStream_t later, cudaStream_t earlier) {
  CHECK_CUDA(cudaEventRecord(trainer->event, earlier));
  CHECK_CUDA(cudaStreamWaitEvent(later, trainer->event, 0));
}

/* Whether NCCL refused the call; every other failure ends the program. */
static bool was_refused(const struct trainer *trainer, ncclResult_t result, int i, const char *call,
                        int root) {
  if (result == ncclInvalidUsage) {
    ranks_result(&trainer->ranks, "refused %d %s %d", i, call, root);
    return true;
  }
  CHECK_NCCL(result);
  return false;
}

static void differentiate(struct trainer *trainer, struct layer *layer, int i, int times) {
  tape_fill(trainer->tape, ncclFloat, layer->gradients,
            layer->count * (size_t)trainer->ranks.nranks, times * (1 << trainer->ranks.rank),
            times * (i + 1));
}

/* The optimizer, which works on the host here: adds this rank's part of the gradient. */
static void step(struct trainer *trainer, struct layer *layer, const float *gradient) {
  float pair[2];
  CHECK_CUDA(cudaMemcpy(pair, gradient, sizeof pair, cudaMemcpyDeviceToHost));
  for (int k = 0; k < 2; k++)
    layer->value[k] += (double)pair[k];
  tape_fill(trainer->tape, ncclFloat, layer->shard, layer->count, layer->value[0], layer->value[1]);
}

static void read_shards(struct trainer *trainer, const struct layer *layer, int i) {
  int nshards = owners > 0 ? owners : trainer->ranks.nranks;
  tape_read(trainer->tape, ncclFloat, layer->whole, (size_t)nshards, layer->count, "shards %d", i);
  tape_play(trainer->tape);
}

/* ---- ZeroRedundancyOptimizer ---- */

static bool broadcast_shards(struct trainer *trainer, struct layer *layer, int i) {
  struct ranks *ranks = &trainer->ranks;
  bool refused = false;
  int nroots = owners > 0 ? owners : ranks->nranks;
  if (group)
    CHECK_NCCL(ncclGroupStart());
  for (int root = 0; root < nroots && !refused; root++)
    refused = was_refused(trainer,
                          ncclBcast(layer->whole + layer->count * (size_t)root, layer->count,
                                    ncclFloat, root, trainer->comm, ranks->stream),
                          i, "broadcast", root);
  if (group)
    refused = was_refused(trainer, ncclGroupEnd(), i, "group", 0);
  return !refused;
}

/* False if a call was refused; so too below. */
static bool iterate_zero(struct trainer *trainer, int i) {
  struct ranks *ranks = &trainer->ranks;
  struct layer *layer = &trainer->layers[0];
  differentiate(trainer, layer, i, 1);
  if (was_refused(trainer,
                  ncclAllReduce(layer->gradients, layer->gradients,
                                layer->count * (size_t)ranks->nranks, ncclFloat, ncclSum,
                                trainer->comm, ranks->stream),
                  i, "allreduce", 0))
    return false;
  ranks_synchronise(ranks);
  step(trainer, layer, layer->gradients + layer->count * (size_t)ranks->rank);
  if (!broadcast_shards(trainer, layer, i))
    return false;
  read_shards(trainer, layer, i);
  return true;
}

/* ---- DeepSpeed ---- */

static bool iterate_deepspeed(struct trainer *trainer, int i) {
  struct ranks *ranks = &trainer->ranks;
  struct layer *layer = &trainer->layers[0];
  differentiate(trainer, layer, i, 1);
  if (was_refused(trainer,
                  ncclReduceScatter(layer->gradients, layer->reduced, layer->count, ncclFloat,
                                    ncclSum, trainer->comm, ranks->stream),
                  i, "reducescatter", 0))
    return false;
  ranks_synchronise(ranks);
  step(trainer, layer, layer->reduced);
  if (was_refused(trainer,
                  ncclAllGather(layer->shard, layer->whole, layer->count, ncclFloat, trainer->comm,
                                ranks->stream),
                  i, "allgather", 0))
    return false;
  read_shards(trainer, layer, i);
  return true;
}

/* ---- FullyShardedDataParallel ---- */

static bool gather(struct trainer *trainer, struct layer *layer, int i) {
  cudaStream_t stream = trainer->ranks.stream;
  follow(trainer, trainer->gather, stream);
  bool refused = was_refused(trainer,
                             ncclAllGather(layer->shard, layer->whole, layer->count, ncclFloat,
                                           trainer->comm, trainer->gather),
                             i, "allgather", 0);
  follow(trainer, stream, trainer->gather);
  return !refused;
}

static bool reduce(struct trainer *trainer, struct layer *layer, int i) {
  cudaStream_t stream = trainer->ranks.stream;
  differentiate(trainer, layer, i, trainer->ranks.nranks);
  follow(trainer, trainer->reduce, stream);
  bool refused = was_refused(trainer,
                             ncclReduceScatter(layer->gradients, layer->reduced, layer->count,
                                               ncclFloat, ncclAvg, trainer->comm, trainer->reduce),
                             i, "reducescatter", 0);
  follow(trainer, stream, trainer->reduce);
  return !refused;
}

static bool go_forward(struct trainer *trainer, int i) {
  for (int l = 0; l < LAYERS; l++) {
    struct layer *layer = &trainer->layers[l];
    if (!gather(trainer, layer, i))
      return false;
    tape_read(trainer->tape, ncclFloat, layer->whole, (size_t)trainer->ranks.nranks, layer->count,
              "gathered %d %d", i, l);
  }
  return true;
}

static bool go_back(struct trainer *trainer, int i) {
  if (!gather(trainer, &trainer->layers[LAYERS - 1], i))
    return false;
  for (int l = LAYERS - 1; l >= 0; l--) {
    if (l > 1 && !gather(trainer, &trainer->layers[l - 1], i))
      return false;
    if (!reduce(trainer, &trainer->layers[l], i))
      return false;
  }
  return true;
}

static bool iterate_fsdp(struct trainer *trainer, int i) {
  if (!go_forward(trainer, i) || !go_back(trainer, i))
    return false;
  ranks_synchronise(&trainer->ranks);
  for (int l = 0; l < LAYERS; l++)
    step(trainer, &trainer->layers[l], trainer->layers[l].reduced);
  tape_read(trainer->tape, ncclFloat, trainer->layers[0].shard, 1, SHARD, "shards %d", i);
  tape_play(trainer->tape);
  return true;
}

static bool iterate(struct trainer *trainer, int i) {
  if (strcmp(style, "fsdp") == 0)
    return iterate_fsdp(trainer, i);
  return strcmp(style, "zero") == 0 ? iterate_zero(trainer, i) : iterate_deepspeed(trainer, i);
}

int main(int argc, char **argv) {
  (void)argc;
  options_read(argv, "Training with parameters or optimizer state in shards.", options);
  static struct trainer trainer;
  trainer_create(&trainer);
  int n = schedule_iterations(iterations, 0, trainer.ranks.rank);
  for (int i = 0; i < n && iterate(&trainer, i); i++)
    ;
  return ranks_leave(&trainer.ranks, ending_named(list_item(end, trainer.ranks.rank)));
}
