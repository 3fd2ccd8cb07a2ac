/* See failing.h. */
#include "tests/unit/failing.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static struct {
  int countdown; /* calls until the first that fails; 0: none does */
  int times, error;
  bool failed;
} plans[CALLS];

static const char *host;

void fail_call(enum call call, int nth, int times, int error) {
  plans[call].countdown = times > 0 ? nth : 0;
  plans[call].times = times;
  plans[call].error = error;
  plans[call].failed = false;
}

bool call_has_failed(enum call call) {
  return plans[call].failed;
}

void call_host(const char *name) {
  host = name;
}

static bool fails(enum call call) {
  if (plans[call].countdown == 0 || --plans[call].countdown > 0)
    return false;
  plans[call].countdown = --plans[call].times > 0 ? 1 : 0;
  plans[call].failed = true;
  errno = plans[call].error;
  return true;
}

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);

void *__wrap_malloc(size_t size) {
  return fails(CALL_ALLOCATION) ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size) {
  return fails(CALL_ALLOCATION) ? NULL : __real_calloc(count, size);
}

void *__real_realloc(void *memory, size_t size);
void *__wrap_realloc(void *memory, size_t size) {
  return fails(CALL_ALLOCATION) ? NULL : __real_realloc(memory, size);
}

void *__wrap_aligned_alloc(size_t alignment, size_t size) {
  return fails(CALL_ALLOCATION) ? NULL : __real_aligned_alloc(alignment, size);
}

int __real_fcntl(int descriptor, int command, ...);
int __wrap_fcntl(int descriptor, int command, ...) {
  va_list arguments;
  va_start(arguments, command);
  void *argument = va_arg(arguments, void *);
  va_end(arguments);
  return fails(CALL_FCNTL) ? -1 : __real_fcntl(descriptor, command, argument);
}

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  mode_t mode = flags & O_CREAT ? va_arg(arguments, mode_t) : 0;
  va_end(arguments);
  return fails(CALL_OPEN) ? -1 : __real_open(path, flags, mode);
}

int __real_fstat(int descriptor, struct stat *status);
int __wrap_fstat(int descriptor, struct stat *status) {
  return fails(CALL_FSTAT) ? -1 : __real_fstat(descriptor, status);
}

int __real_ftruncate(int descriptor, off_t size);
int __wrap_ftruncate(int descriptor, off_t size) {
  return fails(CALL_FTRUNCATE) ? -1 : __real_ftruncate(descriptor, size);
}

char *__real_getcwd(char *path, size_t size);
char *__wrap_getcwd(char *path, size_t size) {
  return fails(CALL_GETCWD) ? NULL : __real_getcwd(path, size);
}

int __real_gethostname(char *name, size_t size);
int __wrap_gethostname(char *name, size_t size) {
  if (fails(CALL_GETHOSTNAME))
    return -1;
  if (host == NULL)
    return __real_gethostname(name, size);
  snprintf(name, size, "%s", host);
  return 0;
}

void *__real_mmap(void *at, size_t size, int protection, int flags, int descriptor, off_t offset);
void *__wrap_mmap(void *at, size_t size, int protection, int flags, int descriptor, off_t offset) {
  return fails(CALL_MMAP) ? MAP_FAILED
                          : __real_mmap(at, size, protection, flags, descriptor, offset);
}

int __real_posix_fallocate(int descriptor, off_t offset, off_t size);
int __wrap_posix_fallocate(int descriptor, off_t offset, off_t size) {
  return fails(CALL_POSIX_FALLOCATE) ? errno : __real_posix_fallocate(descriptor, offset, size);
}

ssize_t __real_pread(int descriptor, void *bytes, size_t size, off_t offset);
ssize_t __wrap_pread(int descriptor, void *bytes, size_t size, off_t offset) {
  return fails(CALL_PREAD) ? -1 : __real_pread(descriptor, bytes, size, offset);
}

int __real_access(const char *path, int mode);
int __wrap_access(const char *path, int mode) {
  return fails(CALL_ACCESS) ? -1 : __real_access(path, mode);
}

int __real_sched_getaffinity(pid_t process, size_t size, cpu_set_t *set);
int __wrap_sched_getaffinity(pid_t process, size_t size, cpu_set_t *set) {
  return fails(CALL_SCHED_GETAFFINITY) ? -1 : __real_sched_getaffinity(process, size, set);
}

/* With error 0 nothing is written, and no error is said. */
ssize_t __real_write(int descriptor, const void *bytes, size_t size);
ssize_t __wrap_write(int descriptor, const void *bytes, size_t size) {
  if (fails(CALL_WRITE))
    return plans[CALL_WRITE].error == 0 ? 0 : -1;
  return __real_write(descriptor, bytes, size);
}
