/* Driver API: streams and events where no default stream is meant, and graphs. */
#include "tools/loopback/cuda/driver.h"

#include <string.h>

#include "tools/loopback/cuda/event.h"
#include "tools/loopback/cuda/graph.h"
#include "tools/loopback/cuda/stream.h"

static int clamp(int priority) {
  if (priority > STREAM_PRIORITY_LOWEST)
    return STREAM_PRIORITY_LOWEST;
  return priority < STREAM_PRIORITY_HIGHEST ? STREAM_PRIORITY_HIGHEST : priority;
}

CUresult CUDAAPI cuStreamCreateWithPriority(CUstream *stream, unsigned flags, int priority) {
  CUcontext context;
  DRIVER_TRY(driver_enter(&context));
  if (!stream || flags & ~(unsigned)CU_STREAM_NON_BLOCKING)
    return CUDA_ERROR_INVALID_VALUE;
  return stream_create(context, flags, clamp(priority), stream);
}

CUresult CUDAAPI cuStreamCreate(CUstream *stream, unsigned flags) {
  return cuStreamCreateWithPriority(stream, flags, STREAM_PRIORITY_LOWEST);
}

CUresult CUDAAPI cuStreamDestroy(CUstream stream) {
  DRIVER_TRY(process_check());
  return stream_destroy(stream);
}

CUresult CUDAAPI cuEventCreate(CUevent *event, unsigned flags) {
  CUcontext context;
  unsigned known = CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING;
  DRIVER_TRY(driver_enter(&context));
  if (flags & CU_EVENT_INTERPROCESS)
    return process_unsupported("CU_EVENT_INTERPROCESS");
  if (!event || flags & ~known)
    return CUDA_ERROR_INVALID_VALUE;
  return event_create(context, flags, event);
}

CUresult CUDAAPI cuEventDestroy(CUevent event) {
  DRIVER_TRY(process_check());
  return event_destroy(event);
}

CUresult CUDAAPI cuEventQuery(CUevent event) {
  DRIVER_TRY(process_check());
  return event_query(event);
}

CUresult CUDAAPI cuEventSynchronize(CUevent event) {
  DRIVER_TRY(process_check());
  return event_synchronise(event);
}

CUresult CUDAAPI cuEventElapsedTime(float *milliseconds, CUevent from, CUevent to) {
  DRIVER_TRY(process_check());
  return milliseconds ? event_elapsed(from, to, milliseconds) : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuGraphCreate(CUgraph *graph, unsigned flags) {
  DRIVER_TRY(process_check());
  return graph && !flags ? graph_create(graph) : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuGraphDestroy(CUgraph graph) {
  DRIVER_TRY(process_check());
  return graph_destroy(graph);
}

/* "If nodes is NULL, this function will return the number of nodes": cuGraphGetNodes. */
CUresult CUDAAPI cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *count) {
  DRIVER_TRY(process_check());
  DRIVER_TRY(graph_check(graph));
  if (!count)
    return CUDA_ERROR_INVALID_VALUE;
  size_t asked = nodes ? *count : 0;
  for (size_t i = 0; i < asked; i++)
    nodes[i] = i < graph->count ? graph->nodes[i] : NULL;
  if (!nodes || *count > graph->count)
    *count = graph->count;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphGetEdges(CUgraph graph, CUgraphNode *from, CUgraphNode *to,
                                 CUgraphEdgeData *edges, size_t *count) {
  DRIVER_TRY(process_check());
  DRIVER_TRY(graph_check(graph));
  if (!count || !from != !to)
    return CUDA_ERROR_INVALID_VALUE;
  size_t known = 0;
  for (size_t i = 0; i < graph->count; i++)
    for (size_t j = 0; j < graph->nodes[i]->ndependencies; j++, known++)
      if (from && known < *count) {
        from[known] = graph->nodes[i]->dependencies[j];
        to[known] = graph->nodes[i];
        if (edges)
          memset(&edges[known], 0, sizeof edges[known]);
      }
  for (size_t i = known; from && i < *count; i++)
    from[i] = to[i] = NULL;
  if (!from || *count > known)
    *count = known;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType *type) {
  DRIVER_TRY(process_check());
  if (!node || !type)
    return CUDA_ERROR_INVALID_VALUE;
  *type = node->work.kind == WORK_COPY            ? CU_GRAPH_NODE_TYPE_MEMCPY
          : node->work.kind == WORK_FILL          ? CU_GRAPH_NODE_TYPE_MEMSET
          : node->work.kind == WORK_HOST_FUNCTION ? CU_GRAPH_NODE_TYPE_HOST
                                                  : CU_GRAPH_NODE_TYPE_EMPTY;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphInstantiate(CUgraphExec *exec, CUgraph graph, unsigned long long flags) {
  DRIVER_TRY(process_check());
  DRIVER_TRY(graph_check(graph));
  /* No graph here has nodes that allocate, and none of its nodes a priority. */
  if (flags & ~(unsigned long long)(CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH |
                                    CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY))
    return process_unsupported("cuGraphInstantiate with these flags");
  return exec ? graph_instantiate(graph, exec) : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuGraphExecDestroy(CUgraphExec exec) {
  DRIVER_TRY(process_check());
  return graph_exec_destroy(exec);
}
