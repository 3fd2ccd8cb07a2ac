/* The benchmarks' training loop (loop.h). */
#include "tools/bench/loop.h"

#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>

ncclComm_t loop_communicator(uint32_t nranks, int rank) {
  ncclUniqueId id;
  ncclComm_t comm;
  if (cudaSetDevice(0) != cudaSuccess || ncclGetUniqueId(&id) != ncclSuccess ||
      ncclCommInitRank(&comm, (int)nranks, id, rank) != ncclSuccess) {
    fprintf(stderr, "rank %d: no device or no communicator\n", rank);
    exit(1);
  }
  return comm;
}
