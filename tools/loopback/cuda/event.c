/* Events and their recordings. */
#include "tools/loopback/cuda/event.h"

#include <stdlib.h>
#include <time.h>

#include "tools/loopback/cuda/capture.h"
#include "tools/loopback/cuda/handle.h"

static struct handle_set events; /* guarded by stream_lock */

static void unreference(struct recording *recording) {
  if (!recording || --recording->references)
    return;
  marker_release(recording->marker);
  free(recording);
}

void recording_release(struct recording *recording) {
  stream_lock();
  unreference(recording);
  stream_unlock();
}

void recording_stamp(struct recording *recording) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  stream_lock();
  recording->nanoseconds = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
  stream_unlock();
}

void recording_wait(struct recording *recording) {
  stream_lock();
  struct marker marker = recording->marker;
  marker_hold(marker);
  stream_unlock();
  marker_wait(marker);
}

CUresult event_create(CUcontext context, unsigned flags, CUevent *made) {
  CUevent event = calloc(1, sizeof *event);
  if (!event)
    return CUDA_ERROR_OUT_OF_MEMORY;
  *event = (struct CUevent_st){.context = context, .flags = flags};
  stream_lock();
  bool added = handle_add(&events, event);
  stream_unlock();
  if (!added) {
    free(event);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  *made = event;
  return CUDA_SUCCESS;
}

CUresult event_destroy(CUevent event) {
  stream_lock();
  bool live = handle_is_live(&events, event);
  if (live) {
    handle_remove(&events, event);
    unreference(event->latest);
    free(event->tips);
    free(event);
  }
  stream_unlock();
  return live ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

static CUresult find(CUevent event) {
  return handle_is_live(&events, event) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

/* The recording's sequence number is the next of the stream; it is known only once the entry is
 * in. */
static CUresult record_in_stream(CUevent event, CUstream stream) {
  struct recording *recording = calloc(1, sizeof *recording);
  if (!recording)
    return CUDA_ERROR_OUT_OF_MEMORY;
  recording->references = 2; /* the entry's and ours */
  struct work work = {.kind = WORK_RECORD, .recording = recording};
  struct marker done = {0};
  CUresult result = stream_enqueue(stream, &work, &done);
  recording->marker = done;
  if (result != CUDA_SUCCESS) { /* stream_enqueue has given up one reference */
    unreference(recording);
    return result; /* NOLINT(clang-analyzer-unix.Malloc) */
  }
  if (!handle_is_live(&events, event)) { /* destroyed while the queue was full */
    unreference(recording);
    return CUDA_ERROR_INVALID_HANDLE;
  }
  unreference(event->latest);
  event->latest = recording;
  event->capture = 0;
  return CUDA_SUCCESS;
}

CUresult event_record(CUevent event, CUstream handle, unsigned flags) {
  CUstream stream = NULL;
  stream_lock();
  CUresult result = find(event);
  if (result == CUDA_SUCCESS)
    result = stream_find(handle, &stream);
  /* "hEvent and hStream must be from the same context": cuEventRecord. */
  if (result == CUDA_SUCCESS && stream->context != event->context)
    result = CUDA_ERROR_INVALID_HANDLE;
  if (result == CUDA_SUCCESS)
    result = capture_allows(stream);
  if (result == CUDA_SUCCESS)
    result =
        stream->capture ? capture_record(stream, event, flags) : record_in_stream(event, stream);
  stream_unlock();
  return result;
}

/* CUDA_ERROR_CAPTURED_EVENT for an event whose last recording is part of a capture. */
static CUresult find_recorded(CUevent event) {
  CUresult result = find(event);
  if (result == CUDA_SUCCESS && event->capture)
    result = capture_touch_event(event);
  return result;
}

CUresult event_query(CUevent event) {
  stream_lock();
  CUresult result = find_recorded(event);
  if (result == CUDA_SUCCESS && event->latest && !marker_is_past(event->latest->marker))
    result = CUDA_ERROR_NOT_READY;
  stream_unlock();
  return result;
}

CUresult event_synchronise(CUevent event) {
  struct marker marker = {0};
  stream_lock();
  CUresult result = find_recorded(event);
  if (result == CUDA_SUCCESS && event->latest) {
    marker = event->latest->marker;
    marker_hold(marker);
  }
  stream_unlock();
  marker_wait(marker);
  return result;
}

static CUresult time_of(CUevent event, int64_t *nanoseconds) {
  CUresult result = find_recorded(event);
  if (result != CUDA_SUCCESS)
    return result;
  if (event->flags & CU_EVENT_DISABLE_TIMING || !event->latest)
    return CUDA_ERROR_INVALID_HANDLE;
  if (!marker_is_past(event->latest->marker))
    return CUDA_ERROR_NOT_READY;
  *nanoseconds = event->latest->nanoseconds;
  return CUDA_SUCCESS;
}

CUresult event_elapsed(CUevent from, CUevent to, float *milliseconds) {
  int64_t begin = 0, end = 0;
  stream_lock();
  CUresult result = time_of(from, &begin);
  /* An event that is not ready must not hide that the other is no event. */
  CUresult second = time_of(to, &end);
  stream_unlock();
  if (result == CUDA_SUCCESS || (result == CUDA_ERROR_NOT_READY && second != CUDA_SUCCESS))
    result = second;
  if (result == CUDA_SUCCESS)
    *milliseconds = (float)((double)(end - begin) / 1e6);
  return result;
}

CUresult event_wait(CUstream handle, CUevent event, unsigned flags) {
  CUstream stream = NULL;
  stream_lock();
  CUresult result = find(event);
  if (result == CUDA_SUCCESS)
    result = stream_find(handle, &stream);
  if (result == CUDA_SUCCESS && (stream->capture || event->capture))
    result = capture_wait(stream, event, flags);
  else if (result == CUDA_SUCCESS) {
    result = capture_allows(stream);
    if (result == CUDA_SUCCESS && event->latest && !marker_is_past(event->latest->marker)) {
      event->latest->references++;
      struct work work = {.kind = WORK_AWAIT, .recording = event->latest};
      result = stream_enqueue(stream, &work, NULL);
    }
  }
  stream_unlock();
  return result;
}
