/* Driver API: user objects, and which graphs hold them. */
#include "tools/loopback/cuda/driver.h"
#include "tools/loopback/cuda/graph.h"
#include "tools/loopback/cuda/object.h"

CUresult CUDAAPI cuUserObjectCreate(CUuserObject *object, void *pointer, CUhostFn destroy,
                                    unsigned references, unsigned flags) {
  DRIVER_TRY(process_check());
  if (!object || !destroy || !references || flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC)
    return CUDA_ERROR_INVALID_VALUE;
  *object = object_create(pointer, destroy, references);
  return *object ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult CUDAAPI cuUserObjectRetain(CUuserObject object, unsigned references) {
  DRIVER_TRY(process_check());
  if (!object || !references)
    return CUDA_ERROR_INVALID_VALUE;
  object_retain(object, references);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuUserObjectRelease(CUuserObject object, unsigned references) {
  DRIVER_TRY(process_check());
  if (!object || !references)
    return CUDA_ERROR_INVALID_VALUE;
  object_release(object, references);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphRetainUserObject(CUgraph graph, CUuserObject object, unsigned references,
                                         unsigned flags) {
  DRIVER_TRY(process_check());
  DRIVER_TRY(graph_check(graph));
  if (!object || !references || flags & ~(unsigned)CU_GRAPH_USER_OBJECT_MOVE)
    return CUDA_ERROR_INVALID_VALUE;
  if (!objects_add(&graph->objects, object, references))
    return CUDA_ERROR_OUT_OF_MEMORY;
  if (!(flags & CU_GRAPH_USER_OBJECT_MOVE))
    object_retain(object, references);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphReleaseUserObject(CUgraph graph, CUuserObject object, unsigned references) {
  DRIVER_TRY(process_check());
  DRIVER_TRY(graph_check(graph));
  if (!object || !references || !objects_take_out(&graph->objects, object, references))
    return CUDA_ERROR_INVALID_VALUE;
  object_release(object, references);
  return CUDA_SUCCESS;
}
