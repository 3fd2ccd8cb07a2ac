/* Launches of NCCL's kernels. A kernel is a host function of its stream. */
#include "tests/nccl/emulation.h"

#include "tools/loopback/cuda/loopback_cuda.h"
#include "tests/nccl/device.h"
#include "tests/nccl/image.h"
#include "tests/nccl/reducer.h"

#include <string.h>

struct kernel {
  bool once; /* not captured: nobody runs it again */
  void (*run)(const void *arguments);
  _Alignas(16) char arguments[];
};

void *device_at(const void *address, size_t size) {
  if (size == 0)
    return NULL;
  void *bytes = loopback_device_memory(address, size);
  if (bytes == NULL)
    DEVICE_REFUSE("a kernel touches %zu bytes at %p, which is not memory of a device", size,
                  address);
  return bytes;
}

static void CUDA_CB run(void *argument) {
  struct kernel *kernel = argument;
  kernel->run(kernel->arguments);
  if (kernel->once)
    free(kernel);
}

/* A captured kernel lives as long as the graph. */
static CUresult give_to_graph(struct kernel *kernel, CUgraph graph) {
  CUuserObject object;
  CUresult result = cuUserObjectCreate(&object, kernel, free, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC);
  return result == CUDA_SUCCESS
             ? cuGraphRetainUserObject(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE)
             : result;
}

static CUresult enqueue(void (*function)(const void *), CUstream stream, const void *arguments,
                        size_t size) {
  struct kernel *kernel = aligned_alloc(16, (sizeof *kernel + size + 15) / 16 * 16);
  if (kernel == NULL)
    return CUDA_ERROR_OUT_OF_MEMORY;
  CUstreamCaptureStatus capturing = CU_STREAM_CAPTURE_STATUS_NONE;
  CUgraph graph = NULL;
  CUresult result = cuStreamGetCaptureInfo(stream, &capturing, NULL, &graph, NULL, NULL, NULL);
  kernel->once = capturing == CU_STREAM_CAPTURE_STATUS_NONE;
  kernel->run = function;
  memcpy(kernel->arguments, arguments, size);
  if (result == CUDA_SUCCESS && !kernel->once)
    result = give_to_graph(kernel, graph);
  return result == CUDA_SUCCESS ? cuLaunchHostFunc(stream, run, kernel) : result;
}

static CUresult launch_kernel(const void *kernel, CUstream stream, const void *arguments,
                              size_t size) {
  const char *name = image_name(kernel);
  if (name == NULL || strstr(name, "ncclDevKernel_") == NULL)
    DEVICE_REFUSE("kernel %s", name != NULL ? name : "without a name");
  return enqueue(kernel_run, stream, arguments, size);
}

/* ---- the kernel of a communicator of one rank ---- */

struct multiply {
  void *output;
  const void *input;
  size_t count;
  uint64_t argument;
  bool is_pointer;
  ncclDataType_t datatype;
};

static void multiply(const void *argument) {
  const struct multiply *what = argument;
  struct reducer reducer = reducer_make(DEVICE_PRE_MUL_SUM, what->datatype, what->argument);
  if (what->is_pointer)
    memcpy(reducer.factor.bytes,
           device_at((const void *)(uintptr_t)what->argument, reducer.element), reducer.element);
  size_t size = what->count * reducer.element;
  const char *input = device_at(what->input, size);
  char *output = device_at(what->output, size);
  reducer_apply(&reducer, &input, 1, true, &output, 1, what->count, true);
}

/* Its name has FuncPreMulSum<T> in it, T as C++ mangles it. */
static ncclDataType_t multiplied_datatype(const char *name) {
  static const struct {
    const char *mangled;
    ncclDataType_t datatype;
  } names[] = {
      {"13__nv_bfloat16", ncclBfloat16},
      {"13__nv_fp8_e4m3", ncclFloat8e4m3},
      {"13__nv_fp8_e5m2", ncclFloat8e5m2},
      {"6__half", ncclFloat16},
      {"f", ncclFloat32},
      {"d", ncclFloat64},
      {"h", ncclUint8},
      {"a", ncclInt8},
      {"j", ncclUint32},
      {"i", ncclInt32},
      {"m", ncclUint64},
      {"l", ncclInt64},
  };
  static const char function[] = "FuncPreMulSumI";
  const char *type = strstr(name, function);
  for (size_t i = 0; type != NULL && i < sizeof names / sizeof *names; i++)
    if (strncmp(type + sizeof function - 1, names[i].mangled, strlen(names[i].mangled)) == 0)
      return names[i].datatype;
  DEVICE_REFUSE("kernel %s", name);
}

static cudaError_t launch_by_runtime(const void *kernel, dim3 grid, dim3 block, void **arguments,
                                     size_t shared, cudaStream_t stream) {
  (void)grid, (void)block, (void)shared;
  const char *name = image_name(kernel);
  if (name == NULL || strstr(name, "oneRankReduce") == NULL)
    DEVICE_REFUSE("kernel %s", name != NULL ? name : "without a name");
  struct multiply what = {*(void **)arguments[0],  *(const void **)arguments[1],
                          *(size_t *)arguments[2], *(uint64_t *)arguments[3],
                          *(bool *)arguments[4],   multiplied_datatype(name)};
  return (cudaError_t)enqueue(multiply, stream, &what, sizeof what);
}

/* ---- by the driver ---- */

static CUresult launch_extra(CUfunction function, CUstream stream, void **extra) {
  const void *arguments = NULL;
  size_t size = 0;
  for (; extra != NULL && *extra != CU_LAUNCH_PARAM_END; extra += 2) {
    if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER)
      arguments = extra[1];
    if (*extra == CU_LAUNCH_PARAM_BUFFER_SIZE)
      size = *(size_t *)extra[1];
  }
  return arguments != NULL ? launch_kernel(function, stream, arguments, size)
                           : CUDA_ERROR_INVALID_VALUE;
}

static CUresult launch_by_driver_ex(const CUlaunchConfig *config, CUfunction function,
                                    void **parameters, void **extra) {
  (void)parameters;
  for (unsigned i = 0; i < config->numAttrs; i++)
    if (config->attrs[i].id == CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT)
      cuEventRecord(config->attrs[i].value.launchCompletionEvent.event, config->hStream);
  return launch_extra(function, config->hStream, extra);
}

static CUresult launch_by_driver(CUfunction function, unsigned grid_x, unsigned grid_y,
                                 unsigned grid_z, unsigned block_x, unsigned block_y,
                                 unsigned block_z, unsigned shared, CUstream stream,
                                 void **parameters, void **extra) {
  (void)grid_x, (void)grid_y, (void)grid_z, (void)block_x, (void)block_y, (void)block_z;
  (void)shared, (void)parameters;
  return launch_extra(function, stream, extra);
}

/* ---- entry points of the driver, which NCCL asks the runtime for ---- */

static cudaError_t entry_point(const char *name, void **function, unsigned version,
                               unsigned long long flags,
                               enum cudaDriverEntryPointQueryResult *status) {
  static const struct emulated own[] = {
      {"cuLaunchKernelEx", (void *)launch_by_driver_ex},
      {"cuLaunchKernel", (void *)launch_by_driver},
  };
  CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SUCCESS;
  *function = emulated_find(own, sizeof own / sizeof *own, name);
  CUresult result = CUDA_SUCCESS;
  if (*function == NULL)
    result = cuGetProcAddress(name, function, (int)version, flags, &found);
  if (status != NULL)
    *status = (enum cudaDriverEntryPointQueryResult)found;
  return result == CUDA_SUCCESS || status != NULL ? cudaSuccess : cudaErrorNotSupported;
}

static cudaError_t entry_point_unversioned(const char *name, void **function,
                                           unsigned long long flags,
                                           enum cudaDriverEntryPointQueryResult *status) {
  enum { VERSION = 12000 };
  return entry_point(name, function, VERSION, flags, status);
}

void *launch_function(const char *name) {
  static const struct emulated functions[] = {
      {"cudaLaunchKernel", (void *)launch_by_runtime},
      {"cudaGetDriverEntryPoint", (void *)entry_point_unversioned},
      {"cudaGetDriverEntryPointByVersion", (void *)entry_point},
  };
  return emulated_find(functions, sizeof functions / sizeof *functions, name);
}
