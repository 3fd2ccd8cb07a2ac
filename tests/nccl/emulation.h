/* The emulation of NVIDIA's GPUs for NCCL: a part of the loopback's driver, libcuda.so.1, in a
 * build folder of its own. README.md says how it hangs together. */
#ifndef TESTS_NCCL_EMULATION_H
#define TESTS_NCCL_EMULATION_H

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <link.h>

/* Functions that take the place of those of the cudart inside of libnccl; NULL if there is none of
 * that name. */
void *runtime_function(const char *name);
void *launch_function(const char *name);

struct emulated {
  const char *name;
  void *function;
};
void *emulated_find(const struct emulated *table, size_t size, const char *name);

/* Lets libnccl make and clear large shared memory without touching it: its calls of memset and
 * fallocate go there. map: its own. */
void fresh_memory(const struct link_map *map);

#endif
