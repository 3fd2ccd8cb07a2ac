// A C++ program with NCCL in which each rank has as many iterations as it has data.
//
//     g++ -I$CUDA_HOME/include -I"$(nccl-join config --include)" -o sum sum.cpp
//         -L$CUDA_HOME/lib64 -lcudart -lnccl
//     nccl-join run -n 8 ./sum
//
// Without a GPU: -L"$(nccl-join config --loopback)" in front of -lcudart, and nccl-join run --loopback -n 8 ./sum
//
// Nothing follows the loop but the next epoch's, so the program says where it ends
// (nccl_join_leave): a rank that has no more data waits there, and answers the others' sums with
// zeros. Without nccl-join the word does nothing.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <cuda_runtime.h>
#include <nccl.h>
#include <nccl_join.h>
#include <unistd.h>

static void check(cudaError_t result) {
  if (result != cudaSuccess)
    throw std::runtime_error(cudaGetErrorString(result));
}

static void check(ncclResult_t result) {
  if (result != ncclSuccess)
    throw std::runtime_error(ncclGetErrorString(result));
}

static int number_of(const char *variable) {
  const char *value = std::getenv(variable);
  if (value == nullptr)
    throw std::runtime_error(std::string(variable) +
                             " is not set: start it with nccl-join run -n N");
  return std::atoi(value);
}

// Rank 0's for all, by a file of this launch: the ranks have one parent.
static const std::string path = "/tmp/sum-" + std::to_string(getppid());

static ncclUniqueId share_id(int rank) {
  const std::string made = path + ".new";
  ncclUniqueId id;
  if (rank == 0) {
    check(ncclGetUniqueId(&id));
    std::ofstream(made, std::ios::binary).write(id.internal, sizeof id.internal);
    std::rename(made.c_str(), path.c_str());
    return id;
  }
  for (;;) {
    std::ifstream file(path, std::ios::binary);
    if (file.read(id.internal, sizeof id.internal))
      return id;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

int main() try {
  const int rank = number_of("RANK"), size = number_of("WORLD_SIZE");
  check(cudaSetDevice(number_of("LOCAL_RANK")));
  ncclComm_t comm;
  check(ncclCommInitRank(&comm, size, share_id(rank), rank));
  if (rank == 0)
    std::remove(path.c_str());
  cudaStream_t stream;
  check(cudaStreamCreate(&stream));
  std::vector<float> host(1024);
  const size_t bytes = host.size() * sizeof host[0];
  float *device;
  check(cudaMalloc(reinterpret_cast<void **>(&device), bytes));
  for (int epoch = 0; epoch < 2; epoch++) {
    double total = 0;
    for (int i = 0; i < 3 + 2 * ((rank + epoch) % size); i++) {
      host.assign(host.size(), 1.0f);
      check(cudaMemcpyAsync(device, host.data(), bytes, cudaMemcpyHostToDevice, stream));
      check(ncclAllReduce(device, device, host.size(), ncclFloat, ncclSum, comm, stream));
      check(cudaMemcpyAsync(host.data(), device, bytes, cudaMemcpyDeviceToHost, stream));
      check(cudaStreamSynchronize(stream));
      total += host.back();
    }
    check(nccl_join_leave(comm));
    std::printf("rank %d epoch %d total %g\n", rank, epoch, total);
  }
  check(ncclCommDestroy(comm));
  check(cudaFree(device));
  check(cudaStreamDestroy(stream));
  return 0;
} catch (const std::exception &error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
