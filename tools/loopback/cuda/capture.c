/* Captures under way. */
#include "tools/loopback/cuda/capture.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "tools/loopback/cuda/event.h"
#include "tools/loopback/cuda/graph.h"
#include "tools/loopback/cuda/process.h"

/* A capture ends with its origin: the stream where it began. */
struct capture {
  uint64_t id;
  CUgraph graph; /* NULL once invalidated */
  CUstream origin;
  CUstreamCaptureMode mode;
  pthread_t thread; /* that began it */
  CUstream members; /* linked by next_member, the origin included */
  struct capture *next;
};

static struct capture *captures; /* guarded by stream_lock */
static uint64_t last_id;

static _Thread_local CUstreamCaptureMode thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

static void enter(CUstream stream, struct capture *capture) {
  stream->capture = capture;
  stream->next_member = capture->members;
  capture->members = stream;
}

static void leave(CUstream stream, struct capture *capture) {
  CUstream *link = &capture->members;
  while (*link && *link != stream)
    link = &(*link)->next_member;
  if (*link)
    *link = stream->next_member;
  free(stream->tips);
  stream->tips = NULL;
  stream->ntips = 0;
  stream->capture = NULL;
}

static void end(struct capture *capture) {
  while (capture->members)
    leave(capture->members, capture);
  struct capture **link = &captures;
  while (*link && *link != capture)
    link = &(*link)->next;
  if (*link)
    *link = capture->next;
  free(capture);
}

/* The members stay in the capture, as CUDA has it, until its end is asked for. */
static CUresult invalidate(struct capture *capture, CUresult result) {
  if (capture->graph)
    graph_discard(capture->graph);
  capture->graph = NULL;
  return result;
}

static bool set_tips(CUgraphNode **tips, size_t *ntips, const CUgraphNode *from, size_t count) {
  CUgraphNode *copy = malloc((count + 1) * sizeof(CUgraphNode));
  if (!copy)
    return false;
  if (count)
    memcpy(copy, from, count * sizeof(CUgraphNode));
  free(*tips);
  *tips = copy;
  *ntips = count;
  return true;
}

CUresult capture_begin(CUstream handle, CUstreamCaptureMode mode) {
  CUgraph graph;
  CUresult result = graph_create(&graph);
  if (result != CUDA_SUCCESS)
    return result;
  struct capture *capture = calloc(1, sizeof *capture);
  CUstream stream;
  stream_lock();
  result = capture ? stream_find(handle, &stream) : CUDA_ERROR_OUT_OF_MEMORY;
  if (result == CUDA_SUCCESS && stream == stream->context->legacy)
    result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  else if (result == CUDA_SUCCESS && stream->capture)
    result = CUDA_ERROR_ILLEGAL_STATE;
  if (result == CUDA_SUCCESS) {
    *capture = (struct capture){.id = ++last_id,
                                .graph = graph,
                                .origin = stream,
                                .mode = mode,
                                .thread = pthread_self(),
                                .next = captures};
    captures = capture;
    enter(stream, capture);
  }
  stream_unlock();
  if (result != CUDA_SUCCESS) {
    free(capture);
    graph_destroy(graph);
  }
  return result;
}

CUresult capture_end(CUstream handle, CUgraph *graph) {
  CUstream stream;
  *graph = NULL;
  stream_lock();
  CUresult result = stream_find(handle, &stream);
  struct capture *capture = result == CUDA_SUCCESS ? stream->capture : NULL;
  if (result == CUDA_SUCCESS && !capture)
    result = CUDA_ERROR_ILLEGAL_STATE;
  else if (result == CUDA_SUCCESS && capture->origin != stream)
    result = invalidate(capture, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
  else if (result == CUDA_SUCCESS && capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED &&
           !pthread_equal(capture->thread, pthread_self()))
    result = CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
  else if (result == CUDA_SUCCESS) {
    CUgraph made = capture->graph;
    if (!made)
      result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    else if (!graph_reaches_all(made, stream->tips, stream->ntips))
      result = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
    end(capture);
    if (result == CUDA_SUCCESS)
      *graph = made;
    else if (made)
      graph_discard(made);
  }
  stream_unlock();
  graph_release_discarded();
  return result;
}

/* The union of two sets of tips. */
static CUresult join_tips(CUstream stream, const CUgraphNode *nodes, size_t more) {
  CUgraphNode *all = malloc((stream->ntips + more + 1) * sizeof(CUgraphNode));
  if (!all)
    return CUDA_ERROR_OUT_OF_MEMORY;
  size_t count = stream->ntips;
  if (count)
    memcpy(all, stream->tips, count * sizeof(CUgraphNode));
  for (size_t i = 0; i < more; i++) {
    bool known = false;
    for (size_t j = 0; j < stream->ntips; j++)
      known |= all[j] == nodes[i];
    if (!known)
      all[count++] = nodes[i];
  }
  free(stream->tips);
  stream->tips = all;
  stream->ntips = count;
  return CUDA_SUCCESS;
}

CUresult capture_update_dependencies(CUstream handle, const CUgraphNode *nodes, size_t count,
                                     bool replaces) {
  CUstream stream;
  stream_lock();
  CUresult result = stream_find(handle, &stream);
  if (result == CUDA_SUCCESS && !stream->capture)
    result = CUDA_ERROR_ILLEGAL_STATE;
  if (result == CUDA_SUCCESS)
    result = capture_allows(stream);
  if (result == CUDA_SUCCESS && replaces) {
    if (!set_tips(&stream->tips, &stream->ntips, nodes, count))
      result = CUDA_ERROR_OUT_OF_MEMORY;
  } else if (result == CUDA_SUCCESS) {
    result = join_tips(stream, nodes, count);
  }
  stream_unlock();
  return result;
}

CUresult capture_get_info(CUstream handle, struct capture_info *info) {
  CUstream stream;
  *info = (struct capture_info){.status = CU_STREAM_CAPTURE_STATUS_NONE};
  stream_lock();
  CUresult result = stream_find(handle, &stream);
  if (result == CUDA_SUCCESS && !stream->capture)
    result = capture_allows(stream); /* asking for the legacy stream's is an implicit use of it */
  if (result == CUDA_SUCCESS && stream->capture) {
    struct capture *capture = stream->capture;
    *info = (struct capture_info){.status = capture->graph ? CU_STREAM_CAPTURE_STATUS_ACTIVE
                                                           : CU_STREAM_CAPTURE_STATUS_INVALIDATED,
                                  .id = capture->id,
                                  .graph = capture->graph,
                                  .tips = capture->graph ? stream->tips : NULL,
                                  .ntips = capture->graph ? stream->ntips : 0};
  }
  stream_unlock();
  return result;
}

CUstreamCaptureMode capture_exchange_mode(CUstreamCaptureMode mode) {
  CUstreamCaptureMode before = thread_mode;
  thread_mode = mode;
  return before;
}

/* The table of cuThreadExchangeStreamCaptureMode. */
CUresult capture_forbids_unsafe(void) {
  if (thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED)
    return CUDA_SUCCESS;
  bool forbidden = false;
  stream_lock();
  for (struct capture *capture = captures; capture; capture = capture->next) {
    bool own = pthread_equal(capture->thread, pthread_self());
    if (own && capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED)
      forbidden = true;
    if (!own && capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
        thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL)
      forbidden = true;
  }
  stream_unlock();
  return forbidden ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS;
}

CUresult capture_allows(CUstream stream) {
  if (stream->capture)
    return stream->capture->graph ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (stream != stream->context->legacy)
    return CUDA_SUCCESS;
  for (CUstream other = stream->context->streams; other; other = other->next)
    if (other->capture && !(other->flags & CU_STREAM_NON_BLOCKING))
      return invalidate(other->capture, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  return CUDA_SUCCESS;
}

static CUresult add(CUstream stream, struct work *work) {
  if (!work_is_node(work))
    return invalidate(stream->capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  CUgraphNode node = graph_add(stream->capture->graph, work, stream->tips, stream->ntips);
  if (!node || !set_tips(&stream->tips, &stream->ntips, &node, 1))
    return invalidate(stream->capture, CUDA_ERROR_OUT_OF_MEMORY);
  return CUDA_SUCCESS;
}

CUresult capture_or_enqueue(CUstream handle, struct work *work, struct marker *done) {
  CUstream stream;
  if (done)
    *done = (struct marker){0};
  stream_lock();
  CUresult result = stream_find(handle, &stream);
  if (result == CUDA_SUCCESS)
    result = capture_allows(stream);
  bool enqueue = result == CUDA_SUCCESS && !stream->capture;
  if (enqueue)
    result = stream_enqueue(stream, work, done);
  else if (result == CUDA_SUCCESS)
    result = add(stream, work);
  stream_unlock();
  if (!enqueue)
    work_release(work);
  return result;
}

CUresult capture_forbids_wait(CUstream stream) {
  CUresult result = capture_allows(stream);
  if (result != CUDA_SUCCESS || !stream->capture)
    return result;
  return invalidate(stream->capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
}

static struct capture *capture_of(CUevent event) {
  struct capture *capture = captures;
  while (capture && capture->id != event->capture)
    capture = capture->next;
  return capture;
}

CUresult capture_record(CUstream stream, CUevent event, unsigned flags) {
  if (flags & CU_EVENT_RECORD_EXTERNAL)
    return process_unsupported("CU_EVENT_RECORD_EXTERNAL in a capture");
  if (!set_tips(&event->tips, &event->ntips, stream->tips, stream->ntips))
    return CUDA_ERROR_OUT_OF_MEMORY;
  event->capture = stream->capture->id;
  return CUDA_SUCCESS;
}

CUresult capture_wait(CUstream stream, CUevent event, unsigned flags) {
  if (flags & CU_EVENT_WAIT_EXTERNAL)
    return process_unsupported("CU_EVENT_WAIT_EXTERNAL in a capture");
  struct capture *theirs = capture_of(event);
  if (stream->capture && !stream->capture->graph)
    return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (stream->capture && !event->capture)
    return invalidate(stream->capture, CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
  if (!theirs)
    return CUDA_ERROR_CAPTURED_EVENT;
  if (!theirs->graph)
    return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (stream == stream->context->legacy)
    return invalidate(theirs, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  if (stream->capture && stream->capture != theirs) {
    invalidate(stream->capture, CUDA_SUCCESS);
    return invalidate(theirs, CUDA_ERROR_STREAM_CAPTURE_MERGE);
  }
  if (!stream->capture)
    enter(stream, theirs);
  return join_tips(stream, event->tips, event->ntips);
}

CUresult capture_touch_event(CUevent event) {
  struct capture *capture = capture_of(event);
  if (capture)
    invalidate(capture, CUDA_SUCCESS);
  return CUDA_ERROR_CAPTURED_EVENT;
}

void capture_abandon(CUstream stream) {
  if (!stream->capture)
    return;
  struct capture *capture = stream->capture;
  if (capture->origin != stream) {
    leave(stream, capture);
    return;
  }
  invalidate(capture, CUDA_SUCCESS);
  end(capture);
}
