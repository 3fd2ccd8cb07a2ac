/* The CUDA driver API, as far as the loopback NCCL needs it. Each function turns a CUresult into
 * ncclUnhandledCudaError with report_error; streams and contexts belong to the caller.
 */
#ifndef LOOPBACK_NCCL_DEVICE_H
#define LOOPBACK_NCCL_DEVICE_H

#include <cuda.h>
#include <nccl.h>
#include <stdbool.h>

/* The calling thread's device and context; as in the CUDA runtime, device 0 for a thread that never
 * chose one. */
ncclResult_t device_current(int *device, CUcontext *context);

ncclResult_t device_count(int *count);

/* Makes device the calling thread's, as cudaSetDevice. */
ncclResult_t device_set(int device);

/* Makes context the calling thread's and says which was. */
ncclResult_t device_enter(CUcontext context, CUcontext *previous);
void device_leave(CUcontext previous);

ncclResult_t device_allocate(void **memory, size_t size);
ncclResult_t device_free(void *memory);

/* Host address of [pointer, pointer + size) of device memory; NULL if it is not wholly inside one
 * allocation. */
void *device_memory(const void *pointer, size_t size);

/* An event without timing, for device_order. */
ncclResult_t device_event_create(CUevent *event);
void device_event_destroy(CUevent event);

/* Work that comes later on `stream` waits for the work that is on `earlier` now. The event may be
 * used again at once. */
ncclResult_t device_order(CUevent event, CUstream earlier, CUstream stream);
ncclResult_t device_record(CUevent event, CUstream stream);
ncclResult_t device_wait(CUstream stream, CUevent event);

/* Whether a graph is being captured on stream. */
ncclResult_t device_is_capturing(CUstream stream, bool *capturing);

ncclResult_t device_launch(CUstream stream, void (*function)(void *), void *argument);

#endif
