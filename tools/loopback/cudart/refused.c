/* Functions that libraries of real programs (PyTorch's) are linked to and that the loopback does
 * not do: each says its name and returns cudaErrorNotSupported. None looks at its arguments, so one
 * definition serves the prototypes of all releases; the headers, which declare them with their
 * arguments, are therefore not read here. */

extern int runtime_unsupported(const char *what);

/* No profiler is ever there to be started or stopped, which is no error. */
int cudaProfilerStart(void);
int cudaProfilerStart(void) {
  return 0;
}

int cudaProfilerStop(void);
int cudaProfilerStop(void) {
  return 0;
}

#define REFUSED(name)                                                                              \
  int name(void);                                                                                  \
  int name(void) {                                                                                 \
    return runtime_unsupported(#name);                                                             \
  }

REFUSED(cudaDeviceGetDefaultMemPool)
REFUSED(cudaDeviceGetGraphMemAttribute)
REFUSED(cudaDeviceSetGraphMemAttribute)
REFUSED(cudaGraphAddNode)
REFUSED(cudaGraphConditionalHandleCreate)
REFUSED(cudaGraphNodeGetDependencies)
REFUSED(cudaIpcCloseMemHandle)
REFUSED(cudaIpcGetEventHandle)
REFUSED(cudaIpcGetMemHandle)
REFUSED(cudaIpcOpenEventHandle)
REFUSED(cudaIpcOpenMemHandle)
REFUSED(cudaKernelSetAttributeForDevice)
REFUSED(cudaLibraryGetGlobal)
REFUSED(cudaLibraryGetKernel)
REFUSED(cudaLibraryGetKernelCount)
REFUSED(cudaLibraryGetManaged)
REFUSED(cudaLibraryGetUnifiedFunction)
REFUSED(cudaLibraryLoadData)
REFUSED(cudaLibraryLoadFromFile)
REFUSED(cudaLibraryUnload)
REFUSED(cudaMemPoolGetAttribute)
REFUSED(cudaMemPoolSetAccess)
REFUSED(cudaMemPoolSetAttribute)
REFUSED(cudaMemPoolTrimTo)
REFUSED(cudaMemcpyToSymbol)
REFUSED(cudaStreamBeginCaptureToGraph)
