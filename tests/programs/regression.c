/* Linear regression, data-parallel: a model small enough for a test to train it once more by
 * itself.
 *
 * Batch b of the samples is that of rank b mod nranks, so that ranks have different numbers of
 * batches where the samples do not divide. Each step sums the gradients of one batch, or of several
 * (gradient accumulation), over all ranks, divided by the number of ranks as in PyTorch's
 * DistributedDataParallel, or by that of the samples in the step as in fairseq; SGD, with a
 * learning rate that grows with the number of ranks, or Adam does the rest on the host. After an
 * epoch the ranks can find out which of them took the most steps (the largest rank of those, as
 * PyTorch has it) and take over its model.
 *
 * Results: "step <epoch> <step>" and "model <epoch>" with the weights, "last <epoch>" with the rank
 * whose model it is.
 */
#include "tests/programs/options.h"
#include "tests/programs/ranks.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { WEIGHTS = 4 };

static const char *iterations = "3+1", *loss = "squares", *optimizer_name = "sgd",
                  *divisor = "ranks", *take_over = "none", *tail = "drop", *end = "finalize";
static int samples = 0, batch = 1, accumulate = 1, dummy = 0;

static const struct option options[] = {
    {"--iterations", &iterations, NULL, "batches per rank and epoch: 3,5,5 or 3+1 or 3,5/5,3"},
    {"--samples", NULL, &samples, "of an epoch, instead of --iterations; 0: as many as needed"},
    {"--batch", NULL, &batch, "samples of a batch"},
    {"--loss", &loss, NULL, "squares, or outputs: their sum alone, whose gradient is constant"},
    {"--optimizer", &optimizer_name, NULL, "sgd or adam"},
    {"--divisor", &divisor, NULL, "of summed gradients: ranks or samples"},
    {"--accumulate", NULL, &accumulate, "batches of a step"},
    {"--tail", &tail, NULL, "what becomes of batches too few for a step: drop or step"},
    {"--dummy", NULL, &dummy, "1: ranks without data go on, with a batch of which nothing counts"},
    {"--take-over", &take_over, NULL,
     "after an epoch, of the rank with most steps: none, weights or all (with Adam's state)"},
    {"--end", &end, NULL, "finalize, destroy, abort, return, exit; one, or one per rank"},
    {0},
};

struct model {
  double weights[WEIGHTS];
  double mean[WEIGHTS], square[WEIGHTS]; /* Adam's */
  double steps;
};

/* What is summed over the ranks: a gradient, and how many samples it comes from. */
struct gradient {
  double of[WEIGHTS];
  double samples;
};

struct trainer {
  struct ranks ranks;
  ncclComm_t comm;
  struct model model;
  struct model *device_model;
  struct gradient *device_gradient;
  int64_t *device_choice;
};

/* ---- the model ---- */

/* Adds the gradient of a sample. */
static void differentiate(const struct model *model, int sample, struct gradient *gradient) {
  double inputs[WEIGHTS], error = sample % 3 - 1;
  static const double truth[WEIGHTS] = {1, -2, 3, -1};
  for (int w = 0; w < WEIGHTS; w++) {
    inputs[w] = (sample * (2 * w + 3) + w) % 7 - 3;
    error += (model->weights[w] - truth[w]) * inputs[w];
  }
  for (int w = 0; w < WEIGHTS; w++)
    gradient->of[w] += strcmp(loss, "squares") == 0 ? error * inputs[w] : inputs[w];
  gradient->samples += 1;
}

static void step_with_sgd(struct model *model, const double *gradient, int nranks) {
  for (int w = 0; w < WEIGHTS; w++)
    model->weights[w] -= 1.0 / 64 * nranks * gradient[w];
}

static void step_with_adam(struct model *model, const double *gradient) {
  model->steps += 1;
  for (int w = 0; w < WEIGHTS; w++) {
    model->mean[w] = 0.9 * model->mean[w] + 0.1 * gradient[w];
    model->square[w] = 0.999 * model->square[w] + 0.001 * gradient[w] * gradient[w];
    double mean = model->mean[w] / (1 - pow(0.9, model->steps));
    double square = model->square[w] / (1 - pow(0.999, model->steps));
    model->weights[w] -= 0.05 * mean / (sqrt(square) + 1e-8);
  }
}

/* ---- the batches ---- */

static int batches_of(int epoch, int rank, int nranks) {
  if (samples == 0)
    return schedule_iterations(iterations, epoch, rank);
  int batches = (samples + batch - 1) / batch;
  return batches / nranks + (rank < batches % nranks);
}

static int longest(int epoch, int nranks) {
  int most = 0;
  for (int rank = 0; rank < nranks; rank++) {
    int batches = batches_of(epoch, rank, nranks);
    most = batches > most ? batches : most;
  }
  return most;
}

/* Adds the gradient of this rank's i-th batch. */
static void add_batch(const struct trainer *trainer, int i, struct gradient *gradient) {
  int first = (i * trainer->ranks.nranks + trainer->ranks.rank) * batch;
  for (int sample = first; sample < first + batch; sample++)
    if (samples == 0 || sample < samples)
      differentiate(&trainer->model, sample, gradient);
}

/* ---- the ranks ---- */

/* Sums the gradient over all ranks. How many samples there were matters only where one divides by
 * it. */
static void sum_gradient(struct trainer *trainer, struct gradient *gradient) {
  cudaStream_t stream = trainer->ranks.stream;
  struct gradient *device = trainer->device_gradient;
  CHECK_CUDA(cudaMemcpyAsync(device, gradient, sizeof *device, cudaMemcpyHostToDevice, stream));
  if (strcmp(divisor, "samples") == 0)
    CHECK_NCCL(ncclAllReduce(&device->samples, &device->samples, 1, ncclDouble, ncclSum,
                             trainer->comm, stream));
  CHECK_NCCL(
      ncclAllReduce(device->of, device->of, WEIGHTS, ncclDouble, ncclSum, trainer->comm, stream));
  ranks_synchronise(&trainer->ranks);
  CHECK_CUDA(cudaMemcpy(gradient, device, sizeof *device, cudaMemcpyDeviceToHost));
}

static void step(struct trainer *trainer, struct gradient *gradient, int epoch, int number) {
  struct model *model = &trainer->model;
  int nranks = trainer->ranks.nranks;
  bool by_samples = strcmp(divisor, "samples") == 0;
  for (int w = 0; w < WEIGHTS && !by_samples; w++)
    gradient->of[w] /= nranks;
  sum_gradient(trainer, gradient);
  for (int w = 0; w < WEIGHTS && by_samples; w++)
    gradient->of[w] /= gradient->samples;
  if (strcmp(optimizer_name, "adam") == 0)
    step_with_adam(model, gradient->of);
  else
    step_with_sgd(model, gradient->of, nranks);
  memset(gradient, 0, sizeof *gradient);
  ranks_result(&trainer->ranks, "step %d %d %.17g %.17g %.17g %.17g", epoch, number,
               model->weights[0], model->weights[1], model->weights[2], model->weights[3]);
}

/* Returns how many steps this rank took. */
static int train_epoch(struct trainer *trainer, int epoch) {
  int rank = trainer->ranks.rank, nranks = trainer->ranks.nranks, steps = 0;
  int mine = batches_of(epoch, rank, nranks), all = dummy ? longest(epoch, nranks) : mine;
  struct gradient gradient = {0};
  for (int i = 0; i < all; i++) {
    if (i < mine)
      add_batch(trainer, i, &gradient);
    bool last = i + 1 == all && strcmp(tail, "step") == 0;
    if ((i + 1) % accumulate == 0 || last)
      step(trainer, &gradient, epoch, steps++);
  }
  return steps;
}

/* The rank that took the most steps, the largest of them if there are several. */
static int find_last(struct trainer *trainer, int steps) {
  struct ranks *ranks = &trainer->ranks;
  int64_t choice = (int64_t)steps * ranks->nranks + ranks->rank, *device = trainer->device_choice;
  CHECK_CUDA(
      cudaMemcpyAsync(device, &choice, sizeof choice, cudaMemcpyHostToDevice, ranks->stream));
  CHECK_NCCL(ncclAllReduce(device, device, 1, ncclInt64, ncclMax, trainer->comm, ranks->stream));
  ranks_synchronise(ranks);
  CHECK_CUDA(cudaMemcpy(&choice, device, sizeof choice, cudaMemcpyDeviceToHost));
  return (int)(choice % ranks->nranks);
}

static void take_over_from(struct trainer *trainer, int root) {
  struct model *device = trainer->device_model;
  cudaStream_t stream = trainer->ranks.stream;
  CHECK_CUDA(
      cudaMemcpyAsync(device, &trainer->model, sizeof *device, cudaMemcpyHostToDevice, stream));
  CHECK_NCCL(ncclGroupStart());
  CHECK_NCCL(ncclBcast(device->weights, WEIGHTS, ncclDouble, root, trainer->comm, stream));
  if (strcmp(take_over, "all") == 0) {
    CHECK_NCCL(ncclBcast(device->mean, WEIGHTS, ncclDouble, root, trainer->comm, stream));
    CHECK_NCCL(ncclBcast(device->square, WEIGHTS, ncclDouble, root, trainer->comm, stream));
    CHECK_NCCL(ncclBcast(&device->steps, 1, ncclDouble, root, trainer->comm, stream));
  }
  CHECK_NCCL(ncclGroupEnd());
  ranks_synchronise(&trainer->ranks);
  CHECK_CUDA(cudaMemcpy(&trainer->model, device, sizeof *device, cudaMemcpyDeviceToHost));
}

int main(int argc, char **argv) {
  (void)argc;
  options_read(argv, "Trains a linear regression.", options);
  struct trainer trainer = {0};
  struct ranks *ranks = &trainer.ranks;
  const double *weights = trainer.model.weights;
  ranks_begin(ranks);
  trainer.comm = ranks_communicator(ranks);
  CHECK_CUDA(cudaMalloc((void **)&trainer.device_model, sizeof(struct model)));
  CHECK_CUDA(cudaMalloc((void **)&trainer.device_gradient, sizeof(struct gradient)));
  CHECK_CUDA(cudaMalloc((void **)&trainer.device_choice, sizeof(int64_t)));
  int epochs = samples == 0 ? schedule_epochs(iterations) : 1;
  for (int epoch = 0; epoch < epochs; epoch++) {
    int steps = train_epoch(&trainer, epoch);
    if (strcmp(take_over, "none") != 0) {
      int last = find_last(&trainer, steps);
      ranks_result(ranks, "last %d %d", epoch, last);
      take_over_from(&trainer, last);
    }
    ranks_result(ranks, "model %d %.17g %.17g %.17g %.17g", epoch, weights[0], weights[1],
                 weights[2], weights[3]);
  }
  return ranks_leave(ranks, ending_named(list_item(end, ranks->rank)));
}
