/* Settings of the loopback CUDA, from the environment, read once by cuInit.
 *
 *   LOOPBACK_DEVICES           devices of the machine, 1 to 64 (default 8)
 *   CUDA_VISIBLE_DEVICES       as in CUDA: a list of numbers; an unknown one ends the list
 *   LOOPBACK_DEVICE_MEMORY_MB  memory of a device in MiB (default 1024)
 *   LOOPBACK_QUEUE             entries a stream holds before the host waits (default 1024)
 *   LOOPBACK_DELAY_US          microseconds before a worker runs an entry (default 0)
 *   LOOPBACK_STRICT_HOST       1: the host faults on device memory, as with a GPU (default);
 *                              0: it may use it
 *
 * A value that is not a number in range is reported on stderr and ends the process: a test that
 * runs under other settings than it asked for proves nothing. */
#ifndef LOOPBACK_CUDA_SETTINGS_H
#define LOOPBACK_CUDA_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>

#define SETTINGS_DEVICES_MAX 64

struct settings {
  int devices;                        /* visible ones */
  int physical[SETTINGS_DEVICES_MAX]; /* number on the machine of each visible device */
  size_t device_memory;               /* bytes */
  size_t queue;                       /* entries */
  long delay;                         /* microseconds */
  bool strict_host;
};

/* Valid after settings_read; constant from then on. */
extern struct settings settings;

/* Called once, by cuInit, before any other thread can read the settings. */
void settings_read(void);

#endif
