/* Initialisation, the thread's device, and the last error. */
#include "tools/loopback/cudart/runtime.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>

#define DEVICES_MAX 64

/* Guards contexts and retained. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static CUcontext contexts[DEVICES_MAX];
static bool retained[DEVICES_MAX];

static _Thread_local int thread_device;
static _Thread_local cudaError_t last_error;

cudaError_t runtime_result(CUresult result) {
  if (result != CUDA_SUCCESS)
    last_error = (cudaError_t)result;
  return (cudaError_t)result;
}

cudaError_t CUDARTAPI cudaGetLastError(void) {
  cudaError_t error = last_error;
  last_error = cudaSuccess;
  return error;
}

cudaError_t CUDARTAPI cudaPeekAtLastError(void) {
  return last_error;
}

cudaError_t runtime_unsupported(const char *what) {
  fprintf(stderr, "loopback: %s: not supported by the loopback CUDA\n", what);
  return runtime_result(CUDA_ERROR_NOT_SUPPORTED);
}

CUresult runtime_primary(int device, CUcontext *context) {
  int count;
  CUresult result = cuInit(0);
  if (result == CUDA_SUCCESS)
    result = cuDeviceGetCount(&count);
  if (result != CUDA_SUCCESS)
    return result;
  if (device < 0 || device >= count)
    return CUDA_ERROR_INVALID_DEVICE;
  pthread_mutex_lock(&lock);
  if (!retained[device])
    result = cuDevicePrimaryCtxRetain(&contexts[device], device);
  retained[device] = result == CUDA_SUCCESS;
  *context = contexts[device];
  pthread_mutex_unlock(&lock);
  return result;
}

/* A primary context that somebody has reset is retained anew, as the real runtime does at the next
 * use. */
static CUresult revive(CUcontext current) {
  for (int device = 0; device < DEVICES_MAX; device++) {
    pthread_mutex_lock(&lock);
    bool ours = contexts[device] == current;
    if (ours)
      retained[device] = false;
    pthread_mutex_unlock(&lock);
    if (ours)
      return runtime_primary(device, &current);
  }
  return CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

CUresult runtime_enter(void) {
  CUcontext current;
  CUdevice device;
  CUresult result = cuInit(0);
  if (result == CUDA_SUCCESS)
    result = cuCtxGetCurrent(&current);
  if (result != CUDA_SUCCESS)
    return result;
  if (!current) {
    result = runtime_primary(thread_device, &current);
    return result == CUDA_SUCCESS ? cuCtxSetCurrent(current) : result;
  }
  result = cuCtxGetDevice(&device);
  return result == CUDA_ERROR_CONTEXT_IS_DESTROYED ? revive(current) : result;
}

CUresult runtime_set_device(int device) {
  CUcontext context;
  CUresult result = runtime_primary(device, &context);
  if (result == CUDA_SUCCESS) {
    result = cuCtxSetCurrent(context);
    if (result == CUDA_ERROR_INVALID_CONTEXT && revive(context) == CUDA_SUCCESS)
      result = cuCtxSetCurrent(context);
  }
  if (result == CUDA_SUCCESS)
    thread_device = device;
  return result;
}

CUresult runtime_get_device(int *device) {
  CUcontext current;
  CUresult result = cuInit(0);
  if (result == CUDA_SUCCESS)
    result = cuCtxGetCurrent(&current);
  if (result != CUDA_SUCCESS)
    return result;
  if (!current || cuCtxGetDevice(device) != CUDA_SUCCESS)
    *device = thread_device;
  return CUDA_SUCCESS;
}

CUresult runtime_reset_device(void) {
  int device;
  CUresult result = runtime_get_device(&device);
  if (result == CUDA_SUCCESS)
    result = cuDevicePrimaryCtxReset(device);
  if (result != CUDA_SUCCESS)
    return result;
  pthread_mutex_lock(&lock);
  retained[device] = false;
  pthread_mutex_unlock(&lock);
  return CUDA_SUCCESS;
}
