/* Copies and fills. */
#include <string.h>

#include "tests/loopback/test/gate.h"

TestSuite(cuda_copy, .timeout = TIMEOUT);

#define SIZE ((size_t)1000)

static char *device_new(size_t size) {
  char *memory;
  succeeds(cudaMalloc((void **)&memory, size));
  return memory;
}

static char *pinned_new(size_t size) {
  char *memory;
  succeeds(cudaMallocHost((void **)&memory, size));
  return memory;
}

static void number(char *bytes, size_t size) {
  for (size_t i = 0; i < size; i++)
    bytes[i] = (char)(i * 7 + 3);
}

Test(cuda_copy, bytes_go_there_and_back) {
  char out[SIZE], in[SIZE] = {0};
  char *a = device_new(SIZE), *b = device_new(SIZE);
  number(out, SIZE);
  succeeds(cudaMemcpy(a, out, SIZE, cudaMemcpyHostToDevice));
  succeeds(cudaMemcpy(b, a, SIZE, cudaMemcpyDeviceToDevice));
  succeeds(cudaMemcpy(in, b, SIZE, cudaMemcpyDeviceToHost));
  cr_assert(eq(int, memcmp(in, out, SIZE), 0));
  memset(in, 0, SIZE);
  succeeds(cudaMemcpy(in, out, SIZE, cudaMemcpyHostToHost));
  cr_assert(eq(int, memcmp(in, out, SIZE), 0));
}

Test(cuda_copy, the_default_kind_sees_where_pointers_are) {
  char out[SIZE], in[SIZE] = {0};
  char *a = device_new(SIZE);
  number(out, SIZE);
  succeeds(cudaMemcpy(a, out, SIZE, cudaMemcpyDefault));
  succeeds(cudaMemcpy(in, a, SIZE, cudaMemcpyDefault));
  cr_assert(eq(int, memcmp(in, out, SIZE), 0));
}

Test(cuda_copy, a_wrong_direction_is_an_error) {
  char host[SIZE] = {0};
  char *device = device_new(SIZE);
  fails(cudaMemcpy(host, host, SIZE, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  fails(cudaMemcpy(device, device, SIZE, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  fails(cudaMemcpy(device, host, SIZE, cudaMemcpyDeviceToHost), cudaErrorInvalidValue);
  fails(cudaMemcpy(device, host, SIZE, cudaMemcpyDeviceToDevice), cudaErrorInvalidValue);
  fails(cudaMemcpy(device, host, SIZE, cudaMemcpyHostToHost), cudaErrorInvalidValue);
  fails(cudaMemcpy(device, host, SIZE, (enum cudaMemcpyKind)9), cudaErrorInvalidMemcpyDirection);
}

Test(cuda_copy, a_copy_outside_an_allocation_is_an_error) {
  char host[SIZE + 1] = {0};
  char *device = device_new(SIZE);
  fails(cudaMemcpy(device, host, SIZE + 1, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  fails(cudaMemcpy(host, device + 1, SIZE, cudaMemcpyDeviceToHost), cudaErrorInvalidValue);
  fails(cudaMemcpy(host, device + 1, SIZE, cudaMemcpyDefault), cudaErrorInvalidValue);
  fails(cudaMemset(device, 0, SIZE + 1), cudaErrorInvalidValue);
  fails(cudaMemset(host, 0, 1), cudaErrorInvalidValue);
  succeeds(cudaMemset(device + 1, 0, SIZE - 1));
  succeeds(cudaFree(device));
  fails(cudaMemcpy(device, host, 1, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
}

Test(cuda_copy, what_lies_behind_registered_memory_is_not_part_of_it) {
  static char host[2 * SIZE];
  char *device = device_new(SIZE);
  succeeds(cudaHostRegister(host, SIZE, cudaHostRegisterDefault));
  succeeds(cudaMemcpy(device, host + SIZE, SIZE, cudaMemcpyHostToDevice));
  fails(cudaMemcpy(device, host + 1, SIZE, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
}

Test(cuda_copy, no_bytes_are_always_copied) {
  succeeds(cudaMemcpy(NULL, NULL, 0, cudaMemcpyHostToDevice));
  succeeds(cudaMemset(NULL, 0, 0));
}

Test(cuda_copy, pinned_memory_is_copied_later) {
  struct gate gate;
  cudaStream_t stream;
  char *device = device_new(SIZE), *host = pinned_new(SIZE);
  memset(host, 1, SIZE);
  succeeds(cudaStreamCreate(&stream));
  gate_close(&gate, stream);
  succeeds(cudaMemcpyAsync(device, host, SIZE, cudaMemcpyHostToDevice, stream));
  memset(host, 2, SIZE); /* too early on a GPU as well */
  gate_open(&gate);
  succeeds(cudaStreamSynchronize(stream));
  memset(host, 0, SIZE);
  succeeds(cudaMemcpy(host, device, SIZE, cudaMemcpyDeviceToHost));
  cr_assert(eq(chr, host[SIZE - 1], 2));
}

Test(cuda_copy, a_small_pageable_source_is_staged) {
  struct gate gate;
  cudaStream_t stream;
  char host[SIZE];
  char *device = device_new(SIZE);
  memset(host, 1, SIZE);
  succeeds(cudaStreamCreate(&stream));
  gate_close(&gate, stream);
  succeeds(cudaMemcpyAsync(device, host, SIZE, cudaMemcpyHostToDevice, stream));
  memset(host, 2, SIZE);
  gate_open(&gate);
  succeeds(cudaStreamSynchronize(stream));
  succeeds(cudaMemcpy(host, device, SIZE, cudaMemcpyDeviceToHost));
  cr_assert(eq(chr, host[0], 1));
}

Test(cuda_copy, the_host_waits_for_pageable_targets_and_large_sources) {
  enum { LARGE = 65 << 10 };
  static char host[LARGE];
  cudaStream_t stream;
  int done = 0;
  setenv("LOOPBACK_DELAY_US", "20000", 1);
  char *device = device_new(LARGE);
  succeeds(cudaStreamCreate(&stream));
  succeeds(cudaLaunchHostFunc(stream, count_up, &done));
  succeeds(cudaMemcpyAsync(device, host, LARGE, cudaMemcpyHostToDevice, stream));
  cr_assert(eq(int, done, 1));
  succeeds(cudaLaunchHostFunc(stream, count_up, &done));
  succeeds(cudaMemcpyAsync(host, device, 1, cudaMemcpyDeviceToHost, stream));
  cr_assert(eq(int, done, 2));
}

Test(cuda_copy, a_copy_on_the_device_does_not_hold_up_the_host) {
  struct gate gate;
  char *a = device_new(SIZE), *b = device_new(SIZE);
  gate_close(&gate, NULL);
  succeeds(cudaMemcpy(a, b, SIZE, cudaMemcpyDeviceToDevice));
  succeeds(cudaMemset(a, 0, SIZE));
  fails(cudaStreamQuery(NULL), cudaErrorNotReady);
  gate_open(&gate);
  succeeds(cudaDeviceSynchronize());
}

Test(cuda_copy, rows_are_copied_with_their_pitches) {
  char host[5][8], back[5][10];
  char *device = device_new(5 * 16);
  number(&host[0][0], sizeof host);
  memset(back, 0, sizeof back);
  succeeds(cudaMemset(device, 0, 5 * 16));
  succeeds(cudaMemcpy2D(device, 16, host, 8, 6, 5, cudaMemcpyHostToDevice));
  succeeds(cudaMemcpy2D(back, 10, device, 16, 8, 5, cudaMemcpyDefault));
  for (int row = 0; row < 5; row++) {
    cr_assert(eq(int, memcmp(back[row], host[row], 6), 0));
    cr_assert(eq(chr, back[row][6], 0));
  }
  fails(cudaMemcpy2D(device, 5, host, 8, 6, 5, cudaMemcpyHostToDevice), cudaErrorInvalidPitchValue);
  fails(cudaMemcpy2D(device, 16, host, 8, 6, 6, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
}

Test(cuda_copy, devices_copy_to_each_other) {
  char host[SIZE], back[SIZE] = {0};
  char *first = device_new(SIZE);
  number(host, SIZE);
  succeeds(cudaMemcpy(first, host, SIZE, cudaMemcpyHostToDevice));
  succeeds(cudaSetDevice(1));
  char *second = device_new(SIZE);
  succeeds(cudaMemcpyPeer(second, 1, first, 0, SIZE));
  succeeds(cudaMemcpy(back, second, SIZE, cudaMemcpyDeviceToHost));
  cr_assert(eq(int, memcmp(host, back, SIZE), 0));
  succeeds(cudaMemcpyPeerAsync(first, 0, second, 1, SIZE, NULL));
  fails(cudaMemcpyPeer(second, 1, first, 8, SIZE), cudaErrorInvalidDevice);
}

Test(cuda_copy, a_stream_writes_a_value) {
  uint32_t back[3];
  char *device = device_new(12);
  CUdeviceptr address = (CUdeviceptr)device;
  succeeds(cudaMemset(device, 0, 12));
  cr_assert(eq(int, (int)cuStreamWriteValue32(NULL, address + 4, 0x12345678, 0), CUDA_SUCCESS));
  succeeds(cudaMemcpy(back, device, 12, cudaMemcpyDeviceToHost));
  cr_assert(back[0] == 0 && back[1] == 0x12345678 && back[2] == 0);
  cr_assert(ne(int, (int)cuStreamWriteValue32(NULL, address + 2, 1, 0), CUDA_SUCCESS));
  cr_assert(ne(int, (int)cuStreamWriteValue32(NULL, address, 1, 1), CUDA_SUCCESS));
  cr_assert(ne(int, (int)cuStreamWriteValue32(NULL, address + 12, 1, 0), CUDA_SUCCESS));
}

Test(cuda_copy, the_driver_fills_with_wider_values) {
  unsigned words[4];
  unsigned short halves[4];
  CUdeviceptr device = (CUdeviceptr)device_new(16);
  succeeds(cuMemsetD32(device, 0x12345678, 4));
  succeeds(cuMemcpyDtoH(words, device, sizeof words));
  cr_assert(eq(uint, words[3], 0x12345678));
  succeeds(cuMemsetD16(device, 0xabcd, 4));
  succeeds(cuMemcpyDtoH(halves, device, sizeof halves));
  cr_assert(eq(int, halves[3], 0xabcd));
  succeeds(cuMemcpyDtoH(words, device, sizeof words));
  cr_assert(eq(uint, words[2], 0x12345678));
  succeeds(cuMemsetD2D8(device, 8, 5, 2, 2));
  succeeds(cuMemcpyDtoH(words, device, sizeof words));
  cr_assert(eq(uint, words[2], 0x12340505));
  fails(cuMemsetD32(device + 2, 0, 1), CUDA_ERROR_INVALID_VALUE);
  fails(cuMemsetD32(device, 0, 5), CUDA_ERROR_INVALID_VALUE);
}
