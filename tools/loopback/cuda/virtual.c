/* Reservations, physical memory and mappings. */
#include "tools/loopback/cuda/virtual.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/loopback/cuda/handle.h"
#include "tools/loopback/cuda/memory.h"
#include "tools/loopback/cuda/settings.h"

struct physical {
  struct device *device;
  int file;
  size_t size;
  bool exportable;
  bool charged; /* to the device; what was imported is charged where it was created */
  unsigned handles, mappings;
};

struct mapping {
  uintptr_t address;
  size_t size;
  struct physical *physical;
  struct mapping *next;
};

struct reservation {
  char *shown; /* as the program knows it */
  char *mapped;
  size_t size;
  struct mapping *mappings;
  struct reservation *next;
};

/* Guards everything below. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct reservation *reservations;
static struct handle_set physicals;

static bool is_granular(size_t size) {
  return size && size % VIRTUAL_GRANULARITY == 0;
}

/* ---- addresses ---- */

/* Reserved address space that starts at a multiple of alignment; NULL if there is none. */
static char *reserve(size_t size, size_t alignment) {
  size_t length = size + alignment;
  char *raw = mmap(NULL, length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (raw == MAP_FAILED)
    return NULL;
  size_t before = (alignment - (uintptr_t)raw % alignment) % alignment;
  if (before)
    munmap(raw, before);
  munmap(raw + before + size, length - before - size);
  return raw + before;
}

CUresult virtual_reserve(size_t size, size_t alignment, CUdeviceptr *address) {
  if (alignment < VIRTUAL_GRANULARITY)
    alignment = VIRTUAL_GRANULARITY;
  if (!is_granular(size) || alignment & (alignment - 1) || size > SIZE_MAX / 2 - alignment)
    return CUDA_ERROR_INVALID_VALUE;
  struct reservation *made = malloc(sizeof *made);
  char *shown = reserve(size, alignment);
  char *mapped = shown && settings.strict_host ? reserve(size, alignment) : shown;
  if (!made || !mapped) {
    if (shown)
      munmap(shown, size);
    free(made);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  pthread_mutex_lock(&lock);
  *made =
      (struct reservation){.shown = shown, .mapped = mapped, .size = size, .next = reservations};
  reservations = made;
  pthread_mutex_unlock(&lock);
  *address = (CUdeviceptr)shown;
  return CUDA_SUCCESS;
}

CUresult virtual_unreserve(CUdeviceptr address, size_t size) {
  pthread_mutex_lock(&lock);
  struct reservation **link = &reservations, *found;
  while (*link && ((CUdeviceptr)(*link)->shown != address || (*link)->size != size))
    link = &(*link)->next;
  found = *link;
  bool free_now = found && !found->mappings;
  if (free_now)
    *link = found->next;
  pthread_mutex_unlock(&lock);
  if (!free_now)
    return CUDA_ERROR_INVALID_VALUE;
  munmap(found->mapped, size);
  if (found->mapped != found->shown)
    munmap(found->shown, size);
  free(found);
  return CUDA_SUCCESS;
}

static struct reservation *reservation_of(uintptr_t address, size_t size) {
  struct reservation *here = reservations;
  for (; here; here = here->next) {
    uintptr_t offset = address - (uintptr_t)here->shown; /* wraps round for what lies before */
    if (offset <= here->size && size <= here->size - offset)
      return here;
  }
  return NULL;
}

static char *bytes_of(const struct reservation *reservation, uintptr_t address) {
  return reservation->mapped + (address - (uintptr_t)reservation->shown);
}

/* ---- physical memory ---- */

static struct physical *find(CUmemGenericAllocationHandle handle) {
  /* The driver's handles are integers. */
  struct physical *physical = (struct physical *)(uintptr_t)handle;
  return handle_is_live(&physicals, physical) ? physical : NULL;
}

/* Lock held. */
static void free_if_unused(struct physical *physical) {
  if (!physical->handles)
    handle_remove(&physicals, physical);
  if (physical->handles || physical->mappings)
    return;
  if (physical->charged)
    memory_give(physical->device, physical->size);
  close(physical->file);
  free(physical);
}

static CUresult enter(struct physical entry, CUmemGenericAllocationHandle *handle) {
  struct physical *physical = malloc(sizeof *physical);
  if (!physical)
    return CUDA_ERROR_OUT_OF_MEMORY;
  *physical = entry;
  physical->handles = 1;
  pthread_mutex_lock(&lock);
  bool added = handle_add(&physicals, physical);
  pthread_mutex_unlock(&lock);
  if (!added) {
    free(physical);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  *handle = (CUmemGenericAllocationHandle)(uintptr_t)physical;
  return CUDA_SUCCESS;
}

CUresult virtual_create(struct device *device, size_t size, bool exportable,
                        CUmemGenericAllocationHandle *handle) {
  if (!is_granular(size))
    return CUDA_ERROR_INVALID_VALUE;
  if (!memory_take(device, size))
    return CUDA_ERROR_OUT_OF_MEMORY;
  CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
  int file = memfd_create("loopback", MFD_CLOEXEC);
  if (file >= 0 && ftruncate(file, (off_t)size) == 0)
    result = enter((struct physical){.device = device,
                                     .file = file,
                                     .size = size,
                                     .exportable = exportable,
                                     .charged = true},
                   handle);
  if (result != CUDA_SUCCESS) {
    if (file >= 0)
      close(file);
    memory_give(device, size);
  }
  return result;
}

CUresult virtual_release(CUmemGenericAllocationHandle handle) {
  pthread_mutex_lock(&lock);
  struct physical *physical = find(handle);
  if (physical) {
    physical->handles--;
    free_if_unused(physical);
  }
  pthread_mutex_unlock(&lock);
  return physical ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult virtual_export(CUmemGenericAllocationHandle handle, int *descriptor) {
  pthread_mutex_lock(&lock);
  struct physical *physical = find(handle);
  int copy = physical && physical->exportable ? fcntl(physical->file, F_DUPFD_CLOEXEC, 0) : -1;
  pthread_mutex_unlock(&lock);
  *descriptor = copy;
  return copy >= 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult virtual_import(struct device *device, int descriptor,
                        CUmemGenericAllocationHandle *handle) {
  struct stat status;
  int file = fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
  if (file < 0)
    return CUDA_ERROR_INVALID_VALUE;
  CUresult result = CUDA_ERROR_INVALID_VALUE;
  if (fstat(file, &status) == 0 && is_granular((size_t)status.st_size))
    result = enter(
        (struct physical){
            .device = device, .file = file, .size = (size_t)status.st_size, .exportable = true},
        handle);
  if (result != CUDA_SUCCESS)
    close(file);
  return result;
}

CUresult virtual_look(CUmemGenericAllocationHandle handle, struct device **device,
                      bool *exportable) {
  pthread_mutex_lock(&lock);
  struct physical *physical = find(handle);
  if (physical) {
    *device = physical->device;
    *exportable = physical->exportable;
  }
  pthread_mutex_unlock(&lock);
  return physical ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* ---- mappings ---- */

static struct mapping *mapping_of(uintptr_t address) {
  struct reservation *reservation = reservation_of(address, 1);
  struct mapping *here = reservation ? reservation->mappings : NULL;
  while (here && address - here->address >= here->size)
    here = here->next;
  return here;
}

CUresult virtual_retain(const void *address, CUmemGenericAllocationHandle *handle) {
  pthread_mutex_lock(&lock);
  struct mapping *mapping = mapping_of((uintptr_t)address);
  bool known = mapping && handle_add(&physicals, mapping->physical);
  if (known) {
    mapping->physical->handles++;
    *handle = (CUmemGenericAllocationHandle)(uintptr_t)mapping->physical;
  }
  pthread_mutex_unlock(&lock);
  return known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* Gives a range back to its reservation. */
static void clear(char *bytes, size_t size) {
  (void)mmap(bytes, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
             0);
}

static CUresult map(struct reservation *reservation, struct physical *physical, uintptr_t address,
                    size_t size, size_t offset) {
  struct mapping *mapping = malloc(sizeof *mapping);
  if (!mapping)
    return CUDA_ERROR_OUT_OF_MEMORY;
  struct memory range = {.address = address,
                         .size = size,
                         .bytes = bytes_of(reservation, address),
                         .kind = MEMORY_VIRTUAL,
                         .device = physical->device->ordinal,
                         .reservation = (uintptr_t)reservation->shown};
  CUresult result = memory_map(&range); /* refuses what is mapped already */
  if (result == CUDA_SUCCESS && mmap(range.bytes, size, PROT_NONE, MAP_SHARED | MAP_FIXED,
                                     physical->file, (off_t)offset) == MAP_FAILED) {
    memory_unmap(address, size);
    result = CUDA_ERROR_OUT_OF_MEMORY;
  }
  if (result != CUDA_SUCCESS) {
    free(mapping);
    return result;
  }
  *mapping = (struct mapping){
      .address = address, .size = size, .physical = physical, .next = reservation->mappings};
  reservation->mappings = mapping;
  physical->mappings++;
  return CUDA_SUCCESS;
}

CUresult virtual_map(CUdeviceptr address, size_t size, size_t offset,
                     CUmemGenericAllocationHandle handle) {
  pthread_mutex_lock(&lock);
  struct reservation *reservation = reservation_of(address, size);
  struct physical *physical = find(handle);
  CUresult result = CUDA_ERROR_INVALID_VALUE;
  if (reservation && physical && is_granular(size) && address % VIRTUAL_GRANULARITY == 0 &&
      offset % VIRTUAL_GRANULARITY == 0 && offset <= physical->size &&
      size <= physical->size - offset)
    result = map(reservation, physical, address, size, offset);
  pthread_mutex_unlock(&lock);
  return result;
}

CUresult virtual_unmap(CUdeviceptr address, size_t size) {
  pthread_mutex_lock(&lock);
  struct reservation *reservation = reservation_of(address, size);
  CUresult result = reservation ? memory_unmap(address, size) : CUDA_ERROR_INVALID_VALUE;
  if (result == CUDA_SUCCESS) {
    clear(bytes_of(reservation, address), size);
    for (struct mapping **link = &reservation->mappings; *link;) {
      struct mapping *mapping = *link;
      if (mapping->address - address >= size) {
        link = &mapping->next;
        continue;
      }
      *link = mapping->next;
      mapping->physical->mappings--;
      free_if_unused(mapping->physical);
      free(mapping);
    }
  }
  pthread_mutex_unlock(&lock);
  return result;
}

CUresult virtual_set_access(CUdeviceptr address, size_t size, bool readable, bool writable) {
  pthread_mutex_lock(&lock);
  struct reservation *reservation = reservation_of(address, size);
  CUresult result =
      reservation ? memory_set_access(address, size, readable, writable) : CUDA_ERROR_INVALID_VALUE;
  int protection = (readable ? PROT_READ : 0) | (writable ? PROT_WRITE : 0);
  if (result == CUDA_SUCCESS && mprotect(bytes_of(reservation, address), size, protection) != 0)
    result = CUDA_ERROR_OUT_OF_MEMORY;
  pthread_mutex_unlock(&lock);
  return result;
}
