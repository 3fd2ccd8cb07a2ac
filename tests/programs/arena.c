/* Memory of a kind, and buffers cut from it (arena.h). */
#include "tests/programs/arena.h"

#include <cuda.h>
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GRANULE ((size_t)2 << 20)
#define ALIGNMENT ((size_t)512)

struct arena {
  const struct ranks *ranks;
  bool plain, pieces;
  char *begin;
  size_t size, used;
  void *handle;
};

/* Programs are linked to the runtime only, which has nothing of this. */
static void *driver(const char *name) {
  static void *library;
  if (library == NULL)
    library = dlopen("libcuda.so.1", RTLD_LAZY);
  void *function = library == NULL ? NULL : dlsym(library, name);
  if (function == NULL) {
    fprintf(stderr, "the CUDA driver has no %s\n", name);
    exit(1);
  }
  return function;
}

#define DRIVER(name, ...)                                                                          \
  do {                                                                                             \
    __typeof__(name) *function;                                                                    \
    *(void **)&function = driver(#name);                                                           \
    CUresult result = function(__VA_ARGS__);                                                       \
    if (result != CUDA_SUCCESS) {                                                                  \
      fprintf(stderr, "%s: CUDA error %d\n", #name, (int)result);                                  \
      exit(1);                                                                                     \
    }                                                                                              \
  } while (0)

static void map(struct arena *arena, bool exportable) {
  int device;
  CUdeviceptr begin = 0;
  size_t piece = arena->pieces ? GRANULE : arena->size;
  CHECK_CUDA(cudaGetDevice(&device));
  CUmemAllocationProp properties = {
      .type = CU_MEM_ALLOCATION_TYPE_PINNED,
      .requestedHandleTypes =
          exportable ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR : CU_MEM_HANDLE_TYPE_NONE,
      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device}};
  CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device},
                            .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  DRIVER(cuMemAddressReserve, &begin, arena->size, 0, 0, 0);
  for (size_t at = 0; at < arena->size; at += piece) {
    CUmemGenericAllocationHandle memory;
    DRIVER(cuMemCreate, &memory, piece, &properties, 0);
    DRIVER(cuMemMap, begin + at, piece, 0, memory, 0);
    DRIVER(cuMemRelease, memory);
  }
  DRIVER(cuMemSetAccess, begin, arena->size, &access, 1);
  arena->begin = (char *)begin;
}

struct arena *arena_create(const struct ranks *ranks, const char *kind, size_t size) {
  static const char *const kinds[] = {"plain",   "registered", "mapped",
                                      "private", "pieces",     "window"};
  static struct arena the_one, *arena = &the_one;
  size_t known = 0;
  while (known < sizeof kinds / sizeof *kinds && strcmp(kind, kinds[known]) != 0)
    known++;
  if (known == sizeof kinds / sizeof *kinds) {
    fprintf(stderr, "no kind of memory is called %s\n", kind);
    exit(2);
  }
  *arena = (struct arena){.ranks = ranks, .plain = known == 0, .pieces = known == 4};
  size_t all = 10 * (size + ALIGNMENT) + (size_t)ranks->nranks * ALIGNMENT;
  arena->size = arena->pieces ? 16 * GRANULE : (all + GRANULE - 1) / GRANULE * GRANULE;
  arena->used = (size_t)ranks->rank * ALIGNMENT;
  bool window = known == 5;
  if (known < 2 || window)
    CHECK_CUDA(cudaMalloc((void **)&arena->begin, arena->size));
  else
    map(arena, known != 3);
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 27, 0)
  ncclWindow_t of_window;
  for (int i = 0; i < ranks->ncomms && window; i++)
    CHECK_NCCL(ncclCommWindowRegister(ranks->comms[i], arena->begin, arena->size, &of_window, 0));
#endif
  for (int i = 0; i < ranks->ncomms && !arena->plain && !window; i++)
    CHECK_NCCL(ncclCommRegister(ranks->comms[i], arena->begin, arena->size, &arena->handle));
  return arena;
}

/* Of pieces: the middle of the buffer on a border. */
void *arena_take(struct arena *arena, size_t size) {
  size_t at = (arena->used + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  if (arena->pieces)
    at = (at / GRANULE + 1) * GRANULE - size / 8 * 4;
  arena->used = at + size;
  if (arena->used > arena->size) {
    fprintf(stderr, "an arena of %zu bytes is too small\n", arena->size);
    exit(1);
  }
  return arena->begin + at;
}

void arena_deregister(struct arena *arena) {
  if (!arena->plain)
    CHECK_NCCL(ncclCommDeregister(arena->ranks->comms[0], arena->handle));
}
