/* Epochs with nothing between them, gone round in one of several ways: --how up, in order, with the
 * number in a variable; down, from the last one; over, over an array of what they are; function, in
 * a function that is given how many there are; settings, as many as a structure says that is passed
 * on; global, as many as a variable of the program says; while, in a while; counted, in a variable
 * of the program; models, some in each round of a loop around; phases, the same in a function;
 * pairs, two, as the compiler knows; batches, those of the first epoch alone.
 *
 * Results: "sum <epoch> <i> <epoch of all> <n>" of each sum: the mean epoch of those that take
 * part, and how many they are; "left".
 */
#include "tests/programs/options.h"
#include "tests/programs/ranks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *how = "up", *iterations = "2,3/3,2/2,3";

enum { EPOCHS_ROOM = 64 };

struct epoch {
  int number, n;
};

struct settings {
  int seed, epochs;
};

static struct ranks ranks;
static double *send, *receive;
static int epochs, counted, grouped, models = 2;
static struct epoch all[EPOCHS_ROOM];

static const struct option options[] = {
    {"--how", &how, NULL,
     "up, down, over, function, settings, global, while, counted, models, phases, pairs or "
     "batches"},
    {"--iterations", &iterations, NULL, "per rank and epoch: 3,5,5 or 3,5/5,3"},
    {"--grouped", NULL, &grouped, "1: each sum is a group"},
    {"--models", NULL, &models, "how many rounds the loop of models has: 2"},
    {0},
};

static __attribute__((noinline)) void sum(int epoch, int i) {
  double value[2] = {1, epoch}, met[2];
  CHECK_CUDA(cudaMemcpyAsync(send, value, sizeof value, cudaMemcpyHostToDevice, ranks.stream));
  if (grouped)
    CHECK_NCCL(ncclGroupStart());
  CHECK_NCCL(ncclAllReduce(send, receive, 2, ncclDouble, ncclSum, ranks.comms[0], ranks.stream));
  if (grouped)
    CHECK_NCCL(ncclGroupEnd());
  CHECK_CUDA(cudaMemcpyAsync(met, receive, sizeof met, cudaMemcpyDeviceToHost, ranks.stream));
  ranks_synchronise(&ranks);
  ranks_result(&ranks, "sum %d %d %g %g", epoch, i, met[1] / met[0], met[0]);
}

static __attribute__((noinline)) void train_for(int nepochs) {
  for (int epoch = 0; epoch < nepochs; epoch++)
    for (int i = 0; i < all[epoch].n; i++)
      sum(epoch, i);
}

static __attribute__((noinline)) void train_as(const struct settings *settings) {
  for (int epoch = 0; epoch < settings->epochs; epoch++)
    for (int i = 0; i < all[epoch].n; i++)
      sum(epoch, i);
}

static __attribute__((noinline)) void train_counted(void) {
  for (int i = 0; i < all[counted].n; i++)
    sum(counted, i);
}

static __attribute__((noinline)) void train_phases(int first, int phases) {
  for (int phase = 0; phase < phases; phase++)
    for (int i = 0; i < all[first + phase].n; i++)
      sum(first + phase, i);
}

/* No epochs: so many batches are left. */
static __attribute__((noinline)) void train_batches(int left) {
  for (int i = 0; left > 0; left--)
    sum(0, i++);
}

/* Not all compilers make two loops of the one over models. */
static __attribute__((noinline)) void train_pairs(int rounds) {
  for (int round = 0; round < rounds; round++)
    for (int model = 0; model < 2; model++)
      for (int i = 0; i < all[2 * round].n * (1 - model) + all[2 * round + 1].n * model; i++)
        sum(2 * round + model, i);
}

static void train(void) {
  struct settings settings = {.seed = 1, .epochs = epochs};
  int number = 0, count = epochs, each = models, rounds = (epochs + each - 1) / each;
  if (strcmp(how, "up") == 0) {
    for (int epoch = 0; epoch < count; epoch++)
      for (int i = 0; i < all[epoch].n; i++)
        sum(epoch, i);
  } else if (strcmp(how, "down") == 0) {
    for (int left = count; left > 0; left--)
      for (int i = 0; i < all[count - left].n; i++)
        sum(count - left, i);
  } else if (strcmp(how, "over") == 0) {
    for (const struct epoch *epoch = all; epoch != all + count; epoch++)
      for (int i = 0; i < epoch->n; i++)
        sum(epoch->number, i);
  } else if (strcmp(how, "function") == 0) {
    train_for(count);
  } else if (strcmp(how, "settings") == 0) {
    train_as(&settings);
  } else if (strcmp(how, "global") == 0) {
    for (int epoch = 0; epoch < epochs; epoch++)
      for (int i = 0; i < all[epoch].n; i++)
        sum(epoch, i);
  } else if (strcmp(how, "counted") == 0) {
    for (counted = 0; counted < epochs; counted++)
      train_counted();
  } else if (strcmp(how, "models") == 0) {
    for (int round = 0; round < rounds; round++)
      for (int model = 0; model < each; model++)
        for (int i = 0; i < all[round * each + model].n; i++)
          sum(round * each + model, i);
  } else if (strcmp(how, "phases") == 0) {
    for (int round = 0; round < rounds; round++)
      train_phases(round * each, each);
  } else if (strcmp(how, "pairs") == 0) {
    train_pairs(rounds);
  } else if (strcmp(how, "batches") == 0) {
    train_batches(all[0].n);
  } else {
    while (number < count) {
      for (int i = 0; i < all[number].n; i++)
        sum(number, i);
      number++;
    }
  }
}

int main(int argc, char **argv) {
  (void)argc;
  options_read(argv, "Goes round epochs with nothing between them.", options);
  ranks_begin(&ranks);
  ranks_communicator(&ranks);
  CHECK_CUDA(cudaMalloc((void **)&send, 2 * sizeof *send));
  CHECK_CUDA(cudaMalloc((void **)&receive, 2 * sizeof *receive));
  epochs = schedule_epochs(iterations);
  if (epochs > EPOCHS_ROOM)
    exit(2);
  for (int epoch = 0; epoch < epochs; epoch++)
    all[epoch] = (struct epoch){epoch, schedule_iterations(iterations, epoch, ranks.rank)};
  train();
  return ranks_leave(&ranks, ENDING_FINALIZE);
}
