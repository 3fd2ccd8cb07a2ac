/* Mapped files of lines (ring.h). */
#include "core/report/ring.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* To write it, or -1 with errno. Not what has taken the path of one that was removed. */
static int ring_reopen(const struct ring *ring) {
  int descriptor = open(ring->path, O_RDWR | O_CLOEXEC | O_NOCTTY | O_NOFOLLOW);
  struct stat status;
  if (descriptor < 0)
    return -1;
  if (fstat(descriptor, &status) == 0 && status.st_dev == ring->device &&
      status.st_ino == ring->inode)
    return descriptor;
  close(descriptor);
  errno = ENOENT;
  return -1;
}

/* Growing past the limit on file sizes would be a signal. */
static int ring_allocate(int descriptor, size_t from, size_t size) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < from + size)
    return EFBIG;
  int error;
  do
    error = posix_fallocate(descriptor, (off_t)from, (off_t)size);
  while (error == EINTR);
  return error;
}

static int ring_grow(struct ring *ring) {
  size_t size = ring->limit - ring->room < RING_CHUNK ? ring->limit - ring->room : RING_CHUNK;
  int descriptor = ring_reopen(ring);
  if (descriptor < 0)
    return errno;
  int error = ring_allocate(descriptor, ring->room, size);
  close(descriptor);
  if (error != 0)
    return error;
  memset(ring->map + ring->room, '\n', size);
  ring->room += size;
  return 0;
}

int ring_create(struct ring *ring, size_t limit, const char *header, size_t size) {
  struct stat status;
  int descriptor = open(ring->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (descriptor < 0)
    return errno;
  int error = ring_allocate(descriptor, 0, RING_CHUNK);
  void *map = MAP_FAILED;
  if (error == 0 &&
      (fstat(descriptor, &status) != 0 ||
       (map = mmap(NULL, limit, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0)) == MAP_FAILED))
    error = errno;
  close(descriptor);
  if (error != 0) {
    unlink(ring->path);
    return error;
  }
  ring->device = status.st_dev;
  ring->inode = status.st_ino;
  ring->map = map;
  ring->limit = ring->mapped = limit;
  ring->room = RING_CHUNK;
  ring->header = ring->at = size;
  ring->full = false;
  memset(ring->map, '\n', RING_CHUNK);
  memcpy(ring->map, header, size);
  return 0;
}

/* The place for so many bytes that are about to be written: no part of an older line stays. */
static char *ring_make_room(struct ring *ring, size_t size) {
  if (ring->at + size > ring->room) {
    memset(ring->map + ring->at, '\n', ring->room - ring->at);
    ring->at = ring->header;
    ring->full = true;
  }
  size_t end = ring->at + size;
  if (ring->full) {
    while (end < ring->room && ring->map[end - 1] != '\n')
      end++;
    memset(ring->map + ring->at, '\n', end - ring->at);
  }
  return ring->map + ring->at;
}

int ring_add(struct ring *ring, const char *line, size_t size) {
  int error = 0;
  if (!ring->full && ring->at + size > ring->room && ring->room < ring->limit) {
    error = ring_grow(ring);
    if (error != 0)
      ring->limit = ring->room;
  }
  if (ring->header + size > ring->room)
    return error; /* it was trimmed, and is gone */
  char *place = ring_make_room(ring, size);
  /* Its first byte comes last: until then it is no line to a reader. */
  memcpy(place + 1, line + 1, size - 1);
  atomic_signal_fence(memory_order_seq_cst);
  *(volatile char *)place = *line;
  ring->at += size;
  return error;
}

void ring_trim(struct ring *ring) {
  if (ring->full || ring->at == ring->room)
    return;
  int descriptor = ring_reopen(ring);
  if (descriptor < 0)
    return; /* nobody reads it any more */
  if (ftruncate(descriptor, (off_t)ring->at) == 0)
    ring->room = ring->at;
  close(descriptor);
}

void ring_close(struct ring *ring) {
  ring_trim(ring);
  munmap(ring->map, ring->mapped);
  ring->map = NULL;
}
