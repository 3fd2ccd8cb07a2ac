/* Batch normalisation over all ranks, as PyTorch's SyncBatchNorm does it under
 * DistributedDataParallel.
 *
 * In the forward pass each layer gathers [mean, 1 / standard deviation, count] of every rank's
 * batch, leaves out the rows whose count is 0, and normalises with the mean and variance of the
 * whole. In the backward pass it sums [sum of dy, sum of dy * (x - mean)]; then DDP sums the
 * gradients of the layers' weights and biases. With --buffers 1 DDP broadcasts the running
 * statistics from rank 0 before the forward pass.
 *
 * A batch is made of mean + and - spread in turn, the spread a power of two, so that its statistics
 * are exact; epsilon is 0. Ranks have batches of different sizes (--counts).
 *
 * Results: "forward <iteration> <layer> <channel>" with count, mean and variance of all; "backward"
 * with the two sums, and the gradient of the first sample; "gradient" with those of weight and
 * bias, summed over all ranks; "buffer <iteration>" with what came: 100 times rank + 1 of whose it
 * is.
 */
#include "tests/programs/options.h"
#include "tests/programs/ranks.h"
#include "tests/programs/tape.h"

#include <math.h>
#include <stdlib.h>

enum { LAYERS = 2, CHANNELS = 3, ROW = 2 * CHANNELS + 1, RUNNING = 2 * CHANNELS };

static const char *iterations = "3+1", *counts = "2,2,4,8", *end = "finalize";
static int buffers = 0;

static const struct option options[] = {
    {"--iterations", &iterations, NULL, "per rank: 3,5,5 or 3+1"},
    {"--counts", &counts, NULL, "samples in a rank's batch, each an even number"},
    {"--buffers", NULL, &buffers, "1: broadcast running statistics before each forward pass"},
    {"--end", &end, NULL, "finalize, destroy, abort, return, exit; one, or one per rank"},
    {0},
};

struct trainer {
  struct ranks ranks;
  ncclComm_t comm;
  struct tape *tape;
  int count;                /* samples of this rank */
  float *row, *rows;        /* device */
  double *sums, *gradients; /* device: two for each channel; the same by layer */
  float *running;           /* device */
  double total[LAYERS];     /* count over all ranks */
  double mean[LAYERS][CHANNELS], variance[LAYERS][CHANNELS];
};

static double sample(const struct trainer *trainer, int i, int layer, int channel, int k) {
  int rank = trainer->ranks.rank, mean = (rank + 1) * (channel + 1) + 2 * i + layer;
  int spread = 1 << (rank + channel + layer) % 3;
  return k % 2 == 0 ? mean + spread : mean - spread;
}

/* The gradient that comes from the layer above. */
static double output_gradient(const struct trainer *trainer, int k) {
  return (k % 2 == 0 ? 3 : 1) * (trainer->ranks.rank + 1);
}

static void *device_memory(size_t size) {
  void *device;
  CHECK_CUDA(cudaMalloc(&device, size));
  return device;
}

static void trainer_create(struct trainer *trainer) {
  ranks_begin(&trainer->ranks);
  trainer->comm = ranks_communicator(&trainer->ranks);
  trainer->tape = tape_create(&trainer->ranks);
  trainer->count = (int)strtol(list_item(counts, trainer->ranks.rank), NULL, 10);
  trainer->row = device_memory(ROW * sizeof(float));
  trainer->rows = device_memory(ROW * sizeof(float) * (size_t)trainer->ranks.nranks);
  trainer->sums = device_memory(2 * CHANNELS * sizeof(double));
  trainer->gradients = device_memory((size_t)LAYERS * 2 * CHANNELS * sizeof(double));
  trainer->running = device_memory(RUNNING * sizeof(float));
}

static void to_device(struct trainer *trainer, void *device, const void *host, size_t size) {
  CHECK_CUDA(cudaMemcpyAsync(device, host, size, cudaMemcpyHostToDevice, trainer->ranks.stream));
}

static void from_device(struct trainer *trainer, void *host, const void *device, size_t size) {
  ranks_synchronise(&trainer->ranks);
  CHECK_CUDA(cudaMemcpy(host, device, size, cudaMemcpyDeviceToHost));
}

/* Mean and variance of the whole, from those of the ranks that have samples. */
static void combine(struct trainer *trainer, int layer, const float *rows) {
  double total = 0, sums[CHANNELS] = {0}, squares[CHANNELS] = {0};
  for (const float *row = rows; row < rows + ROW * trainer->ranks.nranks; row += ROW) {
    double count = (double)row[2 * CHANNELS];
    if (count < 1)
      continue;
    total += count;
    for (int c = 0; c < CHANNELS; c++) {
      double mean = (double)row[c], deviation = 1 / (double)row[CHANNELS + c];
      sums[c] += count * mean;
      squares[c] += count * (deviation * deviation + mean * mean);
    }
  }
  trainer->total[layer] = total;
  for (int c = 0; c < CHANNELS; c++) {
    double mean = sums[c] / total;
    trainer->mean[layer][c] = mean;
    trainer->variance[layer][c] = squares[c] / total - mean * mean;
  }
}

static void go_forward(struct trainer *trainer, int i, int layer) {
  float row[ROW] = {[2 * CHANNELS] = (float)trainer->count};
  float *rows = calloc((size_t)trainer->ranks.nranks, sizeof row);
  for (int c = 0; c < CHANNELS; c++) {
    double high = sample(trainer, i, layer, c, 0), low = sample(trainer, i, layer, c, 1);
    row[c] = (float)((high + low) / 2);
    row[CHANNELS + c] = (float)(2 / (high - low));
  }
  to_device(trainer, trainer->row, row, sizeof row);
  CHECK_NCCL(ncclAllGather(trainer->row, trainer->rows, ROW, ncclFloat, trainer->comm,
                           trainer->ranks.stream));
  from_device(trainer, rows, trainer->rows, sizeof row * (size_t)trainer->ranks.nranks);
  combine(trainer, layer, rows);
  free(rows);
  for (int c = 0; c < CHANNELS; c++)
    ranks_result(&trainer->ranks, "forward %d %d %d %.9g %.9g %.9g", i, layer, c,
                 trainer->total[layer], trainer->mean[layer][c], trainer->variance[layer][c]);
}

/* Also works out this rank's gradients of weights and biases, which are 1 and 0. */
static void go_back(struct trainer *trainer, int i, int layer, double *gradients) {
  double local[2 * CHANNELS] = {0}, all[2 * CHANNELS];
  for (int c = 0; c < CHANNELS; c++)
    for (int k = 0; k < trainer->count; k++) {
      double dy = output_gradient(trainer, k);
      local[c] += dy;
      local[CHANNELS + c] += dy * (sample(trainer, i, layer, c, k) - trainer->mean[layer][c]);
    }
  to_device(trainer, trainer->sums, local, sizeof local);
  CHECK_NCCL(ncclAllReduce(trainer->sums, trainer->sums, (size_t)2 * CHANNELS, ncclDouble, ncclSum,
                           trainer->comm, trainer->ranks.stream));
  from_device(trainer, all, trainer->sums, sizeof all);
  for (int c = 0; c < CHANNELS; c++) {
    double total = trainer->total[layer], variance = trainer->variance[layer][c];
    double x = sample(trainer, i, layer, c, 0) - trainer->mean[layer][c];
    double dx =
        (output_gradient(trainer, 0) - all[c] / total - x * all[CHANNELS + c] / total / variance) /
        sqrt(variance);
    ranks_result(&trainer->ranks, "backward %d %d %d %.9g %.9g %.6g", i, layer, c, all[c],
                 all[CHANNELS + c], dx);
    gradients[c] = local[CHANNELS + c] / sqrt(variance);
    gradients[CHANNELS + c] = local[c];
  }
}

static void sum_gradients(struct trainer *trainer, int i, double (*gradients)[2 * CHANNELS]) {
  size_t size = LAYERS * sizeof *gradients;
  to_device(trainer, trainer->gradients, gradients, size);
  CHECK_NCCL(ncclAllReduce(trainer->gradients, trainer->gradients, (size_t)LAYERS * 2 * CHANNELS,
                           ncclDouble, ncclSum, trainer->comm, trainer->ranks.stream));
  from_device(trainer, gradients, trainer->gradients, size);
  for (int layer = 0; layer < LAYERS; layer++)
    for (int c = 0; c < CHANNELS; c++)
      ranks_result(&trainer->ranks, "gradient %d %d %d %.6g %.9g", i, layer, c, gradients[layer][c],
                   gradients[layer][CHANNELS + c]);
}

static void broadcast_buffers(struct trainer *trainer, int i) {
  double mine = (trainer->ranks.rank + 1) * 100;
  tape_fill(trainer->tape, ncclFloat, trainer->running, RUNNING, mine, i);
  CHECK_NCCL(
      ncclBcast(trainer->running, RUNNING, ncclFloat, 0, trainer->comm, trainer->ranks.stream));
  tape_read(trainer->tape, ncclFloat, trainer->running, 1, RUNNING, "buffer %d", i);
  tape_play(trainer->tape);
}

int main(int argc, char **argv) {
  (void)argc;
  options_read(argv, "Batch normalisation over all ranks.", options);
  static struct trainer trainer;
  trainer_create(&trainer);
  int n = schedule_iterations(iterations, 0, trainer.ranks.rank);
  for (int i = 0; i < n; i++) {
    double gradients[LAYERS][2 * CHANNELS];
    if (buffers)
      broadcast_buffers(&trainer, i);
    for (int layer = 0; layer < LAYERS; layer++)
      go_forward(&trainer, i, layer);
    for (int layer = LAYERS - 1; layer >= 0; layer--)
      go_back(&trainer, i, layer, gradients[layer]);
    sum_gradients(&trainer, i, gradients);
  }
  return ranks_leave(&trainer.ranks, ending_named(list_item(end, trainer.ranks.rank)));
}
