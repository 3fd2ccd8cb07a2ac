/* A library of the name by which PyTorch is known, that calls CUDA as PyTorch's libraries do: by
 * functions that it imports. */
#include <stddef.h>
#include <time.h>

#include <cuda_runtime_api.h>

enum { WORK_NS = 300000000 };

static void work(void *unused) {
  (void)unused;
  nanosleep(&(struct timespec){.tv_nsec = WORK_NS}, NULL);
}

/* Puts some work into the stream and an event behind it. Returns what is said of that then. */
int record_behind_work(cudaStream_t stream);
int record_behind_work(cudaStream_t stream) {
  cudaEvent_t event;
  int result = cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
  if (result == cudaSuccess)
    result = cudaLaunchHostFunc(stream, work, NULL);
  if (result == cudaSuccess)
    result = cudaEventRecord(event, stream);
  return result == cudaSuccess ? (int)cudaEventQuery(event) : -result;
}
