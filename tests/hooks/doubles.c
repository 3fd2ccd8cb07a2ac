/* The doubles of the driver: plain memory, a log, and answers that a test sets. NCCL's:
 * doubles_nccl.c. */
#include "tests/hooks/doubles.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/hooks/virtual_double.h"

/* Handles and device addresses are numbers here. */

struct doubles doubles;

#define ALLOCATIONS_MAX 128
static struct {
  char *start;
  size_t bytes;
} allocations[ALLOCATIONS_MAX];

void double_note(const char *word) {
  size_t length = strlen(doubles.log);
  (void)snprintf(doubles.log + length, sizeof doubles.log - length, "%s%s", length ? " " : "",
                 word);
}

void doubles_reset(void) {
  memset(&doubles, 0, sizeof doubles);
  doubles.memory = (size_t)1 << 30;
  doubles.fail_call = doubles.create_fail = -1;
  doubles.stack[0] = (CUcontext)0x1000;
  doubles.contexts = 1;
  doubles.mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
}

ncclComm_t double_comm(int number) {
  return (ncclComm_t)(uintptr_t)(0xc0000 + number);
}

size_t double_room(const void *address) {
  const char *at = address;
  for (int i = 0; i < ALLOCATIONS_MAX; i++)
    if (allocations[i].start != NULL && at >= allocations[i].start &&
        at < allocations[i].start + allocations[i].bytes)
      return (size_t)(allocations[i].start + allocations[i].bytes - at);
  return virtual_double_room(address);
}

/* ---- the driver ---- */

CUcontext double_context(void) {
  return doubles.stack[doubles.contexts - 1];
}

static void expect_ours(void) {
  cr_assert(double_context() != (CUcontext)0x1000, "a driver call outside our context");
  cr_assert_eq(doubles.mode, CU_STREAM_CAPTURE_MODE_RELAXED);
}

static CUresult device_get(CUdevice *device, int ordinal) {
  *device = ordinal + 100;
  return CUDA_SUCCESS;
}

static CUresult retain(CUcontext *context, CUdevice device) {
  *context = (CUcontext)(uintptr_t)(0x2000 + device);
  doubles.retained++;
  return CUDA_SUCCESS;
}

static CUresult release(CUdevice device) {
  (void)device;
  doubles.retained--;
  return CUDA_SUCCESS;
}

/* A thread of its own waits for the device; contexts are counted of the test's. */
static bool is_another_thread(void) {
  return gettid() != getpid();
}

static CUresult synchronise(void) {
  while (atomic_load(&doubles.device_busy))
    (void)usleep(100);
  return CUDA_SUCCESS;
}

static CUresult push(CUcontext context) {
  if (is_another_thread())
    return CUDA_SUCCESS;
  if (doubles.push_error != CUDA_SUCCESS)
    return doubles.push_error;
  doubles.stack[doubles.contexts++] = context;
  return CUDA_SUCCESS;
}

static CUresult pop(CUcontext *context) {
  if (is_another_thread())
    return CUDA_SUCCESS;
  *context = doubles.stack[--doubles.contexts];
  return CUDA_SUCCESS;
}

static CUresult priorities(int *least, int *greatest) {
  *least = 0;
  *greatest = -5;
  return CUDA_SUCCESS;
}

static CUresult stream_create(CUstream *stream, unsigned flags, int priority) {
  expect_ours();
  if (doubles.open_error != CUDA_SUCCESS)
    return doubles.open_error;
  doubles.stream_flags = flags;
  doubles.priority = priority;
  *stream = (CUstream)(uintptr_t)(0x5000 + ++doubles.streams);
  return CUDA_SUCCESS;
}

static CUresult stream_destroy(CUstream stream) {
  (void)stream;
  expect_ours();
  doubles.streams--;
  return CUDA_SUCCESS;
}

static CUresult stream_query(CUstream stream) {
  (void)stream;
  expect_ours();
  doubles.queries++;
  double_note("query");
  if (doubles.stream_busy < 0)
    return CUDA_ERROR_NOT_READY;
  if (doubles.stream_busy > 0) {
    doubles.stream_busy--;
    return CUDA_ERROR_NOT_READY;
  }
  return doubles.stream_error;
}

static CUresult mem_alloc(CUdeviceptr *address, size_t bytes) {
  expect_ours();
  if (bytes > doubles.memory) {
    double_note("full");
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  for (int i = 0; i < ALLOCATIONS_MAX; i++) {
    if (allocations[i].start != NULL)
      continue;
    allocations[i].start = aligned_alloc(256, bytes);
    allocations[i].bytes = bytes;
    memset(allocations[i].start, 0xa5, bytes);
    *address = (CUdeviceptr)allocations[i].start;
    doubles.memory -= bytes;
    doubles.live_bytes += bytes;
    doubles.allocations++;
    double_note("alloc");
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult mem_free(CUdeviceptr address) {
  expect_ours();
  for (int i = 0; i < ALLOCATIONS_MAX; i++)
    if (allocations[i].start != NULL && (CUdeviceptr)allocations[i].start == address) {
      doubles.memory += allocations[i].bytes;
      doubles.live_bytes -= allocations[i].bytes;
      free(allocations[i].start);
      allocations[i].start = NULL;
      doubles.frees++;
      double_note("free");
      return CUDA_SUCCESS;
    }
  cr_assert_fail("freed an address that is not allocated");
  return CUDA_ERROR_INVALID_VALUE;
}

/* An event knows which record of all it was last. */
static CUresult event_create(CUevent *event, unsigned flags) {
  expect_ours();
  cr_assert_eq(flags, CU_EVENT_DISABLE_TIMING);
  if (doubles.event_error != CUDA_SUCCESS)
    return doubles.event_error;
  *event = (CUevent)calloc(1, sizeof(int));
  doubles.events++;
  return CUDA_SUCCESS;
}

static CUresult event_destroy(CUevent event) {
  expect_ours();
  free(event);
  doubles.events--;
  return CUDA_SUCCESS;
}

static CUresult event_record(CUevent event, CUstream stream) {
  (void)stream;
  expect_ours();
  *(int *)event = ++doubles.events_recorded;
  return CUDA_SUCCESS;
}

static CUresult event_query(CUevent event) {
  expect_ours();
  return doubles.events_done < 0 || *(int *)event <= doubles.events_done ? CUDA_SUCCESS
                                                                         : CUDA_ERROR_NOT_READY;
}

static CUresult memset_words(CUdeviceptr address, unsigned value, size_t words, CUstream stream) {
  (void)stream;
  expect_ours();
  if (doubles.memset_error != CUDA_SUCCESS)
    return doubles.memset_error;
  cr_assert_leq(words * 4, double_room((void *)address));
  for (size_t i = 0; i < words; i++)
    memcpy((char *)address + i * 4, &value, 4);
  doubles.fills++;
  return CUDA_SUCCESS;
}

static CUresult copy(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  (void)stream;
  expect_ours();
  cr_assert_leq(bytes, double_room((void *)to));
  cr_assert_leq(bytes, double_room((void *)from));
  memcpy((void *)to, (void *)from, bytes);
  doubles.copies++;
  return CUDA_SUCCESS;
}

static CUresult error_name(CUresult error, const char **name) {
  switch (error) {
  case CUDA_ERROR_OUT_OF_MEMORY:
    *name = "CUDA_ERROR_OUT_OF_MEMORY";
    return CUDA_SUCCESS;
  case CUDA_ERROR_LAUNCH_FAILED:
    *name = "CUDA_ERROR_LAUNCH_FAILED";
    return CUDA_SUCCESS;
  default:
    return CUDA_ERROR_INVALID_VALUE;
  }
}

static CUresult exchange_mode(CUstreamCaptureMode *mode) {
  CUstreamCaptureMode before = doubles.mode;
  doubles.mode = *mode;
  *mode = before;
  return CUDA_SUCCESS;
}

const struct cuda_driver double_driver = {
    .DeviceGet = device_get,
    .DevicePrimaryCtxRetain = retain,
    .DevicePrimaryCtxRelease = release,
    .CtxPushCurrent = push,
    .CtxPopCurrent = pop,
    .CtxSynchronize = synchronise,
    .CtxGetStreamPriorityRange = priorities,
    .StreamCreateWithPriority = stream_create,
    .StreamDestroy = stream_destroy,
    .StreamQuery = stream_query,
    .EventCreate = event_create,
    .EventDestroy = event_destroy,
    .EventRecord = event_record,
    .EventQuery = event_query,
    .MemAlloc = mem_alloc,
    .MemFree = mem_free,
    .MemsetD32Async = memset_words,
    .MemcpyDtoDAsync = copy,
    .GetErrorName = error_name,
    .ThreadExchangeStreamCaptureMode = exchange_mode,
};
