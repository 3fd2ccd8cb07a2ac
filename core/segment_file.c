/* The file of a segment (segment.h): its layout, its locks, its name, and what to say when one of them fails. */
#include "core/segment.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define GATE_POLL_NANOSECONDS 100000

const char *segment_folder = SEGMENT_FOLDER;

static size_t align(size_t bytes, size_t to) {
  return (bytes + to - 1) / to * to;
}

size_t segment_team_offset(uint32_t slots) {
  return SEGMENT_HEADER_BYTES + slots * sizeof(struct segment_slot);
}

size_t segment_log_offset(uint32_t slots, uint32_t slot) {
  return segment_team_offset(slots) + sizeof(struct plane_team) + slot * sizeof(struct plane_log);
}

size_t segment_bytes(uint32_t slots) {
  return align(segment_log_offset(slots, slots), SEGMENT_HEADER_BYTES);
}

static_assert(sizeof(struct segment_slot) % 64 == 0, "slots must be aligned");
static_assert(sizeof(struct plane_team) % 64 == 0, "the team must be aligned");
static_assert(sizeof(struct plane_log) % 64 == 0, "logs must be aligned");

/* ---- What went wrong ---- */

__attribute__((format(printf, 2, 3))) void segment_explain(char *reason, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(reason, SEGMENT_REASON_SIZE, format, arguments);
  va_end(arguments);
}

static void segment_explain_errno(char *reason, int error, const char *path, uint32_t slots) {
  char text[80];
  switch (error) {
  case ENOSPC:
  case EDQUOT:
    segment_explain(reason,
            "%s is full: up to %zu MiB are needed for %u ranks; make it larger (docker run "
            "--shm-size, or mount -o remount,size=...)",
            segment_folder, (segment_bytes(slots) >> 20) + 1, slots);
    return;
  case EROFS:
    segment_explain(reason, "%s is read-only: nccl-join needs a writable one", segment_folder);
    return;
  case EFBIG:
    segment_explain(reason, "the limit on file sizes is too small for %zu MiB: raise it (ulimit -f)",
            (segment_bytes(slots) >> 20) + 1);
    return;
  case EACCES:
  case EPERM:
    if (access(segment_folder, W_OK | X_OK) != 0)
      segment_explain(reason, "no permission to write to %s: grant it to user %u", segment_folder,
              (unsigned)geteuid());
    else
      segment_explain(reason, "no permission to open %s: it must belong to user %u with mode 0600", path,
              (unsigned)geteuid());
    return;
  case ENOENT:
    segment_explain(reason, "%s does not exist: mount a tmpfs there", segment_folder);
    return;
  case ELOOP:
    segment_explain(reason, "%s is a symbolic link: remove it", path);
    return;
  default:
    segment_explain(reason, "cannot use %s: %s", path, strerror_r(error, text, sizeof(text)));
  }
}

/* ---- Locks ---- */

bool segment_set_lock(int fd, short type, uint32_t byte) {
  struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};
  int result;
  do
    result = fcntl(fd, F_SETLK, &lock);
  while (result != 0 && errno == EINTR);
  return result == 0;
}

/* Whether another process holds a lock; length 0: on any byte from there on. True if that cannot be
 * found out. */
bool segment_is_locked(int fd, uint32_t byte, uint32_t length) {
  struct flock lock = {
      .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = byte, .l_len = (off_t)length};
  return fcntl(fd, F_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

bool segment_slot_is_held(const struct segment_map *map, uint32_t slot) {
  return atomic_load(&map->own[slot]) || segment_is_locked(map->fd, slot, 1);
}

int64_t segment_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

bool segment_gate_enter(struct segment_map *map, int64_t deadline, char *reason) {
  while (!segment_set_lock(map->fd, F_WRLCK, SEGMENT_GATE)) {
    if (errno != EAGAIN && errno != EACCES) {
      segment_explain_errno(reason, errno, map->path, map->slots);
      return false;
    }
    if (segment_now() >= deadline) {
      segment_explain(reason, "%s has been locked for %d s: is a process of the job stopped?", map->path,
              ATTACH_SECONDS);
      return false;
    }
    nanosleep(&(struct timespec){.tv_nsec = GATE_POLL_NANOSECONDS}, NULL);
  }
  return true;
}

void segment_gate_leave(struct segment_map *map) {
  segment_set_lock(map->fd, F_UNLCK, SEGMENT_GATE);
}

/* ---- The name; with the gate ---- */

bool segment_has_name(const struct segment_map *map) {
  struct stat status;
  return lstat(map->path, &status) == 0 && status.st_dev == map->device &&
         status.st_ino == map->inode;
}

void segment_remove_name(struct segment_map *map) {
  if (!map->unlinked && segment_has_name(map))
    unlink(map->path);
  map->unlinked = true;
}

/* The file of that name, created empty if there is none. */
struct segment_map *segment_map_open(const char *name, uint32_t slots, char *reason) {
  struct segment_map *map = calloc(1, sizeof(*map));
  _Atomic bool *own = calloc(slots, sizeof(*own));
  if (map == NULL || own == NULL) {
    segment_explain(reason, "no memory for the segment of %u ranks", slots);
    free(map);
    free(own);
    return NULL;
  }
  *map = (struct segment_map){.slots = slots, .own = own, .bytes = segment_bytes(slots)};
  memcpy(map->name, name, SEGMENT_NAME_SIZE);
  snprintf(map->path, sizeof(map->path), "%s/nccl-join-%u-%s", segment_folder, (unsigned)geteuid(),
           name);
  /* Without O_EXCL: whoever comes first through the gate of an empty file lays it out. */
  map->fd = open(map->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
  if (map->fd < 0) {
    segment_explain_errno(reason, errno, map->path, slots);
    free(own);
    free(map);
    return NULL;
  }
  struct stat status;
  if (fstat(map->fd, &status) != 0)
    segment_explain_errno(reason, errno, map->path, slots);
  else if (!S_ISREG(status.st_mode))
    segment_explain(reason, "%s is not a regular file: remove it", map->path);
  else if (status.st_uid != geteuid())
    segment_explain(reason, "%s belongs to user %u, not %u: remove it", map->path, (unsigned)status.st_uid,
            (unsigned)geteuid());
  else if ((status.st_mode & (S_IRWXG | S_IRWXO)) != 0)
    segment_explain(reason, "%s is open to other users: its mode must be 0600; remove it", map->path);
  else {
    map->device = status.st_dev;
    map->inode = status.st_ino;
    return map;
  }
  map_close(map);
  return NULL;
}

bool segment_map_memory(struct segment_map *map, char *reason) {
  void *base = mmap(NULL, map->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, map->fd, 0);
  if (base == MAP_FAILED) {
    segment_explain_errno(reason, errno, map->path, map->slots);
    return false;
  }
  map->base = base;
  return true;
}

/* Memory for a part of the file; without it, a full file system would show as SIGBUS. */
bool segment_allocate(struct segment_map *map, size_t offset, size_t bytes, char *reason) {
  int error;
  do
    error = posix_fallocate(map->fd, (off_t)offset, (off_t)bytes);
  while (error == EINTR);
  if (error != 0)
    segment_explain_errno(reason, error, map->path, map->slots);
  return error == 0;
}

bool segment_lay_out(struct segment_map *map, char *reason) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < map->bytes) {
    segment_explain_errno(reason, EFBIG, map->path, map->slots); /* passing the limit would be a signal */
    return false;
  }
  if (!segment_allocate(map, 0, segment_log_offset(map->slots, 0), reason))
    return false;
  if (ftruncate(map->fd, (off_t)map->bytes) != 0) {
    segment_explain_errno(reason, errno, map->path, map->slots);
    return false;
  }
  if (!segment_map_memory(map, reason))
    return false;
  *(struct segment_header *)map->base = (struct segment_header){
      .magic = SEGMENT_MAGIC, .version = PLANE_VERSION, .slots = map->slots, .bytes = map->bytes};
  return true;
}

/* The header is read, not mapped: the file may be shorter than its header says. */
bool segment_check_layout(const struct segment_map *map, char *reason) {
  struct segment_header header;
  struct stat status;
  if (pread(map->fd, &header, sizeof(header), 0) != sizeof(header) ||
      header.magic != SEGMENT_MAGIC || fstat(map->fd, &status) != 0)
    segment_explain(reason, "%s is not a segment of nccl-join: remove it", map->path);
  else if (header.version != PLANE_VERSION)
    segment_explain(reason,
            "another rank runs an nccl-join with plane version %u, this one has %u: use one",
            header.version, PLANE_VERSION);
  else if (header.slots != map->slots)
    segment_explain(reason, "%s has %u slots, but this rank wants %u: do all ranks use one communicator?",
            map->path, header.slots, map->slots);
  else if (header.bytes != map->bytes || (uint64_t)status.st_size != map->bytes)
    segment_explain(reason, "%s has %lld bytes instead of %zu: remove it", map->path,
            (long long)status.st_size, map->bytes);
  else
    return true;
  return false;
}

