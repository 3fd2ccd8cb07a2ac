/* Reads the settings table of settings.h from the environment. */
#include "tools/loopback/cuda/settings.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

struct settings settings;

static long number(const char *name, long lowest, long highest, long otherwise) {
  const char *text = getenv(name);
  if (!text || !*text)
    return otherwise;
  char *end;
  errno = 0;
  long value = strtol(text, &end, 10);
  if (errno || *end || value < lowest || value > highest) {
    fprintf(stderr, "loopback: %s=%s: want a number from %ld to %ld\n", name, text, lowest,
            highest);
    exit(EXIT_FAILURE);
  }
  return value;
}

/* "If one of the indices is invalid, only the devices whose index precedes the invalid index are
 * visible": CUDA Programming Guide, CUDA Environment Variables. */
static void read_visible(const char *list, int devices) {
  settings.devices = 0;
  bool taken[SETTINGS_DEVICES_MAX] = {false};
  while (*list && settings.devices < devices) {
    char *end;
    long device = strtol(list, &end, 10);
    if (end == list || device < 0 || device >= devices || taken[device])
      return;
    taken[device] = true;
    settings.physical[settings.devices++] = (int)device;
    if (*end != ',')
      return;
    list = end + 1;
  }
}

void settings_read(void) {
  settings.devices = (int)number("LOOPBACK_DEVICES", 1, SETTINGS_DEVICES_MAX, 8);
  for (int i = 0; i < settings.devices; i++)
    settings.physical[i] = i;
  const char *visible = getenv("CUDA_VISIBLE_DEVICES");
  if (visible)
    read_visible(visible, settings.devices);
  settings.device_memory = (size_t)number("LOOPBACK_DEVICE_MEMORY_MB", 1, 1L << 20, 1024) << 20;
  settings.queue = (size_t)number("LOOPBACK_QUEUE", 1, 1L << 20, 1024);
  settings.delay = number("LOOPBACK_DELAY_US", 0, 60L * 1000 * 1000, 0);
  settings.strict_host = number("LOOPBACK_STRICT_HOST", 0, 1, 1) == 1;
}
