/* What programs/regression prints, worked out by training once more in this process: every rank's
 * model by itself, a rank that has no data left contributing nothing and standing still.
 *
 * Sums are made in the order of ranks, as the loopback makes them, so that results agree to the
 * last bit.
 */
#ifndef TESTS_JOIN_REGRESSION_H
#define TESTS_JOIN_REGRESSION_H

#include "tests/join/expected.h"

#include <stdbool.h>

#define REGRESSION_WEIGHTS 4

enum take_over { TAKE_OVER_NONE, TAKE_OVER_WEIGHTS, TAKE_OVER_ALL };

struct regression {
  struct schedule schedule; /* batches; of the samples, if there are any: only nranks */
  int samples, batch;       /* 0 for the latter counts as 1 */
  bool outputs;             /* the loss: their sum instead of squares */
  bool adam;
  bool by_samples; /* the divisor */
  int accumulate;  /* 0 counts as 1 */
  bool tail;       /* batches too few for a step make one nevertheless */
  bool dummy;
  enum take_over take_over;
};

/* As options of the program. Valid until the next call. */
const char *regression_text(const struct regression *regression);

/* The models at the end of an epoch, before anything is taken over, and the rank with the most
 * steps. */
struct trained {
  double weights[RUN_RANKS_MAX][REGRESSION_WEIGHTS];
  int last;
};

/* Expects what the program prints, "left" included. Returns the last epoch's models. */
struct trained lines_add_regression(struct lines *lines, const struct regression *regression);

/* Serial training: the weights after one step of SGD with a learning rate of 1/64 for each of these
 * samples, where the loss is the sum of outputs. */
void train_serially(double *weights, const int *samples, int nsamples);

#endif
