/* A CUDA driver that only tells which contexts there are. The variable CUDA: "uninitialised",
 * "initialised" (no context), "primary" (the second device's is in use) or "current" (one that is
 * no device's primary one). It says once that it was asked, and whenever it is initialised. */
#include <stdlib.h>
#include <string.h>

#include <cuda.h>

#include "tests/interpose/parts/say.h"

#define EXPORTED __attribute__((visibility("default")))

static int is(const char *state) {
  const char *set = getenv("CUDA");
  return set != NULL && strcmp(set, state) == 0;
}

static CUresult answer(void) {
  return is("uninitialised") ? CUDA_ERROR_NOT_INITIALIZED : CUDA_SUCCESS;
}

EXPORTED CUresult cuInit(unsigned flags) {
  (void)flags;
  say("driver: initialised");
  return CUDA_SUCCESS;
}

EXPORTED CUresult cuCtxGetCurrent(CUcontext *context) {
  static char one;
  say("driver: asked");
  *context = is("current") ? (CUcontext)&one : NULL;
  return answer();
}

EXPORTED CUresult cuDeviceGetCount(int *count) {
  *count = 2;
  return answer();
}

EXPORTED CUresult cuDeviceGet(CUdevice *device, int ordinal) {
  *device = ordinal;
  return answer();
}

EXPORTED CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned *flags, int *active) {
  *flags = 0;
  *active = device == 1 && is("primary");
  return answer();
}
