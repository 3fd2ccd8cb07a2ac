/* Driver API: initialisation and devices. */
#include "tools/loopback/cuda/driver.h"

#include <stdio.h>
#include <string.h>

#include "tools/loopback/cuda/device.h"
#include "tools/loopback/cuda/settings.h"

/* cuStreamGetCaptureInfo and others changed with 13: the newest interface that is offered here. */
#define DRIVER_VERSION 13000

static CUresult find(CUdevice ordinal, struct device **device) {
  CUresult result = process_check();
  if (result != CUDA_SUCCESS)
    return result;
  *device = device_get(ordinal);
  return *device ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult CUDAAPI cuInit(unsigned flags) {
  return flags ? CUDA_ERROR_INVALID_VALUE : process_initialise();
}

CUresult CUDAAPI cuDriverGetVersion(int *version) {
  if (!version)
    return CUDA_ERROR_INVALID_VALUE;
  *version = DRIVER_VERSION;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetCount(int *count) {
  DRIVER_TRY(process_check());
  if (!count)
    return CUDA_ERROR_INVALID_VALUE;
  *count = settings.devices;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGet(CUdevice *device, int ordinal) {
  struct device *found;
  DRIVER_TRY(find(ordinal, &found));
  if (!device)
    return CUDA_ERROR_INVALID_VALUE;
  *device = found->ordinal;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetName(char *name, int length, CUdevice ordinal) {
  struct device *device;
  DRIVER_TRY(find(ordinal, &device));
  if (!name || length <= 0)
    return CUDA_ERROR_INVALID_VALUE;
  snprintf(name, (size_t)length, "Loopback device (host memory)");
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice ordinal) {
  struct device *device;
  DRIVER_TRY(find(ordinal, &device));
  return device_attribute(device, attribute, value);
}

CUresult CUDAAPI cuDeviceTotalMem(size_t *bytes, CUdevice ordinal) {
  struct device *device;
  DRIVER_TRY(find(ordinal, &device));
  if (!bytes)
    return CUDA_ERROR_INVALID_VALUE;
  *bytes = device->total;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetUuid(CUuuid *uuid, CUdevice ordinal) {
  struct device *device;
  DRIVER_TRY(find(ordinal, &device));
  if (!uuid)
    return CUDA_ERROR_INVALID_VALUE;
  device_uuid(device, uuid);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetPCIBusId(char *id, int length, CUdevice ordinal) {
  struct device *device;
  DRIVER_TRY(find(ordinal, &device));
  char text[16];
  int needed = snprintf(text, sizeof text, "0000:%02X:00.0", (unsigned)device->physical + 1);
  if (!id || length <= needed)
    return CUDA_ERROR_INVALID_VALUE;
  memcpy(id, text, (size_t)needed + 1);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetByPCIBusId(CUdevice *device, const char *id) {
  unsigned domain, bus, slot;
  DRIVER_TRY(process_check());
  if (!device || !id)
    return CUDA_ERROR_INVALID_VALUE;
  /* NOLINTNEXTLINE(cert-err34-c): what is too large is no device */
  if (sscanf(id, "%x:%x:%x", &domain, &bus, &slot) == 3 && !domain && !slot)
    for (int i = 0; i < settings.devices; i++)
      if ((unsigned)settings.physical[i] + 1 == bus) {
        *device = i;
        return CUDA_SUCCESS;
      }
  return CUDA_ERROR_INVALID_DEVICE;
}

CUresult CUDAAPI cuDeviceCanAccessPeer(int *can, CUdevice from, CUdevice to) {
  struct device *first, *second;
  DRIVER_TRY(find(from, &first));
  DRIVER_TRY(find(to, &second));
  if (!can)
    return CUDA_ERROR_INVALID_VALUE;
  *can = first != second;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetP2PAttribute(int *value, CUdevice_P2PAttribute attribute, CUdevice from,
                                         CUdevice to) {
  struct device *first, *second;
  DRIVER_TRY(find(from, &first));
  DRIVER_TRY(find(to, &second));
  if (!value || first == second)
    return CUDA_ERROR_INVALID_VALUE;
  *value = attribute == CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice ordinal) {
  struct device *device;
  DRIVER_TRY(find(ordinal, &device));
  return context ? context_retain_primary(device, context) : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuDevicePrimaryCtxRelease(CUdevice ordinal) {
  struct device *device;
  DRIVER_TRY(find(ordinal, &device));
  return context_release_primary(device);
}

CUresult CUDAAPI cuDevicePrimaryCtxReset(CUdevice ordinal) {
  struct device *device;
  DRIVER_TRY(find(ordinal, &device));
  return context_reset_primary(device);
}

CUresult CUDAAPI cuDevicePrimaryCtxGetState(CUdevice ordinal, unsigned *flags, int *active) {
  struct device *device;
  DRIVER_TRY(find(ordinal, &device));
  if (!flags || !active)
    return CUDA_ERROR_INVALID_VALUE;
  bool is_active;
  context_primary_state(device, flags, &is_active);
  *active = is_active;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDevicePrimaryCtxSetFlags(CUdevice ordinal, unsigned flags) {
  struct device *device;
  DRIVER_TRY(find(ordinal, &device));
  if (flags & ~(unsigned)CU_CTX_FLAGS_MASK)
    return CUDA_ERROR_INVALID_VALUE;
  context_primary_set_flags(device, flags);
  return CUDA_SUCCESS;
}
