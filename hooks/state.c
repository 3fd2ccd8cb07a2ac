/* The list of buffers to be resynchronised, and what the driver knows of them (state.h). */
#include "hooks/state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hooks/contribution.h"

void state_init(struct state *state) {
  memset(state, 0, sizeof *state);
  pthread_mutex_init(&state->lock, NULL);
  pthread_cond_init(&state->idle, NULL);
}

void state_free(struct state *state) {
  pthread_mutex_lock(&state->lock);
  free(state->buffers);
  state->buffers = NULL;
  state->nbuffers = state->room = 0;
  pthread_mutex_unlock(&state->lock);
}

/* Bytes of a buffer; 0 if they cannot be counted. */
static size_t state_bytes(const struct state_buffer *buffer) {
  size_t bytes = 0;
  return __builtin_mul_overflow(buffer->count, (uint64_t)contribution_one(buffer->datatype).size,
                                &bytes)
             ? 0
             : bytes;
}

/* ---- what the driver knows ---- */

struct allocation {
  unsigned long long number;
  CUdeviceptr begin;
  size_t bytes;
  unsigned type; /* CUmemorytype */
  int device;
};

static bool look_up(const struct cuda_driver *cuda, const void *address, struct allocation *found) {
  const CUdeviceptr at = (CUdeviceptr)(uintptr_t)address;
  *found = (struct allocation){0};
  return cuda->PointerGetAttribute(&found->type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at) ==
             CUDA_SUCCESS &&
         cuda->PointerGetAttribute(&found->device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, at) ==
             CUDA_SUCCESS &&
         cuda->PointerGetAttribute(&found->number, CU_POINTER_ATTRIBUTE_BUFFER_ID, at) ==
             CUDA_SUCCESS &&
         cuda->PointerGetAttribute(&found->begin, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, at) ==
             CUDA_SUCCESS &&
         cuda->PointerGetAttribute(&found->bytes, CU_POINTER_ATTRIBUTE_RANGE_SIZE, at) ==
             CUDA_SUCCESS &&
         found->type == CU_MEMORYTYPE_DEVICE;
}

static bool state_holds(const struct allocation *allocation, const struct state_buffer *buffer) {
  size_t offset = (CUdeviceptr)(uintptr_t)buffer->address - allocation->begin;
  size_t bytes = state_bytes(buffer);
  return bytes != 0 && offset <= allocation->bytes && bytes <= allocation->bytes - offset;
}

enum state_condition state_look(const struct cuda_driver *cuda, const struct state_buffer *buffer) {
  struct allocation now;
  if (!look_up(cuda, buffer->address, &now))
    return STATE_FREED;
  if (now.number != buffer->allocation)
    return STATE_REPLACED;
  return state_holds(&now, buffer) ? STATE_THERE : STATE_FREED;
}

/* ---- the list ---- */

/* With the lock. */
static struct state_buffer *state_find_buffer(struct state *state, uint32_t comm,
                                              const void *address) {
  for (uint32_t i = 0; i < state->nbuffers; i++)
    if (state->buffers[i].comm == comm && state->buffers[i].address == address)
      return &state->buffers[i];
  return NULL;
}

/* With the lock. */
static bool state_put(struct state *state, struct state_buffer buffer) {
  struct state_buffer *same = state_find_buffer(state, buffer.comm, buffer.address);
  if (same != NULL) {
    buffer.number = same->number;
    *same = buffer;
    return true;
  }
  if (state->nbuffers == state->room) {
    uint32_t room = 2 * state->room + 16;
    struct state_buffer *buffers = realloc(state->buffers, room * sizeof *buffers);
    if (buffers == NULL)
      return false;
    state->buffers = buffers;
    state->room = room;
  }
  state->buffers[state->nbuffers++] = buffer;
  return true;
}

bool state_add(struct state *state, const struct cuda_driver *cuda, int device,
               struct state_buffer buffer, char *reason) {
  struct allocation found;
  if (state_bytes(&buffer) == 0) {
    (void)snprintf(reason, REASON_SIZE, "%llu elements of datatype %u are no buffer",
                   (unsigned long long)buffer.count, buffer.datatype);
    return false;
  }
  if (!look_up(cuda, buffer.address, &found) || !state_holds(&found, &buffer) ||
      found.device != device) {
    (void)snprintf(
        reason, REASON_SIZE,
        "the %zu bytes from %p on are not memory of CUDA device %d, which the communicator is on",
        state_bytes(&buffer), buffer.address, device);
    return false;
  }
  buffer.allocation = found.number;
  pthread_mutex_lock(&state->lock);
  bool added = state_put(state, buffer);
  pthread_mutex_unlock(&state->lock);
  if (!added)
    (void)snprintf(reason, REASON_SIZE, "out of memory");
  return added;
}

/* With the lock. */
static void take_out(struct state *state, uint32_t at) {
  for (state->nbuffers--; at < state->nbuffers; at++)
    state->buffers[at] = state->buffers[at + 1];
}

void state_hold(struct state *state) {
  pthread_mutex_lock(&state->lock);
  state->users++;
  pthread_mutex_unlock(&state->lock);
}

void state_release(struct state *state) {
  pthread_mutex_lock(&state->lock);
  if (--state->users == 0)
    pthread_cond_broadcast(&state->idle);
  pthread_mutex_unlock(&state->lock);
}

/* With the lock. */
static bool take_out_at(struct state *state, uint32_t comm, const void *address) {
  const struct state_buffer *buffer = state_find_buffer(state, comm, address);
  if (buffer != NULL)
    take_out(state, (uint32_t)(buffer - state->buffers));
  return buffer != NULL;
}

bool state_remove(struct state *state, uint32_t comm, const void *address) {
  pthread_mutex_lock(&state->lock);
  while (state->users > 0)
    pthread_cond_wait(&state->idle, &state->lock);
  bool removed = take_out_at(state, comm, address);
  pthread_mutex_unlock(&state->lock);
  return removed;
}

void state_drop(struct state *state, uint32_t comm, const void *address) {
  pthread_mutex_lock(&state->lock);
  (void)take_out_at(state, comm, address);
  pthread_mutex_unlock(&state->lock);
}

void state_remove_all(struct state *state, uint32_t comm) {
  pthread_mutex_lock(&state->lock);
  for (uint32_t i = state->nbuffers; i > 0; i--)
    if (state->buffers[i - 1].comm == comm)
      take_out(state, i - 1);
  pthread_mutex_unlock(&state->lock);
}

struct state_buffer *state_list(struct state *state, uint32_t *nbuffers) {
  struct state_buffer *list = NULL;
  pthread_mutex_lock(&state->lock);
  *nbuffers = state->nbuffers;
  if (state->nbuffers != 0)
    list = malloc(state->nbuffers * sizeof *list);
  if (list != NULL)
    memcpy(list, state->buffers, state->nbuffers * sizeof *list);
  else
    *nbuffers = 0;
  pthread_mutex_unlock(&state->lock);
  return list;
}

bool state_find(struct state *state, uint32_t comm, uint32_t number, struct state_buffer *buffer) {
  bool found = false;
  pthread_mutex_lock(&state->lock);
  for (uint32_t i = 0; i < state->nbuffers && !found; i++) {
    found = state->buffers[i].comm == comm && state->buffers[i].number == number;
    if (found)
      *buffer = state->buffers[i];
  }
  pthread_mutex_unlock(&state->lock);
  return found;
}
