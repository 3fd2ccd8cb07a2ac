/* Start, fork and end of the driver stand-in. */
#include "tools/loopback/cuda/process.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "tools/loopback/cuda/device.h"
#include "tools/loopback/cuda/memory.h"
#include "tools/loopback/cuda/settings.h"

enum process_state { PROCESS_NEW, PROCESS_READY, PROCESS_FORKED, PROCESS_EXITING };

/* Released by whoever changes it, acquired by process_check: a thread that sees READY sees the
 * devices. */
static _Atomic enum process_state state;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static _Thread_local bool is_worker;

static void forget_after_fork(void) {
  if (atomic_load(&state) == PROCESS_READY)
    atomic_store(&state, PROCESS_FORKED);
}

/* Workers may be blocked for ever and are left to end with the process: nothing here waits for
 * them. */
static void leave(void) {
  enum process_state ready = PROCESS_READY;
  if (atomic_compare_exchange_strong(&state, &ready, PROCESS_EXITING))
    memory_check_all();
}

static void start(void) {
  settings_read();
  devices_create();
  pthread_atfork(NULL, NULL, forget_after_fork);
  atexit(leave);
  atomic_store_explicit(&state, PROCESS_READY, memory_order_release);
}

CUresult process_initialise(void) {
  pthread_once(&once, start);
  CUresult result = process_check();
  if (result != CUDA_SUCCESS)
    return result;
  return settings.devices ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE;
}

CUresult process_check(void) {
  switch (atomic_load_explicit(&state, memory_order_acquire)) {
  case PROCESS_NEW:
  case PROCESS_FORKED:
    return CUDA_ERROR_NOT_INITIALIZED;
  case PROCESS_EXITING:
    return CUDA_ERROR_DEINITIALIZED;
  case PROCESS_READY:
    break;
  }
  return is_worker ? CUDA_ERROR_NOT_PERMITTED : CUDA_SUCCESS;
}

bool process_is_alive(void) {
  return atomic_load_explicit(&state, memory_order_acquire) == PROCESS_READY;
}

bool process_is_forked(void) {
  return atomic_load_explicit(&state, memory_order_acquire) == PROCESS_FORKED;
}

void process_enter_worker(void) {
  is_worker = true;
}

CUresult process_unsupported(const char *what) {
  fprintf(stderr, "loopback: %s: not supported by the loopback CUDA\n", what);
  return CUDA_ERROR_NOT_SUPPORTED;
}
