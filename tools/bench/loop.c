/* The benchmarks' training loop (loop.h). */
#include "tools/bench/loop.h"

#include <stdio.h>
#include <stdlib.h>

ncclComm_t loop_communicator(uint32_t nranks, int rank) {
  ncclUniqueId id;
  ncclComm_t comm;
  if (ncclGetUniqueId(&id) != ncclSuccess ||
      ncclCommInitRank(&comm, (int)nranks, id, rank) != ncclSuccess) {
    fprintf(stderr, "rank %d: no communicator\n", rank);
    exit(1);
  }
  return comm;
}
