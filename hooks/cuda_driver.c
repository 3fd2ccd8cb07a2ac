/* Fills the driver table once for the process. dlsym here may be nccl-join's own stub: it passes
 * everything on that is not a name of NCCL's.
 */
#include "hooks/cuda_driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define LIBRARY "libcuda.so.1"

/* Written once under `once`, read-only afterwards. */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct cuda_driver table;
static bool usable;
static char why_not[REASON_SIZE];

static const struct {
  const char *name;
  size_t offset;
  bool optional;
} functions[] = {
#define FUNCTION(member, symbol)                                                                   \
  { symbol, offsetof(struct cuda_driver, member), false }
    FUNCTION(DeviceGet, "cuDeviceGet"),
    FUNCTION(DevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain"),
    FUNCTION(DevicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease_v2"),
    FUNCTION(CtxPushCurrent, "cuCtxPushCurrent_v2"),
    FUNCTION(CtxPopCurrent, "cuCtxPopCurrent_v2"),
    FUNCTION(CtxGetDevice, "cuCtxGetDevice"),
    FUNCTION(CtxSynchronize, "cuCtxSynchronize"),
    FUNCTION(PointerGetAttribute, "cuPointerGetAttribute"),
    FUNCTION(CtxGetStreamPriorityRange, "cuCtxGetStreamPriorityRange"),
    FUNCTION(StreamCreateWithPriority, "cuStreamCreateWithPriority"),
    FUNCTION(StreamDestroy, "cuStreamDestroy_v2"),
    FUNCTION(StreamQuery, "cuStreamQuery"),
    FUNCTION(EventCreate, "cuEventCreate"),
    FUNCTION(EventDestroy, "cuEventDestroy_v2"),
    FUNCTION(EventRecord, "cuEventRecord"),
    FUNCTION(EventQuery, "cuEventQuery"),
    FUNCTION(MemAlloc, "cuMemAlloc_v2"),
    FUNCTION(MemFree, "cuMemFree_v2"),
    FUNCTION(MemsetD32Async, "cuMemsetD32Async"),
    FUNCTION(MemcpyDtoDAsync, "cuMemcpyDtoDAsync_v2"),
    FUNCTION(StreamWaitEvent, "cuStreamWaitEvent"),
    FUNCTION(GetErrorName, "cuGetErrorName"),
#undef FUNCTION
#define OPTIONAL(member, symbol)                                                                   \
  { symbol, offsetof(struct cuda_driver, member), true }
    OPTIONAL(ThreadExchangeStreamCaptureMode, "cuThreadExchangeStreamCaptureMode"),
    OPTIONAL(StreamIsCapturing, "cuStreamIsCapturing"),
    OPTIONAL(MemGetAllocationGranularity, "cuMemGetAllocationGranularity"),
    OPTIONAL(MemCreate, "cuMemCreate"),
    OPTIONAL(MemRelease, "cuMemRelease"),
    OPTIONAL(MemAddressReserve, "cuMemAddressReserve"),
    OPTIONAL(MemAddressFree, "cuMemAddressFree"),
    OPTIONAL(MemMap, "cuMemMap"),
    OPTIONAL(MemUnmap, "cuMemUnmap"),
    OPTIONAL(MemSetAccess, "cuMemSetAccess"),
    OPTIONAL(MemRetainAllocationHandle, "cuMemRetainAllocationHandle"),
    OPTIONAL(MemGetAllocationPropertiesFromHandle, "cuMemGetAllocationPropertiesFromHandle"),
#undef OPTIONAL
};
_Static_assert(sizeof functions / sizeof *functions == sizeof(struct cuda_driver) / sizeof(void *),
               "a name for every member of the table");

static void fill_table(void) {
  void *library = dlopen(LIBRARY, RTLD_LAZY | RTLD_NOLOAD);
  if (library == NULL)
    library = dlopen(LIBRARY, RTLD_LAZY);
  if (library == NULL) {
    const char *error = dlerror();
    (void)snprintf(why_not, sizeof why_not, "cannot open the CUDA driver: %s",
                   error != NULL ? error : LIBRARY);
    return;
  }
  for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
    void *address = dlsym(library, functions[i].name);
    if (address == NULL && !functions[i].optional) {
      (void)snprintf(why_not, sizeof why_not, "the CUDA driver (" LIBRARY ") has no %s",
                     functions[i].name);
      (void)dlclose(library);
      return;
    }
    memcpy((char *)&table + functions[i].offset, &address, sizeof address);
  }
  usable = true;
}

const struct cuda_driver *cuda_driver_get(char *reason) {
  (void)pthread_once(&once, fill_table);
  if (usable)
    return &table;
  if (reason != NULL)
    (void)snprintf(reason, REASON_SIZE, "%s", why_not);
  return NULL;
}

const char *cuda_driver_error(const struct cuda_driver *cuda, CUresult error, char *text) {
  const char *name = NULL;
  if (cuda->GetErrorName(error, &name) == CUDA_SUCCESS && name != NULL)
    return name;
  (void)snprintf(text, CUDA_ERROR_TEXT, "CUDA error %d", (int)error);
  return text;
}
