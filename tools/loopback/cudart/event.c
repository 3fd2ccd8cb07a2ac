/* Runtime API: streams and events where no default stream is meant, and graphs. */
#include "tools/loopback/cudart/runtime.h"

cudaError_t CUDARTAPI cudaStreamCreate(cudaStream_t *stream) {
  RUNTIME_CALL(cuStreamCreate(stream, CU_STREAM_DEFAULT));
}

cudaError_t CUDARTAPI cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags) {
  RUNTIME_CALL(cuStreamCreate(stream, flags));
}

cudaError_t CUDARTAPI cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags,
                                                   int priority) {
  RUNTIME_CALL(cuStreamCreateWithPriority(stream, flags, priority));
}

cudaError_t CUDARTAPI cudaStreamDestroy(cudaStream_t stream) {
  RUNTIME_CALL(cuStreamDestroy(stream));
}

cudaError_t CUDARTAPI cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode) {
  CUstreamCaptureMode exchanged;
  CUresult result = mode ? runtime_enter() : CUDA_ERROR_INVALID_VALUE;
  if (result != CUDA_SUCCESS)
    return runtime_result(result);
  exchanged = (CUstreamCaptureMode)*mode;
  result = cuThreadExchangeStreamCaptureMode(&exchanged);
  if (result == CUDA_SUCCESS)
    *mode = (enum cudaStreamCaptureMode)exchanged;
  return runtime_result(result);
}

cudaError_t CUDARTAPI cudaEventCreate(cudaEvent_t *event) {
  RUNTIME_CALL(cuEventCreate(event, CU_EVENT_DEFAULT));
}

cudaError_t CUDARTAPI cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags) {
  RUNTIME_CALL(cuEventCreate(event, flags));
}

cudaError_t CUDARTAPI cudaEventDestroy(cudaEvent_t event) {
  RUNTIME_CALL(cuEventDestroy(event));
}

cudaError_t CUDARTAPI cudaEventQuery(cudaEvent_t event) {
  RUNTIME_CALL(cuEventQuery(event));
}

cudaError_t CUDARTAPI cudaEventSynchronize(cudaEvent_t event) {
  RUNTIME_CALL(cuEventSynchronize(event));
}

cudaError_t CUDARTAPI cudaEventElapsedTime(float *milliseconds, cudaEvent_t from, cudaEvent_t to) {
  RUNTIME_CALL(cuEventElapsedTime(milliseconds, from, to));
}

cudaError_t CUDARTAPI cudaGraphCreate(cudaGraph_t *graph, unsigned flags) {
  RUNTIME_CALL(cuGraphCreate(graph, flags));
}

cudaError_t CUDARTAPI cudaGraphDestroy(cudaGraph_t graph) {
  RUNTIME_CALL(cuGraphDestroy(graph));
}

cudaError_t CUDARTAPI cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *count) {
  RUNTIME_CALL(cuGraphGetNodes(graph, nodes, count));
}

cudaError_t CUDARTAPI cudaGraphNodeGetType(cudaGraphNode_t node, enum cudaGraphNodeType *type) {
  CUgraphNodeType found;
  CUresult result = type ? runtime_enter() : CUDA_ERROR_INVALID_VALUE;
  if (result == CUDA_SUCCESS)
    result = cuGraphNodeGetType(node, &found);
  if (result == CUDA_SUCCESS)
    *type = (enum cudaGraphNodeType)found;
  return runtime_result(result);
}

cudaError_t CUDARTAPI cudaUserObjectCreate(cudaUserObject_t *object, void *pointer,
                                           cudaHostFn_t destroy, unsigned references,
                                           unsigned flags) {
  RUNTIME_CALL(cuUserObjectCreate(object, pointer, destroy, references, flags));
}

cudaError_t CUDARTAPI cudaUserObjectRetain(cudaUserObject_t object, unsigned references) {
  RUNTIME_CALL(cuUserObjectRetain(object, references));
}

cudaError_t CUDARTAPI cudaUserObjectRelease(cudaUserObject_t object, unsigned references) {
  RUNTIME_CALL(cuUserObjectRelease(object, references));
}

cudaError_t CUDARTAPI cudaGraphRetainUserObject(cudaGraph_t graph, cudaUserObject_t object,
                                                unsigned references, unsigned flags) {
  RUNTIME_CALL(cuGraphRetainUserObject(graph, object, references, flags));
}

cudaError_t CUDARTAPI cudaGraphReleaseUserObject(cudaGraph_t graph, cudaUserObject_t object,
                                                 unsigned references) {
  RUNTIME_CALL(cuGraphReleaseUserObject(graph, object, references));
}

cudaError_t CUDARTAPI cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph,
                                           unsigned long long flags) {
  RUNTIME_CALL(cuGraphInstantiate(exec, graph, flags));
}

cudaError_t CUDARTAPI cudaGraphInstantiateWithFlags(cudaGraphExec_t *exec, cudaGraph_t graph,
                                                    unsigned long long flags) {
  RUNTIME_CALL(cuGraphInstantiate(exec, graph, flags));
}

cudaError_t CUDARTAPI cudaGraphExecDestroy(cudaGraphExec_t exec) {
  RUNTIME_CALL(cuGraphExecDestroy(exec));
}
