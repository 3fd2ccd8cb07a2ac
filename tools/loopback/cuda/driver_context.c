/* Driver API: contexts. */
#include "tools/loopback/cuda/driver.h"

#include "tools/loopback/cuda/capture.h"
#include "tools/loopback/cuda/stream.h"

/* A program's handle; NULL is not one. */
static CUresult check(CUcontext context) {
  CUresult result = process_check();
  if (result != CUDA_SUCCESS)
    return result;
  return context_is_live(context) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult CUDAAPI cuCtxCreate(CUcontext *context, CUctxCreateParams *parameters, unsigned flags,
                             CUdevice ordinal) {
  DRIVER_TRY(process_check());
  struct device *device = device_get(ordinal);
  if (!device)
    return CUDA_ERROR_INVALID_DEVICE;
  if (!context || flags & ~(unsigned)CU_CTX_FLAGS_MASK)
    return CUDA_ERROR_INVALID_VALUE;
  if (parameters)
    return process_unsupported("cuCtxCreate with execution affinity");
  return context_create(context, flags, device);
}

CUresult CUDAAPI cuCtxDestroy(CUcontext context) {
  DRIVER_TRY(check(context));
  return context_destroy(context);
}

CUresult CUDAAPI cuCtxGetCurrent(CUcontext *context) {
  DRIVER_TRY(process_check());
  if (!context)
    return CUDA_ERROR_INVALID_VALUE;
  *context = context_peek();
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxSetCurrent(CUcontext context) {
  DRIVER_TRY(context ? check(context) : process_check());
  context_set(context);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxPushCurrent(CUcontext context) {
  DRIVER_TRY(check(context));
  return context_push(context);
}

CUresult CUDAAPI cuCtxPopCurrent(CUcontext *context) {
  CUcontext popped;
  DRIVER_TRY(process_check());
  DRIVER_TRY(context_pop(&popped));
  if (context)
    *context = popped;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxGetDevice(CUdevice *device) {
  CUcontext context;
  DRIVER_TRY(driver_enter(&context));
  if (!device)
    return CUDA_ERROR_INVALID_VALUE;
  *device = context->device->ordinal;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxGetFlags(unsigned *flags) {
  CUcontext context;
  DRIVER_TRY(driver_enter(&context));
  if (!flags)
    return CUDA_ERROR_INVALID_VALUE;
  *flags = context->flags;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxGetId(CUcontext context, unsigned long long *id) {
  DRIVER_TRY(context ? check(context) : driver_enter(&context));
  if (!id)
    return CUDA_ERROR_INVALID_VALUE;
  *id = context->id;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxGetApiVersion(CUcontext context, unsigned *version) {
  DRIVER_TRY(context ? check(context) : driver_enter(&context));
  if (!version)
    return CUDA_ERROR_INVALID_VALUE;
  *version = 3020; /* what real contexts of the current API say */
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxGetStreamPriorityRange(int *lowest, int *highest) {
  CUcontext context;
  DRIVER_TRY(driver_enter(&context));
  if (lowest)
    *lowest = STREAM_PRIORITY_LOWEST;
  if (highest)
    *highest = STREAM_PRIORITY_HIGHEST;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxSynchronize(void) {
  CUcontext context;
  DRIVER_TRY(driver_enter(&context));
  DRIVER_TRY(capture_forbids_unsafe());
  stream_drain_context(context);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxEnablePeerAccess(CUcontext peer, unsigned flags) {
  CUcontext context;
  DRIVER_TRY(driver_enter(&context));
  DRIVER_TRY(check(peer));
  if (flags)
    return CUDA_ERROR_INVALID_VALUE;
  if (peer->device == context->device)
    return CUDA_ERROR_INVALID_DEVICE;
  return context_enable_peer(context, peer);
}

CUresult CUDAAPI cuCtxDisablePeerAccess(CUcontext peer) {
  CUcontext context;
  DRIVER_TRY(driver_enter(&context));
  DRIVER_TRY(check(peer));
  return context_disable_peer(context, peer);
}

CUresult CUDAAPI cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode) {
  DRIVER_TRY(process_check());
  if (!mode || *mode > CU_STREAM_CAPTURE_MODE_RELAXED)
    return CUDA_ERROR_INVALID_VALUE;
  *mode = capture_exchange_mode(*mode);
  return CUDA_SUCCESS;
}
