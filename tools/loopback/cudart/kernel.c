/* Runtime API: what objects made by nvcc call. They link and load; launching a kernel is refused
 * with its name. */
#include "tools/loopback/cudart/runtime.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

/* Called by code that nvcc generates; the prototypes are those of its headers crt/host_runtime.h
 * and crt/device_functions.h, which are not for C. */
void **CUDARTAPI __cudaRegisterFatBinary(void *binary);
void CUDARTAPI __cudaRegisterFatBinaryEnd(void **handle);
void CUDARTAPI __cudaUnregisterFatBinary(void **handle);
void CUDARTAPI __cudaRegisterFunction(void **handle, const char *host, char *device,
                                      const char *name, int thread_limit, struct uint3 *thread,
                                      struct uint3 *block, struct dim3 *block_size,
                                      struct dim3 *grid_size, int *warp_size);
void CUDARTAPI __cudaRegisterVar(void **handle, char *host, char *device, const char *name,
                                 int external, size_t size, int constant, int global);
void CUDARTAPI __cudaRegisterManagedVar(void **handle, void **host, char *device, const char *name,
                                        int external, size_t size, int constant, int global);
char CUDARTAPI __cudaInitModule(void **handle);
unsigned CUDARTAPI __cudaPushCallConfiguration(struct dim3 grid, struct dim3 block, size_t shared,
                                               struct CUstream_st *stream);
cudaError_t CUDARTAPI __cudaPopCallConfiguration(struct dim3 *grid, struct dim3 *block,
                                                 size_t *shared, void *stream);
cudaError_t CUDARTAPI __cudaGetKernel(cudaKernel_t *kernel, const void *host);
cudaError_t CUDARTAPI __cudaLaunchKernel(cudaKernel_t kernel, struct dim3 grid, struct dim3 block,
                                         void **arguments, size_t shared, cudaStream_t stream);
cudaError_t CUDARTAPI __cudaLaunchKernel_ptsz(cudaKernel_t kernel, struct dim3 grid,
                                              struct dim3 block, void **arguments, size_t shared,
                                              cudaStream_t stream);
cudaError_t CUDARTAPI cudaLaunchKernel_ptsz(const void *host, struct dim3 grid, struct dim3 block,
                                            void **arguments, size_t shared, cudaStream_t stream);

struct kernel {
  const void *host;
  const char *name; /* in the program's image */
  struct kernel *next;
};

/* Guards kernels: objects are loaded by any thread. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct kernel *kernels;

/* What <<<...>>> has pushed and the stub has not yet popped: at most one at a time on a thread. */
static _Thread_local struct {
  struct dim3 grid, block;
  size_t shared;
  CUstream stream;
} pushed;

void **CUDARTAPI __cudaRegisterFatBinary(void *binary) {
  (void)binary;
  static void *handle;
  return &handle;
}

void CUDARTAPI __cudaRegisterFatBinaryEnd(void **handle) {
  (void)handle;
}

void CUDARTAPI __cudaUnregisterFatBinary(void **handle) {
  (void)handle;
}

char CUDARTAPI __cudaInitModule(void **handle) {
  (void)handle;
  return 0;
}

void CUDARTAPI __cudaRegisterFunction(void **handle, const char *host, char *device,
                                      const char *name, int thread_limit, struct uint3 *thread,
                                      struct uint3 *block, struct dim3 *block_size,
                                      struct dim3 *grid_size, int *warp_size) {
  (void)handle, (void)device, (void)thread_limit, (void)thread, (void)block;
  (void)block_size, (void)grid_size, (void)warp_size;
  struct kernel *kernel = malloc(sizeof *kernel);
  if (!kernel)
    return;
  pthread_mutex_lock(&lock);
  *kernel = (struct kernel){.host = host, .name = name, .next = kernels};
  kernels = kernel;
  pthread_mutex_unlock(&lock);
}

/* Variables in device memory: the functions that would reach them are refused. */
void CUDARTAPI __cudaRegisterVar(void **handle, char *host, char *device, const char *name,
                                 int external, size_t size, int constant, int global) {
  (void)handle, (void)host, (void)device, (void)name, (void)external, (void)size;
  (void)constant, (void)global;
}

/* The host reads and writes these directly. */
void CUDARTAPI __cudaRegisterManagedVar(void **handle, void **host, char *device, const char *name,
                                        int external, size_t size, int constant, int global) {
  (void)handle, (void)device, (void)name, (void)external, (void)constant, (void)global;
  *host = calloc(1, size ? size : 1);
}

unsigned CUDARTAPI __cudaPushCallConfiguration(struct dim3 grid, struct dim3 block, size_t shared,
                                               struct CUstream_st *stream) {
  pushed.grid = grid;
  pushed.block = block;
  pushed.shared = shared;
  pushed.stream = stream;
  return 0;
}

cudaError_t CUDARTAPI __cudaPopCallConfiguration(struct dim3 *grid, struct dim3 *block,
                                                 size_t *shared, void *stream) {
  *grid = pushed.grid;
  *block = pushed.block;
  *shared = pushed.shared;
  *(CUstream *)stream = pushed.stream;
  return cudaSuccess;
}

static cudaError_t refuse(const void *host) {
  const char *name = "a kernel";
  pthread_mutex_lock(&lock);
  for (struct kernel *kernel = kernels; kernel; kernel = kernel->next)
    if (kernel->host == host)
      name = kernel->name;
  pthread_mutex_unlock(&lock);
  fprintf(stderr, "loopback: launch of %s: the loopback CUDA runs no device code\n", name);
  return runtime_result(CUDA_ERROR_NOT_SUPPORTED);
}

cudaError_t CUDARTAPI __cudaGetKernel(cudaKernel_t *kernel, const void *host) {
  *kernel = (cudaKernel_t)host;
  return cudaSuccess;
}

cudaError_t CUDARTAPI __cudaLaunchKernel(cudaKernel_t kernel, struct dim3 grid, struct dim3 block,
                                         void **arguments, size_t shared, cudaStream_t stream) {
  (void)grid, (void)block, (void)arguments, (void)shared, (void)stream;
  return refuse(kernel);
}

cudaError_t CUDARTAPI __cudaLaunchKernel_ptsz(cudaKernel_t kernel, struct dim3 grid,
                                              struct dim3 block, void **arguments, size_t shared,
                                              cudaStream_t stream) {
  return __cudaLaunchKernel(kernel, grid, block, arguments, shared, stream);
}

cudaError_t CUDARTAPI cudaLaunchKernel(const void *host, struct dim3 grid, struct dim3 block,
                                       void **arguments, size_t shared, cudaStream_t stream) {
  (void)grid, (void)block, (void)arguments, (void)shared, (void)stream;
  return refuse(host);
}

cudaError_t CUDARTAPI cudaLaunchKernel_ptsz(const void *host, struct dim3 grid, struct dim3 block,
                                            void **arguments, size_t shared, cudaStream_t stream) {
  return cudaLaunchKernel(host, grid, block, arguments, shared, stream);
}

cudaError_t CUDARTAPI cudaLaunchCooperativeKernel(const void *host, struct dim3 grid,
                                                  struct dim3 block, void **arguments,
                                                  size_t shared, cudaStream_t stream) {
  return cudaLaunchKernel(host, grid, block, arguments, shared, stream);
}

cudaError_t CUDARTAPI cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *host,
                                          void **arguments) {
  (void)config, (void)arguments;
  return refuse(host);
}

/* Programs that launch kernels ask these first. */

cudaError_t CUDARTAPI cudaFuncGetAttributes(struct cudaFuncAttributes *attributes,
                                            const void *host) {
  (void)attributes, (void)host;
  return runtime_unsupported("cudaFuncGetAttributes");
}

cudaError_t CUDARTAPI cudaFuncSetAttribute(const void *host, enum cudaFuncAttribute attribute,
                                           int value) {
  (void)host, (void)attribute, (void)value;
  return runtime_unsupported("cudaFuncSetAttribute");
}

cudaError_t CUDARTAPI cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    int *blocks, const void *host, int block_size, size_t shared, unsigned flags) {
  (void)blocks, (void)host, (void)block_size, (void)shared, (void)flags;
  return runtime_unsupported("cudaOccupancyMaxActiveBlocksPerMultiprocessor");
}

cudaError_t CUDARTAPI cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *host,
                                                                    int block_size, size_t shared) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, host, block_size, shared,
                                                                0);
}

cudaError_t CUDARTAPI cudaGetSymbolAddress(void **address, const void *symbol) {
  (void)address, (void)symbol;
  return runtime_unsupported("cudaGetSymbolAddress");
}
