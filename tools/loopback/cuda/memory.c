/* The registry: all known ranges, sorted by address, disjoint. */
#include "tools/loopback/cuda/memory.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tools/loopback/cuda/loopback_cuda.h"
#include "tools/loopback/cuda/process.h"
#include "tools/loopback/cuda/settings.h"

/* Guards everything below and the used bytes of each device. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct memory *entries;
static size_t count, capacity;
static uint64_t last_id;

/* Index of the first entry that starts after address. */
static size_t after(uintptr_t address) {
  size_t low = 0, high = count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (entries[middle].address <= address)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

/* The entry that contains address, or ends there. */
static struct memory *at(uintptr_t address) {
  size_t next = after(address);
  if (!next)
    return NULL;
  struct memory *entry = &entries[next - 1];
  return address - entry->address <= entry->size ? entry : NULL;
}

static bool overlaps(uintptr_t address, size_t size) {
  size_t next = after(address);
  if (next < count && entries[next].address - address < size)
    return true;
  return next && address - entries[next - 1].address < entries[next - 1].size;
}

static bool insert(const struct memory *entry) {
  if (count == capacity) {
    size_t more = capacity ? capacity * 2 : 64;
    struct memory *larger = realloc(entries, more * sizeof *larger);
    if (!larger)
      return false;
    entries = larger;
    capacity = more;
  }
  size_t next = after(entry->address);
  memmove(entries + next + 1, entries + next, (count - next) * sizeof *entries);
  entries[next] = *entry;
  entries[next].id = ++last_id;
  count++;
  return true;
}

static void drop(size_t index) {
  memmove(entries + index, entries + index + 1, (--count - index) * sizeof *entries);
}

static size_t charge(const struct memory *entry) {
  return (entry->size + REGION_ALIGNMENT - 1) / REGION_ALIGNMENT * REGION_ALIGNMENT;
}

static bool take(struct device *device, size_t size) {
  if (size > device->total - device->used)
    return false;
  device->used += size;
  return true;
}

bool memory_take(struct device *device, size_t size) {
  pthread_mutex_lock(&lock);
  bool taken = take(device, size);
  pthread_mutex_unlock(&lock);
  return taken;
}

void memory_give(struct device *device, size_t size) {
  pthread_mutex_lock(&lock);
  device->used -= size;
  pthread_mutex_unlock(&lock);
}

size_t memory_left(struct device *device) {
  pthread_mutex_lock(&lock);
  size_t left = device->total - device->used;
  pthread_mutex_unlock(&lock);
  return left;
}

CUresult memory_allocate(CUcontext context, enum memory_kind kind, size_t size, unsigned flags,
                         void **address) {
  struct memory entry = {.size = size,
                         .kind = kind,
                         .context = context,
                         .device = context->device->ordinal,
                         .flags = flags,
                         .readable = true,
                         .writable = true};
  bool on_device = kind == MEMORY_DEVICE;
  if (size > SIZE_MAX / 2 || (on_device && !memory_take(context->device, charge(&entry))))
    return CUDA_ERROR_OUT_OF_MEMORY;
  bool made = region_create(&entry.region, size, on_device && settings.strict_host);
  if (made) {
    entry.address = (uintptr_t)entry.region.shown + entry.region.offset;
    entry.bytes = entry.region.mapped + entry.region.offset;
    pthread_mutex_lock(&lock);
    made = insert(&entry);
    pthread_mutex_unlock(&lock);
    if (!made)
      region_destroy(&entry.region);
  }
  if (!made) {
    if (on_device)
      memory_give(context->device, charge(&entry));
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  *address = entry.region.shown + entry.region.offset;
  return CUDA_SUCCESS;
}

static void check(const struct memory *entry) {
  if (!entry->region.mapped || region_is_intact(&entry->region))
    return;
  fprintf(stderr,
          "loopback: something wrote outside the allocation of %zu bytes at %#lx on device %d\n",
          entry->size, (unsigned long)entry->address, entry->device);
  abort();
}

/* Called with the lock held. */
static void release(size_t index) {
  struct memory *entry = &entries[index];
  check(entry);
  region_destroy(&entry->region);
  if (entry->kind == MEMORY_DEVICE)
    entry->context->device->used -= charge(entry);
  drop(index);
}

CUresult memory_free(void *address, unsigned kinds) {
  pthread_mutex_lock(&lock);
  struct memory *entry = at((uintptr_t)address);
  bool found = entry && entry->address == (uintptr_t)address && kinds & (1u << entry->kind);
  if (found)
    release(after((uintptr_t)address) - 1);
  pthread_mutex_unlock(&lock);
  return found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult memory_leave(void *address, unsigned kinds) {
  pthread_mutex_lock(&lock);
  struct memory *entry = at((uintptr_t)address);
  bool found = entry && entry->address == (uintptr_t)address && kinds & (1u << entry->kind) &&
               !entry->leaving;
  if (found)
    entry->leaving = true;
  pthread_mutex_unlock(&lock);
  return found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult memory_register(CUcontext context, void *address, size_t size, unsigned flags) {
  struct memory entry = {.address = (uintptr_t)address,
                         .size = size,
                         .bytes = address,
                         .kind = MEMORY_REGISTERED,
                         .context = context,
                         .device = context->device->ordinal,
                         .flags = flags,
                         .readable = true,
                         .writable = !(flags & CU_MEMHOSTREGISTER_READ_ONLY)};
  pthread_mutex_lock(&lock);
  CUresult result = CUDA_SUCCESS;
  if (overlaps(entry.address, size))
    result = CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
  else if (!insert(&entry))
    result = CUDA_ERROR_OUT_OF_MEMORY;
  pthread_mutex_unlock(&lock);
  return result;
}

CUresult memory_unregister(void *address) {
  CUresult result = memory_free(address, 1u << MEMORY_REGISTERED);
  return result == CUDA_SUCCESS ? result : CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
}

CUresult memory_map(const struct memory *range) {
  pthread_mutex_lock(&lock);
  CUresult result = CUDA_SUCCESS;
  if (overlaps(range->address, range->size))
    result = CUDA_ERROR_INVALID_VALUE;
  else if (!insert(range))
    result = CUDA_ERROR_OUT_OF_MEMORY;
  pthread_mutex_unlock(&lock);
  return result;
}

/* Calls visit for each mapped range of [address, address + size) in turn, which must be whole
 * ranges without a gap. */
static CUresult each_mapped(uintptr_t address, size_t size, void (*visit)(size_t index, void *),
                            void *argument) {
  size_t first = after(address), last;
  uintptr_t next = address;
  if (!first || entries[--first].address != address)
    return CUDA_ERROR_INVALID_VALUE;
  for (last = first; last < count && next < address + size; last++) {
    if (entries[last].kind != MEMORY_VIRTUAL || entries[last].address != next)
      return CUDA_ERROR_INVALID_VALUE;
    next += entries[last].size;
  }
  if (next != address + size)
    return CUDA_ERROR_INVALID_VALUE;
  while (last-- > first)
    visit(last, argument);
  return CUDA_SUCCESS;
}

static void visit_drop(size_t index, void *argument) {
  (void)argument;
  drop(index);
}

static void visit_access(size_t index, void *argument) {
  const bool *access = argument;
  entries[index].readable = access[0];
  entries[index].writable = access[1];
}

CUresult memory_unmap(uintptr_t address, size_t size) {
  pthread_mutex_lock(&lock);
  CUresult result = each_mapped(address, size, visit_drop, NULL);
  pthread_mutex_unlock(&lock);
  return result;
}

CUresult memory_set_access(uintptr_t address, size_t size, bool readable, bool writable) {
  bool access[] = {readable, writable};
  pthread_mutex_lock(&lock);
  CUresult result = each_mapped(address, size, visit_access, access);
  pthread_mutex_unlock(&lock);
  return result;
}

bool memory_find(const void *address, struct memory *found) {
  pthread_mutex_lock(&lock);
  struct memory *entry = at((uintptr_t)address);
  bool inside = entry && (uintptr_t)address - entry->address < entry->size;
  if (inside)
    *found = *entry;
  pthread_mutex_unlock(&lock);
  return inside;
}

static enum memory_place place_of(const struct memory *entry) {
  switch (entry->kind) {
  case MEMORY_DEVICE:
  case MEMORY_VIRTUAL:
    return PLACE_DEVICE;
  case MEMORY_HOST:
  case MEMORY_REGISTERED:
    return PLACE_HOST;
  case MEMORY_MANAGED:
    return PLACE_MANAGED;
  }
  abort();
}

/* Whether size bytes from offset on are inside the entry at index, or go on in mapped neighbours
 * of the same reservation. */
static bool holds(size_t index, size_t offset, size_t size, bool write) {
  for (;;) {
    const struct memory *entry = &entries[index];
    if (write ? !entry->writable : !entry->readable)
      return false;
    if (size <= entry->size - offset)
      return true;
    const struct memory *next = index + 1 < count ? &entries[index + 1] : NULL;
    if (!next || entry->kind != MEMORY_VIRTUAL || next->kind != MEMORY_VIRTUAL ||
        next->reservation != entry->reservation || next->address != entry->address + entry->size)
      return false;
    size -= entry->size - offset;
    offset = 0;
    index++;
  }
}

CUresult memory_view(const void *address, size_t size, unsigned places, bool write,
                     struct memory_view *view) {
  CUresult result = CUDA_SUCCESS;
  pthread_mutex_lock(&lock);
  struct memory *entry = at((uintptr_t)address);
  size_t offset = entry ? (uintptr_t)address - entry->address : 0;
  if (entry && offset == entry->size && size)
    entry = NULL; /* what lies behind an allocation is not part of it */
  if (!entry) {
    *view = (struct memory_view){.bytes = (char *)address, .place = PLACE_PAGEABLE};
  } else {
    *view = (struct memory_view){.bytes = entry->bytes + offset, .place = place_of(entry)};
    if (!holds(after((uintptr_t)address) - 1, offset, size, write))
      result = CUDA_ERROR_INVALID_VALUE;
  }
  pthread_mutex_unlock(&lock);
  return places & view->place ? result : CUDA_ERROR_INVALID_VALUE;
}

void *loopback_device_memory(const void *device_pointer, size_t size) {
  struct memory_view view;
  if (process_is_forked()) /* the lock may be held by a thread that is gone */
    return NULL;
  return memory_view(device_pointer, size, PLACE_FOR_DEVICE, false, &view) == CUDA_SUCCESS
             ? view.bytes
             : NULL;
}

void memory_free_context(CUcontext context) {
  pthread_mutex_lock(&lock);
  for (size_t i = count; i-- > 0;)
    if (entries[i].context == context)
      release(i);
  pthread_mutex_unlock(&lock);
}

void memory_check_all(void) {
  struct timespec soon;
  clock_gettime(CLOCK_REALTIME, &soon);
  soon.tv_sec += 1;
  /* A process may exit from a signal handler that interrupted the holder. */
  if (pthread_mutex_timedlock(&lock, &soon) != 0)
    return;
  for (size_t i = 0; i < count; i++)
    check(&entries[i]);
  pthread_mutex_unlock(&lock);
}
