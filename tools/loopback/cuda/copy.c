/* Submission of copies and fills. */
#include "tools/loopback/cuda/copy.h"

#include <stdlib.h>
#include <string.h>

#include "tools/loopback/cuda/capture.h"
#include "tools/loopback/cuda/memory.h"
#include "tools/loopback/cuda/stream.h"

static struct work_rows shape_of(const struct work *work) {
  return work->kind == WORK_COPY ? work->copy.shape : work->fill.shape;
}

/* Replaces a pageable source by a private copy of it. */
static bool stage(struct work *work) {
  struct work_rows shape = work->copy.shape;
  char *staging = malloc(shape.width * shape.rows);
  if (!staging)
    return false;
  for (size_t row = 0; row < shape.rows; row++)
    memcpy(staging + row * shape.width, work->copy.from_bytes + row * work->copy.from_pitch,
           shape.width);
  work->copy.staging = staging;
  work->copy.from_bytes = staging;
  work->copy.from_pitch = shape.width;
  return true;
}

static bool host_waits(const struct work *work, struct work_places places, bool synchronous) {
  if (work->kind == WORK_FILL)
    return synchronous && places.to != PLACE_DEVICE;
  bool to_host = places.to != PLACE_DEVICE, from_host = places.from != PLACE_DEVICE;
  if (places.to == PLACE_PAGEABLE || (to_host && from_host))
    return true;
  if (places.from == PLACE_PAGEABLE)
    return !work->copy.staging;
  return synchronous && (to_host || from_host);
}

/* A node reads its source at each launch: nothing is staged. */
static CUresult capture(CUstream stream, struct work *work, bool synchronous) {
  return synchronous ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED
                     : capture_or_enqueue(stream, work, NULL);
}

CUresult copy_submit(CUstream stream, struct work *work, bool synchronous) {
  struct work_rows shape = shape_of(work);
  struct work_places places;
  struct capture_info info;
  CUresult result = capture_get_info(stream, &info);
  if (result == CUDA_SUCCESS && synchronous)
    result = capture_forbids_unsafe();
  if (result != CUDA_SUCCESS || !shape.width || !shape.rows)
    return result;
  result = work_bind(work, &places);
  if (result != CUDA_SUCCESS)
    return result;
  if (info.status != CU_STREAM_CAPTURE_STATUS_NONE)
    return capture(stream, work, synchronous);
  if (work->kind == WORK_COPY && places.from == PLACE_PAGEABLE && places.to == PLACE_DEVICE &&
      shape.width * shape.rows <= COPY_STAGING_MAX && !stage(work))
    return CUDA_ERROR_OUT_OF_MEMORY;
  bool wait = host_waits(work, places, synchronous);
  struct marker done = {0};
  result = capture_or_enqueue(stream, work, wait ? &done : NULL);
  if (wait)
    marker_wait(done);
  return result;
}
