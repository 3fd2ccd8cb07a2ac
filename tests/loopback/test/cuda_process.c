/* Start, fork and end of processes. */
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/loopback/cuda/loopback_cuda.h"
#include "tests/loopback/test/gate.h"

TestSuite(cuda_process, .timeout = TIMEOUT);

/* The exit status of a child that runs body; -1 if it was killed or did not end within 200
 * seconds. */
static int status_of_child(int (*body)(void)) {
  int status;
  pid_t child = fork();
  if (child == 0) {
    alarm(200);
    exit(body());
  }
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void *shared; /* memory of the parent */

static int use_cuda(void) {
  void *memory;
  int count;
  if (cudaMalloc(&memory, 1) != cudaErrorInitializationError)
    return 1;
  if (cudaGetDeviceCount(&count) != cudaErrorInitializationError)
    return 2;
  if (cudaDeviceSynchronize() != cudaErrorInitializationError)
    return 3;
  if (loopback_device_memory(shared, 1))
    return 4;
  return cuCtxSynchronize() == CUDA_ERROR_NOT_INITIALIZED ? 0 : 5;
}

Test(cuda_process, a_forked_child_has_no_cuda_but_ends) {
  struct gate gate;
  succeeds(cudaMalloc(&shared, 100));
  gate_close(&gate, NULL);
  cr_assert(eq(int, status_of_child(use_cuda), 0));
  gate_open(&gate);
  succeeds(cudaDeviceSynchronize());
  succeeds(cudaFree(shared));
}

static int use_cuda_first(void) {
  void *memory;
  return cudaMalloc(&memory, 1) == cudaSuccess && cudaMemset(memory, 0, 1) == cudaSuccess &&
                 cudaDeviceSynchronize() == cudaSuccess
             ? 0
             : 1;
}

Test(cuda_process, a_child_forked_before_cuda_may_use_it) {
  cr_assert(eq(int, status_of_child(use_cuda_first), 0));
  cr_assert(eq(int, use_cuda_first(), 0));
}

static int leave_blocked(void) {
  static struct gate gate;
  static int done;
  cudaStream_t stream;
  cudaStreamCreate(&stream);
  gate_close(&gate, stream);
  for (int i = 0; i < 100; i++)
    cudaLaunchHostFunc(stream, count_up, &done);
  cudaEvent_t event;
  cudaEventCreate(&event);
  cudaEventRecord(event, stream);
  cudaStreamWaitEvent(NULL, event, 0);
  return 5;
}

Test(cuda_process, a_process_ends_with_a_worker_blocked) {
  cr_assert(eq(int, status_of_child(leave_blocked), 5));
}

static int leave_busy(void) {
  char *memory, *host;
  if (cudaMalloc((void **)&memory, 1 << 20) || cudaMallocHost((void **)&host, 1 << 20))
    return 1;
  for (int i = 0; i < 1000; i++)
    if (cudaMemcpyAsync(memory, host, 1 << 20, cudaMemcpyHostToDevice, NULL))
      return 2;
  return 6;
}

Test(cuda_process, a_process_ends_with_work_pending) {
  cr_assert(eq(int, status_of_child(leave_busy), 6));
}

static void call_at_exit(void) {
  void *memory;
  _exit(cudaMalloc(&memory, 1) == cudaErrorCudartUnloading ? 7 : 8);
}

static int call_late(void) {
  atexit(call_at_exit); /* runs after the handler that the driver registers now */
  return cudaSetDevice(0);
}

Test(cuda_process, calls_after_the_drivers_exit_are_refused) {
  cr_assert(eq(int, status_of_child(call_late), 7));
}

static void *exit_from_thread(void *argument) {
  (void)argument;
  leave_blocked();
  exit(9);
}

static int leave_from_thread(void) {
  pthread_t thread;
  pthread_create(&thread, NULL, exit_from_thread, NULL);
  pthread_join(thread, NULL);
  return 1;
}

Test(cuda_process, any_thread_may_exit) {
  cr_assert(eq(int, status_of_child(leave_from_thread), 9));
}

Test(cuda_process, workers_leave_signals_to_the_program) {
  sigset_t signals, pending;
  sigemptyset(&signals);
  sigaddset(&signals, SIGUSR1);
  use_cuda_first();
  pthread_sigmask(SIG_BLOCK, &signals, NULL);
  kill(getpid(), SIGUSR1);
  usleep(10 * 1000);
  sigpending(&pending);
  cr_assert(eq(int, sigismember(&pending, SIGUSR1), 1));
}
