/* Context, stream and memory of one device's shadows. Growing a buffer never waits while there is
 * memory: the peers may be waiting for the very unit that the buffer is for.
 */
#include "hooks/shadow_device.h"

#include <assert.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#define PAUSE_FIRST_NS 2000
#define PAUSE_LAST_NS 1000000

bool limit_pause(const struct shadow_limit *limit, uint64_t *pause_ns) {
  if (limit->give_up != NULL && limit->give_up(limit->context))
    return false;
  struct timespec now;
  (void)clock_gettime(CLOCK_MONOTONIC, &now);
  if ((uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec >= limit->until_ns)
    return false;
  *pause_ns = *pause_ns == 0 ? PAUSE_FIRST_NS : *pause_ns * 2;
  if (*pause_ns > PAUSE_LAST_NS)
    *pause_ns = PAUSE_LAST_NS;
  (void)nanosleep(&(struct timespec){.tv_nsec = (long)*pause_ns}, NULL);
  return true;
}

CUresult device_enter(const struct shadow *device, struct device_entry *entry) {
  CUresult result = device->cuda->CtxPushCurrent(device->context);
  if (result != CUDA_SUCCESS)
    return result;
  entry->mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  if (device->cuda->ThreadExchangeStreamCaptureMode != NULL)
    (void)device->cuda->ThreadExchangeStreamCaptureMode(&entry->mode);
  return CUDA_SUCCESS;
}

void device_leave(const struct shadow *device, struct device_entry *entry) {
  if (device->cuda->ThreadExchangeStreamCaptureMode != NULL)
    (void)device->cuda->ThreadExchangeStreamCaptureMode(&entry->mode);
  CUcontext context = NULL;
  (void)device->cuda->CtxPopCurrent(&context);
}

bool device_open(struct shadow *device, CUresult *failure) {
  const struct cuda_driver *cuda = device->cuda;
  if ((*failure = cuda->DeviceGet(&device->device, device->number)) != CUDA_SUCCESS)
    return false;
  if ((*failure = cuda->DevicePrimaryCtxRetain(&device->context, device->device)) != CUDA_SUCCESS)
    return false;
  struct device_entry entry;
  *failure = device_enter(device, &entry);
  if (*failure == CUDA_SUCCESS) {
    int least = 0;
    int greatest = 0;
    *failure = cuda->CtxGetStreamPriorityRange(&least, &greatest);
    if (*failure == CUDA_SUCCESS)
      *failure = cuda->StreamCreateWithPriority(&device->stream, CU_STREAM_NON_BLOCKING, greatest);
    device_leave(device, &entry);
  }
  if (*failure != CUDA_SUCCESS)
    (void)cuda->DevicePrimaryCtxRelease(device->device);
  return *failure == CUDA_SUCCESS;
}

/* The driver, or the context (cudaDeviceReset), is gone: so is what ran in it and what it had
 * allocated. */
static bool is_gone(CUresult result) {
  return result == CUDA_ERROR_DEINITIALIZED || result == CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

CUresult device_wait(const struct shadow *device, const struct shadow_limit *limit) {
  struct device_entry entry;
  CUresult result = device_enter(device, &entry);
  if (result != CUDA_SUCCESS)
    return is_gone(result) ? CUDA_SUCCESS : result;
  uint64_t pause_ns = 0;
  do {
    result = device->cuda->StreamQuery(device->stream);
  } while (result == CUDA_ERROR_NOT_READY && limit_pause(limit, &pause_ns));
  device_leave(device, &entry);
  return is_gone(result) ? CUDA_SUCCESS : result;
}

/* ---- how many are under way ---- */

void device_mark(struct shadow *device) {
  const struct cuda_driver *cuda = device->cuda;
  struct device_entry entry;
  if (++device->unmarked < DEVICE_MARK || device->nmarks == DEVICE_MARKS ||
      device_enter(device, &entry) != CUDA_SUCCESS)
    return;
  CUevent *mark = &device->marks[(device->oldest + device->nmarks) % DEVICE_MARKS];
  if (*mark == NULL && cuda->EventCreate(mark, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS)
    *mark = NULL;
  if (*mark != NULL && cuda->EventRecord(*mark, device->stream) == CUDA_SUCCESS)
    device->nmarks++;
  device->unmarked = 0;
  device_leave(device, &entry);
}

bool device_is_full(struct shadow *device) {
  struct device_entry entry;
  if (device->nmarks < DEVICE_MARKS || device->unmarked < DEVICE_MARK)
    return false;
  if (device_enter(device, &entry) != CUDA_SUCCESS)
    return false;
  while (device->nmarks > 0 &&
         device->cuda->EventQuery(device->marks[device->oldest]) != CUDA_ERROR_NOT_READY) {
    device->oldest = (device->oldest + 1) % DEVICE_MARKS;
    device->nmarks--;
  }
  device_leave(device, &entry);
  return device->nmarks == DEVICE_MARKS;
}

/* ---- waiting for everything ---- */

/* Of the thread that waits and the one that looks; who comes last frees it. */
struct synchronisation {
  const struct cuda_driver *cuda;
  CUcontext context;
  CUresult result;
  _Atomic bool done;
  _Atomic int users;
};

static void let_go(struct synchronisation *of) {
  if (atomic_fetch_sub(&of->users, 1) == 1)
    free(of);
}

static void *synchronise(void *argument) {
  struct synchronisation *of = argument;
  CUcontext context = NULL;
  of->result = of->cuda->CtxPushCurrent(of->context);
  if (of->result == CUDA_SUCCESS) {
    of->result = of->cuda->CtxSynchronize();
    (void)of->cuda->CtxPopCurrent(&context);
  }
  atomic_store(&of->done, true);
  let_go(of);
  return NULL;
}

/* No signal of the program's is handled on it. */
static bool start_thread(struct synchronisation *of) {
  sigset_t all, before;
  pthread_attr_t attributes;
  pthread_t thread;
  (void)sigfillset(&all);
  (void)pthread_sigmask(SIG_SETMASK, &all, &before);
  (void)pthread_attr_init(&attributes);
  (void)pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  bool started = pthread_create(&thread, &attributes, synchronise, of) == 0;
  (void)pthread_attr_destroy(&attributes);
  (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
  return started;
}

CUresult device_synchronise(const struct shadow *device, const struct shadow_limit *limit) {
  struct synchronisation *of = malloc(sizeof *of);
  if (of == NULL)
    return CUDA_ERROR_OUT_OF_MEMORY;
  *of = (struct synchronisation){.cuda = device->cuda, .context = device->context, .users = 2};
  if (!start_thread(of)) {
    free(of);
    return CUDA_ERROR_OPERATING_SYSTEM;
  }
  uint64_t pause_ns = 0;
  while (!atomic_load(&of->done) && limit_pause(limit, &pause_ns))
    ;
  CUresult result = atomic_load(&of->done) ? of->result : CUDA_ERROR_NOT_READY;
  let_go(of);
  return result;
}

/* ---- what a unit needs ---- */

static struct send_buffer *find_send(const struct shadow *device, uint64_t pattern) {
  for (unsigned i = 0; i < device->nsends; i++)
    if (device->sends[i].pattern == pattern)
      return (struct send_buffer *)&device->sends[i];
  return NULL;
}

static size_t round_up(size_t bytes, size_t multiple) {
  return bytes > SIZE_MAX - multiple ? SIZE_MAX / multiple * multiple
                                     : (bytes + multiple - 1) / multiple * multiple;
}

void device_needs_begin(struct shadow *device) {
  for (unsigned i = 0; i < device->nsends; i++)
    device->sends[i].buffer.needed = 0;
  device->receive.needed = 0;
  device->received = 0;
}

void device_needs_send(struct shadow *device, uint64_t pattern, size_t bytes) {
  struct send_buffer *send = find_send(device, pattern);
  if (send == NULL) {
    assert(device->nsends < DEVICE_PATTERNS);
    send = &device->sends[device->nsends++];
    *send = (struct send_buffer){.pattern = pattern};
  }
  if (bytes > send->buffer.needed)
    send->buffer.needed = bytes;
}

size_t device_add_piece(size_t bytes, size_t piece) {
  return __builtin_add_overflow(bytes, round_up(piece, DEVICE_ALIGNMENT), &bytes) ? SIZE_MAX
                                                                                  : bytes;
}

void device_needs_receive(struct shadow *device, size_t bytes) {
  device->receive.needed = device_add_piece(device->receive.needed, bytes);
}

/* The driver's addresses are numbers, NCCL's are pointers. */
static void *pointer_to(CUdeviceptr address) {
  return (void *)address; /* NOLINT(performance-no-int-to-ptr) */
}

const void *device_send(const struct shadow *device, uint64_t pattern) {
  return pointer_to(find_send(device, pattern)->buffer.address);
}

void *device_receive(struct shadow *device, size_t bytes) {
  void *piece = pointer_to(device->receive.address + device->received);
  device->received += round_up(bytes, DEVICE_ALIGNMENT);
  assert(device->received <= device->receive.bytes);
  return piece;
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

static void free_buffer(struct shadow *device, struct buffer *buffer) {
  struct alias alias = {buffer->address, buffer->bytes, buffer->block};
  if (buffer->block != 0)
    alias_free(device->cuda, &alias);
  else if (buffer->address != 0)
    (void)device->cuda->MemFree(buffer->address);
  buffer->address = 0;
  buffer->bytes = buffer->block = 0;
}

static void free_retired(struct shadow *device) {
  while (device->nretired > 0)
    free_buffer(device, &device->retired[--device->nretired]);
}

/* Gives back what the unit being prepared does not need, `buffer` too: it is too small. */
static CUresult give_back(struct shadow *device, struct buffer *buffer,
                          const struct shadow_limit *limit) {
  CUresult result = device_wait(device, limit);
  if (result != CUDA_SUCCESS)
    return result;
  free_retired(device);
  free_buffer(device, buffer);
  for (unsigned i = 0; i < device->nsends; i++)
    if (device->sends[i].buffer.needed == 0)
      free_buffer(device, &device->sends[i].buffer);
  if (device->receive.needed == 0)
    free_buffer(device, &device->receive);
  if (device->lent.needed == 0)
    free_buffer(device, &device->lent);
  return CUDA_SUCCESS;
}

static size_t larger_size(const struct buffer *buffer) {
  size_t bytes = round_up(buffer->needed, DEVICE_GRANULE);
  return bytes / 2 < buffer->bytes ? buffer->bytes * 2 : bytes;
}

/* buffer->bytes of memory. A device that cannot alias is not asked again. alias false: each byte is
 * to be one of its own. */
static CUresult allocate(struct shadow *device, bool alias, struct buffer *buffer) {
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
static bool grow(struct shadow *device, struct buffer *buffer, const uint64_t *pattern,
                 const struct shadow_limit *limit, struct device_failure *failure) {
  struct buffer larger = {.bytes = larger_size(buffer), .needed = buffer->needed};
  size_t enough = round_up(buffer->needed, DEVICE_GRANULE);
  bool alias = buffer != &device->lent; /* there the owner of a plug-in writes */
  CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
  if (device->nretired < DEVICE_RETIRED) {
    result = allocate(device, alias, &larger);
    if (result == CUDA_ERROR_OUT_OF_MEMORY && larger.bytes > enough) {
      larger.bytes = enough;
      result = allocate(device, alias, &larger);
    }
  }
  if (result == CUDA_ERROR_OUT_OF_MEMORY) {
    larger.bytes = enough;
    CUresult waited = give_back(device, buffer, limit);
    failure->stuck = waited == CUDA_ERROR_NOT_READY;
    if (waited == CUDA_SUCCESS)
      result = allocate(device, alias, &larger);
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

static bool grow_all(struct shadow *device, const struct shadow_limit *limit,
                     struct device_failure *failure) {
  for (unsigned i = 0; i < device->nsends; i++) {
    struct send_buffer *send = &device->sends[i];
    if (send->buffer.needed > send->buffer.bytes &&
        !grow(device, &send->buffer, &send->pattern, limit, failure))
      return false;
  }
  return device->receive.needed <= device->receive.bytes ||
         grow(device, &device->receive, NULL, limit, failure);
}

bool device_allocate(struct shadow *device, const struct shadow_limit *limit,
                     struct device_failure *failure) {
  bool enough = device->receive.needed <= device->receive.bytes;
  for (unsigned i = 0; i < device->nsends; i++)
    enough = enough && device->sends[i].buffer.needed <= device->sends[i].buffer.bytes;
  if (enough)
    return true;
  struct device_entry entry;
  *failure = (struct device_failure){.error = device_enter(device, &entry)};
  if (failure->error != CUDA_SUCCESS)
    return false;
  bool grown = grow_all(device, limit, failure);
  device_leave(device, &entry);
  return grown;
}

bool device_lend_begin(struct shadow *device, size_t bytes, const struct shadow_limit *limit,
                       struct device_failure *failure) {
  device->lent.needed = bytes;
  device->lent_out = 0;
  if (bytes <= device->lent.bytes)
    return true;
  struct device_entry entry;
  *failure = (struct device_failure){.error = device_enter(device, &entry)};
  if (failure->error != CUDA_SUCCESS)
    return false;
  bool grown = grow(device, &device->lent, NULL, limit, failure);
  device_leave(device, &entry);
  return grown;
}

bool device_lend(struct shadow *device, uint64_t pattern, size_t bytes, const void **address,
                 struct device_failure *failure) {
  struct buffer piece = {.address = device->lent.address + device->lent_out,
                         .bytes = round_up(bytes, DEVICE_ALIGNMENT)};
  struct device_entry entry;
  device->lent_out += piece.bytes;
  assert(device->lent_out <= device->lent.bytes);
  *failure = (struct device_failure){.error = device_enter(device, &entry)};
  if (failure->error != CUDA_SUCCESS)
    return false;
  failure->error = fill_buffer(device, piece, pattern);
  device_leave(device, &entry);
  *address = pointer_to(piece.address);
  return failure->error == CUDA_SUCCESS;
}

void device_free(struct shadow *device) {
  struct device_entry entry;
  if (device_enter(device, &entry) == CUDA_SUCCESS) {
    free_retired(device);
    for (unsigned i = 0; i < device->nsends; i++)
      free_buffer(device, &device->sends[i].buffer);
    free_buffer(device, &device->receive);
    free_buffer(device, &device->lent);
    device_leave(device, &entry);
  }
  /* Without the context its memory is gone too, and the addresses may be somebody else's. */
  device->nretired = 0;
  device->nsends = 0;
  device->receive = (struct buffer){0};
  device->lent = (struct buffer){0};
}

void device_close(struct shadow *device, bool done) {
  struct device_entry entry;
  if (done && device_enter(device, &entry) == CUDA_SUCCESS) {
    (void)device->cuda->StreamDestroy(device->stream);
    for (unsigned i = 0; i < DEVICE_MARKS; i++)
      if (device->marks[i] != NULL)
        (void)device->cuda->EventDestroy(device->marks[i]);
    device_leave(device, &entry);
  }
  (void)device->cuda->DevicePrimaryCtxRelease(device->device);
}
