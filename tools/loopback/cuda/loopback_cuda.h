/* What the loopback CUDA offers beyond CUDA's own interface.
 *
 * The loopback CUDA is a test double: libcuda.so.1 and libcudart.so.12/13 on host memory, for host
 * programs that link the shared CUDA libraries. Streams are real (a worker thread and a queue
 * each); no device code runs. cuda.h and cuda_runtime_api.h are the contract of everything else;
 * settings.h names the environment variables.
 *
 * Used by the loopback NCCL, which moves data between buffers of the program as a collective
 * kernel would. */
#ifndef LOOPBACK_CUDA_H
#define LOOPBACK_CUDA_H

#include <stddef.h>

/* The host address of the bytes that a device pointer names, or NULL if [device_pointer,
 * device_pointer + size) is not wholly inside one piece of memory that a device may use:
 * cudaMalloc, cudaMallocAsync, pinned, registered or managed host memory, mapped virtual memory
 * with access. Pinned, registered and managed pointers translate to themselves.
 *
 * Any thread may call it, a host function on a stream included. The address is good for as long as
 * the memory is allocated. Size 0 asks for the address alone: it may then be the end of an
 * allocation. */
void *loopback_device_memory(const void *device_pointer, size_t size);

#endif
