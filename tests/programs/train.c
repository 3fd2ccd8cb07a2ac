/* Softmax regression on handwritten digits, data-parallel: the program of `make demo`.
 *
 * An ordinary program: every rank has a shard of the digits, computes the gradient of a mini-batch
 * on its own, and sums it with the others' by NCCL (one bucket for the weights, one for the
 * biases), the divisor being nranks as in PyTorch's DistributedDataParallel. Every few iterations
 * the ranks add up a metric. After each epoch the weights of the rank with the largest shard are
 * broadcast (which changes nothing if shards are even), and all ranks evaluate their part of the
 * digits held out. Arithmetic is done on the host, so that the program needs no CUDA compiler; NCCL
 * works on device memory as ever.
 *
 * Results: "metric <epoch> <iteration>" (loss, right, samples), "accuracy <epoch>" (right, of how
 * many). With --record each rank writes its own gradients and the sums it got into a file, for
 * check_sums.c.
 */
#include "tests/programs/digits.h"
#include "tests/programs/options.h"
#include "tests/programs/ranks.h"
#include "tests/programs/record.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WEIGHTS = DIGITS_CLASSES * DIGITS_PIXELS, HELD_OUT = 297, METRIC = 3 };

static const char *data = "build/data/digits.csv", *shards = "45,30,20,5", *record = "none",
                  *end = "finalize";
static int epochs = 3, batch = 16, metric_every = 5;
static const float learning_rate = 2.0F;

static const struct option options[] = {
    {"--data", &data, NULL, "the digits"},
    {"--shards", &shards, NULL, "percent of the training digits, by rank"},
    {"--epochs", NULL, &epochs, "epochs"},
    {"--batch", NULL, &batch, "digits in a mini-batch of one rank"},
    {"--metric-every", NULL, &metric_every, "iterations between two metrics"},
    {"--record", &record, NULL, "folder for the gradients"},
    {"--end", &end, NULL, "finalize, destroy, abort, return, exit; one, or one per rank"},
    {0},
};

/* Weights by class, then biases; gradients likewise. */
struct parameters {
  float weights[WEIGHTS], biases[DIGITS_CLASSES];
};

struct trainer {
  struct ranks ranks;
  ncclComm_t comm;
  struct digits *digits;
  int first, size; /* this rank's shard */
  int largest;     /* the rank with the largest shard */
  struct parameters model;
  struct parameters *device; /* gradients on their way, and broadcast weights */
  float *device_metric;
  double *device_right;
  FILE *record;
};

static void take_shard(struct trainer *trainer) {
  int training = trainer->digits->n - HELD_OUT, first = 0, largest = -1;
  for (int rank = 0; rank < trainer->ranks.nranks; rank++) {
    int size = training * (int)strtol(list_item(shards, rank), NULL, 10) / 100;
    if (first + size > training)
      size = training - first;
    if (rank == trainer->ranks.rank) {
      trainer->first = first;
      trainer->size = size;
    }
    if (size > largest) {
      largest = size;
      trainer->largest = rank;
    }
    first += size;
  }
}

/* The probabilities of the classes for one digit. Returns the class that the model believes in. */
static int predict(const struct parameters *model, const float *pixels, float *probabilities) {
  int best = 0;
  for (int c = 0; c < DIGITS_CLASSES; c++) {
    float logit = model->biases[c];
    for (int p = 0; p < DIGITS_PIXELS; p++)
      logit += model->weights[c * DIGITS_PIXELS + p] * pixels[p];
    probabilities[c] = logit;
    if (logit > probabilities[best])
      best = c;
  }
  float largest = probabilities[best], total = 0;
  for (int c = 0; c < DIGITS_CLASSES; c++)
    total += probabilities[c] = expf(probabilities[c] - largest);
  for (int c = 0; c < DIGITS_CLASSES; c++)
    probabilities[c] /= total;
  return best;
}

/* The mean gradient over a mini-batch, divided by nranks as DDP does; adds to the metric. */
static void differentiate(const struct trainer *trainer, int first, int n,
                          struct parameters *gradient, float *metric) {
  memset(gradient, 0, sizeof *gradient);
  float share = 1.0F / (float)(n * trainer->ranks.nranks);
  for (int i = first; i < first + n; i++) {
    const float *pixels = trainer->digits->pixels[i];
    int label = trainer->digits->labels[i];
    float error[DIGITS_CLASSES];
    bool right = predict(&trainer->model, pixels, error) == label;
    metric[0] -= logf(error[label] + 1e-9F);
    metric[1] += right ? 1.0F : 0.0F;
    metric[2] += 1.0F;
    error[label] -= 1;
    for (int c = 0; c < DIGITS_CLASSES; c++) {
      gradient->biases[c] += error[c] * share;
      for (int p = 0; p < DIGITS_PIXELS; p++)
        gradient->weights[c * DIGITS_PIXELS + p] += error[c] * pixels[p] * share;
    }
  }
}

/* Sums floats of the host over all ranks, through device memory. */
static void start_sum(struct trainer *trainer, const float *mine, float *device, size_t count) {
  cudaStream_t stream = trainer->ranks.stream;
  CHECK_CUDA(cudaMemcpyAsync(device, mine, count * sizeof *mine, cudaMemcpyHostToDevice, stream));
  CHECK_NCCL(ncclAllReduce(device, device, count, ncclFloat, ncclSum, trainer->comm, stream));
}

/* What start_sum began, back on the host: copied after the wait, since a copy that waits would not
 * notice a communicator that has failed. */
static void finish_sum(struct trainer *trainer, float *sum, const float *device, size_t count) {
  ranks_synchronise(&trainer->ranks);
  CHECK_CUDA(cudaMemcpy(sum, device, count * sizeof *sum, cudaMemcpyDeviceToHost));
}

static void learn(struct trainer *trainer, int epoch, int i, int first, int n, float *metric) {
  struct parameters mine, sum, *device = trainer->device;
  differentiate(trainer, first, n, &mine, metric);
  start_sum(trainer, mine.weights, device->weights, WEIGHTS);
  start_sum(trainer, mine.biases, device->biases, DIGITS_CLASSES);
  finish_sum(trainer, (float *)&sum, (float *)device, sizeof sum / sizeof(float));
  for (int w = 0; w < WEIGHTS; w++)
    trainer->model.weights[w] -= learning_rate * sum.weights[w];
  for (int b = 0; b < DIGITS_CLASSES; b++)
    trainer->model.biases[b] -= learning_rate * sum.biases[b];
  if (trainer->record != NULL) {
    record_write(trainer->record, epoch, i, 0, WEIGHTS, mine.weights, sum.weights);
    record_write(trainer->record, epoch, i, 1, DIGITS_CLASSES, mine.biases, sum.biases);
  }
}

static void report_metric(struct trainer *trainer, int epoch, int i, float *metric) {
  float sum[METRIC];
  start_sum(trainer, metric, trainer->device_metric, METRIC);
  finish_sum(trainer, sum, trainer->device_metric, METRIC);
  ranks_result(&trainer->ranks, "metric %d %d %.9g %.9g %.9g", epoch, i, (double)sum[0],
               (double)sum[1], (double)sum[2]);
  if (trainer->ranks.rank == trainer->largest)
    printf("epoch %d, iteration %2d: loss %.3f, %3.0f%% right of %.0f digits\n", epoch + 1, i + 1,
           (double)(sum[0] / sum[2]), 100 * (double)(sum[1] / sum[2]), (double)sum[2]);
  memset(metric, 0, METRIC * sizeof *metric);
}

static void train_epoch(struct trainer *trainer, int epoch) {
  float metric[METRIC] = {0};
  for (int i = 0, done = 0; done < trainer->size; i++) {
    int n = trainer->size - done < batch ? trainer->size - done : batch;
    learn(trainer, epoch, i, trainer->first + done, n, metric);
    done += n;
    if ((i + 1) % metric_every == 0)
      report_metric(trainer, epoch, i, metric);
  }
}

/* The weights of the rank that has learnt most, for everybody. */
static void share_weights(struct trainer *trainer) {
  struct parameters *device = trainer->device;
  cudaStream_t stream = trainer->ranks.stream;
  CHECK_CUDA(
      cudaMemcpyAsync(device, &trainer->model, sizeof *device, cudaMemcpyHostToDevice, stream));
  CHECK_NCCL(ncclGroupStart());
  CHECK_NCCL(
      ncclBcast(device->weights, WEIGHTS, ncclFloat, trainer->largest, trainer->comm, stream));
  CHECK_NCCL(ncclBcast(device->biases, DIGITS_CLASSES, ncclFloat, trainer->largest, trainer->comm,
                       stream));
  CHECK_NCCL(ncclGroupEnd());
  ranks_synchronise(&trainer->ranks);
  CHECK_CUDA(cudaMemcpy(&trainer->model, device, sizeof *device, cudaMemcpyDeviceToHost));
}

/* How many of the digits held out are recognised; each rank looks at its part of them. */
static void evaluate(struct trainer *trainer, int epoch) {
  const struct digits *digits = trainer->digits;
  double right[2] = {0, 0};
  for (int i = digits->n - HELD_OUT + trainer->ranks.rank; i < digits->n;
       i += trainer->ranks.nranks) {
    float probabilities[DIGITS_CLASSES];
    right[0] += predict(&trainer->model, digits->pixels[i], probabilities) == digits->labels[i];
    right[1] += 1;
  }
  double *device = trainer->device_right;
  cudaStream_t stream = trainer->ranks.stream;
  CHECK_CUDA(cudaMemcpyAsync(device, right, sizeof right, cudaMemcpyHostToDevice, stream));
  CHECK_NCCL(ncclAllReduce(device, device, 2, ncclDouble, ncclSum, trainer->comm, stream));
  ranks_synchronise(&trainer->ranks);
  CHECK_CUDA(cudaMemcpy(right, device, sizeof right, cudaMemcpyDeviceToHost));
  ranks_result(&trainer->ranks, "accuracy %d %.9g %.9g", epoch, right[0], right[1]);
  if (trainer->ranks.rank == trainer->largest)
    printf("epoch %d: %.1f%% of %.0f digits held out are recognised\n", epoch + 1,
           100 * right[0] / right[1], right[1]);
}

int main(int argc, char **argv) {
  (void)argc;
  options_read(argv, "Trains softmax regression on handwritten digits.", options);
  static struct trainer trainer;
  trainer.digits = digits_read(data);
  ranks_begin(&trainer.ranks);
  take_shard(&trainer);
  trainer.comm = ranks_communicator(&trainer.ranks);
  CHECK_CUDA(cudaMalloc((void **)&trainer.device, sizeof *trainer.device));
  CHECK_CUDA(cudaMalloc((void **)&trainer.device_metric, METRIC * sizeof(float)));
  CHECK_CUDA(cudaMalloc((void **)&trainer.device_right, 2 * sizeof(double)));
  if (strcmp(record, "none") != 0)
    trainer.record = record_create(record, trainer.ranks.rank);

  share_weights(&trainer);
  for (int epoch = 0; epoch < epochs; epoch++) {
    train_epoch(&trainer, epoch);
    share_weights(&trainer);
    evaluate(&trainer, epoch);
  }
  if (trainer.record != NULL)
    fclose(trainer.record);
  free(trainer.digits);
  return ranks_leave(&trainer.ranks, ending_named(list_item(end, trainer.ranks.rank)));
}
