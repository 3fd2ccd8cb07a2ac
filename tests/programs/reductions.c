/* Every datatype with every reduction, in one loop body.
 *
 * Elements at even places are positive and those at odd ones negative (where the datatype has a
 * sign), so that a zero from a rank that contributes nothing would show in a product, a minimum and
 * a maximum. Rank r contributes 1 + r mod 2; for averages nranks times that. The numbers are so
 * small that every datatype holds every result.
 *
 * Results: "reduced <iteration> <datatype> <reduction>".
 */
#include "tests/programs/options.h"
#include "tests/programs/ranks.h"
#include "tests/programs/tape.h"
#include "tests/programs/values.h"

#include <stdbool.h>
#include <string.h>

static const char *iterations = "3+1", *end = "finalize", *datatypes = "all",
                  *collective = "allreduce";
static const char *scalar = "host";
static int count = 64, root = 0, float8 = 0;

static const struct option options[] = {
    {"--iterations", &iterations, NULL, "per rank: 3,5,5 or 3+1"},
    {"--datatypes", &datatypes, NULL, "all, or those whose names are in this text"},
    {"--float8", NULL, &float8, "1: eight-bit floats whatever the device says of itself"},
    {"--collective", &collective, NULL, "allreduce, reduce or reducescatter"},
    {"--scalar", &scalar, NULL, "where the factor of a PreMulSum is: host or device"},
    {"--root", NULL, &root, "of a reduce"},
    {"--count", NULL, &count, "elements; an even number"},
    {"--end", &end, NULL, "finalize, destroy, abort, return, exit; one, or one per rank"},
    {0},
};

enum { PREMULSUM = ncclAvg + 1, REDUCTIONS };
static const char *const reduction_names[REDUCTIONS] = {
    [ncclSum] = "sum", [ncclProd] = "prod", [ncclMax] = "max",
    [ncclMin] = "min", [ncclAvg] = "avg",   [PREMULSUM] = "premulsum",
};

struct buffers {
  void *send, *receive, *scalar;
};

static bool is_wanted(ncclDataType_t datatype, int capability) {
  if (strncmp(datatype_name(datatype), "float8", 6) == 0 && capability < 9 && !float8)
    return false; /* NCCL reduces eight-bit floats from compute capability 9 on */
  return strcmp(datatypes, "all") == 0 || strstr(datatypes, datatype_name(datatype)) != NULL;
}

static double contribution(const struct ranks *ranks, ncclDataType_t datatype, int reduction,
                           int place) {
  double value = 1 + ranks->rank % 2;
  if (reduction == ncclAvg)
    value *= ranks->nranks;
  return place % 2 == 1 && datatype_is_signed(datatype) ? -value : value;
}

static void reduce(const struct ranks *ranks, const struct buffers *buffers,
                   ncclDataType_t datatype, ncclRedOp_t op) {
  ncclComm_t comm = ranks->comms[0];
  size_t n = (size_t)count;
  if (strcmp(collective, "reduce") == 0)
    CHECK_NCCL(
        ncclReduce(buffers->send, buffers->receive, n, datatype, op, root, comm, ranks->stream));
  else if (strcmp(collective, "reducescatter") == 0)
    CHECK_NCCL(
        ncclReduceScatter(buffers->send, buffers->receive, n, datatype, op, comm, ranks->stream));
  else
    CHECK_NCCL(
        ncclAllReduce(buffers->send, buffers->receive, n, datatype, op, comm, ranks->stream));
}

static void step(const struct ranks *ranks, struct tape *tape, const struct buffers *buffers, int i,
                 ncclDataType_t datatype, int reduction) {
  size_t sent = (size_t)count * (size_t)ranks->nranks;
  tape_fill(tape, datatype, buffers->send, sent, contribution(ranks, datatype, reduction, 0),
            contribution(ranks, datatype, reduction, 1));
  if (reduction == PREMULSUM) {
    char two[8];
    value_store(datatype, two, 0, 2);
    bool on_device = strcmp(scalar, "device") == 0;
    if (on_device)
      tape_fill(tape, datatype, buffers->scalar, 1, 2, 2);
    ncclRedOp_t op;
    CHECK_NCCL(ncclRedOpCreatePreMulSum(&op, on_device ? buffers->scalar : two, datatype,
                                        on_device ? ncclScalarDevice : ncclScalarHostImmediate,
                                        ranks->comms[0]));
    reduce(ranks, buffers, datatype, op);
    CHECK_NCCL(ncclRedOpDestroy(op, ranks->comms[0]));
  } else {
    reduce(ranks, buffers, datatype, (ncclRedOp_t)reduction);
  }
  if (strcmp(collective, "reduce") != 0 || ranks->rank == root)
    tape_read(tape, datatype, buffers->receive, 1, (size_t)count, "reduced %d %s %s", i,
              datatype_name(datatype), reduction_names[reduction]);
}

int main(int argc, char **argv) {
  (void)argc;
  options_read(argv, "Reduces every datatype in every way.", options);
  struct ranks ranks;
  ranks_begin(&ranks);
  ranks_communicator(&ranks);
  struct tape *tape = tape_create(&ranks);
  int device, capability;
  CHECK_CUDA(cudaGetDevice(&device));
  CHECK_CUDA(cudaDeviceGetAttribute(&capability, cudaDevAttrComputeCapabilityMajor, device));
  struct buffers buffers;
  CHECK_CUDA(cudaMalloc(&buffers.send, (size_t)count * (size_t)ranks.nranks * 8));
  CHECK_CUDA(cudaMalloc(&buffers.receive, (size_t)count * 8));
  CHECK_CUDA(cudaMalloc(&buffers.scalar, 8));

  for (int i = 0; i < schedule_iterations(iterations, 0, ranks.rank); i++) {
    for (int datatype = 0; datatype < VALUES_DATATYPES; datatype++)
      for (int reduction = 0; reduction < REDUCTIONS; reduction++)
        if (is_wanted((ncclDataType_t)datatype, capability))
          step(&ranks, tape, &buffers, i, (ncclDataType_t)datatype, reduction);
    tape_play(tape);
  }
  return ranks_leave(&ranks, ending_named(list_item(end, ranks.rank)));
}
