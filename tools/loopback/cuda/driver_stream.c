/* Driver API: what takes a stream. Compiled twice, see driver.h. */
#include "tools/loopback/cuda/driver.h"

#include "tools/loopback/cuda/capture.h"
#include "tools/loopback/cuda/event.h"
#include "tools/loopback/cuda/graph.h"
#include "tools/loopback/cuda/memory.h"
#include "tools/loopback/cuda/stream.h"

/* Copies what a question about a stream wants to know. */
static CUresult look(CUstream handle, struct CUstream_st *seen) {
  CUstream stream;
  DRIVER_TRY(process_check());
  stream_lock();
  CUresult result = stream_find(driver_stream(handle), &stream);
  if (result == CUDA_SUCCESS)
    *seen = *stream;
  stream_unlock();
  return result;
}

CUresult CUDAAPI cuStreamSynchronize(CUstream stream) {
  DRIVER_TRY(process_check());
  return stream_synchronise(driver_stream(stream));
}

CUresult CUDAAPI cuStreamQuery(CUstream stream) {
  DRIVER_TRY(process_check());
  return stream_query(driver_stream(stream));
}

CUresult CUDAAPI cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags) {
  DRIVER_TRY(process_check());
  if (flags & ~(unsigned)CU_EVENT_WAIT_EXTERNAL)
    return CUDA_ERROR_INVALID_VALUE;
  return event_wait(driver_stream(stream), event, flags);
}

CUresult CUDAAPI cuStreamGetFlags(CUstream stream, unsigned *flags) {
  struct CUstream_st seen;
  DRIVER_TRY(look(stream, &seen));
  if (!flags)
    return CUDA_ERROR_INVALID_VALUE;
  *flags = seen.flags;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamGetPriority(CUstream stream, int *priority) {
  struct CUstream_st seen;
  DRIVER_TRY(look(stream, &seen));
  if (!priority)
    return CUDA_ERROR_INVALID_VALUE;
  *priority = seen.priority;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamGetId(CUstream stream, unsigned long long *id) {
  struct CUstream_st seen;
  DRIVER_TRY(look(stream, &seen));
  if (!id)
    return CUDA_ERROR_INVALID_VALUE;
  *id = seen.id;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamGetCtx(CUstream stream, CUcontext *context) {
  struct CUstream_st seen;
  DRIVER_TRY(look(stream, &seen));
  if (!context)
    return CUDA_ERROR_INVALID_VALUE;
  *context = seen.context;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamGetDevice(CUstream stream, CUdevice *device) {
  struct CUstream_st seen;
  DRIVER_TRY(look(stream, &seen));
  if (!device)
    return CUDA_ERROR_INVALID_VALUE;
  *device = seen.context->device->ordinal;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuLaunchHostFunc(CUstream stream, CUhostFn function, void *argument) {
  DRIVER_TRY(process_check());
  if (!function)
    return CUDA_ERROR_INVALID_VALUE;
  struct work work = {.kind = WORK_HOST_FUNCTION, .host = {function, argument}};
  return capture_or_enqueue(driver_stream(stream), &work, NULL);
}

CUresult CUDAAPI cuStreamAddCallback(CUstream stream, CUstreamCallback function, void *argument,
                                     unsigned flags) {
  DRIVER_TRY(process_check());
  if (!function || flags)
    return CUDA_ERROR_INVALID_VALUE;
  struct work work = {.kind = WORK_CALLBACK, .callback = {function, argument, stream}};
  return capture_or_enqueue(driver_stream(stream), &work, NULL);
}

CUresult CUDAAPI cuEventRecord(CUevent event, CUstream stream) {
  DRIVER_TRY(process_check());
  return event_record(event, driver_stream(stream), CU_EVENT_RECORD_DEFAULT);
}

CUresult CUDAAPI cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned flags) {
  DRIVER_TRY(process_check());
  if (flags & ~(unsigned)CU_EVENT_RECORD_EXTERNAL)
    return CUDA_ERROR_INVALID_VALUE;
  return event_record(event, driver_stream(stream), flags);
}

static CUresult refuse_capture(CUstream stream, const char *what) {
  struct capture_info info;
  DRIVER_TRY(capture_get_info(stream, &info));
  if (info.status == CU_STREAM_CAPTURE_STATUS_NONE)
    return CUDA_SUCCESS;
  process_unsupported(what);
  return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

/* The memory is there at once; a GPU promises it only from this point of the stream on. When the
 * device is full, what this stream is about to free is waited for, as a pool would. */
CUresult CUDAAPI cuMemAllocAsync(CUdeviceptr *address, size_t size, CUstream stream) {
  CUcontext context;
  void *allocated;
  DRIVER_TRY(driver_enter(&context));
  if (!address || !size)
    return CUDA_ERROR_INVALID_VALUE;
  DRIVER_TRY(refuse_capture(driver_stream(stream), "cuMemAllocAsync in a capture"));
  CUresult result = memory_allocate(context, MEMORY_DEVICE, size, 0, &allocated);
  if (result == CUDA_ERROR_OUT_OF_MEMORY) {
    DRIVER_TRY(stream_synchronise(driver_stream(stream)));
    result = memory_allocate(context, MEMORY_DEVICE, size, 0, &allocated);
  }
  if (result == CUDA_SUCCESS)
    *address = (CUdeviceptr)allocated;
  return result;
}

CUresult CUDAAPI cuMemFreeAsync(CUdeviceptr address, CUstream stream) {
  DRIVER_TRY(process_check());
  DRIVER_TRY(refuse_capture(driver_stream(stream), "cuMemFreeAsync in a capture"));
  if (!address)
    return CUDA_SUCCESS;
  DRIVER_TRY(memory_leave(driver_address(address), 1u << MEMORY_DEVICE));
  struct work work = {.kind = WORK_FREE, .freed = driver_address(address)};
  return capture_or_enqueue(driver_stream(stream), &work, NULL);
}

CUresult CUDAAPI cuStreamBeginCapture(CUstream stream, CUstreamCaptureMode mode) {
  DRIVER_TRY(process_check());
  if (mode > CU_STREAM_CAPTURE_MODE_RELAXED)
    return CUDA_ERROR_INVALID_VALUE;
  return capture_begin(driver_stream(stream), mode);
}

CUresult CUDAAPI cuStreamEndCapture(CUstream stream, CUgraph *graph) {
  DRIVER_TRY(process_check());
  return graph ? capture_end(driver_stream(stream), graph) : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *status) {
  struct capture_info info;
  DRIVER_TRY(process_check());
  if (!status)
    return CUDA_ERROR_INVALID_VALUE;
  DRIVER_TRY(capture_get_info(driver_stream(stream), &info));
  *status = info.status;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamGetCaptureInfo(CUstream stream, CUstreamCaptureStatus *status,
                                        cuuint64_t *id, CUgraph *graph,
                                        const CUgraphNode **dependencies,
                                        const CUgraphEdgeData **edges, size_t *count) {
  struct capture_info info;
  DRIVER_TRY(process_check());
  if (!status)
    return CUDA_ERROR_INVALID_VALUE;
  DRIVER_TRY(capture_get_info(driver_stream(stream), &info));
  *status = info.status;
  if (id)
    *id = info.id;
  if (graph)
    *graph = info.graph;
  if (dependencies)
    *dependencies = info.tips;
  if (edges)
    *edges = NULL; /* all edges are plain ones */
  if (count)
    *count = info.ntips;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamUpdateCaptureDependencies(CUstream stream, CUgraphNode *dependencies,
                                                   const CUgraphEdgeData *edges, size_t count,
                                                   unsigned flags) {
  DRIVER_TRY(process_check());
  if (flags & ~(unsigned)CU_STREAM_SET_CAPTURE_DEPENDENCIES || (count && !dependencies))
    return CUDA_ERROR_INVALID_VALUE;
  if (edges)
    return process_unsupported("cuStreamUpdateCaptureDependencies with data of edges");
  return capture_update_dependencies(driver_stream(stream), dependencies, count,
                                     flags & CU_STREAM_SET_CAPTURE_DEPENDENCIES);
}

CUresult CUDAAPI cuGraphLaunch(CUgraphExec exec, CUstream stream) {
  DRIVER_TRY(process_check());
  return graph_launch(exec, driver_stream(stream));
}

CUresult CUDAAPI cuGraphUpload(CUgraphExec exec, CUstream stream) {
  DRIVER_TRY(process_check());
  (void)exec; /* there is nowhere to upload it to; the stream's order is kept */
  struct work work = {.kind = WORK_NOTHING};
  return capture_or_enqueue(driver_stream(stream), &work, NULL);
}

CUresult CUDAAPI cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y,
                                unsigned grid_z, unsigned block_x, unsigned block_y,
                                unsigned block_z, unsigned shared, CUstream stream,
                                void **parameters, void **extra) {
  (void)function, (void)grid_x, (void)grid_y, (void)grid_z, (void)block_x, (void)block_y;
  (void)block_z, (void)shared, (void)stream, (void)parameters, (void)extra;
  DRIVER_TRY(process_check());
  return process_unsupported("cuLaunchKernel: device code");
}
