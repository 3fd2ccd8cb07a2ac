/* Queues, workers and the order between streams. */
#include "tools/loopback/cuda/stream.h"

#include <signal.h>
#include <stdlib.h>
#include <time.h>

#include "tools/loopback/cuda/capture.h"
#include "tools/loopback/cuda/handle.h"
#include "tools/loopback/cuda/process.h"
#include "tools/loopback/cuda/settings.h"

struct entry {
  struct work work;
  struct marker *waits; /* moments of other streams that come first; owned */
  size_t nwaits;
  struct entry *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct handle_set streams; /* those that a program may name */
static uint64_t last_id;

/* The per-thread default stream of the context that the thread used it with last, as programs have
 * one device a thread or few: others are in the list behind it. */
struct thread_stream {
  CUstream stream;
  struct thread_stream *next;
};
static pthread_key_t thread_streams;
static pthread_once_t thread_streams_once = PTHREAD_ONCE_INIT;

void stream_lock(void) {
  pthread_mutex_lock(&lock);
}

void stream_unlock(void) {
  pthread_mutex_unlock(&lock);
}

static bool is_blocking(CUstream stream) {
  return !(stream->flags & CU_STREAM_NON_BLOCKING) && stream != stream->context->legacy;
}

static CUstream make(CUcontext context, unsigned flags, int priority) {
  CUstream stream = calloc(1, sizeof *stream);
  if (!stream)
    return NULL;
  *stream = (struct CUstream_st){.context = context,
                                 .flags = flags,
                                 .priority = priority,
                                 .id = ++last_id,
                                 .references = 1,
                                 .next = context->streams};
  pthread_cond_init(&stream->wake, NULL);
  pthread_cond_init(&stream->progress, NULL);
  context->streams = stream;
  return stream;
}

static void unreference(CUstream stream) {
  if (--stream->references)
    return;
  pthread_cond_destroy(&stream->wake);
  pthread_cond_destroy(&stream->progress);
  free(stream->tips);
  free(stream);
}

static void unlink_stream(CUstream stream) {
  CUstream *link = &stream->context->streams;
  while (*link && *link != stream)
    link = &(*link)->next;
  if (*link)
    *link = stream->next;
}

static void destroy(CUstream stream) {
  handle_remove(&streams, stream);
  capture_abandon(stream);
  stream->destroyed = true;
  if (stream->has_worker)
    pthread_cond_signal(&stream->wake);
  else
    unlink_stream(stream);
  unreference(stream);
}

CUresult stream_create(CUcontext context, unsigned flags, int priority, CUstream *made) {
  stream_lock();
  CUstream stream = make(context, flags, priority);
  if (stream && !handle_add(&streams, stream)) {
    destroy(stream);
    stream = NULL;
  }
  stream_unlock();
  *made = stream;
  return stream ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult stream_destroy(CUstream handle) {
  stream_lock();
  bool live = handle_is_live(&streams, handle);
  if (live)
    destroy(handle);
  stream_unlock();
  return live ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

/* ---- the default streams ---- */

static void end_thread_streams(void *first) {
  if (!process_is_alive())
    return;
  stream_lock();
  for (struct thread_stream *here = first, *next; here; here = next) {
    next = here->next;
    if (!here->stream->destroyed)
      destroy(here->stream);
    unreference(here->stream); /* NOLINT(clang-analyzer-unix.Malloc): the list holds a reference */
    free(here);
  }
  stream_unlock();
}

static void create_thread_streams(void) {
  pthread_key_create(&thread_streams, end_thread_streams);
}

static CUresult find_thread_stream(CUcontext context, CUstream *stream) {
  pthread_once(&thread_streams_once, create_thread_streams);
  struct thread_stream *first = pthread_getspecific(thread_streams);
  for (struct thread_stream *here = first; here; here = here->next)
    if (here->stream->context == context && !here->stream->destroyed) {
      *stream = here->stream;
      return CUDA_SUCCESS;
    }
  struct thread_stream *mine = malloc(sizeof *mine);
  CUstream made = mine ? make(context, CU_STREAM_DEFAULT, STREAM_PRIORITY_LOWEST) : NULL;
  if (!made) {
    free(mine);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  made->references++;
  *mine = (struct thread_stream){.stream = made, .next = first};
  pthread_setspecific(thread_streams, mine);
  *stream = made;
  return CUDA_SUCCESS;
}

CUresult stream_find(CUstream handle, CUstream *stream) {
  if (handle && handle != CU_STREAM_LEGACY && handle != CU_STREAM_PER_THREAD) {
    *stream = handle;
    return handle_is_live(&streams, handle) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
  }
  CUcontext context;
  CUresult result = context_current(&context);
  if (result != CUDA_SUCCESS)
    return result;
  if (handle == CU_STREAM_PER_THREAD)
    return find_thread_stream(context, stream);
  if (!context->legacy)
    context->legacy = make(context, CU_STREAM_DEFAULT, STREAM_PRIORITY_LOWEST);
  *stream = context->legacy;
  return *stream ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* ---- markers ---- */

bool marker_is_past(struct marker marker) {
  return !marker.stream || marker.stream->completed >= marker.sequence;
}

struct marker marker_now(CUstream stream) {
  stream->references++;
  return (struct marker){.stream = stream, .sequence = stream->enqueued};
}

void marker_hold(struct marker marker) {
  if (marker.stream)
    marker.stream->references++;
}

void marker_release(struct marker marker) {
  if (marker.stream)
    unreference(marker.stream);
}

static void wait_until_past(struct marker marker) {
  while (!marker_is_past(marker))
    pthread_cond_wait(&marker.stream->progress, &lock);
}

void marker_wait(struct marker marker) {
  stream_lock();
  wait_until_past(marker);
  marker_release(marker);
  stream_unlock();
}

/* ---- the worker ---- */

static void pause_before_work(void) {
  if (!settings.delay)
    return;
  struct timespec delay = {settings.delay / 1000000, settings.delay % 1000000 * 1000};
  nanosleep(&delay, NULL);
}

/* Runs the head; stream_lock held, released meanwhile. */
static void run_head(CUstream stream) {
  struct entry *entry = stream->head;
  for (size_t i = 0; i < entry->nwaits; i++) {
    wait_until_past(entry->waits[i]);
    marker_release(entry->waits[i]);
  }
  stream_unlock();
  pause_before_work();
  work_run(&entry->work);
  work_release(&entry->work);
  stream_lock();
  stream->head = entry->next;
  if (!stream->head)
    stream->tail = NULL;
  stream->completed++;
  pthread_cond_broadcast(&stream->progress);
  free(entry->waits);
  free(entry);
}

static void *work_through(void *argument) {
  CUstream stream = argument;
  process_enter_worker();
  stream_lock();
  for (;;) {
    if (stream->head)
      run_head(stream);
    else if (stream->destroyed)
      break;
    else
      pthread_cond_wait(&stream->wake, &lock);
  }
  unlink_stream(stream);
  unreference(stream);
  stream_unlock();
  return NULL;
}

/* Detached and deaf to signals: handlers of the program belong on the program's threads. */
static bool start_worker(CUstream stream) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread;
  bool started = pthread_create(&thread, &attributes, work_through, stream) == 0;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  pthread_attr_destroy(&attributes);
  if (started) {
    stream->has_worker = true;
    stream->references++;
  }
  return started;
}

/* ---- enqueuing ---- */

/* All pending work of the context's blocking streams. */
static bool wait_for_blocking(CUstream legacy, struct entry *entry) {
  size_t most = 0;
  for (CUstream other = legacy->context->streams; other; other = other->next)
    most++;
  entry->waits = malloc((most + 1) * sizeof *entry->waits);
  if (!entry->waits)
    return false;
  for (CUstream other = legacy->context->streams; other; other = other->next)
    if (is_blocking(other) && other->completed < other->enqueued)
      entry->waits[entry->nwaits++] = marker_now(other);
  return true;
}

static bool wait_for_legacy(CUstream stream, struct entry *entry) {
  CUstream legacy = stream->context->legacy;
  if (!legacy || legacy->completed == legacy->enqueued || stream->legacy_seen == legacy->enqueued)
    return true;
  entry->waits = malloc(sizeof *entry->waits);
  if (!entry->waits)
    return false;
  entry->waits[entry->nwaits++] = marker_now(legacy);
  stream->legacy_seen = legacy->enqueued;
  return true;
}

static bool order_by_default_stream(CUstream stream, struct entry *entry) {
  if (stream == stream->context->legacy)
    return wait_for_blocking(stream, entry);
  return is_blocking(stream) ? wait_for_legacy(stream, entry) : true;
}

/* Waits for room in the queue; false if the stream is destroyed meanwhile. */
static bool wait_for_room(CUstream stream) {
  stream->references++;
  while (stream->enqueued - stream->completed >= settings.queue && !stream->destroyed)
    pthread_cond_wait(&stream->progress, &lock);
  bool open = !stream->destroyed;
  unreference(stream);
  return open;
}

static CUresult refuse(struct work *work, CUresult result) {
  stream_unlock(); /* releasing work may take the lock */
  work_release(work);
  stream_lock();
  return result;
}

CUresult stream_enqueue(CUstream stream, struct work *work, struct marker *done) {
  if (!wait_for_room(stream))
    return refuse(work, CUDA_ERROR_INVALID_HANDLE);
  /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): whoever has the handle holds a reference */
  if (!stream->has_worker && !start_worker(stream))
    return refuse(work, CUDA_ERROR_OUT_OF_MEMORY);
  struct entry *entry = calloc(1, sizeof *entry);
  if (!entry || !order_by_default_stream(stream, entry)) {
    free(entry);
    return refuse(work, CUDA_ERROR_OUT_OF_MEMORY);
  }
  entry->work = *work;
  if (stream->tail)
    stream->tail->next = entry;
  else
    stream->head = entry;
  stream->tail = entry;
  stream->enqueued++;
  if (done)
    *done = marker_now(stream);
  pthread_cond_signal(&stream->wake);
  return CUDA_SUCCESS;
}

/* ---- waiting ---- */

/* Markers of the streams of a context that the condition holds for. stream_lock held. */
static struct marker *mark(CUcontext context, bool (*wanted)(CUstream), size_t *count) {
  size_t most = 0;
  for (CUstream stream = context->streams; stream; stream = stream->next)
    most++;
  *count = 0;
  struct marker *markers = malloc((most + 1) * sizeof *markers);
  if (!markers)
    abort();
  for (CUstream stream = context->streams; stream; stream = stream->next)
    if (wanted(stream) && stream->completed < stream->enqueued)
      markers[(*count)++] = marker_now(stream);
  return markers;
}

static bool any(CUstream stream) {
  (void)stream;
  return true;
}

static bool in_legacy_order(CUstream stream) {
  return is_blocking(stream) || stream == stream->context->legacy;
}

static void wait_and_free(struct marker *markers, size_t count) {
  for (size_t i = 0; i < count; i++)
    marker_wait(markers[i]);
  free(markers);
}

/* What a synchronisation of this stream waits for. stream_lock held. */
static struct marker *mark_stream(CUstream stream, size_t *count) {
  if (stream == stream->context->legacy)
    return mark(stream->context, in_legacy_order, count);
  struct marker *marker = malloc(sizeof *marker);
  if (!marker)
    abort();
  *marker = marker_now(stream);
  *count = 1;
  return marker;
}

CUresult stream_synchronise(CUstream handle) {
  CUstream stream;
  struct marker *markers = NULL;
  size_t count = 0;
  stream_lock();
  CUresult result = stream_find(handle, &stream);
  if (result == CUDA_SUCCESS)
    result = capture_forbids_wait(stream);
  if (result == CUDA_SUCCESS)
    markers = mark_stream(stream, &count);
  stream_unlock();
  wait_and_free(markers, count);
  return result;
}

CUresult stream_query(CUstream handle) {
  CUstream stream;
  stream_lock();
  CUresult result = stream_find(handle, &stream);
  if (result == CUDA_SUCCESS)
    result = capture_forbids_wait(stream);
  if (result == CUDA_SUCCESS) {
    size_t count;
    struct marker *markers = mark_stream(stream, &count);
    for (size_t i = 0; i < count; i++) {
      if (!marker_is_past(markers[i]))
        result = CUDA_ERROR_NOT_READY;
      marker_release(markers[i]);
    }
    free(markers);
  }
  stream_unlock();
  return result;
}

void stream_drain_context(CUcontext context) {
  size_t count;
  stream_lock();
  struct marker *markers = mark(context, any, &count);
  stream_unlock();
  wait_and_free(markers, count);
}

void stream_destroy_context(CUcontext context) {
  stream_lock();
  for (CUstream stream = context->streams, next; stream; stream = next) {
    next = stream->next;
    if (!stream->destroyed)
      destroy(stream);
  }
  context->legacy = NULL;
  stream_unlock();
}
