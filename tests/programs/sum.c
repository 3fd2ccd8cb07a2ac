/* The smallest program with a loop: every iteration all-reduces one buffer, or several, out of
 * place.
 *
 * Results: "sum <epoch> <iteration> <collective>" with the sum of the contributions and of epoch *
 * 1000 + iteration + 1, and "total" with the sum over all of the first.
 */
#include "tests/programs/options.h"
#include "tests/programs/ranks.h"
#include "tests/programs/tape.h"
#include "tests/programs/values.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COLLECTIVES_MAX = 16 };

static const char *iterations = "3+1", *end = "finalize", *reduction = "sum", *value = "bit",
                  *synchronise = "iteration", *counts = "1024", *datatype_text = "float32";
static int collectives = 1, communicators = 1, group = 0, longer_from = 0;

static const struct option options[] = {
    {"--iterations", &iterations, NULL, "per rank and epoch: 3,5,5 or 3+1 or 3,5/5,3"},
    {"--count", &counts, NULL, "elements; one, or one per collective"},
    {"--longer-from", NULL, &longer_from,
     "from this iteration on buffers have one element more; 0: never"},
    {"--collectives", NULL, &collectives, "all-reduces in an iteration, on each communicator"},
    {"--communicators", NULL, &communicators, "communicators of all ranks"},
    {"--group", NULL, &group, "1: those of an iteration are one group"},
    {"--datatype", &datatype_text, NULL, "of the elements"},
    {"--reduction", &reduction, NULL, "sum or avg"},
    {"--value", &value, NULL, "what a rank contributes: bit (2^rank), or a number"},
    {"--sync", &synchronise, NULL, "wait for the device after each iteration, or only at the end"},
    {"--end", &end, NULL, "finalize, destroy, abort, return, exit; one, or one per rank"},
    {0},
};

struct summing {
  struct ranks ranks;
  struct tape *tape;
  ncclDataType_t datatype;
  ncclRedOp_t op;
  double mine;
  int n; /* collectives on all communicators */
  size_t counts[COLLECTIVES_MAX];
  void *send[COLLECTIVES_MAX], *receive[COLLECTIVES_MAX];
};

static ncclDataType_t datatype_named(const char *name) {
  for (int datatype = 0; datatype < VALUES_DATATYPES; datatype++)
    if (strcmp(datatype_name((ncclDataType_t)datatype), name) == 0)
      return (ncclDataType_t)datatype;
  fprintf(stderr, "no datatype is called %s\n", name);
  exit(2);
}

static void prepare(struct summing *summing) {
  struct ranks *ranks = &summing->ranks;
  ranks_begin(ranks);
  for (int c = 0; c < communicators; c++)
    ranks_communicator(ranks);
  summing->tape = tape_create(ranks);
  summing->datatype = datatype_named(datatype_text);
  summing->op = strcmp(reduction, "avg") == 0 ? ncclAvg : ncclSum;
  summing->mine = strcmp(value, "bit") == 0 ? 1 << ranks->rank : strtod(value, NULL);
  summing->n = collectives * communicators;
  if (summing->n > COLLECTIVES_MAX) {
    fprintf(stderr, "more than %d collectives\n", COLLECTIVES_MAX);
    exit(2);
  }
  for (int k = 0; k < summing->n; k++) {
    summing->counts[k] = strtoul(list_item(counts, k), NULL, 10);
    size_t size = (summing->counts[k] + 1) * datatype_size(summing->datatype);
    CHECK_CUDA(cudaMalloc(&summing->send[k], size));
    CHECK_CUDA(cudaMalloc(&summing->receive[k], size));
  }
}

/* The collectives of an iteration, those of the first communicator first. */
static void iterate(struct summing *summing, int epoch, int i) {
  struct ranks *ranks = &summing->ranks;
  size_t more = longer_from != 0 && i >= longer_from;
  for (int k = 0; k < summing->n; k++)
    tape_fill(summing->tape, summing->datatype, summing->send[k], summing->counts[k] + more,
              summing->mine, 1000 * epoch + i + 1);
  if (group)
    CHECK_NCCL(ncclGroupStart());
  for (int k = 0; k < summing->n; k++)
    CHECK_NCCL(ncclAllReduce(summing->send[k], summing->receive[k], summing->counts[k] + more,
                             summing->datatype, summing->op, ranks->comms[k / collectives],
                             ranks->stream));
  if (group)
    CHECK_NCCL(ncclGroupEnd());
  for (int k = 0; k < summing->n; k++)
    tape_read(summing->tape, summing->datatype, summing->receive[k], 1, summing->counts[k] + more,
              "sum %d %d %d", epoch, i, k);
}

int main(int argc, char **argv) {
  (void)argc;
  options_read(argv, "Sums over all ranks in a loop.", options);
  struct summing summing = {0};
  prepare(&summing);
  for (int epoch = 0; epoch < schedule_epochs(iterations); epoch++)
    for (int i = 0; i < schedule_iterations(iterations, epoch, summing.ranks.rank); i++) {
      iterate(&summing, epoch, i);
      if (strcmp(synchronise, "iteration") == 0)
        tape_play(summing.tape);
    }
  tape_play(summing.tape);
  ranks_result(&summing.ranks, "total %.9g", tape_total(summing.tape));
  return ranks_leave(&summing.ranks, ending_named(list_item(end, summing.ranks.rank)));
}
