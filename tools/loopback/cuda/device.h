/* Devices: numbers, attributes, and the memory each has left. */
#ifndef LOOPBACK_CUDA_DEVICE_H
#define LOOPBACK_CUDA_DEVICE_H

#include <stdbool.h>
#include <stddef.h>

#include <cuda.h>

struct device {
  int ordinal;       /* among the visible devices: the CUdevice */
  int physical;      /* on the machine: what name, UUID and PCI address are made of */
  CUcontext primary; /* made by devices_create, active while it is retained */
  size_t total;      /* bytes */
  size_t used;       /* bytes; guarded by the lock of memory.c */
};

/* Once, by process.c. */
void devices_create(void);

/* NULL if there is no such device. */
struct device *device_get(CUdevice ordinal);

/* CUDA_ERROR_INVALID_VALUE for what is not an attribute. A feature that the loopback lacks reads
 * 0. */
CUresult device_attribute(const struct device *device, CUdevice_attribute attribute, int *value);

/* The same bytes for the same physical device in every process. */
void device_uuid(const struct device *device, CUuuid *uuid);

#endif
