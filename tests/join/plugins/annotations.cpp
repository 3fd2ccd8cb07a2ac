// What programs and plug-ins include, in C++: it compiles, and does nothing where nccl-join is not
// there. With the preload, the calls arrive.
#include <nccl_join.h>
#include <nccl_join_hook.h>

#include <cstdio>

extern "C" const ncclJoinHook_v1_t ncclJoinHook_v1;
const ncclJoinHook_v1_t ncclJoinHook_v1 = {"cpp", nullptr, nullptr, nullptr, nullptr};

int main() {
  ncclComm_t comm = nullptr;
  float *device = nullptr;
  int devices[] = {0}, rank = -1, count = -1;
  if (cudaMalloc(reinterpret_cast<void **>(&device), 4 * sizeof(float)) != cudaSuccess ||
      ncclCommInitAll(&comm, 1, devices) != ncclSuccess)
    return 1;
  ncclResult_t results[] = {
      nccl_join_enter(comm),
      nccl_join_register_state(comm, device, 4, ncclFloat),
      nccl_join_active_ranks(comm, &count, nullptr),
      nccl_join_leave(comm),
      nccl_join_last_joiner(comm, &rank),
      nccl_join_deregister_state(comm, device),
  };
  std::printf("version %d, results", nccl_join_version());
  for (ncclResult_t result : results)
    std::printf(" %d", static_cast<int>(result));
  std::printf(", outputs %d %d\n", rank, count);
  return ncclCommDestroy(comm) == ncclSuccess ? 0 : 1;
}
