/* The smallest program with a loop: every iteration all-reduces one buffer, or several, out of
 * place.
 *
 * Results: "sum <epoch> <iteration> <collective>" with the sum of the contributions and of epoch *
 * 1000 + iteration + 1, and "total" with the sum over all of the first.
 */
#include "tests/programs/options.h"
#include "tests/programs/ranks.h"
#include "tests/programs/tape.h"

#include <stdlib.h>
#include <string.h>

static const char *iterations = "3+1", *end = "finalize", *reduction = "sum", *value = "bit",
                  *synchronise = "iteration";
static int count = 1024, collectives = 1;

static const struct option options[] = {
    {"--iterations", &iterations, NULL, "per rank and epoch: 3,5,5 or 3+1 or 3,5/5,3"},
    {"--count", NULL, &count, "elements"},
    {"--collectives", NULL, &collectives, "all-reduces in an iteration"},
    {"--reduction", &reduction, NULL, "sum or avg"},
    {"--value", &value, NULL, "what a rank contributes: bit (2^rank), or a number"},
    {"--sync", &synchronise, NULL, "wait for the device after each iteration, or only at the end"},
    {"--end", &end, NULL, "finalize, destroy, abort, return, exit; one, or one per rank"},
    {0},
};

int main(int argc, char **argv) {
  (void)argc;
  options_read(argv, "Sums over all ranks in a loop.", options);
  struct ranks ranks;
  ranks_begin(&ranks);
  ncclComm_t comm = ranks_communicator(&ranks);
  struct tape *tape = tape_create(&ranks);
  float *send, *receive;
  CHECK_CUDA(cudaMalloc((void **)&send, (size_t)count * sizeof *send));
  CHECK_CUDA(cudaMalloc((void **)&receive, (size_t)count * sizeof *receive));

  double mine = strcmp(value, "bit") == 0 ? 1 << ranks.rank : strtod(value, NULL);
  ncclRedOp_t op = strcmp(reduction, "avg") == 0 ? ncclAvg : ncclSum;
  for (int epoch = 0; epoch < schedule_epochs(iterations); epoch++) {
    for (int i = 0; i < schedule_iterations(iterations, epoch, ranks.rank); i++) {
      for (int k = 0; k < collectives; k++) {
        tape_fill(tape, ncclFloat, send, (size_t)count, mine, 1000 * epoch + i + 1);
        CHECK_NCCL(ncclAllReduce(send, receive, (size_t)count, ncclFloat, op, comm, ranks.stream));
        tape_read(tape, ncclFloat, receive, 1, (size_t)count, "sum %d %d %d", epoch, i, k);
      }
      if (strcmp(synchronise, "iteration") == 0)
        tape_play(tape);
    }
  }
  tape_play(tape);
  ranks_result(&ranks, "total %.9g", tape_total(tape));
  return ranks_leave(&ranks, ending_named(list_item(end, ranks.rank)));
}
