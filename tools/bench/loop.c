/* The benchmarks' training loop (loop.h). */
#include "tools/bench/loop.h"

#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static ncclComm_t make_communicator(uint32_t nranks, int rank, bool made, ncclUniqueId id) {
  ncclComm_t comm;
  if (!made || cudaSetDevice(0) != cudaSuccess ||
      ncclCommInitRank(&comm, (int)nranks, id, rank) != ncclSuccess) {
    fprintf(stderr, "rank %d: no device or no communicator\n", rank);
    exit(1);
  }
  return comm;
}

ncclComm_t loop_communicator(uint32_t nranks, int rank) {
  ncclUniqueId id;
  bool made = ncclGetUniqueId(&id) == ncclSuccess;
  return make_communicator(nranks, rank, made, id);
}

_Static_assert(sizeof(ncclUniqueId) == AREA_ID_BYTES, "an id goes through the area");

ncclComm_t loop_communicator_of_machines(struct area *area, int rank) {
  ncclUniqueId id;
  bool made = rank != 0 || ncclGetUniqueId(&id) == ncclSuccess;
  if (rank == 0 && made)
    memcpy(area->id, &id, sizeof id);
  area_meet(area);
  memcpy(&id, area->id, sizeof id);
  return make_communicator(area->nranks, rank, made, id);
}
