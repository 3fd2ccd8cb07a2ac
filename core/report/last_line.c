/* The last WARN, for who looks from outside (last_line.h). */
#include "core/report/last_line.h"

#include <stdbool.h>
#include <stdio.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static struct last_line *shown;
static int descriptor = -1;
static bool tried;

static struct last_line *make_memory(void) {
  descriptor = memfd_create(LAST_LINE_NAME, MFD_CLOEXEC);
  if (descriptor < 0 || ftruncate(descriptor, sizeof(*shown)) != 0)
    return NULL;
  void *memory = mmap(NULL, sizeof(*shown), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  return memory == MAP_FAILED ? NULL : memory;
}

void last_line_show(const char *text) {
  if (!tried)
    shown = make_memory();
  tried = true;
  if (shown == NULL)
    return;
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  atomic_fetch_add(&shown->changes, 1);
  shown->format = LAST_LINE_FORMAT;
  shown->at_ms = (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
  snprintf(shown->text, sizeof(shown->text), "%s", text);
  atomic_fetch_add(&shown->changes, 1);
}

void last_line_forget(void) {
  if (shown != NULL)
    munmap(shown, sizeof(*shown));
  if (descriptor >= 0)
    close(descriptor);
  shown = NULL;
  descriptor = -1;
  tried = false;
}
