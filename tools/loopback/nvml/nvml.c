/* libnvidia-ml.so.1, as far as NCCL and PyTorch ask it: the devices of the loopback, each behind a
 * PCI Express link of its own, without NVLink and without access to each other.
 *
 * Types are those of nvml.h, which CUDA's packages do not have; numbers are its enumerations. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SUCCESS = 0, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6 };
enum { P2P_OK = 0, P2P_NOT_SUPPORTED = 5 };
enum {
  DEVICES_MAX = 64,
  DRIVER_VERSION = 13000,
  DEVICE_ID = 0x233010de,
  SUBSYSTEM_ID = 0x16c110de
};

struct pci {
  char short_id[16];
  unsigned domain, bus, device, device_id, subsystem_id;
  char id[32];
};

struct pci_ext {
  unsigned version, domain, bus, device, device_id, subsystem_id, base_class, sub_class;
  char id[32];
};

static char devices[DEVICES_MAX]; /* only their addresses are of interest */

static unsigned count(void) {
  const char *text = getenv("LOOPBACK_DEVICES");
  int number = text != NULL && *text != '\0' ? atoi(text) : 8;
  return number > 0 && number <= DEVICES_MAX ? (unsigned)number : 1;
}

static unsigned index_of(const void *device) {
  return (unsigned)((const char *)device - devices);
}

/* The loopback gives bus 1 to its first device. */
static unsigned bus_of(const void *device) {
  return index_of(device) + 1;
}

#define NVML __attribute__((visibility("default"))) int
#define UNSUPPORTED(name, ...)                                                                     \
  NVML name(__VA_ARGS__) {                                                                         \
    return NOT_SUPPORTED;                                                                          \
  }
#pragma GCC diagnostic ignored "-Wunused-parameter"
#pragma GCC diagnostic ignored "-Wmissing-prototypes"

NVML nvmlInit_v2(void) {
  return SUCCESS;
}

NVML nvmlInit(void) {
  return SUCCESS;
}

NVML nvmlShutdown(void) {
  return SUCCESS;
}

NVML nvmlDeviceGetCount_v2(unsigned *number) {
  *number = count();
  return SUCCESS;
}

NVML nvmlDeviceGetCount(unsigned *number) {
  return nvmlDeviceGetCount_v2(number);
}

NVML nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) {
  if (index >= count())
    return INVALID_ARGUMENT;
  *device = &devices[index];
  return SUCCESS;
}

NVML nvmlDeviceGetHandleByIndex(unsigned index, void **device) {
  return nvmlDeviceGetHandleByIndex_v2(index, device);
}

NVML nvmlDeviceGetHandleByPciBusId_v2(const char *id, void **device) {
  unsigned domain, bus, slot, function;
  if (sscanf(id, "%x:%x:%x.%x", &domain, &bus, &slot, &function) != 4 || bus == 0)
    return INVALID_ARGUMENT;
  if (bus > count())
    return NOT_FOUND;
  *device = &devices[bus - 1];
  return SUCCESS;
}

NVML nvmlDeviceGetHandleByPciBusId(const char *id, void **device) {
  return nvmlDeviceGetHandleByPciBusId_v2(id, device);
}

NVML nvmlDeviceGetIndex(const void *device, unsigned *index) {
  *index = index_of(device);
  return SUCCESS;
}

NVML nvmlDeviceGetCudaComputeCapability(const void *device, int *major, int *minor) {
  (void)device;
  *major = 9;
  *minor = 0;
  return SUCCESS;
}

NVML nvmlDeviceGetP2PStatus(const void *one, const void *other, int index, int *status) {
  (void)index;
  *status = one == other ? P2P_OK : P2P_NOT_SUPPORTED;
  return SUCCESS;
}

NVML nvmlDeviceGetPciInfo_v3(const void *device, struct pci *info) {
  *info = (struct pci){.bus = bus_of(device), .device_id = DEVICE_ID, .subsystem_id = SUBSYSTEM_ID};
  snprintf(info->short_id, sizeof info->short_id, "0000:%02X:00.0", info->bus);
  snprintf(info->id, sizeof info->id, "00000000:%02X:00.0", info->bus);
  return SUCCESS;
}

NVML nvmlDeviceGetPciInfo_v2(const void *device, struct pci *info) {
  return nvmlDeviceGetPciInfo_v3(device, info);
}

NVML nvmlDeviceGetPciInfo(const void *device, struct pci *info) {
  return nvmlDeviceGetPciInfo_v3(device, info);
}

NVML nvmlDeviceGetPciInfoExt(const void *device, struct pci_ext *info) {
  *info = (struct pci_ext){.version = info->version,
                           .bus = bus_of(device),
                           .device_id = DEVICE_ID,
                           .subsystem_id = SUBSYSTEM_ID,
                           .base_class = 3,
                           .sub_class = 2};
  snprintf(info->id, sizeof info->id, "00000000:%02X:00.0", info->bus);
  return SUCCESS;
}

NVML nvmlDeviceGetUUID(const void *device, char *text, unsigned size) {
  snprintf(text, size, "GPU-00000000-0000-0000-0000-%012x", bus_of(device));
  return SUCCESS;
}

NVML nvmlDeviceGetName(const void *device, char *text, unsigned size) {
  (void)device;
  snprintf(text, size, "Loopback");
  return SUCCESS;
}

NVML nvmlSystemGetDriverVersion(char *text, unsigned size) {
  snprintf(text, size, "580.00");
  return SUCCESS;
}

NVML nvmlSystemGetCudaDriverVersion_v2(int *version) {
  *version = DRIVER_VERSION;
  return SUCCESS;
}

/* A link of the fourth generation, 16 lanes wide. */
static int link_of(unsigned *value, unsigned number) {
  *value = number;
  return SUCCESS;
}

NVML nvmlDeviceGetMaxPcieLinkGeneration(const void *device, unsigned *value) {
  return link_of(value, 4);
}

NVML nvmlDeviceGetCurrPcieLinkGeneration(const void *device, unsigned *value) {
  return link_of(value, 4);
}

NVML nvmlDeviceGetMaxPcieLinkWidth(const void *device, unsigned *value) {
  return link_of(value, 16);
}

NVML nvmlDeviceGetCurrPcieLinkWidth(const void *device, unsigned *value) {
  return link_of(value, 16);
}

NVML nvmlDeviceGetPcieLinkMaxSpeed(const void *device, unsigned *value) {
  return link_of(value, 16000);
}

NVML nvmlDeviceGetMemoryErrorCounter(const void *device, int error, int counter, int location,
                                     unsigned long long *number) {
  *number = 0;
  return SUCCESS;
}

UNSUPPORTED(nvmlDeviceGetNvLinkState, const void *device, unsigned link, int *active)
UNSUPPORTED(nvmlDeviceGetNvLinkRemotePciInfo, const void *device, unsigned link, void *info)
UNSUPPORTED(nvmlDeviceGetNvLinkRemotePciInfo_v2, const void *device, unsigned link, void *info)
UNSUPPORTED(nvmlDeviceGetNvLinkCapability, const void *device, unsigned link, int which,
            unsigned *is)
UNSUPPORTED(nvmlDeviceGetNvLinkRemoteDeviceType, const void *device, unsigned link, int *type)
UNSUPPORTED(nvmlDeviceGetGpuFabricInfoV, const void *device, void *info)
UNSUPPORTED(nvmlDeviceGetComputeRunningProcesses, const void *device, unsigned *number, void *infos)
UNSUPPORTED(nvmlDeviceGetFieldValues, const void *device, int number, void *values)

__attribute__((visibility("default"))) const char *nvmlErrorString(int result) {
  switch (result) {
  case SUCCESS:
    return "Success";
  case INVALID_ARGUMENT:
    return "Invalid Argument";
  case NOT_FOUND:
    return "Not Found";
  default:
    return "Not Supported";
  }
}
