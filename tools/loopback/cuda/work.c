/* Binding and running of work. */
#include "tools/loopback/cuda/work.h"

#include <stdlib.h>
#include <string.h>

#include "tools/loopback/cuda/event.h"
#include "tools/loopback/cuda/memory.h"

/* Bytes from the first to the last of a shape. */
static size_t span(struct work_rows shape, size_t pitch) {
  if (!shape.width || !shape.rows)
    return 0;
  return (shape.rows - 1) * pitch + shape.width;
}

static CUresult bind_copy(struct work *work, struct work_places *places) {
  struct memory_view to, from;
  size_t to_size = span(work->copy.shape, work->copy.to_pitch);
  size_t from_size = span(work->copy.shape, work->copy.from_pitch);
  CUresult result = memory_view(work->copy.to, to_size, work->copy.to_places, true, &to);
  if (result == CUDA_SUCCESS)
    result = memory_view(work->copy.from, from_size, work->copy.from_places, false, &from);
  if (result != CUDA_SUCCESS)
    return result;
  work->copy.to_bytes = to.bytes;
  work->copy.from_bytes = from.bytes;
  if (places)
    *places = (struct work_places){.to = to.place, .from = from.place};
  return CUDA_SUCCESS;
}

static CUresult bind_fill(struct work *work, struct work_places *places) {
  struct memory_view to;
  size_t size = span(work->fill.shape, work->fill.pitch);
  CUresult result = memory_view(work->fill.to, size, PLACE_FOR_DEVICE, true, &to);
  if (result != CUDA_SUCCESS)
    return result;
  work->fill.to_bytes = to.bytes;
  if (places)
    *places = (struct work_places){.to = to.place};
  return CUDA_SUCCESS;
}

CUresult work_bind(struct work *work, struct work_places *places) {
  if (places)
    *places = (struct work_places){0};
  switch (work->kind) {
  case WORK_COPY:
    return bind_copy(work, places);
  case WORK_FILL:
    return bind_fill(work, places);
  case WORK_NOTHING:
  case WORK_HOST_FUNCTION:
  case WORK_CALLBACK:
  case WORK_RECORD:
  case WORK_AWAIT:
  case WORK_FREE:
  case WORK_GRAPH:
    return CUDA_SUCCESS;
  }
  abort();
}

static void run_copy(const struct work *work) {
  char *to = work->copy.to_bytes;
  const char *from = work->copy.from_bytes;
  for (size_t row = 0; row < work->copy.shape.rows; row++) {
    /* memmove: CUDA leaves overlap undefined, sanitizers do not. */
    memmove(to, from, work->copy.shape.width);
    to += work->copy.to_pitch;
    from += work->copy.from_pitch;
  }
}

static void run_fill(const struct work *work) {
  for (size_t row = 0; row < work->fill.shape.rows; row++) {
    char *to = work->fill.to_bytes + row * work->fill.pitch;
    if (work->fill.element == 1)
      memset(to, (int)work->fill.value, work->fill.shape.width);
    else
      for (size_t i = 0; i < work->fill.shape.width; i += work->fill.element)
        memcpy(to + i, &work->fill.value, work->fill.element);
  }
}

void work_run(const struct work *work) {
  switch (work->kind) {
  case WORK_NOTHING:
    break;
  case WORK_COPY:
    run_copy(work);
    break;
  case WORK_FILL:
    run_fill(work);
    break;
  case WORK_HOST_FUNCTION:
    work->host.function(work->host.argument);
    break;
  case WORK_CALLBACK:
    work->callback.function(work->callback.stream, CUDA_SUCCESS, work->callback.argument);
    break;
  case WORK_RECORD:
    recording_stamp(work->recording);
    break;
  case WORK_AWAIT:
    recording_wait(work->recording);
    break;
  case WORK_FREE:
    memory_free(work->freed, 1u << MEMORY_DEVICE);
    break;
  case WORK_GRAPH:
    for (size_t i = 0; i < work->graph.count; i++)
      work_run(&work->graph.nodes[i]);
    break;
  }
}

void work_release(struct work *work) {
  switch (work->kind) {
  case WORK_COPY:
    free(work->copy.staging);
    break;
  case WORK_RECORD:
  case WORK_AWAIT:
    recording_release(work->recording);
    break;
  case WORK_GRAPH:
    free(work->graph.nodes);
    objects_release(&work->graph.objects);
    break;
  case WORK_NOTHING:
  case WORK_FILL:
  case WORK_HOST_FUNCTION:
  case WORK_CALLBACK:
  case WORK_FREE:
    break;
  }
  work->kind = WORK_NOTHING;
}

bool work_is_node(const struct work *work) {
  return work->kind == WORK_NOTHING || work->kind == WORK_COPY || work->kind == WORK_FILL ||
         work->kind == WORK_HOST_FUNCTION;
}
