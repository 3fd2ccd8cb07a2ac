/* Memory of one device's shadows (shadow_device.h). Growing a buffer never waits while there is
 * memory: the peers may be waiting for the very unit that the buffer is for.
 */
#include "hooks/shadow_device.h"

#include <assert.h>
#include <stdlib.h>

#include "hooks/registrable.h"

/* ---- what a unit needs ---- */

static struct send_buffer *find_send(const struct memory *memory, uint64_t pattern) {
  for (unsigned i = 0; i < memory->nsends; i++)
    if (memory->sends[i].pattern == pattern)
      return (struct send_buffer *)&memory->sends[i];
  return NULL;
}

static size_t round_up(size_t bytes, size_t multiple) {
  return bytes > SIZE_MAX - multiple ? SIZE_MAX / multiple * multiple
                                     : (bytes + multiple - 1) / multiple * multiple;
}

void device_needs_begin(struct shadow *device) {
  for (unsigned kind = 0; kind < device->nmemories; kind++) {
    struct memory *memory = &device->memories[kind];
    for (unsigned i = 0; i < memory->nsends; i++)
      memory->sends[i].buffer.needed = 0;
    memory->receive.needed = 0;
    memory->received = 0;
  }
}

struct memory *device_memory(struct shadow *device, unsigned look) {
  for (unsigned kind = 0; kind < device->nmemories; kind++)
    if (device->memories[kind].look == look)
      return &device->memories[kind];
  if (device->nmemories == DEVICE_MEMORIES)
    return NULL;
  struct memory *memory = &device->memories[device->nmemories++];
  *memory = (struct memory){.look = look};
  return memory;
}

void device_needs_send(struct memory *memory, uint64_t pattern, size_t bytes) {
  struct send_buffer *send = find_send(memory, pattern);
  if (send == NULL) {
    send = &memory->sends[memory->nsends++];
    *send = (struct send_buffer){.pattern = pattern};
  }
  if (bytes > send->buffer.needed)
    send->buffer.needed = bytes;
}

size_t device_add_piece(size_t bytes, size_t piece) {
  return __builtin_add_overflow(bytes, round_up(piece, DEVICE_ALIGNMENT), &bytes) ? SIZE_MAX
                                                                                  : bytes;
}

void device_needs_receive(struct memory *memory, size_t bytes) {
  memory->receive.needed = device_add_piece(memory->receive.needed, bytes);
}

/* The driver's addresses are numbers, NCCL's are pointers. */
static void *pointer_to(CUdeviceptr address) {
  return (void *)address;
}

const void *device_send(const struct memory *memory, uint64_t pattern) {
  return pointer_to(find_send(memory, pattern)->buffer.address);
}

void *device_receive(struct memory *memory, size_t bytes) {
  void *piece = pointer_to(memory->receive.address + memory->received);
  memory->received += round_up(bytes, DEVICE_ALIGNMENT);
  assert(memory->received <= memory->receive.bytes);
  return piece;
}

void device_receive_again(struct shadow *device) {
  for (unsigned kind = 0; kind < device->nmemories; kind++)
    device->memories[kind].received = 0;
}

/* ---- what is registered ---- */

static ncclResult_t register_buffer(struct shadow *device, const struct nccl_calls *nccl,
                                    struct buffer *buffer, ncclComm_t comm) {
  for (unsigned i = 0; i < buffer->nregistrations; i++)
    if (buffer->registrations[i].comm == comm)
      return ncclSuccess;
  struct registration *more =
      realloc(buffer->registrations, (buffer->nregistrations + 1) * sizeof *more);
  if (more == NULL)
    return ncclSystemError;
  buffer->registrations = more;
  void *handle = NULL;
  device->deregister = nccl->CommDeregister;
  ncclResult_t result =
      nccl->CommRegister(comm, pointer_to(buffer->address), buffer->bytes, &handle);
  if (result == ncclSuccess)
    buffer->registrations[buffer->nregistrations++] = (struct registration){comm, handle};
  return result;
}

ncclResult_t device_register(struct shadow *device, const struct nccl_calls *nccl,
                             struct memory *memory, const uint64_t *pattern, ncclComm_t comm) {
  ncclResult_t result = ncclSuccess;
  if (pattern != NULL)
    result = register_buffer(device, nccl, &find_send(memory, *pattern)->buffer, comm);
  if (result == ncclSuccess && memory->receive.needed != 0)
    result = register_buffer(device, nccl, &memory->receive, comm);
  if (result == ncclSuccess && memory->lent_out != 0)
    result = register_buffer(device, nccl, &memory->lent, comm);
  return result;
}

/* comm NULL: with all. */
static void take_back(const struct shadow *device, struct buffer *buffer, ncclComm_t comm,
                      bool tell) {
  unsigned kept = 0;
  for (unsigned i = 0; i < buffer->nregistrations; i++) {
    struct registration *of = &buffer->registrations[i];
    if (comm != NULL && of->comm != comm)
      buffer->registrations[kept++] = *of;
    else if (tell && device->deregister != NULL)
      (void)device->deregister(of->comm, of->handle);
  }
  buffer->nregistrations = kept;
  if (kept == 0) {
    free(buffer->registrations);
    buffer->registrations = NULL;
  }
}

void device_forget(struct shadow *device, ncclComm_t comm) {
  for (unsigned kind = 0; kind < device->nmemories; kind++) {
    struct memory *memory = &device->memories[kind];
    for (unsigned i = 0; i < memory->nsends; i++)
      take_back(device, &memory->sends[i].buffer, comm, false);
    take_back(device, &memory->receive, comm, false);
    take_back(device, &memory->lent, comm, false);
  }
  for (unsigned i = 0; i < device->nretired; i++)
    take_back(device, &device->retired[i], comm, false);
}

/* ---- memory ---- */

/* A pattern of two unlike halves is laid down once and then doubled by copies: the driver sets at
 * most 32 bits. */
static CUresult fill_buffer(const struct shadow *device, struct buffer buffer, uint64_t pattern) {
  const struct cuda_driver *cuda = device->cuda;
  uint32_t low = (uint32_t)pattern;
  uint32_t high = (uint32_t)(pattern >> 32);
  if (buffer.block != 0)
    buffer.bytes = buffer.block;
  if (low == high)
    return cuda->MemsetD32Async(buffer.address, low, buffer.bytes / sizeof low, device->stream);
  CUresult result = cuda->MemsetD32Async(buffer.address, low, 1, device->stream);
  if (result == CUDA_SUCCESS)
    result = cuda->MemsetD32Async(buffer.address + sizeof low, high, 1, device->stream);
  size_t filled = sizeof pattern;
  while (result == CUDA_SUCCESS && filled < buffer.bytes) {
    size_t bytes = filled < buffer.bytes - filled ? filled : buffer.bytes - filled;
    result = cuda->MemcpyDtoDAsync(buffer.address + filled, buffer.address, bytes, device->stream);
    filled += bytes;
  }
  return result;
}

CUresult device_fill(const struct shadow *device, void *address, size_t bytes, uint64_t pattern) {
  const struct buffer piece = {.address = (CUdeviceptr)(uintptr_t)address,
                               .bytes = round_up(bytes, DEVICE_ALIGNMENT)};
  return fill_buffer(device, piece, pattern);
}

static void free_buffer(struct shadow *device, struct buffer *buffer) {
  struct alias alias = {buffer->address, buffer->bytes, buffer->block};
  take_back(device, buffer, NULL, true);
  if (buffer->registrable.start != 0)
    registrable_free(device->cuda, &buffer->registrable);
  else if (buffer->block != 0)
    alias_free(device->cuda, &alias);
  else if (buffer->address != 0)
    (void)device->cuda->MemFree(buffer->address);
  *buffer = (struct buffer){.needed = buffer->needed};
}

static void free_retired(struct shadow *device) {
  while (device->nretired > 0)
    free_buffer(device, &device->retired[--device->nretired]);
}

void shadow_free_kept(int number) {
  for (struct shadow *device = device_take_all_kept(number), *next; device != NULL; device = next) {
    next = device->next;
    device_free(device);
    (void)device->cuda->DevicePrimaryCtxRelease(device->device);
    free(device);
  }
}

/* Gives back what the unit being prepared does not need, `buffer` too: it is too small. To free
 * memory waits for all that the device has been given, without a limit: here that has passed. */
static CUresult give_back(struct shadow *device, struct buffer *buffer,
                          const struct shadow_limit *limit) {
  CUresult result = device_wait(device, limit);
  if (result == CUDA_SUCCESS)
    result = device_synchronise(device, limit);
  if (result != CUDA_SUCCESS)
    return result;
  shadow_free_kept(device->number);
  free_retired(device);
  free_buffer(device, buffer);
  for (unsigned kind = 0; kind < device->nmemories; kind++) {
    struct memory *memory = &device->memories[kind];
    for (unsigned i = 0; i < memory->nsends; i++)
      if (memory->sends[i].buffer.needed == 0)
        free_buffer(device, &memory->sends[i].buffer);
    if (memory->receive.needed == 0)
      free_buffer(device, &memory->receive);
    if (memory->lent.needed == 0)
      free_buffer(device, &memory->lent);
  }
  return CUDA_SUCCESS;
}

static size_t larger_size(const struct buffer *buffer) {
  size_t bytes = round_up(buffer->needed, DEVICE_GRANULE);
  return bytes / 2 < buffer->bytes ? buffer->bytes * 2 : bytes;
}

static CUresult allocate_registrable(struct shadow *device, unsigned look, struct buffer *buffer) {
  CUresult result =
      registrable_allocate(device->cuda, device->device, look, buffer->bytes, &buffer->registrable);
  if (result != CUDA_SUCCESS) {
    buffer->registrable = (struct registrable){0};
    return result;
  }
  buffer->address = buffer->registrable.address;
  buffer->bytes = buffer->registrable.bytes / DEVICE_ALIGNMENT * DEVICE_ALIGNMENT;
  return CUDA_SUCCESS;
}

/* buffer->bytes of memory. A device that cannot alias is not asked again. alias false: each byte is
 * to be one of its own, as of what is registered: NCCL has peers read and write there. */
static CUresult shadow_allocate(struct shadow *device, const struct memory *memory, bool alias,
                                struct buffer *buffer) {
  if (memory->look != 0)
    return allocate_registrable(device, memory->look, buffer);
  if (alias && device->aliases && buffer->bytes > ALIAS_BLOCK) {
    struct alias made;
    CUresult result = alias_allocate(device->cuda, device->device, buffer->bytes, &made);
    if (result == CUDA_SUCCESS) {
      buffer->address = made.address;
      buffer->bytes = made.bytes;
      buffer->block = made.block;
    }
    if (result == CUDA_SUCCESS || result == CUDA_ERROR_OUT_OF_MEMORY)
      return result;
    device->aliases = false;
  }
  return device->cuda->MemAlloc(&buffer->address, buffer->bytes);
}

/* pattern NULL: content does not matter. */
static bool shadow_grow(struct shadow *device, struct memory *memory, struct buffer *buffer,
                        const uint64_t *pattern, const struct shadow_limit *limit,
                        struct device_failure *failure) {
  struct buffer larger = {.bytes = larger_size(buffer), .needed = buffer->needed};
  size_t enough = round_up(buffer->needed, DEVICE_GRANULE);
  bool alias = buffer != &memory->lent; /* there the owner of a plug-in writes */
  CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
  if (device->nretired < DEVICE_RETIRED &&
      device_take_kept(device, memory->look, alias && device->aliases, enough, &larger)) {
    result = CUDA_SUCCESS;
  } else if (device->nretired < DEVICE_RETIRED) {
    result = shadow_allocate(device, memory, alias, &larger);
    if (result == CUDA_ERROR_OUT_OF_MEMORY && larger.bytes > enough) {
      larger.bytes = enough;
      result = shadow_allocate(device, memory, alias, &larger);
    }
  }
  if (result == CUDA_ERROR_OUT_OF_MEMORY) {
    larger.bytes = enough;
    CUresult waited = give_back(device, buffer, limit);
    failure->stuck = waited == CUDA_ERROR_NOT_READY;
    if (waited == CUDA_SUCCESS)
      result = shadow_allocate(device, memory, alias, &larger);
    else if (!failure->stuck)
      result = waited;
  }
  failure->bytes = larger.bytes;
  failure->error = result;
  if (result != CUDA_SUCCESS)
    return false;
  if (pattern != NULL && (result = fill_buffer(device, larger, *pattern)) != CUDA_SUCCESS) {
    *failure = (struct device_failure){.error = result};
    free_buffer(device, &larger);
    return false;
  }
  if (buffer->address != 0)
    device->retired[device->nretired++] = *buffer;
  *buffer = larger;
  return true;
}

static bool grow_memory(struct shadow *device, struct memory *memory,
                        const struct shadow_limit *limit, struct device_failure *failure) {
  for (unsigned i = 0; i < memory->nsends; i++) {
    struct send_buffer *send = &memory->sends[i];
    if (send->buffer.needed > send->buffer.bytes &&
        !shadow_grow(device, memory, &send->buffer, &send->pattern, limit, failure))
      return false;
  }
  return memory->receive.needed <= memory->receive.bytes ||
         shadow_grow(device, memory, &memory->receive, NULL, limit, failure);
}

static bool is_enough(const struct memory *memory) {
  bool enough = memory->receive.needed <= memory->receive.bytes;
  for (unsigned i = 0; i < memory->nsends; i++)
    enough = enough && memory->sends[i].buffer.needed <= memory->sends[i].buffer.bytes;
  return enough;
}

bool device_allocate(struct shadow *device, const struct shadow_limit *limit,
                     struct device_failure *failure) {
  bool enough = true;
  for (unsigned kind = 0; kind < device->nmemories; kind++)
    enough = enough && is_enough(&device->memories[kind]);
  if (enough)
    return true;
  struct device_entry entry;
  *failure = (struct device_failure){.error = device_enter(device, &entry)};
  if (failure->error != CUDA_SUCCESS)
    return false;
  bool grown = true;
  for (unsigned kind = 0; kind < device->nmemories && grown; kind++)
    grown = grow_memory(device, &device->memories[kind], limit, failure);
  device_leave(device, &entry);
  return grown;
}

bool device_lend_begin(struct shadow *device, struct memory *memory, size_t bytes,
                       const struct shadow_limit *limit, struct device_failure *failure) {
  memory->lent.needed = bytes;
  memory->lent_out = 0;
  if (bytes <= memory->lent.bytes)
    return true;
  struct device_entry entry;
  *failure = (struct device_failure){.error = device_enter(device, &entry)};
  if (failure->error != CUDA_SUCCESS)
    return false;
  bool grown = shadow_grow(device, memory, &memory->lent, NULL, limit, failure);
  device_leave(device, &entry);
  return grown;
}

bool device_lend(struct shadow *device, struct memory *memory, uint64_t pattern, size_t bytes,
                 const void **address, struct device_failure *failure) {
  struct buffer piece = {.address = memory->lent.address + memory->lent_out,
                         .bytes = round_up(bytes, DEVICE_ALIGNMENT)};
  struct device_entry entry;
  memory->lent_out += piece.bytes;
  assert(memory->lent_out <= memory->lent.bytes);
  *failure = (struct device_failure){.error = device_enter(device, &entry)};
  if (failure->error != CUDA_SUCCESS)
    return false;
  failure->error = fill_buffer(device, piece, pattern);
  device_leave(device, &entry);
  *address = pointer_to(piece.address);
  return failure->error == CUDA_SUCCESS;
}

static void free_memory(struct shadow *device, struct memory *memory, bool there) {
  for (unsigned i = 0; i < memory->nsends; i++)
    if (there)
      free_buffer(device, &memory->sends[i].buffer);
  if (there) {
    free_buffer(device, &memory->receive);
    free_buffer(device, &memory->lent);
  }
  *memory = (struct memory){.look = memory->look};
}

/* Without the context its memory is gone too, and the addresses may be somebody else's. */
void device_free(struct shadow *device) {
  struct device_entry entry;
  bool there = device_enter(device, &entry) == CUDA_SUCCESS;
  if (there)
    free_retired(device);
  else
    device_forget(device, NULL);
  for (unsigned kind = 0; kind < device->nmemories; kind++)
    free_memory(device, &device->memories[kind], there);
  if (there)
    device_leave(device, &entry);
  device->nretired = 0;
}

static size_t shadow_held(const struct buffer *buffer) {
  if (buffer->registrable.start != 0)
    return (size_t)(buffer->address - buffer->registrable.start) + buffer->registrable.bytes;
  return buffer->block != 0 ? buffer->block : buffer->bytes;
}

size_t device_bytes(const struct shadow *device) {
  size_t bytes = 0;
  for (unsigned kind = 0; kind < device->nmemories; kind++) {
    const struct memory *memory = &device->memories[kind];
    bytes += shadow_held(&memory->receive) + shadow_held(&memory->lent);
    for (unsigned i = 0; i < memory->nsends; i++)
      bytes += shadow_held(&memory->sends[i].buffer);
  }
  for (unsigned i = 0; i < device->nretired; i++)
    bytes += shadow_held(&device->retired[i]);
  return bytes;
}
