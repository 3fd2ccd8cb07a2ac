/* Driver API: names that headers before CUDA 13 give to functions, for programs built against
 * those. __CUDA_API_VERSION_INTERNAL makes cuda.h declare them, and declare nothing by its newest
 * name alone. */
#define __CUDA_API_VERSION_INTERNAL
#include "tools/loopback/cuda/driver.h"

CUresult CUDAAPI cuCtxCreate_v2(CUcontext *context, unsigned flags, CUdevice device) {
  return cuCtxCreate_v4(context, NULL, flags, device);
}

CUresult CUDAAPI cuDeviceGetUuid(CUuuid *uuid, CUdevice device) {
  return cuDeviceGetUuid_v2(uuid, device);
}

CUresult CUDAAPI cuEventElapsedTime(float *milliseconds, CUevent from, CUevent to) {
  return cuEventElapsedTime_v2(milliseconds, from, to);
}

CUresult CUDAAPI cuStreamGetCaptureInfo_v2(CUstream stream, CUstreamCaptureStatus *status,
                                           cuuint64_t *id, CUgraph *graph,
                                           const CUgraphNode **dependencies, size_t *count) {
  return cuStreamGetCaptureInfo_v3(stream, status, id, graph, dependencies, NULL, count);
}

CUresult CUDAAPI cuStreamGetCaptureInfo_v2_ptsz(CUstream stream, CUstreamCaptureStatus *status,
                                                cuuint64_t *id, CUgraph *graph,
                                                const CUgraphNode **dependencies, size_t *count) {
  return cuStreamGetCaptureInfo_v2(stream ? stream : CU_STREAM_PER_THREAD, status, id, graph,
                                   dependencies, count);
}

CUresult CUDAAPI cuGetProcAddress(const char *name, void **function, int version,
                                  cuuint64_t flags) {
  return cuGetProcAddress_v2(name, function, version, flags, NULL);
}
