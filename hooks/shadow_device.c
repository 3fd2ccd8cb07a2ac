/* Context and stream of one device's shadows, and waiting for what runs there. */
#include "hooks/shadow_device.h"

#include <assert.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#define PAUSE_FIRST_NS 2000
#define PAUSE_LAST_NS 1000000

bool limit_pause(const struct shadow_limit *limit, uint64_t *pause_ns) {
  if (limit->give_up != NULL && limit->give_up(limit->context))
    return false;
  struct timespec now;
  (void)clock_gettime(CLOCK_MONOTONIC, &now);
  if ((uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec >= limit->until_ns)
    return false;
  *pause_ns = *pause_ns == 0 ? PAUSE_FIRST_NS : *pause_ns * 2;
  if (*pause_ns > PAUSE_LAST_NS)
    *pause_ns = PAUSE_LAST_NS;
  (void)nanosleep(&(struct timespec){.tv_nsec = (long)*pause_ns}, NULL);
  return true;
}

CUresult device_enter(const struct shadow *device, struct device_entry *entry) {
  CUresult result = device->cuda->CtxPushCurrent(device->context);
  if (result != CUDA_SUCCESS)
    return result;
  entry->mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  if (device->cuda->ThreadExchangeStreamCaptureMode != NULL)
    (void)device->cuda->ThreadExchangeStreamCaptureMode(&entry->mode);
  return CUDA_SUCCESS;
}

void device_leave(const struct shadow *device, struct device_entry *entry) {
  if (device->cuda->ThreadExchangeStreamCaptureMode != NULL)
    (void)device->cuda->ThreadExchangeStreamCaptureMode(&entry->mode);
  CUcontext context = NULL;
  (void)device->cuda->CtxPopCurrent(&context);
}

bool device_open(struct shadow *device, CUresult *failure) {
  const struct cuda_driver *cuda = device->cuda;
  if ((*failure = cuda->DeviceGet(&device->device, device->number)) != CUDA_SUCCESS)
    return false;
  if ((*failure = cuda->DevicePrimaryCtxRetain(&device->context, device->device)) != CUDA_SUCCESS)
    return false;
  struct device_entry entry;
  *failure = device_enter(device, &entry);
  if (*failure == CUDA_SUCCESS) {
    int least = 0;
    int greatest = 0;
    *failure = cuda->CtxGetStreamPriorityRange(&least, &greatest);
    if (*failure == CUDA_SUCCESS)
      *failure = cuda->StreamCreateWithPriority(&device->stream, CU_STREAM_NON_BLOCKING, greatest);
    device_leave(device, &entry);
  }
  if (*failure != CUDA_SUCCESS)
    (void)cuda->DevicePrimaryCtxRelease(device->device);
  return *failure == CUDA_SUCCESS;
}

/* The driver, or the context (cudaDeviceReset), is gone: so is what ran in it and what it had
 * allocated. */
static bool is_gone(CUresult result) {
  return result == CUDA_ERROR_DEINITIALIZED || result == CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

CUresult device_wait_for(const struct shadow *device, CUstream stream,
                         const struct shadow_limit *limit) {
  struct device_entry entry;
  CUresult result = device_enter(device, &entry);
  if (result != CUDA_SUCCESS)
    return is_gone(result) ? CUDA_SUCCESS : result;
  uint64_t pause_ns = 0;
  do {
    result = device->cuda->StreamQuery(stream);
  } while (result == CUDA_ERROR_NOT_READY && limit_pause(limit, &pause_ns));
  device_leave(device, &entry);
  return is_gone(result) ? CUDA_SUCCESS : result;
}

CUresult device_wait(const struct shadow *device, const struct shadow_limit *limit) {
  return device_wait_for(device, device->stream, limit);
}

/* ---- how many are under way ---- */

void device_mark(struct shadow *device) {
  const struct cuda_driver *cuda = device->cuda;
  struct device_entry entry;
  if (++device->unmarked < DEVICE_MARK || device->nmarks == DEVICE_MARKS ||
      device_enter(device, &entry) != CUDA_SUCCESS)
    return;
  CUevent *mark = &device->marks[(device->oldest + device->nmarks) % DEVICE_MARKS];
  if (*mark == NULL && cuda->EventCreate(mark, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS)
    *mark = NULL;
  if (*mark != NULL && cuda->EventRecord(*mark, device->stream) == CUDA_SUCCESS)
    device->nmarks++;
  device->unmarked = 0;
  device_leave(device, &entry);
}

bool device_is_full(struct shadow *device) {
  struct device_entry entry;
  if (device->nmarks < DEVICE_MARKS || device->unmarked < DEVICE_MARK)
    return false;
  if (device_enter(device, &entry) != CUDA_SUCCESS)
    return false;
  while (device->nmarks > 0 &&
         device->cuda->EventQuery(device->marks[device->oldest]) != CUDA_ERROR_NOT_READY) {
    device->oldest = (device->oldest + 1) % DEVICE_MARKS;
    device->nmarks--;
  }
  device_leave(device, &entry);
  return device->nmarks == DEVICE_MARKS;
}

/* ---- waiting for everything ---- */

/* Of the thread that waits and the one that looks; who comes last frees it. */
struct synchronisation {
  const struct cuda_driver *cuda;
  CUcontext context;
  CUresult result;
  _Atomic bool done;
  _Atomic int users;
};

static void let_go(struct synchronisation *of) {
  if (atomic_fetch_sub(&of->users, 1) == 1)
    free(of);
}

static void *shadow_synchronise(void *argument) {
  struct synchronisation *of = argument;
  CUcontext context = NULL;
  of->result = of->cuda->CtxPushCurrent(of->context);
  if (of->result == CUDA_SUCCESS) {
    of->result = of->cuda->CtxSynchronize();
    (void)of->cuda->CtxPopCurrent(&context);
  }
  atomic_store(&of->done, true);
  let_go(of);
  return NULL;
}

/* No signal of the program's is handled on it. */
static bool start_thread(struct synchronisation *of) {
  sigset_t all, before;
  pthread_attr_t attributes;
  pthread_t thread;
  (void)sigfillset(&all);
  (void)pthread_sigmask(SIG_SETMASK, &all, &before);
  (void)pthread_attr_init(&attributes);
  (void)pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  bool started = pthread_create(&thread, &attributes, shadow_synchronise, of) == 0;
  (void)pthread_attr_destroy(&attributes);
  (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
  return started;
}

CUresult device_synchronise(const struct shadow *device, const struct shadow_limit *limit) {
  struct synchronisation *of = malloc(sizeof *of);
  if (of == NULL)
    return CUDA_ERROR_OUT_OF_MEMORY;
  *of = (struct synchronisation){.cuda = device->cuda, .context = device->context, .users = 2};
  if (!start_thread(of)) {
    free(of);
    return CUDA_ERROR_OPERATING_SYSTEM;
  }
  uint64_t pause_ns = 0;
  while (!atomic_load(&of->done) && limit_pause(limit, &pause_ns))
    ;
  CUresult result = atomic_load(&of->done) ? of->result : CUDA_ERROR_NOT_READY;
  let_go(of);
  return result;
}

bool device_close(struct shadow *device, bool done) {
  struct device_entry entry;
  if (device_enter(device, &entry) != CUDA_SUCCESS)
    return false;
  if (done) {
    (void)device->cuda->StreamDestroy(device->stream);
    for (unsigned i = 0; i < DEVICE_MARKS; i++)
      if (device->marks[i] != NULL)
        (void)device->cuda->EventDestroy(device->marks[i]);
  }
  device_leave(device, &entry);
  return true;
}
