/* Runtime API: what takes a stream. Compiled twice, see runtime.h. */
#include "tools/loopback/cudart/runtime.h"

#include <stdlib.h>

cudaError_t CUDARTAPI cudaStreamSynchronize(cudaStream_t stream) {
  RUNTIME_CALL(cuStreamSynchronize(stream));
}

cudaError_t CUDARTAPI cudaStreamQuery(cudaStream_t stream) {
  RUNTIME_CALL(cuStreamQuery(stream));
}

cudaError_t CUDARTAPI cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
  RUNTIME_CALL(cuStreamWaitEvent(stream, event, flags));
}

cudaError_t CUDARTAPI cudaStreamGetFlags(cudaStream_t stream, unsigned *flags) {
  RUNTIME_CALL(cuStreamGetFlags(stream, flags));
}

cudaError_t CUDARTAPI cudaStreamGetPriority(cudaStream_t stream, int *priority) {
  RUNTIME_CALL(cuStreamGetPriority(stream, priority));
}

cudaError_t CUDARTAPI cudaStreamGetId(cudaStream_t stream, unsigned long long *id) {
  RUNTIME_CALL(cuStreamGetId(stream, id));
}

#if CUDART_VERSION >= 12080
cudaError_t CUDARTAPI cudaStreamGetDevice(cudaStream_t stream, int *device) {
  CUcontext context;
  CUresult result = device ? runtime_enter() : CUDA_ERROR_INVALID_VALUE;
  if (result == CUDA_SUCCESS)
    result = cuStreamGetCtx(stream, &context);
  if (result == CUDA_SUCCESS)
    result = cuCtxPushCurrent(context);
  if (result == CUDA_SUCCESS) {
    result = cuCtxGetDevice(device);
    cuCtxPopCurrent(NULL);
  }
  return runtime_result(result);
}
#endif

cudaError_t CUDARTAPI cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function,
                                         void *argument) {
  RUNTIME_CALL(cuLaunchHostFunc(stream, function, argument));
}

/* The two interfaces name the status by different types. */
struct callback {
  cudaStreamCallback_t function;
  void *argument;
};

static void CUDA_CB call_back(CUstream stream, CUresult status, void *argument) {
  struct callback *callback = argument;
  callback->function(stream, (cudaError_t)status, callback->argument);
  free(callback);
}

cudaError_t CUDARTAPI cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t function,
                                            void *argument, unsigned flags) {
  CUresult result = function ? runtime_enter() : CUDA_ERROR_INVALID_VALUE;
  if (result != CUDA_SUCCESS)
    return runtime_result(result);
  struct callback *callback = malloc(sizeof *callback);
  if (!callback)
    return runtime_result(CUDA_ERROR_OUT_OF_MEMORY);
  *callback = (struct callback){function, argument};
  result = cuStreamAddCallback(stream, call_back, callback, flags);
  if (result != CUDA_SUCCESS)
    free(callback);
  return runtime_result(result);
}

cudaError_t CUDARTAPI cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  RUNTIME_CALL(cuEventRecord(event, stream));
}

cudaError_t CUDARTAPI cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream,
                                               unsigned flags) {
  RUNTIME_CALL(cuEventRecordWithFlags(event, stream, flags));
}

cudaError_t CUDARTAPI cudaMallocAsync(void **address, size_t size, cudaStream_t stream) {
  CUdeviceptr allocated = 0;
  CUresult result = address ? runtime_enter() : CUDA_ERROR_INVALID_VALUE;
  if (result == CUDA_SUCCESS && size)
    result = cuMemAllocAsync(&allocated, size, stream);
  if (result == CUDA_SUCCESS)
    *address = runtime_address(allocated);
  return runtime_result(result);
}

cudaError_t CUDARTAPI cudaFreeAsync(void *address, cudaStream_t stream) {
  RUNTIME_CALL(cuMemFreeAsync((CUdeviceptr)address, stream));
}

cudaError_t CUDARTAPI cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode) {
  RUNTIME_CALL(cuStreamBeginCapture(stream, (CUstreamCaptureMode)mode));
}

cudaError_t CUDARTAPI cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph) {
  RUNTIME_CALL(cuStreamEndCapture(stream, graph));
}

cudaError_t CUDARTAPI cudaStreamIsCapturing(cudaStream_t stream,
                                            enum cudaStreamCaptureStatus *status) {
  CUstreamCaptureStatus seen;
  CUresult result = status ? runtime_enter() : CUDA_ERROR_INVALID_VALUE;
  if (result == CUDA_SUCCESS)
    result = cuStreamIsCapturing(stream, &seen);
  if (result == CUDA_SUCCESS)
    *status = (enum cudaStreamCaptureStatus)seen;
  return runtime_result(result);
}

/* The form with edges; until 13 that is not the one behind the plain name. */
#if CUDART_VERSION >= 13000
#define DRIVER_CAPTURE_INFO cuStreamGetCaptureInfo
#else
#define DRIVER_CAPTURE_INFO cuStreamGetCaptureInfo_v3
#endif

static cudaError_t capture_info(cudaStream_t stream, enum cudaStreamCaptureStatus *status,
                                unsigned long long *id, cudaGraph_t *graph,
                                const cudaGraphNode_t **dependencies,
                                const cudaGraphEdgeData **edges, size_t *count) {
  CUstreamCaptureStatus seen;
  cuuint64_t seen_id;
  CUresult result = status ? runtime_enter() : CUDA_ERROR_INVALID_VALUE;
  if (result == CUDA_SUCCESS)
    result = DRIVER_CAPTURE_INFO(stream, &seen, &seen_id, graph, dependencies, NULL, count);
  if (result != CUDA_SUCCESS)
    return runtime_result(result);
  *status = (enum cudaStreamCaptureStatus)seen;
  if (id)
    *id = seen_id;
  if (edges)
    *edges = NULL; /* all edges are plain ones */
  return cudaSuccess;
}

#if CUDART_VERSION >= 13000
cudaError_t CUDARTAPI cudaStreamGetCaptureInfo(cudaStream_t stream,
                                               enum cudaStreamCaptureStatus *status,
                                               unsigned long long *id, cudaGraph_t *graph,
                                               const cudaGraphNode_t **dependencies,
                                               const cudaGraphEdgeData **edges, size_t *count) {
  return capture_info(stream, status, id, graph, dependencies, edges, count);
}
#else
/* The header makes this cudaStreamGetCaptureInfo_v2. */
cudaError_t CUDARTAPI cudaStreamGetCaptureInfo(cudaStream_t stream,
                                               enum cudaStreamCaptureStatus *status,
                                               unsigned long long *id, cudaGraph_t *graph,
                                               const cudaGraphNode_t **dependencies,
                                               size_t *count) {
  return capture_info(stream, status, id, graph, dependencies, NULL, count);
}

cudaError_t CUDARTAPI cudaStreamGetCaptureInfo_v3(cudaStream_t stream,
                                                  enum cudaStreamCaptureStatus *status,
                                                  unsigned long long *id, cudaGraph_t *graph,
                                                  const cudaGraphNode_t **dependencies,
                                                  const cudaGraphEdgeData **edges, size_t *count) {
  return capture_info(stream, status, id, graph, dependencies, edges, count);
}
#endif

#if CUDART_VERSION >= 13000
#define DRIVER_UPDATE_DEPENDENCIES cuStreamUpdateCaptureDependencies
cudaError_t CUDARTAPI cudaStreamUpdateCaptureDependencies(cudaStream_t stream,
                                                          cudaGraphNode_t *dependencies,
                                                          const cudaGraphEdgeData *edges,
                                                          size_t count, unsigned flags) {
  if (edges)
    return runtime_unsupported("cudaStreamUpdateCaptureDependencies with data of edges");
  RUNTIME_CALL(DRIVER_UPDATE_DEPENDENCIES(stream, dependencies, NULL, count, flags));
}
#else
#define DRIVER_UPDATE_DEPENDENCIES cuStreamUpdateCaptureDependencies_v2
cudaError_t CUDARTAPI cudaStreamUpdateCaptureDependencies(cudaStream_t stream,
                                                          cudaGraphNode_t *dependencies,
                                                          size_t count, unsigned flags) {
  RUNTIME_CALL(DRIVER_UPDATE_DEPENDENCIES(stream, dependencies, NULL, count, flags));
}

cudaError_t CUDARTAPI cudaStreamUpdateCaptureDependencies_v2(cudaStream_t stream,
                                                             cudaGraphNode_t *dependencies,
                                                             const cudaGraphEdgeData *edges,
                                                             size_t count, unsigned flags) {
  if (edges)
    return runtime_unsupported("cudaStreamUpdateCaptureDependencies_v2 with data of edges");
  RUNTIME_CALL(DRIVER_UPDATE_DEPENDENCIES(stream, dependencies, NULL, count, flags));
}
#endif

cudaError_t CUDARTAPI cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  RUNTIME_CALL(cuGraphLaunch(exec, stream));
}

cudaError_t CUDARTAPI cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t stream) {
  RUNTIME_CALL(cuGraphUpload(exec, stream));
}
