/* Programs built with CUDA_API_PER_THREAD_DEFAULT_STREAM: their default stream is the thread's. */
#define CUDA_API_PER_THREAD_DEFAULT_STREAM
#include <pthread.h>

#include "tests/loopback/test/gate.h"

TestSuite(cuda_per_thread, .timeout = TIMEOUT);

static void *query_default_stream(void *argument) {
  int *results = argument;
  results[0] = cudaStreamQuery(NULL);
  results[1] = cuStreamQuery(NULL);
  results[2] = cudaStreamQuery(cudaStreamLegacy);
  return NULL;
}

Test(cuda_per_thread, the_default_stream_is_the_threads) {
  struct gate gate;
  pthread_t thread;
  int others[3];
  succeeds(cudaSetDevice(0));
  gate_close(&gate, NULL);
  fails(cudaStreamQuery(NULL), cudaErrorNotReady);
  fails(cuStreamQuery(NULL), CUDA_ERROR_NOT_READY);
  pthread_create(&thread, NULL, query_default_stream, others);
  pthread_join(thread, NULL);
  cr_assert(eq(int, others[0], cudaSuccess));
  cr_assert(eq(int, others[1], CUDA_SUCCESS));
  cr_assert(eq(int, others[2], cudaErrorNotReady));
  gate_open(&gate);
  succeeds(cudaStreamSynchronize(NULL));
}

Test(cuda_per_thread, copies_and_events_follow) {
  struct gate gate;
  cudaEvent_t event;
  char host[100] = {0}, *device;
  succeeds(cudaMalloc((void **)&device, sizeof host));
  succeeds(cudaEventCreate(&event));
  gate_close(&gate, cudaStreamPerThread);
  succeeds(cudaMemset(device, 3, sizeof host));
  succeeds(cudaEventRecord(event, NULL));
  fails(cudaEventQuery(event), cudaErrorNotReady);
  gate_open(&gate);
  succeeds(cudaMemcpy(host, device, sizeof host, cudaMemcpyDeviceToHost));
  cr_assert(eq(chr, host[99], 3));
  succeeds(cudaEventQuery(event));
}
