/* What the files driver_*.c share: how each function of the driver API begins.
 *
 * Those files are the driver API and nothing else: they check arguments and call the units of this
 * folder. The contract of every function there is cuda.h. Functions that take a stream are
 * compiled twice, the second time with CUDA_API_PER_THREAD_DEFAULT_STREAM: cuda.h then gives them
 * their _ptds and _ptsz names. */
#ifndef LOOPBACK_CUDA_DRIVER_H
#define LOOPBACK_CUDA_DRIVER_H

#include <cuda.h>

#include "tools/loopback/cuda/context.h"
#include "tools/loopback/cuda/process.h"

#define DRIVER_TRY(call)                                                                           \
  do {                                                                                             \
    CUresult driver_result = (call);                                                               \
    if (driver_result != CUDA_SUCCESS)                                                             \
      return driver_result;                                                                        \
  } while (0)

/* For functions that need a current context. */
static inline CUresult driver_enter(CUcontext *context) {
  CUresult result = process_check();
  return result == CUDA_SUCCESS ? context_current(context) : result;
}

/* The driver's device addresses are integers. */
static inline void *driver_address(CUdeviceptr address) {
  return (void *)address;
}

/* The stream that a handle means to the caller of this compilation's names. */
static inline CUstream driver_stream(CUstream handle) {
#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
  return handle ? handle : CU_STREAM_PER_THREAD;
#else
  return handle;
#endif
}

#endif
