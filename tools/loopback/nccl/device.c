/* The CUDA driver API behind results of NCCL. */
#include "device.h"

#include "report.h"
#include "tools/loopback/cuda/loopback_cuda.h"

#include <stdint.h>

static ncclResult_t device_result(CUresult result, const char *call) {
  if (result == CUDA_SUCCESS)
    return ncclSuccess;
  const char *text = NULL;
  cuGetErrorString(result, &text);
  report_error("Cuda failure %d '%s' in %s", (int)result, text != NULL ? text : "unknown", call);
  return ncclUnhandledCudaError;
}

#define DEVICE_CALL(call)                                                                          \
  do {                                                                                             \
    ncclResult_t device_call_result = device_result(call, #call);                                  \
    if (device_call_result != ncclSuccess)                                                         \
      return device_call_result;                                                                   \
  } while (0)

ncclResult_t device_set(int device) {
  CUcontext context;
  DEVICE_CALL(cuInit(0));
  DEVICE_CALL(cuDevicePrimaryCtxRetain(&context, device));
  DEVICE_CALL(cuCtxSetCurrent(context));
  return ncclSuccess;
}

ncclResult_t device_current(int *device, CUcontext *context) {
  CUdevice current;
  DEVICE_CALL(cuInit(0));
  DEVICE_CALL(cuCtxGetCurrent(context));
  if (*context == NULL) {
    ncclResult_t result = device_set(0);
    if (result != ncclSuccess)
      return result;
    DEVICE_CALL(cuCtxGetCurrent(context));
  }
  DEVICE_CALL(cuCtxGetDevice(&current));
  *device = current;
  return ncclSuccess;
}

ncclResult_t device_count(int *count) {
  DEVICE_CALL(cuInit(0));
  DEVICE_CALL(cuDeviceGetCount(count));
  return ncclSuccess;
}

ncclResult_t device_enter(CUcontext context, CUcontext *previous) {
  DEVICE_CALL(cuCtxGetCurrent(previous));
  DEVICE_CALL(cuCtxSetCurrent(context));
  return ncclSuccess;
}

void device_leave(CUcontext previous) {
  cuCtxSetCurrent(previous);
}

ncclResult_t device_allocate(void **memory, size_t size) {
  int device;
  CUcontext context;
  ncclResult_t result = device_current(&device, &context);
  if (result != ncclSuccess)
    return result;
  CUdeviceptr pointer = 0;
  DEVICE_CALL(cuMemAlloc(&pointer, size));
  *memory = (void *)(uintptr_t)pointer;
  return ncclSuccess;
}

ncclResult_t device_free(void *memory) {
  DEVICE_CALL(cuMemFree((CUdeviceptr)(uintptr_t)memory));
  return ncclSuccess;
}

void *device_memory(const void *pointer, size_t size) {
  return loopback_device_memory(pointer, size);
}

ncclResult_t device_event_create(CUevent *event) {
  DEVICE_CALL(cuEventCreate(event, CU_EVENT_DISABLE_TIMING));
  return ncclSuccess;
}

void device_event_destroy(CUevent event) {
  cuEventDestroy(event);
}

ncclResult_t device_record(CUevent event, CUstream stream) {
  DEVICE_CALL(cuEventRecord(event, stream));
  return ncclSuccess;
}

ncclResult_t device_wait(CUstream stream, CUevent event) {
  DEVICE_CALL(cuStreamWaitEvent(stream, event, CU_EVENT_WAIT_DEFAULT));
  return ncclSuccess;
}

ncclResult_t device_order(CUevent event, CUstream earlier, CUstream stream) {
  ncclResult_t result = device_record(event, earlier);
  return result == ncclSuccess ? device_wait(stream, event) : result;
}

ncclResult_t device_is_capturing(CUstream stream, bool *capturing) {
  CUstreamCaptureStatus status;
  DEVICE_CALL(cuStreamIsCapturing(stream, &status));
  *capturing = status != CU_STREAM_CAPTURE_STATUS_NONE;
  return ncclSuccess;
}

ncclResult_t device_launch(CUstream stream, void (*function)(void *), void *argument) {
  DEVICE_CALL(cuLaunchHostFunc(stream, function, argument));
  return ncclSuccess;
}
