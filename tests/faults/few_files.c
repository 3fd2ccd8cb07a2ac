/* Preloaded: leaves a program too few file descriptors, from cudaSetDevice on (FEW_FILES: how many
 * it may have in all), or just when nccl-join opens its segment (FEW_FILES=segment).
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#define EXPORTED __attribute__((visibility("default")))

static const char *setting(void) {
  const char *text = getenv("FEW_FILES");
  return text != NULL ? text : "";
}

/* Sets the limit, and returns the one before. */
static rlim_t allow(rlim_t files) {
  struct rlimit limit;
  getrlimit(RLIMIT_NOFILE, &limit);
  rlim_t before = limit.rlim_cur;
  limit.rlim_cur = files;
  setrlimit(RLIMIT_NOFILE, &limit);
  return before;
}

EXPORTED int cudaSetDevice(int device) {
  static int (*real)(int);
  if (real == NULL)
    *(void **)&real = dlsym(RTLD_NEXT, "cudaSetDevice");
  long files = strtol(setting(), NULL, 10);
  if (files > 0)
    allow((rlim_t)files);
  return real(device);
}

EXPORTED int open(const char *path, int flags, ...) {
  static int (*real)(const char *, int, ...);
  if (real == NULL)
    *(void **)&real = dlsym(RTLD_NEXT, "open");
  va_list values;
  va_start(values, flags);
  mode_t mode = flags & O_CREAT ? va_arg(values, mode_t) : 0;
  va_end(values);
  if (strcmp(setting(), "segment") != 0 || strstr(path, "/nccl-join-") == NULL)
    return real(path, flags, mode);
  rlim_t before = allow(0);
  int file = real(path, flags, mode);
  allow(before);
  return file;
}
