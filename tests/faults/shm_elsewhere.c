/* Preloaded: what NCCL keeps in /dev/shm by shm_open goes into the folder SHM_ELSEWHERE, so that a
 * /dev/shm that is full or read-only concerns nccl-join alone.
 */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define EXPORTED __attribute__((visibility("default")))

static const char *moved(const char *name, char *path) {
  const char *folder = getenv("SHM_ELSEWHERE");
  snprintf(path, PATH_MAX, "%s/%s", folder != NULL ? folder : "/tmp", name);
  return path;
}

EXPORTED int shm_open(const char *name, int flags, mode_t mode) {
  char path[PATH_MAX];
  return open(moved(name, path), flags | O_NOFOLLOW | O_CLOEXEC, mode);
}

EXPORTED int shm_unlink(const char *name) {
  char path[PATH_MAX];
  return unlink(moved(name, path));
}
