/* The CUDA driver functions that hooks/ needs, taken from the program's own libcuda.so.1 at run
 * time.
 *
 * The driver API and not the runtime: a program's CUDA runtime may be linked statically, and all
 * runtimes of a process share the one driver and its primary contexts. Nothing here links to CUDA;
 * <cuda.h> gives types only. A test fills a table of its own and hands it to shadow_create.
 */
#ifndef NCCL_JOIN_HOOKS_CUDA_DRIVER_H
#define NCCL_JOIN_HOOKS_CUDA_DRIVER_H

#include <cuda.h>
#include <stddef.h>

/* Bytes that every `char *reason` in hooks/ points to. A reason is one sentence without a newline,
 * written only on failure, always terminated. NULL, where a function does not forbid it: no
 * sentence. */
#define REASON_SIZE 384

/* Members are named after the functions without "cu" and version; the driver exports those marked
 * v2 under their _v2 name (as <cuda.h> does by macro). Every pointer is set, except where the
 * comment says so. */
struct cuda_driver {
  CUresult (*DeviceGet)(CUdevice *device, int ordinal);
  CUresult (*DevicePrimaryCtxRetain)(CUcontext *context, CUdevice device);
  CUresult (*DevicePrimaryCtxRelease)(CUdevice device); /* v2 */
  CUresult (*CtxPushCurrent)(CUcontext context);        /* v2 */
  CUresult (*CtxPopCurrent)(CUcontext *context);        /* v2 */
  CUresult (*CtxGetDevice)(CUdevice *device);           /* of the calling thread's context */
  CUresult (*CtxSynchronize)(void);
  CUresult (*PointerGetAttribute)(void *value, CUpointer_attribute attribute, CUdeviceptr address);
  CUresult (*CtxGetStreamPriorityRange)(int *least, int *greatest);
  CUresult (*StreamCreateWithPriority)(CUstream *stream, unsigned flags, int priority);
  CUresult (*StreamDestroy)(CUstream stream); /* v2 */
  CUresult (*StreamQuery)(CUstream stream);
  CUresult (*EventCreate)(CUevent *event, unsigned flags);
  CUresult (*EventDestroy)(CUevent event); /* v2 */
  CUresult (*EventRecord)(CUevent event, CUstream stream);
  CUresult (*EventQuery)(CUevent event);
  CUresult (*MemAlloc)(CUdeviceptr *address, size_t bytes); /* v2 */
  CUresult (*MemFree)(CUdeviceptr address);                 /* v2 */
  CUresult (*MemsetD32Async)(CUdeviceptr address, unsigned value, size_t words, CUstream stream);
  CUresult (*MemcpyDtoDAsync)(CUdeviceptr to, CUdeviceptr from, size_t bytes,
                              CUstream stream); /* v2 */
  CUresult (*StreamWaitEvent)(CUstream stream, CUevent event, unsigned flags);
  CUresult (*GetErrorName)(CUresult error, const char **name);
  /* NULL if the driver has none: then a shadow's first allocation fails while another thread of the
   * program captures a graph in the global mode (the default), as cuMemAlloc does there. */
  CUresult (*ThreadExchangeStreamCaptureMode)(CUstreamCaptureMode *mode);
  /* NULL if the driver has none: then it cannot capture. */
  CUresult (*StreamIsCapturing)(CUstream stream, CUstreamCaptureStatus *status);
  /* Virtual memory management; NULL if the driver has none (before CUDA 10.2). */
  CUresult (*MemGetAllocationGranularity)(size_t *granularity,
                                          const CUmemAllocationProp *properties,
                                          CUmemAllocationGranularity_flags which);
  CUresult (*MemCreate)(CUmemGenericAllocationHandle *handle, size_t bytes,
                        const CUmemAllocationProp *properties, unsigned long long flags);
  CUresult (*MemRelease)(CUmemGenericAllocationHandle handle);
  CUresult (*MemAddressReserve)(CUdeviceptr *address, size_t bytes, size_t alignment,
                                CUdeviceptr wanted, unsigned long long flags);
  CUresult (*MemAddressFree)(CUdeviceptr address, size_t bytes);
  CUresult (*MemMap)(CUdeviceptr address, size_t bytes, size_t offset,
                     CUmemGenericAllocationHandle handle, unsigned long long flags);
  CUresult (*MemUnmap)(CUdeviceptr address, size_t bytes);
  CUresult (*MemSetAccess)(CUdeviceptr address, size_t bytes, const CUmemAccessDesc *access,
                           size_t count);
  CUresult (*MemRetainAllocationHandle)(CUmemGenericAllocationHandle *handle, void *address);
  CUresult (*MemGetAllocationPropertiesFromHandle)(CUmemAllocationProp *properties,
                                                   CUmemGenericAllocationHandle handle);
};

/* The table for this process, filled at the first call; NULL with a reason if there is no driver or
 * it lacks a function, the same answer for ever. Any thread. Call it only when the program has CUDA
 * up (a communicator exists): it does not initialise the driver. Loads libcuda.so.1 only if nobody
 * has. */
const struct cuda_driver *cuda_driver_get(char *reason);

/* "CUDA_ERROR_OUT_OF_MEMORY", or "CUDA error 12345" for one without a name. Static, or in `text`
 * (CUDA_ERROR_TEXT bytes). */
#define CUDA_ERROR_TEXT 32
const char *cuda_driver_error(const struct cuda_driver *cuda, CUresult error, char *text);

#endif
