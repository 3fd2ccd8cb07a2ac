/* Streams: order, asynchrony, the default streams. */
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "tests/loopback/test/gate.h"

TestSuite(cuda_stream, .timeout = TIMEOUT);

static cudaStream_t stream_new(unsigned flags) {
  cudaStream_t stream;
  succeeds(cudaStreamCreateWithFlags(&stream, flags));
  return stream;
}

static int order[100], ordered;

static void note(void *argument) {
  order[ordered++] = (int)(long)argument;
}

Test(cuda_stream, work_is_done_in_order) {
  cudaStream_t stream = stream_new(cudaStreamDefault);
  for (long i = 0; i < 100; i++)
    succeeds(cudaLaunchHostFunc(stream, note, (void *)i));
  succeeds(cudaStreamSynchronize(stream));
  for (int i = 0; i < 100; i++)
    cr_assert(eq(int, order[i], i));
}

Test(cuda_stream, the_host_runs_ahead) {
  struct gate gate;
  cudaStream_t stream = stream_new(cudaStreamDefault);
  succeeds(cudaStreamQuery(stream));
  gate_close(&gate, stream);
  fails(cudaStreamQuery(stream), cudaErrorNotReady);
  gate_open(&gate);
  succeeds(cudaStreamSynchronize(stream));
  succeeds(cudaStreamQuery(stream));
}

Test(cuda_stream, streams_do_not_wait_for_each_other) {
  struct gate gate;
  cudaStream_t held = stream_new(cudaStreamDefault), other = stream_new(cudaStreamDefault);
  int done = 0;
  gate_close(&gate, held);
  succeeds(cudaLaunchHostFunc(other, count_up, &done));
  succeeds(cudaStreamSynchronize(other));
  cr_assert(eq(int, done, 1));
  gate_open(&gate);
  succeeds(cudaDeviceSynchronize());
}

static void note_entry(void *argument) {
  atomic_store((atomic_int *)argument, 1);
}

struct filler {
  cudaStream_t stream;
  atomic_int enqueued;
};

static void *fill_queue(void *argument) {
  struct filler *filler = argument;
  static atomic_int sink;
  for (int i = 0; i < 8; i++) {
    succeeds(cudaLaunchHostFunc(filler->stream, note_entry, &sink));
    atomic_fetch_add(&filler->enqueued, 1);
  }
  return NULL;
}

Test(cuda_stream, a_full_queue_holds_up_the_host) {
  struct gate gate;
  pthread_t thread;
  setenv("LOOPBACK_QUEUE", "4", 1);
  struct filler filler = {.stream = stream_new(cudaStreamDefault)};
  gate_close(&gate, filler.stream);
  pthread_create(&thread, NULL, fill_queue, &filler);
  while (atomic_load(&filler.enqueued) < 3)
    usleep(1000);
  usleep(50 * 1000); /* time to go wrong */
  cr_assert(eq(int, atomic_load(&filler.enqueued), 3));
  gate_open(&gate);
  pthread_join(thread, NULL);
  cr_assert(eq(int, atomic_load(&filler.enqueued), 8));
  succeeds(cudaStreamSynchronize(filler.stream));
}

Test(cuda_stream, work_of_a_destroyed_stream_is_done) {
  struct gate gate;
  cudaStream_t stream = stream_new(cudaStreamDefault);
  int done = 0;
  gate_close(&gate, stream);
  succeeds(cudaLaunchHostFunc(stream, count_up, &done));
  succeeds(cudaStreamDestroy(stream));
  fails(cudaStreamQuery(stream), cudaErrorInvalidResourceHandle);
  fails(cudaStreamDestroy(stream), cudaErrorInvalidResourceHandle);
  gate_open(&gate);
  succeeds(cudaDeviceSynchronize());
  cr_assert(eq(int, done, 1));
}

Test(cuda_stream, the_default_stream_waits_for_blocking_streams) {
  struct gate gate;
  cudaStream_t blocking = stream_new(cudaStreamDefault);
  gate_close(&gate, blocking);
  succeeds(cudaLaunchHostFunc(blocking, note, (void *)1));
  succeeds(cudaLaunchHostFunc(NULL, note, (void *)2));
  fails(cudaStreamQuery(NULL), cudaErrorNotReady);
  usleep(50 * 1000); /* time to go wrong */
  gate_open(&gate);
  succeeds(cudaStreamSynchronize(NULL));
  cr_assert(eq(int, ordered, 2));
  cr_assert(eq(int, order[1], 2));
}

Test(cuda_stream, blocking_streams_wait_for_the_default_stream) {
  struct gate gate;
  cudaStream_t blocking = stream_new(cudaStreamDefault);
  atomic_int done = 0;
  gate_close(&gate, cudaStreamLegacy);
  succeeds(cudaLaunchHostFunc(blocking, note_entry, &done));
  usleep(50 * 1000);
  cr_assert(eq(int, atomic_load(&done), 0));
  gate_open(&gate);
  succeeds(cudaStreamSynchronize(blocking));
  cr_assert(eq(int, atomic_load(&done), 1));
}

Test(cuda_stream, non_blocking_streams_and_the_default_stream_are_apart) {
  struct gate gate, other;
  cudaStream_t apart = stream_new(cudaStreamNonBlocking);
  atomic_int done = 0;
  gate_close(&gate, NULL);
  succeeds(cudaLaunchHostFunc(apart, note_entry, &done));
  succeeds(cudaStreamSynchronize(apart));
  cr_assert(eq(int, atomic_load(&done), 1));
  gate_open(&gate);
  succeeds(cudaStreamSynchronize(NULL));
  gate_close(&other, apart);
  succeeds(cudaLaunchHostFunc(NULL, note_entry, &done));
  succeeds(cudaStreamSynchronize(NULL));
  succeeds(cudaStreamQuery(NULL));
  gate_open(&other);
}

Test(cuda_stream, synchronising_the_default_stream_includes_blocking_streams) {
  cudaStream_t blocking = stream_new(cudaStreamDefault);
  int done = 0;
  setenv("LOOPBACK_DELAY_US", "20000", 1);
  succeeds(cudaLaunchHostFunc(blocking, count_up, &done));
  succeeds(cudaStreamSynchronize(NULL));
  cr_assert(eq(int, done, 1));
}

Test(cuda_stream, default_streams_of_devices_are_apart) {
  struct gate gate;
  gate_close(&gate, NULL);
  succeeds(cudaSetDevice(1));
  succeeds(cudaStreamQuery(NULL));
  succeeds(cudaDeviceSynchronize());
  succeeds(cudaSetDevice(0));
  fails(cudaStreamQuery(NULL), cudaErrorNotReady);
  gate_open(&gate);
}

static void *query_own_stream(void *argument) {
  *(int *)argument = cudaStreamQuery(cudaStreamPerThread);
  return NULL;
}

Test(cuda_stream, the_per_thread_stream_belongs_to_the_thread) {
  struct gate gate;
  pthread_t thread;
  int other;
  gate_close(&gate, cudaStreamPerThread);
  fails(cudaStreamQuery(cudaStreamPerThread), cudaErrorNotReady);
  pthread_create(&thread, NULL, query_own_stream, &other);
  pthread_join(thread, NULL);
  cr_assert(eq(int, other, cudaSuccess));
  fails(cudaStreamQuery(NULL), cudaErrorNotReady); /* it is a blocking stream */
  gate_open(&gate);
  succeeds(cudaStreamSynchronize(cudaStreamPerThread));
}

Test(cuda_stream, a_thread_has_such_a_stream_on_each_device) {
  struct gate gate;
  gate_close(&gate, cudaStreamPerThread);
  succeeds(cudaSetDevice(1));
  succeeds(cudaStreamQuery(cudaStreamPerThread));
  gate_open(&gate);
}

static int status_seen = -1;

static void call_back(cudaStream_t stream, cudaError_t status, void *argument) {
  *(cudaStream_t *)argument = stream;
  status_seen = status;
}

Test(cuda_stream, callbacks_get_stream_and_status) {
  cudaStream_t stream = stream_new(cudaStreamDefault), seen = NULL;
  succeeds(cudaStreamAddCallback(stream, call_back, &seen, 0));
  succeeds(cudaStreamSynchronize(stream));
  cr_assert(eq(ptr, seen, stream));
  cr_assert(eq(int, status_seen, cudaSuccess));
  fails(cudaStreamAddCallback(stream, call_back, &seen, 1), cudaErrorInvalidValue);
}

static void call_cuda(void *argument) {
  *(int *)argument = cudaDeviceSynchronize();
}

Test(cuda_stream, a_host_function_must_not_call_cuda) {
  int result = -1;
  succeeds(cudaLaunchHostFunc(NULL, call_cuda, &result));
  succeeds(cudaStreamSynchronize(NULL));
  cr_assert(eq(int, result, cudaErrorNotPermitted));
}

Test(cuda_stream, properties_are_kept) {
  cudaStream_t stream;
  unsigned flags;
  int lowest, highest, priority, device;
  unsigned long long id, other;
  succeeds(cudaSetDevice(3));
  succeeds(cudaDeviceGetStreamPriorityRange(&lowest, &highest));
  cr_assert(lt(int, highest, lowest));
  succeeds(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, highest - 10));
  succeeds(cudaStreamGetFlags(stream, &flags));
  cr_assert(eq(uint, flags, cudaStreamNonBlocking));
  succeeds(cudaStreamGetPriority(stream, &priority));
  cr_assert(eq(int, priority, highest));
  succeeds(cudaSetDevice(0));
  succeeds(cudaStreamGetDevice(stream, &device));
  cr_assert(eq(int, device, 3));
  succeeds(cudaStreamGetId(stream, &id));
  succeeds(cudaStreamGetId(NULL, &other));
  cr_assert(ne(u64, id, other));
  fails(cudaStreamCreateWithFlags(&stream, 8), cudaErrorInvalidValue);
}

Test(cuda_stream, an_invented_handle_is_an_error) {
  char nothing[64] = {0};
  fails(cudaStreamQuery((cudaStream_t)nothing), cudaErrorInvalidResourceHandle);
  fails(cudaLaunchHostFunc((cudaStream_t)nothing, note, NULL), cudaErrorInvalidResourceHandle);
}

#define THREADS 4
#define ROUNDS 200

static void *use_streams(void *argument) {
  atomic_int *done = argument;
  for (int i = 0; i < ROUNDS; i++) {
    cudaStream_t stream = stream_new(i % 2 ? cudaStreamNonBlocking : cudaStreamDefault);
    char *memory;
    succeeds(cudaMalloc((void **)&memory, 100));
    succeeds(cudaMemsetAsync(memory, i, 100, stream));
    succeeds(cudaLaunchHostFunc(stream, note_entry, done));
    if (i % 10 == 0) /* a blocking stream, so in order */
      succeeds(cudaMemsetAsync(memory, i, 100, NULL));
    succeeds(cudaStreamDestroy(stream));
    succeeds(cudaFree(memory));
  }
  return NULL;
}

Test(cuda_stream, many_threads_use_one_device) {
  pthread_t threads[THREADS];
  atomic_int done[THREADS] = {0};
  for (int i = 0; i < THREADS; i++)
    pthread_create(&threads[i], NULL, use_streams, &done[i]);
  for (int i = 0; i < THREADS; i++)
    pthread_join(threads[i], NULL);
  succeeds(cudaDeviceSynchronize());
  for (int i = 0; i < THREADS; i++)
    cr_assert(eq(int, atomic_load(&done[i]), 1));
}
