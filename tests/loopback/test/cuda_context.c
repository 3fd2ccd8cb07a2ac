/* The driver's contexts, and the runtime beside them. */
#include <dlfcn.h>

#include "tests/loopback/test/gate.h"

TestSuite(cuda_context, .timeout = TIMEOUT);

static CUcontext retain(CUdevice device) {
  CUcontext context;
  succeeds(cuInit(0));
  succeeds(cuDevicePrimaryCtxRetain(&context, device));
  return context;
}

static CUcontext create(CUdevice device) {
  CUcontext made;
#if CUDA_VERSION >= 13000
  succeeds(cuCtxCreate(&made, NULL, 0, device));
#else
  succeeds(cuCtxCreate(&made, 0, device));
#endif
  return made;
}

static void is_current(CUcontext context) {
  CUcontext current;
  succeeds(cuCtxGetCurrent(&current));
  cr_assert(eq(ptr, current, context));
}

Test(cuda_context, nothing_works_before_cuInit) {
  int count;
  fails(cuDeviceGetCount(&count), CUDA_ERROR_NOT_INITIALIZED);
  fails(cuInit(1), CUDA_ERROR_INVALID_VALUE);
  succeeds(cuInit(0));
  succeeds(cuInit(0));
  succeeds(cuDeviceGetCount(&count));
}

Test(cuda_context, calls_need_a_current_context) {
  CUdeviceptr memory;
  CUstream stream;
  succeeds(cuInit(0));
  fails(cuMemAlloc(&memory, 1), CUDA_ERROR_INVALID_CONTEXT);
  fails(cuStreamCreate(&stream, 0), CUDA_ERROR_INVALID_CONTEXT);
  fails(cuCtxSynchronize(), CUDA_ERROR_INVALID_CONTEXT);
}

Test(cuda_context, runtime_and_driver_share_the_primary_context) {
  CUcontext context = retain(3);
  CUstream stream;
  CUdevice device;
  struct gate gate;
  succeeds(cudaSetDevice(3));
  is_current(context);
  succeeds(cuCtxGetDevice(&device));
  cr_assert(eq(int, device, 3));
  succeeds(cuStreamCreate(&stream, CU_STREAM_DEFAULT));
  gate_close(&gate, stream);
  fails(cudaStreamQuery(stream), cudaErrorNotReady);
  gate_open(&gate);
  succeeds(cudaDeviceSynchronize());
}

Test(cuda_context, the_runtime_follows_the_drivers_current_context) {
  int device;
  succeeds(cudaSetDevice(1));
  succeeds(cuCtxPushCurrent(retain(5)));
  succeeds(cudaGetDevice(&device));
  cr_assert(eq(int, device, 5));
  succeeds(cuCtxPopCurrent(NULL));
  succeeds(cudaGetDevice(&device));
  cr_assert(eq(int, device, 1));
}

Test(cuda_context, primary_contexts_are_active_while_retained) {
  unsigned flags;
  int active;
  retain(2);
  retain(2);
  succeeds(cuDevicePrimaryCtxSetFlags(2, CU_CTX_SCHED_SPIN));
  succeeds(cuDevicePrimaryCtxGetState(2, &flags, &active));
  cr_assert(eq(int, active, 1));
  cr_assert(eq(uint, flags, CU_CTX_SCHED_SPIN));
  succeeds(cuDevicePrimaryCtxRelease(2));
  succeeds(cuDevicePrimaryCtxRelease(2));
  succeeds(cuDevicePrimaryCtxGetState(2, &flags, &active));
  cr_assert(eq(int, active, 0));
  fails(cuDevicePrimaryCtxRelease(2), CUDA_ERROR_INVALID_CONTEXT);
}

Test(cuda_context, a_released_context_is_destroyed) {
  CUdeviceptr memory;
  succeeds(cuCtxSetCurrent(retain(0)));
  succeeds(cuMemAlloc(&memory, 100));
  succeeds(cuDevicePrimaryCtxRelease(0));
  fails(cuMemAlloc(&memory, 100), CUDA_ERROR_CONTEXT_IS_DESTROYED);
  fails(cuMemFree(memory), CUDA_ERROR_INVALID_VALUE);
  retain(0);
  succeeds(cuMemAlloc(&memory, 100));
}

Test(cuda_context, the_runtime_retains_what_the_driver_reset) {
  void *memory;
  succeeds(cudaSetDevice(4));
  succeeds(cuDevicePrimaryCtxReset(4));
  succeeds(cudaMalloc(&memory, 100));
  succeeds(cuDevicePrimaryCtxReset(4));
  succeeds(cudaSetDevice(4));
  succeeds(cudaMalloc(&memory, 100));
}

Test(cuda_context, contexts_are_a_stack_of_the_thread) {
  CUcontext first = retain(0), second = retain(1), popped;
  succeeds(cuCtxSetCurrent(first));
  succeeds(cuCtxPushCurrent(second));
  is_current(second);
  succeeds(cuCtxPopCurrent(&popped));
  cr_assert(eq(ptr, popped, second));
  is_current(first);
  succeeds(cuCtxSetCurrent(NULL));
  is_current(NULL);
  fails(cuCtxPopCurrent(&popped), CUDA_ERROR_INVALID_CONTEXT);
  fails(cuCtxPushCurrent((CUcontext)&popped), CUDA_ERROR_INVALID_CONTEXT);
}

Test(cuda_context, a_created_context_has_default_streams_of_its_own) {
  struct gate gate;
  succeeds(cudaSetDevice(0));
  gate_close(&gate, NULL);
  CUcontext made = create(0);
  is_current(made);
  succeeds(cuStreamQuery(NULL));
  succeeds(cuCtxSynchronize());
  succeeds(cuCtxDestroy(made));
  fails(cuStreamQuery(NULL), CUDA_ERROR_NOT_READY);
  fails(cuCtxSetCurrent(made), CUDA_ERROR_INVALID_CONTEXT);
  gate_open(&gate);
}

Test(cuda_context, streams_know_their_context) {
  CUcontext context = retain(6), seen;
  CUstream stream;
  succeeds(cuCtxSetCurrent(context));
  succeeds(cuStreamCreate(&stream, 0));
  succeeds(cuCtxSetCurrent(retain(1)));
  succeeds(cuStreamGetCtx(stream, &seen));
  cr_assert(eq(ptr, seen, context));
}

Test(cuda_context, entry_points_are_found_by_name_and_version) {
  CUdriverProcAddressQueryResult status;
  void *function;
  succeeds(cuGetProcAddress("cuMemAlloc", &function, 12000, CU_GET_PROC_ADDRESS_DEFAULT, &status));
  cr_assert(eq(ptr, function, dlsym(RTLD_DEFAULT, "cuMemAlloc_v2")));
  succeeds(cuGetProcAddress("cuStreamGetCaptureInfo", &function, 13000, 0, &status));
  cr_assert(eq(ptr, function, dlsym(RTLD_DEFAULT, "cuStreamGetCaptureInfo_v3")));
  succeeds(cuGetProcAddress("cuStreamGetCaptureInfo", &function, 12000, 0, &status));
  cr_assert(eq(ptr, function, dlsym(RTLD_DEFAULT, "cuStreamGetCaptureInfo_v2")));
  succeeds(cuGetProcAddress("cuStreamSynchronize", &function, 12000,
                            CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, &status));
  cr_assert(eq(ptr, function, dlsym(RTLD_DEFAULT, "cuStreamSynchronize_ptsz")));
  fails(cuGetProcAddress("cuTexRefCreate", &function, 12000, 0, &status), CUDA_ERROR_NOT_FOUND);
  cr_assert(eq(ptr, function, NULL));
  cr_assert(eq(int, status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND));
}

Test(cuda_context, the_runtime_finds_driver_entry_points) {
  enum cudaDriverEntryPointQueryResult status;
  void *function;
  succeeds(
      cudaGetDriverEntryPointByVersion("cuMemFree", &function, 12000, cudaEnableDefault, &status));
  cr_assert(eq(ptr, function, dlsym(RTLD_DEFAULT, "cuMemFree_v2")));
  cr_assert(eq(int, status, cudaDriverEntryPointSuccess));
  succeeds(
      cudaGetDriverEntryPointByVersion("cuNothing", &function, 12000, cudaEnableDefault, &status));
  cr_assert(eq(int, status, cudaDriverEntryPointSymbolNotFound));
}

Test(cuda_context, device_code_is_refused) {
  CUmodule module;
  succeeds(cudaSetDevice(0));
  fails(cuModuleLoadData(&module, ""), CUDA_ERROR_NOT_SUPPORTED);
  fails(cuLaunchKernel(NULL, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL), CUDA_ERROR_NOT_SUPPORTED);
  fails(cudaLaunchKernel("kernel", (dim3){1, 1, 1}, (dim3){1, 1, 1}, NULL, 0, NULL),
        cudaErrorNotSupported);
  fails(cudaGetLastError(), cudaErrorNotSupported);
}
