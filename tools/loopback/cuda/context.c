/* Contexts and each thread's stack of them. */
#include "tools/loopback/cuda/context.h"

#include <pthread.h>
#include <stdlib.h>

#include "tools/loopback/cuda/handle.h"
#include "tools/loopback/cuda/memory.h"
#include "tools/loopback/cuda/stream.h"

/* CUDA has no limit; a program that nests deeper than this has lost a pop. */
#define STACK_MAX 16

/* Guards the fields of struct CUctx_st that say so, and contexts. Taken before no other lock. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct handle_set contexts;
static uint64_t last_id;

static _Thread_local CUcontext stack[STACK_MAX];
static _Thread_local int depth;

static CUcontext create(struct device *device, bool primary, unsigned flags) {
  CUcontext context = calloc(1, sizeof *context);
  if (!context)
    return NULL;
  pthread_mutex_lock(&lock);
  *context = (struct CUctx_st){.device = device,
                               .primary = primary,
                               .id = ++last_id,
                               .flags = flags,
                               .retained = primary ? 0 : 1};
  bool added = handle_add(&contexts, context);
  pthread_mutex_unlock(&lock);
  if (!added) {
    free(context);
    return NULL;
  }
  return context;
}

CUcontext context_create_primary(struct device *device) {
  return create(device, true, 0);
}

CUresult context_create(CUcontext *context, unsigned flags, struct device *device) {
  CUcontext made = create(device, false, flags);
  if (!made)
    return CUDA_ERROR_OUT_OF_MEMORY;
  CUresult result = context_push(made);
  if (result != CUDA_SUCCESS)
    made->retained = 0; /* remembered as one that is gone */
  else
    *context = made;
  return result; /* NOLINT(clang-analyzer-unix.Malloc): contexts are never freed */
}

static void empty(CUcontext context) {
  stream_drain_context(context);
  stream_destroy_context(context);
  memory_free_context(context);
}

CUresult context_destroy(CUcontext context) {
  pthread_mutex_lock(&lock);
  bool live = handle_is_live(&contexts, context) && context->retained && !context->primary;
  if (live)
    context->retained = 0;
  pthread_mutex_unlock(&lock);
  if (!live)
    return CUDA_ERROR_INVALID_CONTEXT;
  empty(context);
  if (context_peek() == context)
    context_pop(&context);
  return CUDA_SUCCESS;
}

CUresult context_retain_primary(struct device *device, CUcontext *context) {
  if (!device->primary)
    return CUDA_ERROR_OUT_OF_MEMORY;
  pthread_mutex_lock(&lock);
  device->primary->retained++;
  pthread_mutex_unlock(&lock);
  *context = device->primary;
  return CUDA_SUCCESS;
}

CUresult context_release_primary(struct device *device) {
  CUcontext context = device->primary;
  pthread_mutex_lock(&lock);
  bool held = context->retained > 0;
  bool last = held && --context->retained == 0;
  pthread_mutex_unlock(&lock);
  if (last)
    empty(context);
  return held ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult context_reset_primary(struct device *device) {
  CUcontext context = device->primary;
  pthread_mutex_lock(&lock);
  bool held = context->retained > 0;
  context->retained = 0;
  context->flags = 0;
  context->peers = 0;
  pthread_mutex_unlock(&lock);
  if (held)
    empty(context);
  return CUDA_SUCCESS;
}

void context_primary_state(struct device *device, unsigned *flags, bool *active) {
  pthread_mutex_lock(&lock);
  *flags = device->primary->flags;
  *active = device->primary->retained > 0;
  pthread_mutex_unlock(&lock);
}

void context_primary_set_flags(struct device *device, unsigned flags) {
  pthread_mutex_lock(&lock);
  device->primary->flags = flags;
  pthread_mutex_unlock(&lock);
}

bool context_is_live(CUcontext context) {
  pthread_mutex_lock(&lock);
  bool live = handle_is_live(&contexts, context) && context->retained;
  pthread_mutex_unlock(&lock);
  return live;
}

CUresult context_current(CUcontext *context) {
  *context = context_peek();
  if (!*context)
    return CUDA_ERROR_INVALID_CONTEXT;
  return context_is_live(*context) ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

CUcontext context_peek(void) {
  return depth ? stack[depth - 1] : NULL;
}

void context_set(CUcontext context) {
  if (depth == 0)
    depth = 1;
  stack[depth - 1] = context;
  if (!context)
    depth--;
}

CUresult context_push(CUcontext context) {
  if (depth == STACK_MAX)
    return CUDA_ERROR_OUT_OF_MEMORY;
  stack[depth++] = context;
  return CUDA_SUCCESS;
}

CUresult context_pop(CUcontext *context) {
  if (!depth)
    return CUDA_ERROR_INVALID_CONTEXT;
  *context = stack[--depth];
  return CUDA_SUCCESS;
}

CUresult context_enable_peer(CUcontext from, CUcontext to) {
  uint64_t bit = UINT64_C(1) << to->device->ordinal;
  pthread_mutex_lock(&lock);
  bool enabled = from->peers & bit;
  from->peers |= bit;
  pthread_mutex_unlock(&lock);
  return enabled ? CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED : CUDA_SUCCESS;
}

CUresult context_disable_peer(CUcontext from, CUcontext to) {
  uint64_t bit = UINT64_C(1) << to->device->ordinal;
  pthread_mutex_lock(&lock);
  bool enabled = from->peers & bit;
  from->peers &= ~bit;
  pthread_mutex_unlock(&lock);
  return enabled ? CUDA_SUCCESS : CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
}
