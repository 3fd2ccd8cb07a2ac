// Sums until its data ends or it fails, and cleans up, in C++: failing_in_cpp HOW LENGTHS
//
// HOW: destructor or catch, which the exception goes through; handled: before it cleans up. Ranks whose length is below that of the others throw.
#include <cuda_runtime_api.h>
#include <nccl.h>

extern "C" {
#include "tests/programs/ranks.h"
}

#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>

struct Failure : std::runtime_error {
  Failure() : std::runtime_error("a failure") {}
};

namespace {

struct Group {
  ranks *of;
  bool destroys;

  void end() const {
    ncclResult_t result = ncclCommDestroy(of->comms[0]);
    ranks_result(of, "destroyed %d", static_cast<int>(result));
  }
  ~Group() {
    if (destroys)
      end();
  }
};

// -1: it has not been done.
float sum_of_ones(ranks *of, float *data) {
  float values[] = {1, -1};
  CHECK_CUDA(cudaMemcpyAsync(data, values, sizeof values, cudaMemcpyHostToDevice, of->stream));
  CHECK_NCCL(ncclAllReduce(data, data + 1, 1, ncclFloat, ncclSum, of->comms[0], of->stream));
  ranks_synchronise(of);
  CHECK_CUDA(cudaMemcpy(values, data, sizeof values, cudaMemcpyDeviceToHost));
  return values[1];
}

void train(ranks *of, int n, int most) {
  float *data = nullptr;
  CHECK_CUDA(cudaMalloc(reinterpret_cast<void **>(&data), 2 * sizeof *data));
  for (int i = 0; i < most; i++) {
    if (i == n)
      throw Failure();
    ranks_result(of, "sum %d %g", i, static_cast<double>(sum_of_ones(of, data)));
  }
}

} // namespace

int main(int, char **argv) try {
  ranks of;
  const std::string how = argv[1];
  char *rest = argv[2];
  int n = 0, most = 0;
  ranks_begin(&of);
  for (int rank = 0; rank < of.nranks; rank++, rest++) {
    int length = static_cast<int>(std::strtol(rest, &rest, 10));
    n = rank == of.rank ? length : n;
    most = length > most ? length : most;
  }
  ranks_communicator(&of);
  Group group = {&of, how == "destructor"};
  try {
    train(&of, n, most);
  } catch (const Failure &) {
    if (how == "destructor")
      throw;
    if (how == "catch") {
      group.end();
      throw;
    }
  }
  if (how != "destructor")
    group.end();
  return 0;
} catch (const std::exception &) {
  return 3;
}
