/* The operations of torch.distributed, made of NCCL's calls as PyTorch's NCCL backend makes them
 * (ProcessGroupNCCL.cpp, nccl.cpp): what is in place, what is a group, what several calls.
 *
 * Rank r sends to rank d 100 (r + 1) + d and iteration + 1; what is reduced is 2^r and iteration
 * + 1. Results: "<operation> <iteration> <tensor> [<from>]" with what has been received.
 */
#ifndef TESTS_PROGRAMS_TORCH_OPERATIONS_H
#define TESTS_PROGRAMS_TORCH_OPERATIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "tests/programs/ranks.h"
#include "tests/programs/tape.h"

enum { TENSORS = 2 };

struct torch_tensor {
  int number;
  size_t n;             /* elements of a block */
  float *send, *result; /* a block for each rank */
};

struct torch {
  struct ranks ranks;
  struct tape *tape;
  struct torch_tensor tensors[TENSORS];
  int64_t *sizes; /* of pickled objects, a block of one for each rank */
  int root;       /* of a broadcast, reduce, gather or scatter */
  int iteration;
  const struct torch_operation *operation;
};

struct torch_operation {
  const char *name;
  ncclResult_t (*issue)(struct torch *state, const struct torch_tensor *tensor);
  /* Prints what this rank has received. */
  void (*read)(struct torch *state, const struct torch_tensor *tensor);
  bool reduces;
};

/* Ends the process if this NCCL has none of that name. */
const struct torch_operation *torch_operation_named(const char *name);

/* Zeros, and the host waits. */
ncclResult_t torch_barrier(struct torch *state, const struct torch_tensor *tensor);

#endif
