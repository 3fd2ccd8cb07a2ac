/* Uneven data and ncclTotal (total.h), on rank 0 three times as often as on rank 1; alone and in a
 * group. Results, on rank 0: "total <iteration> <sum> <sum of the group's>". */
#include "tests/added/total.h"
#include "tests/programs/ranks.h"

enum { ITERATIONS = 9, COUNT = 4 };

int main(void) {
  struct ranks ranks = {0};
  ranks_begin(&ranks);
  ncclComm_t comm = ranks_communicator(&ranks);
  float mine[COUNT], result[2][COUNT] = {{0}};
  void *send, *receive[2], *sum;
  CHECK_CUDA(cudaMalloc(&send, sizeof mine));
  CHECK_CUDA(cudaMalloc(&sum, sizeof mine));
  CHECK_CUDA(cudaMalloc(&receive[0], sizeof mine));
  CHECK_CUDA(cudaMalloc(&receive[1], sizeof mine));
  for (int i = 0; i < (ranks.rank == 0 ? ITERATIONS : ITERATIONS / 3); i++) {
    for (int k = 0; k < COUNT; k++)
      mine[k] = (float)(10 * i + ranks.rank + 1);
    CHECK_CUDA(cudaMemcpyAsync(send, mine, sizeof mine, cudaMemcpyHostToDevice, ranks.stream));
    CHECK_NCCL(ncclTotal(send, receive[0], COUNT, ncclFloat, ncclSum, 0, comm, ranks.stream));
    CHECK_NCCL(ncclGroupStart());
    CHECK_NCCL(ncclTotal(send, receive[1], COUNT, ncclFloat, ncclSum, 0, comm, ranks.stream));
    CHECK_NCCL(ncclAllReduce(send, sum, COUNT, ncclFloat, ncclSum, comm, ranks.stream));
    CHECK_NCCL(ncclGroupEnd());
    ranks_synchronise(&ranks);
    if (ranks.rank != 0)
      continue;
    CHECK_CUDA(cudaMemcpy(result[0], receive[0], sizeof mine, cudaMemcpyDeviceToHost));
    CHECK_CUDA(cudaMemcpy(result[1], receive[1], sizeof mine, cudaMemcpyDeviceToHost));
    ranks_result(&ranks, "total %d %g %g", i, (double)result[0][COUNT - 1],
                 (double)result[1][COUNT - 1]);
  }
  return ranks_leave(&ranks, ENDING_FINALIZE);
}
