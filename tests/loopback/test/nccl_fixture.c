/* Ranks as processes and threads, and small helpers around the CUDA driver API. */
#include "tests/loopback/test/nccl_fixture.h"

#include "tools/loopback/nccl/create.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const unsigned alarm_seconds = 300;

void rank_fail(const char *file, int line, const char *what) {
  fprintf(stderr, "%s:%d: %s failed; last error: %s\n", file, line, what, ncclGetLastError(NULL));
  _exit(1);
}

void expect_result(const char *file, int line, const char *call, ncclResult_t result,
                   ncclResult_t wanted) {
  if (result == wanted)
    return;
  fprintf(stderr, "%s:%d: %s returned %d, wanted %d; last error: %s\n", file, line, call,
          (int)result, (int)wanted, ncclGetLastError(NULL));
  _exit(1);
}

static void expect_cuda(const char *call, CUresult result) {
  if (result == CUDA_SUCCESS)
    return;
  fprintf(stderr, "%s returned %d\n", call, (int)result);
  _exit(1);
}

#define CUDA(call) expect_cuda(#call, call)

void use_device(int device) {
  CUcontext context;
  CUDA(cuInit(0));
  CUDA(cuDevicePrimaryCtxRetain(&context, device));
  CUDA(cuCtxSetCurrent(context));
}

CUstream stream_create(void) {
  CUstream stream;
  CUDA(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  return stream;
}

void stream_wait(CUstream stream) {
  CUDA(cuStreamSynchronize(stream));
}

void *device_new(const void *contents, size_t size) {
  CUdeviceptr memory;
  CUDA(cuMemAlloc(&memory, size == 0 ? 1 : size));
  void *device = (void *)(uintptr_t)memory;
  void *zeros = contents == NULL ? calloc(1, size == 0 ? 1 : size) : NULL;
  device_put(device, contents != NULL ? contents : zeros, size);
  free(zeros);
  return device;
}

void device_get(const void *device, void *host, size_t size) {
  CUDA(cuMemcpyDtoH(host, (CUdeviceptr)(uintptr_t)device, size));
}

void device_put(void *device, const void *host, size_t size) {
  CUDA(cuMemcpyHtoD((CUdeviceptr)(uintptr_t)device, host, size));
  CUDA(cuStreamSynchronize(
      NULL)); /* from pageable memory it may return before the bytes have arrived */
}

void device_delete(void *device) {
  CUDA(cuMemFree((CUdeviceptr)(uintptr_t)device));
}

int64_t now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void rank_barrier(struct rank *rank, int point) {
  atomic_fetch_add(&rank->blackboard->number[point], 1);
  while (atomic_load(&rank->blackboard->number[point]) < rank->nranks)
    usleep(1000);
}

void rank_join(struct rank *rank) {
  OK(ncclCommInitRank(&rank->comm, rank->nranks, rank->id, rank->rank));
}

struct start {
  struct rank rank;
  rank_body *body;
};

static void *rank_main(void *argument) {
  struct start *start = argument;
  use_device(start->rank.rank);
  start->rank.stream = stream_create();
  start->body(&start->rank);
  return NULL;
}

static _Noreturn void threads_main(struct start *starts, int nranks) {
  pthread_t threads[RANKS_MAX];
  for (int rank = 0; rank < nranks; rank++)
    pthread_create(&threads[rank], NULL, rank_main, &starts[rank]);
  for (int rank = 0; rank < nranks; rank++)
    pthread_join(threads[rank], NULL);
  exit(0);
}

static struct blackboard *blackboard_create(void) {
  struct blackboard *blackboard =
      mmap(NULL, sizeof *blackboard, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  cr_assert(blackboard != MAP_FAILED);
  for (int i = 0; i < 4; i++)
    cr_assert_eq(ncclGetUniqueId(&blackboard->ids[i]), ncclSuccess);
  return blackboard;
}

/* Names by which ranks find each other, see segment.h. Others may run tests at the same time: only
 * the own ones count. */
static int count_names(const struct blackboard *blackboard) {
  int names = 0;
  for (int i = 0; i < 4; i++) {
    char path[128];
    snprintf(path, sizeof path, "/dev/shm/loopback-nccl-%u-%016llx", (unsigned)geteuid(),
             (unsigned long long)unique_id_hash(&blackboard->ids[i], 1));
    names += access(path, F_OK) == 0;
  }
  return names;
}

static void child_begin(int output) {
  alarm(alarm_seconds);
  dup2(output, STDOUT_FILENO);
  dup2(output, STDERR_FILENO);
  setvbuf(stdout, NULL, _IONBF, 0);
}

static void run_ranks(struct run *run, int nranks, rank_body *body, bool threads) {
  memset(run, 0, sizeof *run);
  int output = memfd_create("output", MFD_CLOEXEC);
  cr_assert(output >= 0 && fcntl(output, F_SETFL, O_APPEND) == 0);
  struct blackboard *blackboard = blackboard_create();
  struct start starts[RANKS_MAX];
  for (int rank = 0; rank < nranks; rank++)
    starts[rank] = (struct start){{rank, nranks, blackboard->ids[0], blackboard, NULL, NULL}, body};

  int nchildren = threads ? 1 : nranks;
  pid_t children[RANKS_MAX];
  for (int child = 0; child < nchildren; child++) {
    children[child] = fork();
    if (children[child] != 0)
      continue;
    child_begin(output);
    if (threads)
      threads_main(starts, nranks);
    rank_main(&starts[child]);
    exit(0);
  }
  for (int child = 0; child < nchildren; child++)
    waitpid(children[child], &run->status[child], 0);
  for (int rank = nchildren; rank < nranks; rank++)
    run->status[rank] = run->status[0];
  ssize_t size = pread(output, run->output, sizeof run->output - 1, 0);
  run->output[size < 0 ? 0 : size] = '\0';
  close(output);
  run->names_left = count_names(blackboard);
  munmap(blackboard, sizeof *blackboard);
}

void run_processes(struct run *run, int nranks, rank_body *body) {
  run_ranks(run, nranks, body, false);
}

void run_threads(struct run *run, int nranks, rank_body *body) {
  run_ranks(run, nranks, body, true);
}

void expect_status(const struct run *run, int nranks, int status) {
  for (int rank = 0; rank < nranks; rank++)
    cr_assert(WIFEXITED(run->status[rank]) && WEXITSTATUS(run->status[rank]) == status,
              "rank %d of %d ended with wait status %x, wanted exit status %d; output:\n%s", rank,
              nranks, (unsigned)run->status[rank], status, run->output);
}

void expect_success(const struct run *run, int nranks) {
  expect_status(run, nranks, 0);
}

void expect_output(const struct run *run, const char *text) {
  cr_assert(strstr(run->output, text) != NULL, "no \"%s\" in the output:\n%s", text, run->output);
}

void run_both(int nranks, rank_body *body) {
  static struct run run;
  run_processes(&run, nranks, body);
  expect_success(&run, nranks);
  cr_assert_eq(run.names_left, 0);
  run_threads(&run, nranks, body);
  expect_success(&run, nranks);
  cr_assert_eq(run.names_left, 0);
}
