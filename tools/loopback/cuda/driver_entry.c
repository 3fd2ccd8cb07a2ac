/* Driver API: entry points by name and version, and modules. */
#include "tools/loopback/cuda/driver.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

/* The name a header of some CUDA version gives a function: the first row whose version is not
 * above the one asked for. Functions that are not here are X_v2 if there is one, else X: those
 * suffixes are older than any supported program. */
static const struct {
  const char *name;
  int since;
  const char *symbol; /* NULL: that version of it is not offered */
} versions[] = {
    {"cuCtxCreate", 13000, "cuCtxCreate_v4"},
    {"cuCtxCreate", 11040, NULL},
    {"cuCtxCreate", 0, "cuCtxCreate_v2"},
    {"cuStreamGetCaptureInfo", 12030, "cuStreamGetCaptureInfo_v3"},
    {"cuStreamGetCaptureInfo", 11030, "cuStreamGetCaptureInfo_v2"},
    {"cuStreamGetCaptureInfo", 0, NULL},
    {"cuStreamUpdateCaptureDependencies", 12030, "cuStreamUpdateCaptureDependencies_v2"},
    {"cuStreamUpdateCaptureDependencies", 0, NULL},
    {"cuGetProcAddress", 12000, "cuGetProcAddress_v2"},
    {"cuGetProcAddress", 0, "cuGetProcAddress"},
    {"cuGraphInstantiate", 12000, "cuGraphInstantiateWithFlags"},
    {"cuGraphInstantiate", 0, NULL},
    {"cuGraphGetEdges", 12030, "cuGraphGetEdges_v2"},
    {"cuGraphGetEdges", 0, NULL},
    {"cuEventElapsedTime", 12080, "cuEventElapsedTime_v2"},
    {"cuEventElapsedTime", 0, "cuEventElapsedTime"},
};

static void *find(void *library, const char *name, const char *suffix, bool per_thread) {
  static const char *const defaults[] = {"_ptsz", "_ptds", ""};
  for (size_t i = per_thread ? 0 : 2; i < 3; i++) {
    char symbol[128];
    snprintf(symbol, sizeof symbol, "%s%s%s", name, suffix, defaults[i]);
    void *found = dlsym(library, symbol);
    if (found)
      return found;
  }
  return NULL;
}

static void *look_up(void *library, const char *name, int version, bool per_thread) {
  for (size_t i = 0; i < sizeof versions / sizeof *versions; i++)
    if (strcmp(versions[i].name, name) == 0 && version >= versions[i].since)
      return versions[i].symbol ? find(library, versions[i].symbol, "", per_thread) : NULL;
  void *second = find(library, name, "_v2", per_thread);
  return second ? second : find(library, name, "", per_thread);
}

/* This library, however it was loaded. */
static void *open_self(void) {
  Dl_info self;
  if (!dladdr((void *)versions, &self))
    return NULL;
  return dlopen(self.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
}

CUresult CUDAAPI cuGetProcAddress(const char *name, void **function, int version, cuuint64_t flags,
                                  CUdriverProcAddressQueryResult *status) {
  if (!name || !function ||
      (flags & CU_GET_PROC_ADDRESS_LEGACY_STREAM &&
       flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM))
    return CUDA_ERROR_INVALID_VALUE;
  void *library = open_self();
  *function = library ? look_up(library, name, version,
                                flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM)
                      : NULL;
  if (library)
    dlclose(library);
  if (status)
    *status = *function ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  return *function ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

CUresult CUDAAPI cuModuleLoad(CUmodule *module, const char *file) {
  (void)module, (void)file;
  DRIVER_TRY(process_check());
  return process_unsupported("cuModuleLoad: device code");
}

CUresult CUDAAPI cuModuleLoadData(CUmodule *module, const void *image) {
  (void)module, (void)image;
  DRIVER_TRY(process_check());
  return process_unsupported("cuModuleLoadData: device code");
}
