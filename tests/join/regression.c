/* The training of programs/regression without ranks, and what it must have printed. */
#include "tests/join/regression.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { WEIGHTS = REGRESSION_WEIGHTS };

static const double rate = 1.0 / 64; /* for each rank; SGD */

struct adam {
  double mean[WEIGHTS], square[WEIGHTS], steps;
};

/* All ranks at once. */
struct training {
  const struct regression *wanted;
  int nranks;
  double weights[RUN_RANKS_MAX][WEIGHTS];
  struct adam adam[RUN_RANKS_MAX];
};

struct sum {
  double gradient[WEIGHTS], samples;
};

static int at_least_1(int number) {
  return number > 0 ? number : 1;
}

const char *regression_text(const struct regression *regression) {
  static char text[1536];
  static const char *const take_over[] = {"none", "weights", "all"};
  snprintf(text, sizeof text,
           "--iterations %s --samples %d --batch %d --loss %s --optimizer %s --divisor %s "
           "--accumulate %d --tail %s --dummy %d --take-over %s",
           regression->samples > 0 ? "0" : schedule_text(&regression->schedule),
           regression->samples, at_least_1(regression->batch),
           regression->outputs ? "outputs" : "squares", regression->adam ? "adam" : "sgd",
           regression->by_samples ? "samples" : "ranks", at_least_1(regression->accumulate),
           regression->tail ? "step" : "drop", regression->dummy, take_over[regression->take_over]);
  return text;
}

/* ---- data ---- */

static void sample_inputs(int sample, double *inputs) {
  for (int w = 0; w < WEIGHTS; w++)
    inputs[w] = (sample * (2 * w + 3) + w) % 7 - 3;
}

static int batches(const struct regression *wanted, int epoch, int rank) {
  if (wanted->samples == 0)
    return wanted->schedule.n[epoch][rank];
  int mine = 0, batch = at_least_1(wanted->batch);
  for (int first = rank * batch; first < wanted->samples; first += wanted->schedule.nranks * batch)
    mine++;
  return mine;
}

/* With dummy batches every rank takes as many steps as the longest. */
static int steps(const struct regression *wanted, int epoch, int rank) {
  int mine = batches(wanted, epoch, rank), each = at_least_1(wanted->accumulate);
  for (int other = 0; wanted->dummy && other < wanted->schedule.nranks; other++)
    if (batches(wanted, epoch, other) > mine)
      mine = batches(wanted, epoch, other);
  return wanted->tail ? (mine + each - 1) / each : mine / each;
}

/* ---- training ---- */

static void add_sample(const struct training *training, int rank, int sample, struct sum *sum) {
  static const double truth[WEIGHTS] = {1, -2, 3, -1};
  double inputs[WEIGHTS], error = sample % 3 - 1;
  sample_inputs(sample, inputs);
  for (int w = 0; w < WEIGHTS; w++)
    error += (training->weights[rank][w] - truth[w]) * inputs[w];
  for (int w = 0; w < WEIGHTS; w++)
    sum->gradient[w] += training->wanted->outputs ? inputs[w] : error * inputs[w];
  sum->samples++;
}

/* What a rank contributes to a step: the batches from step * accumulate on, as far as it has them.
 */
static struct sum contribution(const struct training *training, int rank, int epoch, int step) {
  const struct regression *wanted = training->wanted;
  int batch = at_least_1(wanted->batch), each = at_least_1(wanted->accumulate);
  struct sum sum = {0};
  for (int b = step * each; b < (step + 1) * each && b < batches(wanted, epoch, rank); b++)
    for (int sample = (b * training->nranks + rank) * batch, n = 0; n < batch; n++, sample++)
      if (wanted->samples == 0 || sample < wanted->samples)
        add_sample(training, rank, sample, &sum);
  for (int w = 0; w < WEIGHTS && !wanted->by_samples; w++)
    sum.gradient[w] /= training->nranks;
  return sum;
}

/* One step of one rank, with what all contributed. */
static void learn(struct training *training, int rank, const struct sum *sum) {
  double *weights = training->weights[rank];
  struct adam *adam = &training->adam[rank];
  adam->steps++;
  for (int w = 0; w < WEIGHTS; w++) {
    double gradient = sum->gradient[w];
    if (training->wanted->by_samples)
      gradient /= sum->samples;
    if (!training->wanted->adam) {
      weights[w] -= rate * training->nranks * gradient;
      continue;
    }
    adam->mean[w] = 0.9 * adam->mean[w] + 0.1 * gradient;
    adam->square[w] = 0.999 * adam->square[w] + 0.001 * gradient * gradient;
    weights[w] -= 0.05 * (adam->mean[w] / (1 - pow(0.9, adam->steps))) /
                  (sqrt(adam->square[w] / (1 - pow(0.999, adam->steps))) + 1e-8);
  }
}

static void add_weights(struct lines *lines, int rank, const char *name, const double *weights) {
  lines_add(lines, rank, "%s %.17g %.17g %.17g %.17g", name, weights[0], weights[1], weights[2],
            weights[3]);
}

/* A step of all ranks that have one; false if none has. */
static bool step_all(struct training *training, struct lines *lines, int epoch, int step) {
  struct sum sum = {0};
  bool any = false;
  for (int rank = 0; rank < training->nranks; rank++) {
    if (steps(training->wanted, epoch, rank) <= step)
      continue;
    struct sum mine = contribution(training, rank, epoch, step);
    for (int w = 0; w < WEIGHTS; w++)
      sum.gradient[w] += mine.gradient[w];
    sum.samples += mine.samples;
    any = true;
  }
  for (int rank = 0; rank < training->nranks; rank++)
    if (steps(training->wanted, epoch, rank) > step) {
      char name[32];
      learn(training, rank, &sum);
      snprintf(name, sizeof name, "step %d %d", epoch, step);
      add_weights(lines, rank, name, training->weights[rank]);
    }
  return any;
}

static int find_last(const struct training *training, int epoch) {
  int last = 0;
  for (int rank = 1; rank < training->nranks; rank++)
    if (steps(training->wanted, epoch, rank) >= steps(training->wanted, epoch, last))
      last = rank;
  return last;
}

static void take_over(struct training *training, struct lines *lines, int epoch, int last) {
  enum take_over what = training->wanted->take_over;
  for (int rank = 0; rank < training->nranks; rank++) {
    if (what != TAKE_OVER_NONE) {
      lines_add(lines, rank, "last %d %d", epoch, last);
      memcpy(training->weights[rank], training->weights[last], sizeof training->weights[rank]);
    }
    if (what == TAKE_OVER_ALL)
      training->adam[rank] = training->adam[last];
    char name[32];
    snprintf(name, sizeof name, "model %d", epoch);
    add_weights(lines, rank, name, training->weights[rank]);
  }
}

struct trained lines_add_regression(struct lines *lines, const struct regression *regression) {
  struct training training = {.wanted = regression, .nranks = regression->schedule.nranks};
  struct trained trained = {0};
  int epochs = regression->samples > 0 ? 1 : regression->schedule.epochs;
  for (int epoch = 0; epoch < epochs; epoch++) {
    for (int step = 0; step_all(&training, lines, epoch, step); step++)
      ;
    trained.last = find_last(&training, epoch);
    memcpy(trained.weights, training.weights, sizeof trained.weights);
    take_over(&training, lines, epoch, trained.last);
  }
  lines_add_left(lines, training.nranks);
  return trained;
}

void train_serially(double *weights, const int *samples, int nsamples) {
  memset(weights, 0, sizeof *weights * WEIGHTS);
  for (int i = 0; i < nsamples; i++) {
    double inputs[WEIGHTS];
    sample_inputs(samples[i], inputs);
    for (int w = 0; w < WEIGHTS; w++)
      weights[w] -= rate * inputs[w];
  }
}
