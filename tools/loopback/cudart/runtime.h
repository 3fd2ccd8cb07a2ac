/* The loopback CUDA runtime: a thin layer on the loopback driver.
 *
 * The same sources are compiled against the headers of CUDA 12 and of CUDA 13, which makes
 * libcudart.so.12 and libcudart.so.13; what differs between the two stands under CUDART_VERSION.
 * The contract of every cuda... function is cuda_runtime_api.h. Error codes of the two interfaces
 * have been equal since CUDA 10.1, and so are the flags that are passed through.
 *
 * Functions with a default stream live in copy.c and stream.c, which are compiled twice: the
 * second time with CUDA_API_PER_THREAD_DEFAULT_STREAM, whereupon the headers give them, and the
 * driver functions they call, their _ptds and _ptsz names. */
#ifndef LOOPBACK_CUDART_RUNTIME_H
#define LOOPBACK_CUDART_RUNTIME_H

#include <cuda.h>
#include <cuda_runtime_api.h>

/* Returns the error, and remembers it for cudaGetLastError of this thread unless it is success. */
cudaError_t runtime_result(CUresult result);

/* Initialises CUDA, and makes the primary context of the calling thread's device current if it has
 * none. */
CUresult runtime_enter(void);

/* Makes a device the thread's. */
CUresult runtime_set_device(int device);

/* The device the thread is on: that of its current context, else the one it chose last. */
CUresult runtime_get_device(int *device);

/* The primary context of a device, retained once for the whole runtime. */
CUresult runtime_primary(int device, CUcontext *context);

/* Gives the calling thread's device back as new. */
CUresult runtime_reset_device(void);

/* One line on stderr; cudaErrorNotSupported, also for cudaGetLastError. */
cudaError_t runtime_unsupported(const char *what);

/* Calls the driver once a context is current. */
#define RUNTIME_CALL(call)                                                                         \
  do {                                                                                             \
    CUresult runtime_entered = runtime_enter();                                                    \
    return runtime_result(runtime_entered == CUDA_SUCCESS ? (call) : runtime_entered);             \
  } while (0)

/* The driver's device addresses are integers. */
static inline void *runtime_address(CUdeviceptr address) {
  return (void *)address;
}

#endif
