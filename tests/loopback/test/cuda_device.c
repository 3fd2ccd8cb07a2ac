/* Devices, versions, errors. */
#include <pthread.h>
#include <string.h>

#include "tests/loopback/test/gate.h"

/* cuda_profiler_api.h, which not every package of headers has. */
cudaError_t CUDARTAPI cudaProfilerStart(void);
cudaError_t CUDARTAPI cudaProfilerStop(void);

TestSuite(cuda_device, .timeout = TIMEOUT);

Test(cuda_device, eight_devices_by_default) {
  int count;
  succeeds(cudaGetDeviceCount(&count));
  cr_assert(eq(int, count, 8));
}

Test(cuda_device, the_number_of_devices_is_a_setting) {
  int count;
  setenv("LOOPBACK_DEVICES", "3", 1);
  succeeds(cudaGetDeviceCount(&count));
  cr_assert(eq(int, count, 3));
  fails(cudaSetDevice(3), cudaErrorInvalidDevice);
}

Test(cuda_device, a_device_seen_twice_ends_the_list) {
  int count;
  setenv("CUDA_VISIBLE_DEVICES", "2,2,3", 1);
  succeeds(cudaGetDeviceCount(&count));
  cr_assert(eq(int, count, 1));
}

Test(cuda_device, visible_devices_are_renumbered_and_keep_their_identity) {
  int count;
  char bus[16];
  struct cudaDeviceProp properties;
  setenv("CUDA_VISIBLE_DEVICES", "5,2,99,1", 1);
  succeeds(cudaGetDeviceCount(&count));
  cr_assert(eq(int, count, 2));
  succeeds(cudaDeviceGetPCIBusId(bus, sizeof bus, 0));
  reads(bus, "0000:06:00.0");
  succeeds(cudaGetDeviceProperties(&properties, 1));
  cr_assert(eq(int, properties.pciBusID, 3));
  cr_assert(eq(int, properties.uuid.bytes[15], 2));
}

Test(cuda_device, no_visible_device_is_an_error) {
  int count = 7;
  setenv("CUDA_VISIBLE_DEVICES", "", 1);
  fails(cudaGetDeviceCount(&count), cudaErrorNoDevice);
  cr_assert(eq(int, count, 0));
}

Test(cuda_device, a_wrong_setting_ends_the_process, .exit_code = EXIT_FAILURE) {
  int count;
  setenv("LOOPBACK_DEVICES", "many", 1);
  cudaGetDeviceCount(&count);
}

static void *device_of_thread(void *argument) {
  succeeds(cudaGetDevice(argument));
  return NULL;
}

Test(cuda_device, the_current_device_belongs_to_the_thread) {
  int mine, other;
  pthread_t thread;
  succeeds(cudaSetDevice(4));
  pthread_create(&thread, NULL, device_of_thread, &other);
  pthread_join(thread, NULL);
  succeeds(cudaGetDevice(&mine));
  cr_assert(eq(int, mine, 4));
  cr_assert(eq(int, other, 0));
}

Test(cuda_device, properties_and_attributes_agree) {
  struct cudaDeviceProp properties;
  int warp, major;
  succeeds(cudaGetDeviceProperties(&properties, 0));
  succeeds(cudaDeviceGetAttribute(&warp, cudaDevAttrWarpSize, 0));
  succeeds(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0));
  cr_assert(eq(int, properties.warpSize, warp));
  cr_assert(eq(int, properties.major, major));
  cr_assert(ne(int, strstr(properties.name, "Loopback") == NULL, 1));
  fails(cudaGetDeviceProperties(&properties, 8), cudaErrorInvalidDevice);
  fails(cudaDeviceGetAttribute(&warp, (enum cudaDeviceAttr)100000, 0), cudaErrorInvalidValue);
}

Test(cuda_device, pci_addresses_lead_back_to_devices) {
  char bus[16];
  int device;
  succeeds(cudaDeviceGetPCIBusId(bus, sizeof bus, 6));
  succeeds(cudaDeviceGetByPCIBusId(&device, bus));
  cr_assert(eq(int, device, 6));
  fails(cudaDeviceGetPCIBusId(bus, 4, 6), cudaErrorInvalidValue);
  fails(cudaDeviceGetByPCIBusId(&device, "0000:77:00.0"), cudaErrorInvalidDevice);
}

Test(cuda_device, peer_access_is_enabled_once) {
  int can;
  succeeds(cudaDeviceCanAccessPeer(&can, 0, 1));
  cr_assert(eq(int, can, 1));
  succeeds(cudaDeviceCanAccessPeer(&can, 1, 1));
  cr_assert(eq(int, can, 0));
  succeeds(cudaDeviceEnablePeerAccess(1, 0));
  fails(cudaDeviceEnablePeerAccess(1, 0), cudaErrorPeerAccessAlreadyEnabled);
  succeeds(cudaDeviceDisablePeerAccess(1));
  fails(cudaDeviceDisablePeerAccess(1), cudaErrorPeerAccessNotEnabled);
  fails(cudaDeviceEnablePeerAccess(0, 0), cudaErrorInvalidDevice);
}

Test(cuda_device, the_last_error_is_kept_until_asked_for) {
  cr_assert(eq(int, cudaGetLastError(), cudaSuccess));
  fails(cudaSetDevice(-1), cudaErrorInvalidDevice);
  succeeds(cudaSetDevice(0));
  cr_assert(eq(int, cudaPeekAtLastError(), cudaErrorInvalidDevice));
  cr_assert(eq(int, cudaGetLastError(), cudaErrorInvalidDevice));
  cr_assert(eq(int, cudaGetLastError(), cudaSuccess));
}

static void *last_error_of_thread(void *argument) {
  *(int *)argument = cudaGetLastError();
  return NULL;
}

Test(cuda_device, the_last_error_belongs_to_the_thread) {
  int error = -1;
  pthread_t thread;
  cudaSetDevice(-1);
  pthread_create(&thread, NULL, last_error_of_thread, &error);
  pthread_join(thread, NULL);
  cr_assert(eq(int, error, cudaSuccess));
}

Test(cuda_device, errors_have_names_and_descriptions) {
  const char *text;
  reads(cudaGetErrorName(cudaSuccess), "cudaSuccess");
  reads(cudaGetErrorName(cudaErrorIllegalAddress), "cudaErrorIllegalAddress");
  reads(cudaGetErrorString(cudaErrorMemoryAllocation), "out of memory");
  reads(cudaGetErrorName((cudaError_t)12345), "unrecognized error code");
  succeeds(cuGetErrorName(CUDA_ERROR_NOT_READY, &text));
  reads(text, "CUDA_ERROR_NOT_READY");
  succeeds(cuGetErrorString(CUDA_ERROR_NOT_READY, &text));
  reads(text, "device not ready");
  fails(cuGetErrorName((CUresult)12345, &text), CUDA_ERROR_INVALID_VALUE);
}

Test(cuda_device, versions_are_those_of_the_headers) {
  int runtime, driver;
  succeeds(cudaRuntimeGetVersion(&runtime));
  succeeds(cudaDriverGetVersion(&driver));
  cr_assert(eq(int, runtime, CUDART_VERSION));
  cr_assert(ge(int, driver, runtime));
}

Test(cuda_device, reset_frees_what_the_device_holds) {
  void *memory;
  size_t left, total;
  cudaStream_t stream;
  succeeds(cudaStreamCreate(&stream));
  succeeds(cudaMalloc(&memory, 1 << 20));
  succeeds(cudaDeviceReset());
  fails(cudaStreamQuery(stream), cudaErrorInvalidResourceHandle);
  succeeds(cudaMemGetInfo(&left, &total));
  cr_assert(eq(sz, left, total));
  fails(cudaFree(memory), cudaErrorInvalidValue);
  succeeds(cudaMalloc(&memory, 1 << 20));
}

Test(cuda_device, flags_are_kept) {
  unsigned flags;
  succeeds(cudaSetDeviceFlags(cudaDeviceScheduleBlockingSync));
  succeeds(cudaGetDeviceFlags(&flags));
  cr_assert(eq(uint, flags, cudaDeviceScheduleBlockingSync | cudaDeviceMapHost));
}

/* Of a profiler there is nothing to be started, which is no error; what cannot be done is one. */
Test(cuda_device, functions_that_real_libraries_are_linked_to) {
  cudaIpcMemHandle_t handle;
  void *memory;
  succeeds(cudaProfilerStart());
  succeeds(cudaProfilerStop());
  succeeds(cudaMalloc(&memory, 64));
  fails(cudaIpcGetMemHandle(&handle, memory), cudaErrorNotSupported);
  fails(cudaGetLastError(), cudaErrorNotSupported);
}
