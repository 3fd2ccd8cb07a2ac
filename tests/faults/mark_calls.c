/* Preloaded behind nccl-join, in front of NCCL: says in a file when a rank is inside ncclAllReduce,
 * and makes that call, and the opening of a segment, take a random time longer, so that a fault can
 * be aimed at them.
 *
 * MARK_CALLS_IN: the file, a byte for each rank. MARK_CALLS_SLOWER_US: at most so many
 * microseconds, below a million.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <nccl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

typedef ncclResult_t all_reduce(const void *, void *, size_t, ncclDataType_t, ncclRedOp_t,
                                ncclComm_t, cudaStream_t);

enum { RANKS_MAX = 16 };

static unsigned char *mark_of_this_rank(void) {
  static unsigned char *marks;
  const char *path = getenv("MARK_CALLS_IN"), *rank = getenv("RANK");
  if (marks == NULL && path != NULL && rank != NULL) {
    int file = open(path, O_RDWR | O_CLOEXEC);
    void *base = mmap(NULL, RANKS_MAX, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (base != MAP_FAILED)
      marks = (unsigned char *)base + strtol(rank, NULL, 10) % RANKS_MAX;
  }
  return marks;
}

static void take_longer(void) {
  const char *text = getenv("MARK_CALLS_SLOWER_US");
  long most = text != NULL ? strtol(text, NULL, 10) : 0;
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now); /* as random as needed, and not the same for all ranks */
  if (most > 0)
    nanosleep(&(struct timespec){.tv_nsec = now.tv_nsec / 16 % most * 1000}, NULL);
}

__attribute__((visibility("default"))) ncclResult_t
ncclAllReduce(const void *from, void *to, size_t count, ncclDataType_t datatype,
              ncclRedOp_t reduction, ncclComm_t comm, cudaStream_t stream) {
  static all_reduce *real;
  volatile unsigned char *mark = mark_of_this_rank();
  if (real == NULL)
    *(void **)&real = dlsym(RTLD_NEXT, "pncclAllReduce");
  if (mark != NULL)
    *mark = 1;
  take_longer();
  ncclResult_t result = real(from, to, count, datatype, reduction, comm, stream);
  if (mark != NULL)
    *mark = 0;
  return result;
}

__attribute__((visibility("default"))) int open(const char *path, int flags, ...) {
  static int (*real)(const char *, int, ...);
  if (real == NULL)
    *(void **)&real = dlsym(RTLD_NEXT, "open");
  va_list values;
  va_start(values, flags);
  mode_t mode = flags & O_CREAT ? va_arg(values, mode_t) : 0;
  va_end(values);
  if (strstr(path, "/nccl-join-") != NULL)
    take_longer();
  return real(path, flags, mode);
}
