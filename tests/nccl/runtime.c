/* Functions of CUDA's runtime that NCCL calls and the loopback's runtime does not have. */
#include "tests/nccl/emulation.h"

#include <stdlib.h>

/* Kernels are known by their host functions, which have names (image.h). */
static cudaError_t function_by_symbol(cudaFunction_t *function, const void *symbol) {
  *function = (cudaFunction_t)(uintptr_t)symbol;
  return cudaSuccess;
}

/* What NCCL's kernels have on a device of compute capability 9.0. */
static cudaError_t function_attributes(struct cudaFuncAttributes *attributes,
                                       const void *function) {
  (void)function;
  *attributes = (struct cudaFuncAttributes){.maxThreadsPerBlock = 640,
                                            .numRegs = 96,
                                            .binaryVersion = 90,
                                            .ptxVersion = 90,
                                            .maxDynamicSharedSizeBytes = 200 << 10};
  return cudaSuccess;
}

static cudaError_t set_attribute(const void *function, enum cudaFuncAttribute attribute,
                                 int value) {
  (void)function, (void)attribute, (void)value;
  return cudaSuccess;
}

static cudaError_t set_limit(enum cudaLimit limit, size_t value) {
  (void)limit, (void)value;
  return cudaSuccess;
}

/* A pool is only a name: its memory is that of the device. */
static cudaError_t pool_create(cudaMemPool_t *pool, const struct cudaMemPoolProps *properties) {
  (void)properties;
  *pool = malloc(1);
  return *pool != NULL ? cudaSuccess : cudaErrorMemoryAllocation;
}

static cudaError_t pool_destroy(cudaMemPool_t pool) {
  free(pool);
  return cudaSuccess;
}

static cudaError_t pool_set_attribute(cudaMemPool_t pool, enum cudaMemPoolAttr attribute,
                                      void *value) {
  (void)pool, (void)attribute, (void)value;
  return cudaSuccess;
}

static cudaError_t pool_allocate(void **address, size_t size, cudaMemPool_t pool,
                                 cudaStream_t stream) {
  (void)pool;
  CUdeviceptr allocated = 0;
  CUresult result = cuMemAllocAsync(&allocated, size, stream);
  *address = (void *)(uintptr_t)allocated;
  return (cudaError_t)result;
}

void *runtime_function(const char *name) {
  static const struct emulated functions[] = {
      {"cudaGetFuncBySymbol", (void *)function_by_symbol},
      {"cudaFuncGetAttributes", (void *)function_attributes},
      {"cudaFuncSetAttribute", (void *)set_attribute},
      {"cudaDeviceSetLimit", (void *)set_limit},
      {"cudaMemPoolCreate", (void *)pool_create},
      {"cudaMemPoolDestroy", (void *)pool_destroy},
      {"cudaMemPoolSetAttribute", (void *)pool_set_attribute},
      {"cudaMallocFromPoolAsync", (void *)pool_allocate},
  };
  return emulated_find(functions, sizeof functions / sizeof *functions, name);
}
