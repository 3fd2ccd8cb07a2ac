/* Driver API: copies and fills. Compiled twice, see driver.h. */
#include "tools/loopback/cuda/driver.h"

#include "tools/loopback/cuda/capture.h"
#include "tools/loopback/cuda/copy.h"
#include "tools/loopback/cuda/memory.h"
#include "tools/loopback/cuda/stream.h"

#define SYNCHRONOUS true
#define ASYNCHRONOUS false
/* The stream of functions that have no parameter for it. */
#define DEFAULT_STREAM driver_stream(NULL)

static CUresult copy(CUdeviceptr to, unsigned to_places, CUdeviceptr from, unsigned from_places,
                     size_t size, CUstream stream, bool synchronous) {
  CUcontext context;
  DRIVER_TRY(driver_enter(&context));
  struct work work = {.kind = WORK_COPY,
                      .copy = {.to = driver_address(to),
                               .from = driver_address(from),
                               .to_places = to_places,
                               .from_places = from_places,
                               .shape = {.width = size, .rows = 1}}};
  return copy_submit(driver_stream(stream), &work, synchronous);
}

CUresult CUDAAPI cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t size) {
  return copy(to, PLACE_ANY, from, PLACE_ANY, size, DEFAULT_STREAM, SYNCHRONOUS);
}

CUresult CUDAAPI cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream) {
  return copy(to, PLACE_ANY, from, PLACE_ANY, size, stream, ASYNCHRONOUS);
}

CUresult CUDAAPI cuMemcpyHtoD(CUdeviceptr to, const void *from, size_t size) {
  return copy(to, PLACE_FOR_DEVICE, (CUdeviceptr)from, PLACE_FOR_HOST, size, DEFAULT_STREAM,
              SYNCHRONOUS);
}

CUresult CUDAAPI cuMemcpyHtoDAsync(CUdeviceptr to, const void *from, size_t size, CUstream stream) {
  return copy(to, PLACE_FOR_DEVICE, (CUdeviceptr)from, PLACE_FOR_HOST, size, stream, ASYNCHRONOUS);
}

CUresult CUDAAPI cuMemcpyDtoH(void *to, CUdeviceptr from, size_t size) {
  return copy((CUdeviceptr)to, PLACE_FOR_HOST, from, PLACE_FOR_DEVICE, size, DEFAULT_STREAM,
              SYNCHRONOUS);
}

CUresult CUDAAPI cuMemcpyDtoHAsync(void *to, CUdeviceptr from, size_t size, CUstream stream) {
  return copy((CUdeviceptr)to, PLACE_FOR_HOST, from, PLACE_FOR_DEVICE, size, stream, ASYNCHRONOUS);
}

CUresult CUDAAPI cuMemcpyDtoD(CUdeviceptr to, CUdeviceptr from, size_t size) {
  return copy(to, PLACE_FOR_DEVICE, from, PLACE_FOR_DEVICE, size, DEFAULT_STREAM, SYNCHRONOUS);
}

CUresult CUDAAPI cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream) {
  return copy(to, PLACE_FOR_DEVICE, from, PLACE_FOR_DEVICE, size, stream, ASYNCHRONOUS);
}

static CUresult check_peers(CUcontext to, CUcontext from) {
  DRIVER_TRY(process_check());
  return context_is_live(to) && context_is_live(from) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

/* "Serialized with respect to all pending and future asynchronous work in to the current context,
 * srcContext, and dstContext": cuMemcpyPeer. The host waits here for both, which is more than it
 * promises. */
CUresult CUDAAPI cuMemcpyPeer(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                              CUcontext from_context, size_t size) {
  DRIVER_TRY(check_peers(to_context, from_context));
  DRIVER_TRY(capture_forbids_unsafe());
  stream_drain_context(to_context);
  stream_drain_context(from_context);
  DRIVER_TRY(copy(to, PLACE_FOR_DEVICE, from, PLACE_FOR_DEVICE, size, DEFAULT_STREAM, SYNCHRONOUS));
  return stream_synchronise(DEFAULT_STREAM);
}

CUresult CUDAAPI cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                                   CUcontext from_context, size_t size, CUstream stream) {
  DRIVER_TRY(check_peers(to_context, from_context));
  return copy(to, PLACE_FOR_DEVICE, from, PLACE_FOR_DEVICE, size, stream, ASYNCHRONOUS);
}

/* One end of a two-dimensional copy. */
struct end {
  CUmemorytype type;
  const void *host;
  CUdeviceptr device;
  size_t x, y, pitch;
};

static CUresult resolve(struct end end, size_t width, size_t rows, const char **start,
                        unsigned *places, size_t *pitch) {
  *pitch = end.pitch ? end.pitch : width;
  if (rows > 1 && *pitch < end.x + width)
    return CUDA_ERROR_INVALID_VALUE;
  switch ((unsigned)end.type) {
  case CU_MEMORYTYPE_HOST:
    *places = PLACE_FOR_HOST;
    *start = end.host;
    break;
  case CU_MEMORYTYPE_DEVICE:
    *places = PLACE_FOR_DEVICE;
    *start = driver_address(end.device);
    break;
  case CU_MEMORYTYPE_UNIFIED:
    *places = PLACE_ANY;
    *start = driver_address(end.device);
    break;
  default:
    return process_unsupported("a copy to or from an array");
  }
  *start += end.y * *pitch + end.x;
  return CUDA_SUCCESS;
}

static CUresult copy_rows(const CUDA_MEMCPY2D *copy, CUstream stream, bool synchronous) {
  CUcontext context;
  DRIVER_TRY(driver_enter(&context));
  if (!copy)
    return CUDA_ERROR_INVALID_VALUE;
  struct work work = {.kind = WORK_COPY,
                      .copy.shape = {.width = copy->WidthInBytes, .rows = copy->Height}};
  struct end from = {copy->srcMemoryType, copy->srcHost, copy->srcDevice,
                     copy->srcXInBytes,   copy->srcY,    copy->srcPitch};
  struct end to = {copy->dstMemoryType, copy->dstHost, copy->dstDevice,
                   copy->dstXInBytes,   copy->dstY,    copy->dstPitch};
  const char *first = NULL, *target = NULL;
  DRIVER_TRY(resolve(from, copy->WidthInBytes, copy->Height, &first, &work.copy.from_places,
                     &work.copy.from_pitch));
  DRIVER_TRY(resolve(to, copy->WidthInBytes, copy->Height, &target, &work.copy.to_places,
                     &work.copy.to_pitch));
  work.copy.from = first;
  work.copy.to = (void *)target;
  return copy_submit(driver_stream(stream), &work, synchronous);
}

CUresult CUDAAPI cuMemcpy2D(const CUDA_MEMCPY2D *copy) {
  return copy_rows(copy, DEFAULT_STREAM, SYNCHRONOUS);
}

CUresult CUDAAPI cuMemcpy2DUnaligned(const CUDA_MEMCPY2D *copy) {
  return copy_rows(copy, DEFAULT_STREAM, SYNCHRONOUS);
}

CUresult CUDAAPI cuMemcpy2DAsync(const CUDA_MEMCPY2D *copy, CUstream stream) {
  return copy_rows(copy, stream, ASYNCHRONOUS);
}

static CUresult fill(CUdeviceptr to, size_t pitch, uint32_t value, unsigned element, size_t width,
                     size_t rows, CUstream stream, bool synchronous) {
  CUcontext context;
  DRIVER_TRY(driver_enter(&context));
  if (to % element || (rows > 1 && pitch < width * element))
    return CUDA_ERROR_INVALID_VALUE;
  struct work work = {.kind = WORK_FILL,
                      .fill = {.to = driver_address(to),
                               .pitch = pitch,
                               .value = value,
                               .element = element,
                               .shape = {.width = width * element, .rows = rows}}};
  return copy_submit(driver_stream(stream), &work, synchronous);
}

CUresult CUDAAPI cuMemsetD8(CUdeviceptr to, unsigned char value, size_t count) {
  return fill(to, 0, value, 1, count, 1, DEFAULT_STREAM, SYNCHRONOUS);
}

CUresult CUDAAPI cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count,
                                 CUstream stream) {
  return fill(to, 0, value, 1, count, 1, stream, ASYNCHRONOUS);
}

CUresult CUDAAPI cuMemsetD16(CUdeviceptr to, unsigned short value, size_t count) {
  return fill(to, 0, value, 2, count, 1, DEFAULT_STREAM, SYNCHRONOUS);
}

CUresult CUDAAPI cuMemsetD16Async(CUdeviceptr to, unsigned short value, size_t count,
                                  CUstream stream) {
  return fill(to, 0, value, 2, count, 1, stream, ASYNCHRONOUS);
}

CUresult CUDAAPI cuMemsetD32(CUdeviceptr to, unsigned value, size_t count) {
  return fill(to, 0, value, 4, count, 1, DEFAULT_STREAM, SYNCHRONOUS);
}

CUresult CUDAAPI cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t count, CUstream stream) {
  return fill(to, 0, value, 4, count, 1, stream, ASYNCHRONOUS);
}

CUresult CUDAAPI cuMemsetD2D8(CUdeviceptr to, size_t pitch, unsigned char value, size_t width,
                              size_t rows) {
  return fill(to, pitch, value, 1, width, rows, DEFAULT_STREAM, SYNCHRONOUS);
}

CUresult CUDAAPI cuMemsetD2D8Async(CUdeviceptr to, size_t pitch, unsigned char value, size_t width,
                                   size_t rows, CUstream stream) {
  return fill(to, pitch, value, 1, width, rows, stream, ASYNCHRONOUS);
}

CUresult CUDAAPI cuMemsetD2D16(CUdeviceptr to, size_t pitch, unsigned short value, size_t width,
                               size_t rows) {
  return fill(to, pitch, value, 2, width, rows, DEFAULT_STREAM, SYNCHRONOUS);
}

CUresult CUDAAPI cuMemsetD2D16Async(CUdeviceptr to, size_t pitch, unsigned short value,
                                    size_t width, size_t rows, CUstream stream) {
  return fill(to, pitch, value, 2, width, rows, stream, ASYNCHRONOUS);
}

CUresult CUDAAPI cuMemsetD2D32(CUdeviceptr to, size_t pitch, unsigned value, size_t width,
                               size_t rows) {
  return fill(to, pitch, value, 4, width, rows, DEFAULT_STREAM, SYNCHRONOUS);
}

CUresult CUDAAPI cuMemsetD2D32Async(CUdeviceptr to, size_t pitch, unsigned value, size_t width,
                                    size_t rows, CUstream stream) {
  return fill(to, pitch, value, 4, width, rows, stream, ASYNCHRONOUS);
}

/* What may be reordered with what was issued before is not offered here (cuda.h: not in the v2
 * API). */
CUresult CUDAAPI cuStreamWriteValue32(CUstream stream, CUdeviceptr address, cuuint32_t value,
                                      unsigned flags) {
  if (flags != CU_STREAM_WRITE_VALUE_DEFAULT)
    return CUDA_ERROR_INVALID_VALUE;
  return fill(address, 0, value, 4, 1, 1, stream, ASYNCHRONOUS);
}
