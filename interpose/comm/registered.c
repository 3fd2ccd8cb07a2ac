/* Registered ranges, of each communicator a list (registered.h). */
#include "interpose/comm/registered.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "hooks/contribution.h"
#include "hooks/cuda_driver.h"
#include "interpose/nccl/real.h"

/* Whole pages, as NCCL keeps them (register.cc): what lies in a page of which a part is registered
 * counts as registered. */
struct registered {
  uintptr_t begin, end;
  const void *handle;
  unsigned look;
  struct registered *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of all lists */

/* NCCL 2.29 and later register what is mapped in several pieces unless told not to
 * (NCCL_MULTI_SEGMENT_REGISTER), and leave out memory of the host. */
#define NCCL_WITH_SEGMENTS 22900

static int nccl_version(void) {
  int version = 0;
  (void)real.GetVersion(&version);
  return version;
}

/* ---- what memory it is ---- */

static bool registered_ask(const struct cuda_driver *cuda, CUpointer_attribute attribute,
                           const void *address, void *value) {
  return cuda->PointerGetAttribute(value, attribute, (CUdeviceptr)(uintptr_t)address) ==
         CUDA_SUCCESS;
}

static unsigned look_of_mapped(const struct cuda_driver *cuda, const void *address) {
  CUmemGenericAllocationHandle physical = 0;
  CUmemAllocationProp properties;
  if (cuda->MemRetainAllocationHandle == NULL ||
      cuda->MemGetAllocationPropertiesFromHandle == NULL ||
      cuda->MemRetainAllocationHandle(&physical, (void *)address) != CUDA_SUCCESS)
    return LOOK_REGISTERED;
  unsigned look = LOOK_REGISTERED;
  if (cuda->MemGetAllocationPropertiesFromHandle(&properties, physical) == CUDA_SUCCESS)
    look |= LOOK_MAPPED |
            ((unsigned)properties.requestedHandleTypes << LOOK_HANDLES_SHIFT & LOOK_HANDLES) |
            (properties.allocFlags.gpuDirectRDMACapable ? LOOK_RDMA : 0);
  (void)cuda->MemRelease(physical);
  return look;
}

/* 0: NCCL does not register it. */
static unsigned look_of_memory(const void *address) {
  const struct cuda_driver *cuda = cuda_driver_get(NULL);
  unsigned type = 0;
  int shared = 0;
  if (cuda == NULL)
    return LOOK_REGISTERED;
  if (registered_ask(cuda, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address, &type) &&
      type == CU_MEMORYTYPE_HOST)
    return nccl_version() >= NCCL_WITH_SEGMENTS ? 0 : LOOK_REGISTERED;
  if (registered_ask(cuda, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, address, &shared) &&
      shared)
    return LOOK_REGISTERED;
  return look_of_mapped(cuda, address);
}

static bool is_in_pieces(const void *address, size_t bytes) {
  const struct cuda_driver *cuda = cuda_driver_get(NULL);
  CUdeviceptr start = 0, at = (CUdeviceptr)(uintptr_t)address;
  size_t size = 0;
  return cuda != NULL &&
         registered_ask(cuda, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, address, &start) &&
         registered_ask(cuda, CU_POINTER_ATTRIBUTE_RANGE_SIZE, address, &size) &&
         start + size < at + bytes;
}

/* A buffer that is mapped in several pieces. Before NCCL 2.29 such a one takes part in the meeting
 * of NVLink SHARP, but is not shared with single peers, as is memory that cannot be
 * (registrable.h). */
static unsigned look_of_pieces(unsigned look) {
  const char *setting = getenv("NCCL_MULTI_SEGMENT_REGISTER");
  if (nccl_version() < NCCL_WITH_SEGMENTS)
    return LOOK_REGISTERED;
  return setting != NULL && strcmp(setting, "0") == 0 ? 0 : look;
}

/* ---- the lists ---- */

bool registered_add(struct communicator *comm, const void *buffer, size_t size,
                    const void *handle) {
  uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), at = (uintptr_t)buffer;
  unsigned look = look_of_memory(buffer);
  if (look == 0)
    return true;
  struct registered *range = malloc(sizeof *range);
  if (range == NULL)
    return false;
  *range = (struct registered){.begin = at / page * page,
                               .end = (at + size + page - 1) / page * page,
                               .handle = handle,
                               .look = look};
  pthread_mutex_lock(&lock);
  range->next = comm->registered;
  atomic_store(&comm->registered, range);
  pthread_mutex_unlock(&lock);
  return true;
}

void registered_remove(struct communicator *comm, const void *handle) {
  pthread_mutex_lock(&lock);
  struct registered *before = NULL, *range = comm->registered;
  while (range != NULL && range->handle != handle) {
    before = range;
    range = range->next;
  }
  if (range != NULL && before == NULL)
    atomic_store(&comm->registered, range->next);
  else if (range != NULL)
    before->next = range->next;
  pthread_mutex_unlock(&lock);
  free(range);
}

void registered_forget(struct communicator *comm) {
  pthread_mutex_lock(&lock);
  struct registered *range = comm->registered;
  atomic_store(&comm->registered, NULL);
  pthread_mutex_unlock(&lock);
  while (range != NULL) {
    struct registered *next = range->next;
    free(range);
    range = next;
  }
}

/* The range that a buffer lies in, or NULL; with the lock. */
static struct registered *registered_find(struct communicator *comm, uintptr_t at, size_t bytes) {
  struct registered *before = NULL, *range = comm->registered;
  while (range != NULL && (at < range->begin || at >= range->end || bytes > range->end - at)) {
    before = range;
    range = range->next;
  }
  if (range == NULL || before == NULL)
    return range;
  /* To the front: loops use few of the many that an allocator has. */
  before->next = range->next;
  range->next = comm->registered;
  atomic_store(&comm->registered, range);
  return range;
}

unsigned registered_look(struct communicator *comm, const void *buffer, size_t bytes) {
  if (buffer == NULL || atomic_load(&comm->registered) == NULL)
    return 0;
  pthread_mutex_lock(&lock);
  const struct registered *range = registered_find(comm, (uintptr_t)buffer, bytes);
  unsigned look = range == NULL ? 0 : range->look;
  pthread_mutex_unlock(&lock);
  if ((look & LOOK_MAPPED) != 0 && is_in_pieces(buffer, bytes))
    look = look_of_pieces(look);
  return look;
}

/* ---- calls ---- */

static bool is_in_place(const struct communicator *comm, const struct call *call, size_t block) {
  const char *send = call->send, *receive = call->receive;
  size_t own = (size_t)comm->rank * block;
  switch (kind_traits((uint8_t)call->kind)->in_place) {
  case KIND_WHOLE:
    return send == receive;
  case KIND_SENDS_PART:
    return send == receive + own;
  case KIND_RECEIVES_PART:
    return receive == send + own;
  case KIND_APART:
    break;
  }
  return false;
}

static bool is_for_each_rank(enum kind_amount amount) {
  return amount == KIND_ALL || amount == KIND_ROOT_ALL;
}

look_t registered_look_of(struct communicator *comm, const struct call *call,
                          const struct member *member) {
  if (atomic_load(&comm->registered) == NULL || call->kind == MEMBER_SPLIT)
    return 0;
  const struct kind_traits *traits = kind_traits(member->kind);
  size_t size = contribution_fill(member).size, block = member->count * size;
  size_t all = block * (size_t)comm->nranks;
  return look_of(
      registered_look(comm, call->send, is_for_each_rank(traits->sends) ? all : block),
      registered_look(comm, call->receive, is_for_each_rank(traits->receives) ? all : block),
      is_in_place(comm, call, block));
}
