/* Stream capture and graphs. */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "tests/loopback/test/gate.h"

TestSuite(cuda_capture, .timeout = TIMEOUT);

static cudaStream_t stream_new(unsigned flags) {
  cudaStream_t stream;
  succeeds(cudaStreamCreateWithFlags(&stream, flags));
  return stream;
}

static cudaEvent_t event_new(void) {
  cudaEvent_t event;
  succeeds(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  return event;
}

static cudaStream_t capture_new(void) {
  cudaStream_t stream = stream_new(cudaStreamNonBlocking);
  succeeds(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  return stream;
}

static enum cudaStreamCaptureStatus status_of(cudaStream_t stream) {
  enum cudaStreamCaptureStatus status;
  succeeds(cudaStreamIsCapturing(stream, &status));
  return status;
}

/* The headers of CUDA 13 want to tell of edges as well. */
#if CUDART_VERSION >= 13000
#define EDGES NULL,
#else
#define EDGES
#endif

static cudaGraphExec_t end(cudaStream_t stream) {
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  succeeds(cudaStreamEndCapture(stream, &graph));
  /* PyTorch's flags: nothing here is allocated in a graph, and no node has a priority. */
  succeeds(cudaGraphInstantiate(&exec, graph,
                                cudaGraphInstantiateFlagAutoFreeOnLaunch |
                                    cudaGraphInstantiateFlagUseNodePriority));
  succeeds(cudaGraphDestroy(graph));
  return exec;
}

Test(cuda_capture, captured_work_runs_at_each_launch) {
  int done = 0;
  char *device, *host, *back;
  succeeds(cudaMalloc((void **)&device, 8));
  succeeds(cudaMallocHost((void **)&host, 4));
  succeeds(cudaMallocHost((void **)&back, 8));
  cudaStream_t stream = capture_new();
  succeeds(cudaMemsetAsync(device, 9, 8, stream));
  succeeds(cudaMemcpyAsync(device, host, 4, cudaMemcpyHostToDevice, stream));
  succeeds(cudaMemcpyAsync(back, device, 8, cudaMemcpyDeviceToHost, stream));
  succeeds(cudaLaunchHostFunc(stream, count_up, &done));
  cudaGraphExec_t exec = end(stream);
  succeeds(cudaStreamSynchronize(stream));
  cr_assert(eq(int, done, 0));
  for (int i = 1; i <= 3; i++) {
    memset(host, i, 4);
    succeeds(cudaGraphLaunch(exec, stream));
    succeeds(cudaStreamSynchronize(stream));
    cr_assert(eq(int, done, i));
    cr_assert(eq(chr, back[3], i));
    cr_assert(eq(chr, back[4], 9));
  }
  succeeds(cudaGraphExecDestroy(exec));
  fails(cudaGraphLaunch(exec, stream), cudaErrorInvalidValue);
}

Test(cuda_capture, status_and_identifier_are_told) {
  enum cudaStreamCaptureStatus status;
  unsigned long long id = 0, other = 0;
  cudaGraph_t graph;
  const cudaGraphNode_t *dependencies;
  size_t count;
  cudaStream_t stream = stream_new(cudaStreamNonBlocking);
  int done;
  cr_assert(eq(int, status_of(stream), cudaStreamCaptureStatusNone));
  succeeds(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  cr_assert(eq(int, status_of(stream), cudaStreamCaptureStatusActive));
  succeeds(cudaLaunchHostFunc(stream, count_up, &done));
  succeeds(cudaStreamGetCaptureInfo(stream, &status, &id, &graph, &dependencies, EDGES & count));
  cr_assert(eq(int, status, cudaStreamCaptureStatusActive));
  cr_assert(eq(sz, count, 1));
  end(stream);
  cr_assert(eq(int, status_of(stream), cudaStreamCaptureStatusNone));
  succeeds(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  succeeds(cudaStreamGetCaptureInfo(stream, &status, &other, NULL, NULL, EDGES NULL));
  cr_assert(ne(u64, id, other));
}

Test(cuda_capture, other_streams_are_forked_and_joined) {
  int done = 0;
  size_t count;
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  cudaStream_t stream = capture_new(), other = stream_new(cudaStreamNonBlocking);
  cudaEvent_t fork = event_new(), join = event_new();
  succeeds(cudaLaunchHostFunc(stream, count_up, &done));
  succeeds(cudaEventRecord(fork, stream));
  succeeds(cudaStreamWaitEvent(other, fork, 0));
  cr_assert(eq(int, status_of(other), cudaStreamCaptureStatusActive));
  succeeds(cudaLaunchHostFunc(other, count_up, &done));
  succeeds(cudaEventRecord(join, other));
  succeeds(cudaLaunchHostFunc(stream, count_up, &done));
  succeeds(cudaStreamWaitEvent(stream, join, 0));
  succeeds(cudaStreamEndCapture(stream, &graph));
  cr_assert(eq(int, status_of(other), cudaStreamCaptureStatusNone));
  succeeds(cudaGraphGetNodes(graph, NULL, &count));
  cr_assert(eq(sz, count, 3));
  succeeds(cudaGraphInstantiate(&exec, graph, 0));
  succeeds(cudaGraphLaunch(exec, other));
  succeeds(cudaStreamSynchronize(other));
  cr_assert(eq(int, done, 3));
}

Test(cuda_capture, a_stream_that_is_not_joined_is_an_error) {
  int done = 0;
  cudaGraph_t graph;
  cudaStream_t stream = capture_new(), other = stream_new(cudaStreamNonBlocking);
  cudaEvent_t fork = event_new();
  succeeds(cudaEventRecord(fork, stream));
  succeeds(cudaStreamWaitEvent(other, fork, 0));
  succeeds(cudaLaunchHostFunc(other, count_up, &done));
  fails(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureUnjoined);
  cr_assert(eq(ptr, graph, NULL));
  cr_assert(eq(int, status_of(other), cudaStreamCaptureStatusNone));
}

Test(cuda_capture, waiting_for_captured_work_invalidates_the_capture) {
  cudaGraph_t graph;
  cudaStream_t stream = capture_new();
  fails(cudaStreamSynchronize(stream), cudaErrorStreamCaptureUnsupported);
  cr_assert(eq(int, status_of(stream), cudaStreamCaptureStatusInvalidated));
  fails(cudaLaunchHostFunc(stream, count_up, NULL), cudaErrorStreamCaptureInvalidated);
  fails(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureInvalidated);
  cr_assert(eq(int, status_of(stream), cudaStreamCaptureStatusNone));
}

Test(cuda_capture, a_captured_event_is_not_for_the_host) {
  cudaStream_t stream = capture_new();
  cudaEvent_t event = event_new();
  succeeds(cudaEventRecord(event, stream));
  fails(cudaEventQuery(event), cudaErrorCapturedEvent);
  cr_assert(eq(int, status_of(stream), cudaStreamCaptureStatusInvalidated));
}

Test(cuda_capture, work_from_outside_does_not_get_in) {
  cudaStream_t outside = stream_new(cudaStreamNonBlocking), stream = capture_new();
  cudaEvent_t event = event_new();
  succeeds(cudaEventRecord(event, outside));
  fails(cudaStreamWaitEvent(stream, event, 0), cudaErrorStreamCaptureIsolation);
}

Test(cuda_capture, two_captures_do_not_merge) {
  cudaStream_t first = capture_new(), second = capture_new();
  cudaEvent_t event = event_new();
  succeeds(cudaEventRecord(event, first));
  fails(cudaStreamWaitEvent(second, event, 0), cudaErrorStreamCaptureMerge);
}

Test(cuda_capture, the_default_stream_cannot_be_captured) {
  fails(cudaStreamBeginCapture(NULL, cudaStreamCaptureModeGlobal),
        cudaErrorStreamCaptureUnsupported);
}

Test(cuda_capture, the_default_stream_is_out_of_bounds_while_a_blocking_stream_captures) {
  char host[8];
  void *device;
  cudaStream_t stream = stream_new(cudaStreamDefault);
  succeeds(cudaMalloc(&device, 8));
  succeeds(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  fails(cudaMemcpy(device, host, 8, cudaMemcpyHostToDevice), cudaErrorStreamCaptureImplicit);
  cr_assert(eq(int, status_of(stream), cudaStreamCaptureStatusInvalidated));
}

static void *allocate(void *argument) {
  void *memory;
  *(int *)argument = cudaMalloc(&memory, 8);
  return NULL;
}

static int allocate_on_other_thread(void) {
  pthread_t thread;
  int result;
  pthread_create(&thread, NULL, allocate, &result);
  pthread_join(thread, NULL);
  return result;
}

Test(cuda_capture, unsafe_calls_depend_on_the_mode) {
  void *memory;
  enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  cudaStream_t stream = capture_new();
  fails(cudaMalloc(&memory, 8), cudaErrorStreamCaptureUnsupported);
  fails(allocate_on_other_thread(), cudaErrorStreamCaptureUnsupported);
  succeeds(cudaThreadExchangeStreamCaptureMode(&mode));
  cr_assert(eq(int, mode, cudaStreamCaptureModeGlobal));
  succeeds(cudaMalloc(&memory, 8));
  succeeds(cudaThreadExchangeStreamCaptureMode(&mode));
  end(stream);
  succeeds(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  fails(cudaMalloc(&memory, 8), cudaErrorStreamCaptureUnsupported);
  succeeds(allocate_on_other_thread());
}

static void *end_capture(void *argument) {
  cudaGraph_t graph;
  fails(cudaStreamEndCapture(argument, &graph), cudaErrorStreamCaptureWrongThread);
  return NULL;
}

Test(cuda_capture, a_capture_ends_where_and_by_whom_it_was_begun) {
  cudaGraph_t graph;
  pthread_t thread;
  cudaStream_t stream = capture_new(), other = stream_new(cudaStreamNonBlocking);
  fails(cudaStreamEndCapture(other, &graph), cudaErrorIllegalState);
  fails(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), cudaErrorIllegalState);
  pthread_create(&thread, NULL, end_capture, stream);
  pthread_join(thread, NULL);
  end(stream);
}

Test(cuda_capture, what_cannot_be_a_node_is_refused) {
  void *memory;
  cudaStream_t stream = capture_new();
  fails(cudaMallocAsync(&memory, 8, stream), cudaErrorStreamCaptureUnsupported);
}

Test(cuda_capture, a_launch_looks_at_memory_again) {
  void *memory;
  succeeds(cudaMalloc(&memory, 8));
  cudaStream_t stream = capture_new();
  succeeds(cudaMemsetAsync(memory, 0, 8, stream));
  fails(cudaMemsetAsync(memory, 0, 9, stream), cudaErrorInvalidValue);
  cudaGraphExec_t exec = end(stream);
  succeeds(cudaGraphLaunch(exec, stream));
  succeeds(cudaFree(memory));
  fails(cudaGraphLaunch(exec, stream), cudaErrorInvalidValue);
}

static atomic_int entered;

static void enter(void *argument) {
  (void)argument;
  atomic_fetch_add(&entered, 1);
}

Test(cuda_capture, launches_of_one_graph_are_in_order) {
  struct gate gate;
  cudaStream_t first = capture_new(), second = stream_new(cudaStreamNonBlocking);
  succeeds(cudaLaunchHostFunc(first, enter, NULL));
  gate_close(&gate, first);
  cudaGraphExec_t exec = end(first);
  succeeds(cudaGraphLaunch(exec, first));
  succeeds(cudaGraphLaunch(exec, second));
  while (atomic_load(&entered) < 1)
    usleep(1000);
  usleep(50 * 1000); /* time to go wrong */
  cr_assert(eq(int, atomic_load(&entered), 1));
  gate_open(&gate);
  gate_open(&gate);
  succeeds(cudaStreamSynchronize(second));
  cr_assert(eq(int, atomic_load(&entered), 2));
}

Test(cuda_capture, nodes_have_types_and_edges) {
  size_t count = 2;
  cudaGraph_t graph;
  cudaGraphNode_t nodes[2];
  enum cudaGraphNodeType type;
  char *memory;
  succeeds(cudaMalloc((void **)&memory, 8));
  cudaStream_t stream = capture_new();
  succeeds(cudaMemsetAsync(memory, 0, 8, stream));
  succeeds(cudaMemcpyAsync(memory, memory + 4, 4, cudaMemcpyDeviceToDevice, stream));
  succeeds(cudaStreamEndCapture(stream, &graph));
  succeeds(cudaGraphGetNodes(graph, nodes, &count));
  succeeds(cudaGraphNodeGetType(nodes[0], &type));
  cr_assert(eq(int, type, cudaGraphNodeTypeMemset));
  succeeds(cudaGraphNodeGetType(nodes[1], &type));
  cr_assert(eq(int, type, cudaGraphNodeTypeMemcpy));
#if CUDA_VERSION >= 13000
  size_t edges = 0;
  succeeds(cuGraphGetEdges(graph, NULL, NULL, NULL, &edges));
  cr_assert(eq(sz, edges, 1));
#endif
}

Test(cuda_capture, a_destroyed_stream_ends_its_capture) {
  void *memory;
  cudaStream_t stream = capture_new();
  succeeds(cudaStreamDestroy(stream));
  succeeds(cudaMalloc(&memory, 8));
}

static void count_up_when_freed(void *counter) {
  __atomic_fetch_add((int *)counter, 1, __ATOMIC_RELEASE);
}

/* A user object goes with the last of what holds it: the graph, what was made of it, and a launch
 * that is under way. */
Test(cuda_capture, user_object_lives_as_long_as_launches) {
  int freed = 0;
  cudaUserObject_t object;
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  struct gate gate;
  cudaStream_t stream = capture_new();
  gate_close(&gate, stream);
  succeeds(cudaStreamEndCapture(stream, &graph));
  succeeds(cudaUserObjectCreate(&object, &freed, count_up_when_freed, 2,
                                cudaUserObjectNoDestructorSync));
  succeeds(cudaGraphRetainUserObject(graph, object, 1, cudaGraphUserObjectMove));
  succeeds(cudaUserObjectRelease(object, 1));
  succeeds(cudaGraphInstantiate(&exec, graph, 0));
  succeeds(cudaGraphDestroy(graph));
  succeeds(cudaGraphLaunch(exec, stream));
  succeeds(cudaGraphExecDestroy(exec));
  cr_assert(eq(int, freed, 0));
  gate_open(&gate);
  succeeds(cudaStreamSynchronize(stream));
  for (int i = 0; i < 100000 && !__atomic_load_n(&freed, __ATOMIC_ACQUIRE); i++)
    usleep(1000); /* the worker gives it up after the launch has ended */
  cr_assert(eq(int, freed, 1));
}

Test(cuda_capture, user_object_is_given_back) {
  int freed = 0;
  cudaUserObject_t object;
  cudaGraph_t graph;
  succeeds(cudaGraphCreate(&graph, 0));
  succeeds(cudaUserObjectCreate(&object, &freed, count_up_when_freed, 1,
                                cudaUserObjectNoDestructorSync));
  succeeds(cudaGraphRetainUserObject(graph, object, 2, 0));
  succeeds(cudaUserObjectRelease(object, 1));
  fails(cudaGraphReleaseUserObject(graph, object, 3), cudaErrorInvalidValue);
  succeeds(cudaGraphReleaseUserObject(graph, object, 1));
  cr_assert(eq(int, freed, 0));
  succeeds(cudaGraphReleaseUserObject(graph, object, 1));
  cr_assert(eq(int, freed, 1));
  succeeds(cudaGraphDestroy(graph));
}

/* What comes after depends on nothing: the work before is then left without a successor. */
Test(cuda_capture, dependencies_are_replaced) {
  int done = 0;
  cudaGraph_t graph;
  cudaStream_t stream = capture_new();
  succeeds(cudaLaunchHostFunc(stream, count_up, &done));
#if CUDART_VERSION >= 13000
  succeeds(
      cudaStreamUpdateCaptureDependencies(stream, NULL, NULL, 0, cudaStreamSetCaptureDependencies));
#else
  succeeds(cudaStreamUpdateCaptureDependencies(stream, NULL, 0, cudaStreamSetCaptureDependencies));
#endif
  succeeds(cudaLaunchHostFunc(stream, count_up, &done));
  fails(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureUnjoined);
}
