/* Runtime API: devices, versions and error names. */
#include <string.h>

#include "tools/loopback/cudart/runtime.h"

static const struct {
  cudaError_t code;
  const char *name;
} names[] = {
#include "runtime_errors.inc"
};

const char *CUDARTAPI cudaGetErrorName(cudaError_t error) {
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (names[i].code == error)
      return names[i].name;
  return "unrecognized error code";
}

const char *CUDARTAPI cudaGetErrorString(cudaError_t error) {
  const char *text;
  if (cuGetErrorString((CUresult)error, &text) == CUDA_SUCCESS)
    return text;
  return cudaGetErrorName(error);
}

cudaError_t CUDARTAPI cudaRuntimeGetVersion(int *version) {
  if (!version)
    return runtime_result(CUDA_ERROR_INVALID_VALUE);
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t CUDARTAPI cudaDriverGetVersion(int *version) {
  return runtime_result(cuDriverGetVersion(version));
}

cudaError_t CUDARTAPI cudaGetDeviceCount(int *count) {
  CUresult result = cuInit(0);
  if (count)
    *count = 0;
  return runtime_result(result == CUDA_SUCCESS ? cuDeviceGetCount(count) : result);
}

cudaError_t CUDARTAPI cudaSetDevice(int device) {
  return runtime_result(runtime_set_device(device));
}

cudaError_t CUDARTAPI cudaGetDevice(int *device) {
  return runtime_result(device ? runtime_get_device(device) : CUDA_ERROR_INVALID_VALUE);
}

cudaError_t CUDARTAPI cudaInitDevice(int device, unsigned device_flags, unsigned flags) {
  CUcontext context;
  if (device_flags || flags)
    return runtime_unsupported("cudaInitDevice with flags");
  return runtime_result(runtime_primary(device, &context));
}

cudaError_t CUDARTAPI cudaDeviceReset(void) {
  return runtime_result(runtime_reset_device());
}

cudaError_t CUDARTAPI cudaDeviceSynchronize(void) {
  RUNTIME_CALL(cuCtxSynchronize());
}

cudaError_t CUDARTAPI cudaSetDeviceFlags(unsigned flags) {
  int device;
  CUresult result = runtime_get_device(&device);
  /* cudaDeviceMapHost is always on: with unified addressing all pinned memory is mapped. */
  unsigned known = cudaDeviceMask & ~(unsigned)cudaDeviceMapHost;
  if (result == CUDA_SUCCESS)
    result = flags & ~(unsigned)cudaDeviceMask ? CUDA_ERROR_INVALID_VALUE
                                               : cuDevicePrimaryCtxSetFlags(device, flags & known);
  return runtime_result(result);
}

cudaError_t CUDARTAPI cudaGetDeviceFlags(unsigned *flags) {
  int device, active;
  CUresult result = flags ? runtime_get_device(&device) : CUDA_ERROR_INVALID_VALUE;
  if (result == CUDA_SUCCESS)
    result = cuDevicePrimaryCtxGetState(device, flags, &active);
  if (result == CUDA_SUCCESS)
    *flags |= cudaDeviceMapHost;
  return runtime_result(result);
}

/* For questions that need no context. */
#define READY_CALL(call)                                                                           \
  do {                                                                                             \
    CUresult is_ready = cuInit(0);                                                                 \
    return runtime_result(is_ready == CUDA_SUCCESS ? (call) : is_ready);                           \
  } while (0)

cudaError_t CUDARTAPI cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute,
                                             int device) {
  READY_CALL(cuDeviceGetAttribute(value, (CUdevice_attribute)attribute, device));
}

cudaError_t CUDARTAPI cudaDeviceGetPCIBusId(char *id, int length, int device) {
  READY_CALL(cuDeviceGetPCIBusId(id, length, device));
}

cudaError_t CUDARTAPI cudaDeviceGetByPCIBusId(int *device, const char *id) {
  READY_CALL(cuDeviceGetByPCIBusId(device, id));
}

cudaError_t CUDARTAPI cudaDeviceCanAccessPeer(int *can, int device, int peer) {
  READY_CALL(cuDeviceCanAccessPeer(can, device, peer));
}

cudaError_t CUDARTAPI cudaDeviceGetP2PAttribute(int *value, enum cudaDeviceP2PAttr attribute,
                                                int from, int to) {
  READY_CALL(cuDeviceGetP2PAttribute(value, (CUdevice_P2PAttribute)attribute, from, to));
}

cudaError_t CUDARTAPI cudaDeviceGetStreamPriorityRange(int *lowest, int *highest) {
  RUNTIME_CALL(cuCtxGetStreamPriorityRange(lowest, highest));
}

static CUresult with_peer(int peer, CUresult (*act)(CUcontext peer)) {
  CUcontext context;
  CUresult result = runtime_enter();
  if (result == CUDA_SUCCESS)
    result = runtime_primary(peer, &context);
  return result == CUDA_SUCCESS ? act(context) : result;
}

static CUresult enable(CUcontext peer) {
  return cuCtxEnablePeerAccess(peer, 0);
}

cudaError_t CUDARTAPI cudaDeviceEnablePeerAccess(int peer, unsigned flags) {
  return runtime_result(flags ? CUDA_ERROR_INVALID_VALUE : with_peer(peer, enable));
}

cudaError_t CUDARTAPI cudaDeviceDisablePeerAccess(int peer) {
  return runtime_result(with_peer(peer, cuCtxDisablePeerAccess));
}

static int attribute(CUdevice_attribute which, int device) {
  int value = 0;
  cuDeviceGetAttribute(&value, which, device);
  return value;
}

/* The fields that both headers have and that the loopback knows; others are 0. */
cudaError_t CUDARTAPI cudaGetDeviceProperties(struct cudaDeviceProp *properties, int device) {
  size_t total;
  CUresult result = properties ? cuInit(0) : CUDA_ERROR_INVALID_VALUE;
  if (result == CUDA_SUCCESS)
    result = cuDeviceTotalMem(&total, device);
  if (result != CUDA_SUCCESS)
    return runtime_result(result);
  memset(properties, 0, sizeof *properties);
  cuDeviceGetName(properties->name, sizeof properties->name, device);
  cuDeviceGetUuid((CUuuid *)&properties->uuid, device);
  properties->totalGlobalMem = total;
  properties->sharedMemPerBlock =
      (size_t)attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, device);
  properties->sharedMemPerBlockOptin =
      (size_t)attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, device);
  properties->sharedMemPerMultiprocessor =
      (size_t)attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, device);
  properties->regsPerBlock = attribute(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, device);
  properties->regsPerMultiprocessor =
      attribute(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR, device);
  properties->warpSize = attribute(CU_DEVICE_ATTRIBUTE_WARP_SIZE, device);
  properties->memPitch = (size_t)attribute(CU_DEVICE_ATTRIBUTE_MAX_PITCH, device);
  properties->maxThreadsPerBlock = attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, device);
  properties->maxThreadsPerMultiProcessor =
      attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, device);
  for (int i = 0; i < 3; i++) {
    properties->maxThreadsDim[i] =
        attribute((CUdevice_attribute)(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X + i), device);
    properties->maxGridSize[i] =
        attribute((CUdevice_attribute)(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X + i), device);
  }
  properties->totalConstMem = (size_t)attribute(CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY, device);
  properties->major = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device);
  properties->minor = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);
  properties->multiProcessorCount = attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device);
  properties->l2CacheSize = attribute(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, device);
  properties->memoryBusWidth = attribute(CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, device);
  properties->pciBusID = attribute(CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, device);
  properties->asyncEngineCount = attribute(CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, device);
  properties->canMapHostMemory = 1;
  properties->concurrentKernels = 1;
  properties->unifiedAddressing = 1;
  properties->managedMemory = 1;
  properties->concurrentManagedAccess = 1;
  properties->streamPrioritiesSupported = 1;
  properties->hostRegisterSupported = 1;
  return cudaSuccess;
}

/* Tries the name as the driver of that version would give it. */
static cudaError_t entry_point(const char *symbol, void **function, int version,
                               unsigned long long flags,
                               enum cudaDriverEntryPointQueryResult *status) {
  CUdriverProcAddressQueryResult found;
  CUresult result = cuGetProcAddress(symbol, function, version, flags, &found);
  if (result == CUDA_ERROR_NOT_FOUND && status) {
    *status = (enum cudaDriverEntryPointQueryResult)found;
    return cudaSuccess;
  }
  if (status && result == CUDA_SUCCESS)
    *status = cudaDriverEntryPointSuccess;
  return runtime_result(result);
}

cudaError_t CUDARTAPI cudaGetDriverEntryPoint(const char *symbol, void **function,
                                              unsigned long long flags,
                                              enum cudaDriverEntryPointQueryResult *status) {
  return entry_point(symbol, function, CUDART_VERSION, flags, status);
}

cudaError_t CUDARTAPI cudaGetDriverEntryPointByVersion(
    const char *symbol, void **function, unsigned version, unsigned long long flags,
    enum cudaDriverEntryPointQueryResult *status) {
  return entry_point(symbol, function, (int)version, flags, status);
}
