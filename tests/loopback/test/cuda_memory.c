/* Allocation, registration, attributes, guards. */
#include <signal.h>
#include <stdint.h>
#include <string.h>

#include "tools/loopback/cuda/loopback_cuda.h"
#include "tests/loopback/test/gate.h"

TestSuite(cuda_memory, .timeout = TIMEOUT);

#define MIB ((size_t)1 << 20)

Test(cuda_memory, device_memory_is_limited_and_counted) {
  void *memory, *more;
  size_t left, total;
  setenv("LOOPBACK_DEVICE_MEMORY_MB", "16", 1);
  succeeds(cudaMalloc(&memory, 10 * MIB));
  succeeds(cudaMemGetInfo(&left, &total));
  cr_assert(eq(sz, total, 16 * MIB));
  cr_assert(eq(sz, left, 6 * MIB));
  fails(cudaMalloc(&more, 7 * MIB), cudaErrorMemoryAllocation);
  succeeds(cudaSetDevice(1)); /* has memory of its own */
  succeeds(cudaMalloc(&more, 7 * MIB));
  succeeds(cudaFree(memory));
  succeeds(cudaSetDevice(0));
  succeeds(cudaMemGetInfo(&left, &total));
  cr_assert(eq(sz, left, total));
  fails(cudaMalloc(&memory, SIZE_MAX), cudaErrorMemoryAllocation);
}

Test(cuda_memory, addresses_are_aligned_whatever_the_size) {
  for (size_t size = 1; size < 10000; size = size * 3 + 1) {
    void *memory;
    succeeds(cudaMalloc(&memory, size));
    cr_assert(eq(sz, (uintptr_t)memory % 256, 0));
  }
}

Test(cuda_memory, freeing_wants_what_was_allocated) {
  char *device, *host;
  succeeds(cudaFree(NULL));
  succeeds(cudaFreeHost(NULL));
  succeeds(cudaMalloc((void **)&device, 100));
  succeeds(cudaMallocHost((void **)&host, 100));
  fails(cudaFree(device + 1), cudaErrorInvalidValue);
  fails(cudaFree(host), cudaErrorInvalidValue);
  fails(cudaFreeHost(device), cudaErrorInvalidValue);
  succeeds(cudaFree(device));
  fails(cudaFree(device), cudaErrorInvalidValue);
  succeeds(cudaFreeHost(host));
}

Test(cuda_memory, nothing_is_allocated_for_size_zero) {
  void *memory = &memory;
  succeeds(cudaMalloc(&memory, 0));
  cr_assert(eq(ptr, memory, NULL));
}

Test(cuda_memory, the_host_cannot_touch_device_memory, .signal = SIGSEGV) {
  char *memory;
  succeeds(cudaMalloc((void **)&memory, 100));
  memory[0] = 1;
}

Test(cuda_memory, the_host_can_touch_device_memory_if_not_strict) {
  char *memory;
  setenv("LOOPBACK_STRICT_HOST", "0", 1);
  succeeds(cudaMalloc((void **)&memory, 100));
  memory[99] = 1;
  cr_assert(eq(ptr, loopback_device_memory(memory, 100), memory));
}

Test(cuda_memory, writing_far_past_the_end_faults, .signal = SIGSEGV) {
  char *memory;
  succeeds(cudaMalloc((void **)&memory, 1024));
  volatile char *bytes = loopback_device_memory(memory, 1024);
  bytes[1024] = 1;
}

Test(cuda_memory, writing_before_the_start_is_found_at_free, .signal = SIGABRT) {
  char *memory;
  succeeds(cudaMalloc((void **)&memory, 1024));
  volatile char *bytes = loopback_device_memory(memory, 1024);
  bytes[-1] = 1;
  cudaFree(memory);
}

Test(cuda_memory, writing_just_past_the_end_is_found_at_free, .signal = SIGABRT) {
  char *memory;
  succeeds(cudaMalloc((void **)&memory, 1000));
  volatile char *bytes = loopback_device_memory(memory, 1000);
  bytes[1000] = 1;
  cudaFree(memory);
}

Test(cuda_memory, writing_just_past_the_end_is_found_at_exit, .signal = SIGABRT) {
  char *memory;
  succeeds(cudaMallocHost((void **)&memory, 1000));
  memory[1000] = 1;
  exit(0);
}

Test(cuda_memory, freed_memory_faults, .signal = SIGSEGV) {
  char *memory;
  succeeds(cudaMallocHost((void **)&memory, 1000));
  succeeds(cudaFreeHost(memory));
  *(volatile char *)memory = 1;
}

Test(cuda_memory, device_pointers_translate_only_inside_an_allocation) {
  char *device, *host, pageable[10];
  succeeds(cudaMalloc((void **)&device, 1000));
  succeeds(cudaMallocHost((void **)&host, 1000));
  char *bytes = loopback_device_memory(device, 1000);
  cr_assert(ne(ptr, bytes, NULL));
  cr_assert(eq(ptr, loopback_device_memory(device + 10, 990), bytes + 10));
  cr_assert(eq(ptr, loopback_device_memory(device + 1000, 0), bytes + 1000));
  cr_assert(eq(ptr, loopback_device_memory(device + 10, 991), NULL));
  cr_assert(eq(ptr, loopback_device_memory(device - 1, 1), NULL));
  cr_assert(eq(ptr, loopback_device_memory(device + 1000, 1), NULL));
  cr_assert(eq(ptr, loopback_device_memory(host, 1000), host));
  cr_assert(eq(ptr, loopback_device_memory(pageable, 1), NULL));
  cr_assert(eq(ptr, loopback_device_memory(NULL, 0), NULL));
}

Test(cuda_memory, new_device_memory_is_not_zero) {
  char *device, host[64];
  static const char zero[64];
  succeeds(cudaMalloc((void **)&device, sizeof host));
  succeeds(cudaMemcpy(host, device, sizeof host, cudaMemcpyDeviceToHost));
  cr_assert(ne(int, memcmp(host, zero, sizeof host), 0));
}

Test(cuda_memory, registered_memory_is_known_until_unregistered) {
  static char buffer[8192];
  void *device;
  struct cudaPointerAttributes attributes;
  succeeds(cudaHostRegister(buffer, sizeof buffer, cudaHostRegisterDefault));
  fails(cudaHostRegister(buffer + 100, 10, cudaHostRegisterDefault),
        cudaErrorHostMemoryAlreadyRegistered);
  succeeds(cudaHostGetDevicePointer(&device, buffer + 5, 0));
  cr_assert(eq(ptr, device, buffer + 5));
  cr_assert(eq(ptr, loopback_device_memory(buffer, sizeof buffer), buffer));
  succeeds(cudaPointerGetAttributes(&attributes, buffer));
  cr_assert(eq(int, attributes.type, cudaMemoryTypeHost));
  fails(cudaHostUnregister(buffer + 100), cudaErrorHostMemoryNotRegistered);
  succeeds(cudaHostUnregister(buffer));
  fails(cudaHostUnregister(buffer), cudaErrorHostMemoryNotRegistered);
  cr_assert(eq(ptr, loopback_device_memory(buffer, 1), NULL));
}

Test(cuda_memory, attributes_tell_where_a_pointer_is) {
  char *device, *host, *managed, pageable;
  struct cudaPointerAttributes attributes;
  succeeds(cudaSetDevice(2));
  succeeds(cudaMalloc((void **)&device, 10));
  succeeds(cudaMallocHost((void **)&host, 10));
  succeeds(cudaMallocManaged((void **)&managed, 10, cudaMemAttachGlobal));
  succeeds(cudaPointerGetAttributes(&attributes, device + 5));
  cr_assert(eq(int, attributes.type, cudaMemoryTypeDevice));
  cr_assert(eq(int, attributes.device, 2));
  cr_assert(eq(ptr, attributes.devicePointer, device + 5));
  cr_assert(eq(ptr, attributes.hostPointer, NULL));
  succeeds(cudaPointerGetAttributes(&attributes, host));
  cr_assert(eq(int, attributes.type, cudaMemoryTypeHost));
  cr_assert(eq(ptr, attributes.hostPointer, host));
  succeeds(cudaPointerGetAttributes(&attributes, managed));
  cr_assert(eq(int, attributes.type, cudaMemoryTypeManaged));
  succeeds(cudaPointerGetAttributes(&attributes, &pageable));
  cr_assert(eq(int, attributes.type, cudaMemoryTypeUnregistered));
  managed[9] = 1;
}

Test(cuda_memory, the_driver_knows_ranges) {
  char *device, pageable;
  CUdeviceptr base;
  size_t size;
  int ordinal;
  succeeds(cudaMalloc((void **)&device, 1000));
  succeeds(cuMemGetAddressRange(&base, &size, (CUdeviceptr)device + 999));
  cr_assert(eq(ptr, (void *)base, device));
  cr_assert(eq(sz, size, 1000));
  fails(cuMemGetAddressRange(&base, &size, (CUdeviceptr)device + 1000), CUDA_ERROR_NOT_FOUND);
  succeeds(
      cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, (CUdeviceptr)device));
  fails(
      cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, (CUdeviceptr)&pageable),
      CUDA_ERROR_INVALID_VALUE);
}

Test(cuda_memory, freeing_waits_for_the_device) {
  struct gate gate;
  cudaStream_t stream;
  char *device;
  int done = 0;
  setenv("LOOPBACK_DELAY_US", "20000", 1);
  succeeds(cudaStreamCreate(&stream));
  succeeds(cudaMalloc((void **)&device, 100));
  gate_close(&gate, stream);
  gate_open(&gate);
  succeeds(cudaMemsetAsync(device, 1, 100, stream));
  succeeds(cudaLaunchHostFunc(stream, count_up, &done));
  succeeds(cudaFree(device));
  cr_assert(eq(int, done, 1));
}

Test(cuda_memory, freeing_in_a_stream_happens_in_its_order) {
  struct gate gate;
  cudaStream_t stream;
  char *device;
  succeeds(cudaStreamCreate(&stream));
  succeeds(cudaMallocAsync((void **)&device, 100, stream));
  gate_close(&gate, stream);
  succeeds(cudaMemsetAsync(device, 1, 100, stream));
  succeeds(cudaFreeAsync(device, stream));
  fails(cudaFreeAsync(device, stream), cudaErrorInvalidValue);
  cr_assert(ne(ptr, loopback_device_memory(device, 100), NULL));
  gate_open(&gate);
  succeeds(cudaStreamSynchronize(stream));
  cr_assert(eq(ptr, loopback_device_memory(device, 100), NULL));
}

Test(cuda_memory, a_full_device_waits_for_what_its_stream_frees) {
  cudaStream_t stream;
  setenv("LOOPBACK_DEVICE_MEMORY_MB", "16", 1);
  setenv("LOOPBACK_DELAY_US", "1000", 1);
  succeeds(cudaStreamCreate(&stream));
  for (int i = 0; i < 10; i++) {
    void *memory;
    succeeds(cudaMallocAsync(&memory, 10 * MIB, stream));
    succeeds(cudaFreeAsync(memory, stream));
  }
}

Test(cuda_memory, pitched_rows_are_aligned) {
  void *memory;
  size_t pitch;
  succeeds(cudaMallocPitch(&memory, &pitch, 700, 3));
  cr_assert(eq(sz, pitch, 1024));
  cr_assert(ne(ptr, loopback_device_memory(memory, 3 * pitch), NULL));
}
