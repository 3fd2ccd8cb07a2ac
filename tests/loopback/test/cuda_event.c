/* Events. */
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

#include "tests/loopback/test/gate.h"

TestSuite(cuda_event, .timeout = TIMEOUT);

static double now_s(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static cudaStream_t stream_new(void) {
  cudaStream_t stream;
  succeeds(cudaStreamCreate(&stream));
  return stream;
}

static cudaEvent_t event_new(unsigned flags) {
  cudaEvent_t event;
  succeeds(cudaEventCreateWithFlags(&event, flags));
  return event;
}

static void note(void *argument) {
  atomic_store((atomic_int *)argument, 1);
}

Test(cuda_event, an_event_never_recorded_is_complete) {
  cudaEvent_t event = event_new(cudaEventDefault);
  succeeds(cudaEventQuery(event));
  succeeds(cudaEventSynchronize(event));
  succeeds(cudaStreamWaitEvent(stream_new(), event, 0));
}

Test(cuda_event, an_event_is_complete_once_its_stream_got_there) {
  struct gate gate;
  cudaStream_t stream = stream_new();
  cudaEvent_t before = event_new(cudaEventDefault), after = event_new(cudaEventDefault);
  succeeds(cudaEventRecord(before, stream));
  gate_close(&gate, stream);
  succeeds(cudaEventRecord(after, stream));
  succeeds(cudaEventSynchronize(before));
  succeeds(cudaEventQuery(before));
  fails(cudaEventQuery(after), cudaErrorNotReady);
  gate_open(&gate);
  succeeds(cudaEventSynchronize(after));
  succeeds(cudaEventQuery(after));
}

Test(cuda_event, recording_again_moves_the_event) {
  struct gate gate;
  cudaStream_t stream = stream_new();
  cudaEvent_t event = event_new(cudaEventDefault);
  succeeds(cudaEventRecord(event, stream));
  succeeds(cudaEventSynchronize(event));
  gate_close(&gate, stream);
  succeeds(cudaEventRecordWithFlags(event, stream, cudaEventRecordDefault));
  fails(cudaEventQuery(event), cudaErrorNotReady);
  gate_open(&gate);
  succeeds(cudaEventSynchronize(event));
}

Test(cuda_event, a_stream_waits_for_an_event_of_another) {
  struct gate gate;
  cudaStream_t first = stream_new(), second = stream_new();
  cudaEvent_t event = event_new(cudaEventDisableTiming);
  atomic_int done = 0;
  gate_close(&gate, first);
  succeeds(cudaEventRecord(event, first));
  succeeds(cudaStreamWaitEvent(second, event, 0));
  succeeds(cudaLaunchHostFunc(second, note, &done));
  usleep(50 * 1000);
  cr_assert(eq(int, atomic_load(&done), 0));
  gate_open(&gate);
  succeeds(cudaStreamSynchronize(second));
  cr_assert(eq(int, atomic_load(&done), 1));
}

Test(cuda_event, a_stream_waits_for_an_event_of_another_device) {
  struct gate gate;
  cudaStream_t first = stream_new();
  cudaEvent_t event = event_new(cudaEventDefault);
  succeeds(cudaSetDevice(1));
  cudaStream_t second = stream_new();
  gate_close(&gate, first);
  succeeds(cudaEventRecord(event, first));
  succeeds(cudaStreamWaitEvent(second, event, 0));
  fails(cudaStreamQuery(second), cudaErrorNotReady);
  fails(cudaEventRecord(event, second), cudaErrorInvalidResourceHandle);
  gate_open(&gate);
  succeeds(cudaStreamSynchronize(second));
}

Test(cuda_event, a_wait_is_for_the_recording_at_that_time) {
  struct gate first_gate, second_gate;
  cudaStream_t first = stream_new(), second = stream_new();
  cudaEvent_t event = event_new(cudaEventDefault);
  gate_close(&first_gate, first);
  succeeds(cudaEventRecord(event, first));
  succeeds(cudaStreamWaitEvent(second, event, 0));
  gate_close(&second_gate, first);
  succeeds(cudaEventRecord(event, first));
  gate_open(&first_gate);
  succeeds(cudaStreamSynchronize(second));
  fails(cudaEventQuery(event), cudaErrorNotReady);
  gate_open(&second_gate);
}

Test(cuda_event, a_destroyed_event_keeps_its_promises) {
  struct gate gate;
  cudaStream_t first = stream_new(), second = stream_new();
  cudaEvent_t event = event_new(cudaEventDefault);
  gate_close(&gate, first);
  succeeds(cudaEventRecord(event, first));
  succeeds(cudaStreamWaitEvent(second, event, 0));
  succeeds(cudaEventDestroy(event));
  fails(cudaEventQuery(event), cudaErrorInvalidResourceHandle);
  succeeds(cudaStreamDestroy(first));
  fails(cudaStreamQuery(second), cudaErrorNotReady);
  gate_open(&gate);
  succeeds(cudaStreamSynchronize(second));
}

Test(cuda_event, elapsed_time_is_the_streams) {
  struct gate gate;
  float milliseconds;
  cudaStream_t stream = stream_new();
  cudaEvent_t from = event_new(cudaEventDefault), to = event_new(cudaEventBlockingSync);
  fails(cudaEventElapsedTime(&milliseconds, from, to), cudaErrorInvalidResourceHandle);
  succeeds(cudaEventRecord(from, stream));
  succeeds(cudaEventSynchronize(from));
  gate_close(&gate, stream);
  succeeds(cudaEventRecord(to, stream));
  fails(cudaEventElapsedTime(&milliseconds, from, to), cudaErrorNotReady);
  usleep(20 * 1000);
  gate_open(&gate);
  succeeds(cudaEventSynchronize(to));
  succeeds(cudaEventElapsedTime(&milliseconds, from, to));
  cr_assert(ge(flt, milliseconds, 20.0F));
  cr_assert(lt(flt, milliseconds, 20000.0F));
}

Test(cuda_event, an_event_without_timing_has_no_time) {
  float milliseconds;
  cudaEvent_t from = event_new(cudaEventDisableTiming), to = event_new(cudaEventDefault);
  succeeds(cudaEventRecord(from, NULL));
  succeeds(cudaEventRecord(to, NULL));
  succeeds(cudaDeviceSynchronize());
  fails(cudaEventElapsedTime(&milliseconds, from, to), cudaErrorInvalidResourceHandle);
}

Test(cuda_event, delay_makes_asynchrony_visible) {
  const double delay_s = 0.3;
  cudaStream_t stream;
  setenv("LOOPBACK_DELAY_US", "300000", 1);
  succeeds(cudaStreamCreate(&stream));
  cudaEvent_t event = event_new(cudaEventDefault);
  double begin = now_s();
  succeeds(cudaEventRecord(event, stream));
  cudaError_t state = cudaEventQuery(event);
  cr_assert(state == cudaErrorNotReady || now_s() - begin >= delay_s);
  succeeds(cudaEventSynchronize(event));
  cr_assert(now_s() - begin >= delay_s);
}

Test(cuda_event, interprocess_events_are_refused) {
  cudaEvent_t event;
  fails(cudaEventCreateWithFlags(&event, cudaEventInterprocess | cudaEventDisableTiming),
        cudaErrorNotSupported);
}

Test(cuda_event, thousands_of_events) {
  enum { EVENTS = 5000 };
  static cudaEvent_t events[EVENTS];
  cudaStream_t stream = stream_new();
  for (int i = 0; i < EVENTS; i++) {
    events[i] = event_new(cudaEventDisableTiming);
    succeeds(cudaEventRecord(events[i], stream));
  }
  for (int i = 0; i < EVENTS; i++) {
    succeeds(cudaEventSynchronize(events[i]));
    succeeds(cudaEventDestroy(events[i]));
  }
}
