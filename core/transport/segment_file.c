/* The file of a segment (segment.h): its layout, its locks, its name, and what to say when one of
 * them fails. */
#include "core/transport/segment.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "core/transport/file_lock.h"

#define GATE_POLL_NANOSECONDS 100000
#define FILE_FORMAT "nccl-join-%u-" /* the user; then the segment's name */

const char *segment_folder = SEGMENT_FOLDER;

static_assert(sizeof(struct segment_slot) % 64 == 0, "slots must be aligned");
static_assert(sizeof(struct plane_team) % 64 == 0, "the team must be aligned");
static_assert(sizeof(struct plane_log) % 64 == 0, "logs must be aligned");

size_t segment_team_offset(uint32_t slots) {
  return SEGMENT_HEADER_BYTES + slots * sizeof(struct segment_slot);
}

size_t segment_log_offset(uint32_t slots, uint32_t slot) {
  return segment_team_offset(slots) + sizeof(struct plane_team) + slot * sizeof(struct plane_log);
}

size_t segment_bytes(uint32_t slots) {
  return segment_log_offset(slots, slots);
}

/* ---- What went wrong ---- */

void segment_explain(char *reason, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(reason, ATTACHMENT_REASON_SIZE, format, arguments);
  va_end(arguments);
}

/* "0.1 of 64.0 MiB are free, ": what the file system says of itself; "" if it says nothing. */
static const char *write_room(const struct segment_map *map, char text[64]) {
  struct statvfs room;
  text[0] = '\0';
  if (fstatvfs(map->fd, &room) == 0 && room.f_blocks > 0) {
    double block = (double)room.f_frsize / (1 << 20);
    snprintf(text, 64, "%.1f of %.1f MiB are free, ", (double)room.f_bavail * block,
             (double)room.f_blocks * block);
  }
  return text;
}

static void explain_error(char *reason, int error, const struct segment_map *map) {
  char text[80];
  switch (error) {
  case ENOSPC:
  case EDQUOT:
    segment_explain(reason,
                    "%s is full: %sup to %.1f MiB are needed for %u ranks; make it larger (docker "
                    "run --shm-size, or mount -o remount,size=...)",
                    segment_folder, write_room(map, text), (double)map->bytes / (1 << 20),
                    map->slots);
    return;
  case EFBIG:
    segment_explain(reason, "the limit on file sizes is below %zu MiB: raise it (ulimit -f)",
                    (map->bytes >> 20) + 1);
    return;
  case EMFILE:
    segment_explain(reason,
                    "too many open files in this process, one more is needed: raise the limit "
                    "(ulimit -n)");
    return;
  case EROFS:
    segment_explain(reason, "%s is read-only: mount it writable", segment_folder);
    return;
  case EACCES:
  case EPERM:
    if (access(segment_folder, W_OK | X_OK) != 0)
      segment_explain(reason, "no permission to write in %s: grant it to user %u", segment_folder,
                      (unsigned)geteuid());
    else
      segment_explain(reason, "no permission to use %s: it must be user %u's, with mode 0600",
                      map->path, (unsigned)geteuid());
    return;
  case ENOENT:
    segment_explain(reason, "%s does not exist: mount a tmpfs there", segment_folder);
    return;
  case ELOOP:
    segment_explain(reason, "%s is a symbolic link: remove it", map->path);
    return;
  default:
    segment_explain(reason, "cannot use %s: %s", map->path, strerror_r(error, text, sizeof(text)));
  }
}

/* ---- Locks ---- */

bool segment_lock_slot(struct segment_map *map, uint32_t slot) {
  return file_lock_set(map->fd, F_WRLCK, slot);
}

void segment_unlock_slot(struct segment_map *map, uint32_t slot) {
  file_lock_set(map->fd, F_UNLCK, slot);
}

bool segment_slot_is_held(const struct segment_map *map, uint32_t slot) {
  return atomic_load(&map->own[slot]) || file_lock_is_held(map->fd, slot, 1);
}

bool segment_is_held_by_others(const struct segment_map *map) {
  return file_lock_is_held(map->fd, 0, 0);
}

int64_t segment_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static bool segment_gate_try(struct segment_map *map) {
  return file_lock_set(map->fd, F_WRLCK, SEGMENT_GATE);
}

/* Polls, because F_SETLKW has no deadline. */
bool segment_gate_enter(struct segment_map *map, int64_t deadline, char *reason) {
  while (!segment_gate_try(map)) {
    if (errno != EAGAIN && errno != EACCES) {
      explain_error(reason, errno, map);
      return false;
    }
    if (segment_now() >= deadline) {
      segment_explain(reason, "%s stays locked: is a process of the job stopped?", map->path);
      return false;
    }
    nanosleep(&(struct timespec){.tv_nsec = GATE_POLL_NANOSECONDS}, NULL);
  }
  return true;
}

void segment_gate_leave(struct segment_map *map) {
  file_lock_set(map->fd, F_UNLCK, SEGMENT_GATE);
}

/* ---- The name ---- */

bool segment_is_name(const char *name) {
  return strlen(name) == ATTACHMENT_NAME_SIZE - 1 &&
         strspn(name, "0123456789abcdefABCDEF") == ATTACHMENT_NAME_SIZE - 1;
}

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

/* ---- The file ---- */

static bool is_ours(struct segment_map *map, char *reason) {
  struct stat status;
  if (fstat(map->fd, &status) != 0)
    explain_error(reason, errno, map);
  else if (!S_ISREG(status.st_mode))
    segment_explain(reason, "%s is not a file: remove it", map->path);
  else if (status.st_uid != geteuid())
    segment_explain(reason, "%s belongs to user %u, not %u: remove it", map->path,
                    (unsigned)status.st_uid, (unsigned)geteuid());
  else if ((status.st_mode & (S_IRWXG | S_IRWXO)) != 0)
    segment_explain(reason, "%s is open to other users, its mode must be 0600: remove it",
                    map->path);
  else {
    map->device = status.st_dev;
    map->inode = status.st_ino;
    return true;
  }
  return false;
}

struct segment_map *segment_map_open(const char *name, uint32_t slots, char *reason) {
  struct segment_map *map = calloc(1, sizeof(*map));
  if (map == NULL || (map->own = calloc(slots, sizeof(*map->own))) == NULL) {
    segment_explain(reason, "no memory for a segment of %u slots", slots);
    free(map);
    return NULL;
  }
  map->slots = slots;
  map->bytes = segment_bytes(slots);
  memcpy(map->name, name, ATTACHMENT_NAME_SIZE);
  snprintf(map->path, sizeof(map->path), "%s/" FILE_FORMAT "%s", segment_folder,
           (unsigned)geteuid(), name);
  /* Without O_EXCL: whoever comes first through the gate of an empty file lays it out. */
  map->fd = open(map->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
  if (map->fd < 0)
    explain_error(reason, errno, map);
  else if (is_ours(map, reason))
    return map;
  segment_map_close(map);
  return NULL;
}

void segment_map_close(struct segment_map *map) {
  if (map->base != NULL)
    munmap(map->base, map->bytes);
  if (map->fd >= 0)
    close(map->fd);
  free(map->own);
  free(map);
}

static bool map_memory(struct segment_map *map, char *reason) {
  void *base = mmap(NULL, map->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, map->fd, 0);
  if (base == MAP_FAILED) {
    explain_error(reason, errno, map);
    return false;
  }
  map->base = base;
  return true;
}

/* Without memory up front, a full file system would show as SIGBUS at the first touch. */
static bool segment_allocate(struct segment_map *map, size_t offset, size_t bytes, char *reason) {
  int error;
  do
    error = posix_fallocate(map->fd, (off_t)offset, (off_t)bytes);
  while (error == EINTR);
  if (error != 0)
    explain_error(reason, error, map);
  return error == 0;
}

bool segment_allocate_log(struct segment_map *map, uint32_t slot, char *reason) {
  return segment_allocate(map, segment_log_offset(map->slots, slot), sizeof(struct plane_log),
                          reason);
}

bool segment_allocate_logs(struct segment_map *map, char *reason) {
  size_t first = segment_log_offset(map->slots, 0);
  return segment_allocate(map, first, map->bytes - first, reason);
}

bool segment_map_create(struct segment_map *map, char *reason) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < map->bytes) {
    explain_error(reason, EFBIG, map); /* growing past it would be a signal */
    return false;
  }
  if (!segment_allocate(map, 0, segment_log_offset(map->slots, 0), reason))
    return false;
  if (ftruncate(map->fd, (off_t)map->bytes) != 0) {
    explain_error(reason, errno, map);
    return false;
  }
  if (!map_memory(map, reason))
    return false;
  *(struct segment_header *)map->base = (struct segment_header){
      .magic = SEGMENT_MAGIC, .version = PLANE_VERSION, .slots = map->slots, .bytes = map->bytes};
  return true;
}

bool segment_map_join(struct segment_map *map, char *reason) {
  struct segment_header header;
  struct stat status;
  /* Read, not mapped: the file may be shorter than its header. */
  if (pread(map->fd, &header, sizeof(header), 0) != sizeof(header) ||
      fstat(map->fd, &status) != 0 || header.magic != SEGMENT_MAGIC)
    segment_explain(reason, "%s is not a segment of nccl-join: remove it", map->path);
  else if (header.version != PLANE_VERSION)
    segment_explain(reason,
                    "another rank's nccl-join has plane version %u, this one's has %u: use the "
                    "same nccl-join on all ranks",
                    header.version, PLANE_VERSION);
  else if (header.slots != map->slots)
    segment_explain(reason, "%s has %u slots, this rank wants %u: do the ranks agree on nranks?",
                    map->path, header.slots, map->slots);
  else if (header.bytes != map->bytes || status.st_size != (off_t)map->bytes)
    segment_explain(reason, "%s has %lld bytes instead of %zu: remove it", map->path,
                    (long long)status.st_size, map->bytes);
  else
    return map_memory(map, reason);
  return false;
}

bool segment_map_disagree(const struct segment_map *map, uint32_t slot) {
  struct segment_header header;
  if (pread(map->fd, &header, sizeof(header), 0) != sizeof(header) ||
      header.magic != SEGMENT_MAGIC || header.version == PLANE_VERSION)
    return false;
  uint32_t us[2] = {slot + 1, PLANE_VERSION};
  /* What cannot be written is not heard: the rank counts as one without nccl-join. */
  (void)!pwrite(map->fd, us, sizeof(us), offsetof(struct segment_header, stranger));
  return true;
}

/* ---- What dead jobs have left ---- */

static bool is_name_of_this_user(const char *file) {
  char prefix[32];
  int length = snprintf(prefix, sizeof(prefix), FILE_FORMAT, (unsigned)geteuid());
  return strncmp(file, prefix, (size_t)length) == 0 && segment_is_name(file + length);
}

/* The rule by which enter_opened (segment.c) replaces a dead file of its own name, with the gate as
 * there: a file that somebody has just created, and not locked yet, may go as well, and its creator
 * sees that and makes another. */
static void remove_if_dead(struct segment_map *file) {
  if (!segment_is_held_by_others(file) && segment_gate_try(file) &&
      !segment_is_held_by_others(file))
    segment_remove_name(file);
}

void segment_remove_dead(bool (*is_open_here)(dev_t device, ino_t inode)) {
  DIR *folder = opendir(segment_folder);
  if (folder == NULL)
    return;
  for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
    struct segment_map file = {.fd = -1};
    struct stat status;
    char ignored[ATTACHMENT_REASON_SIZE];
    if (!is_name_of_this_user(entry->d_name) ||
        (size_t)snprintf(file.path, sizeof(file.path), "%s/%s", segment_folder, entry->d_name) >=
            sizeof(file.path))
      continue;
    /* Looked at by its name first: closing a descriptor of one of ours would release our locks. */
    if (lstat(file.path, &status) != 0 || !S_ISREG(status.st_mode) || status.st_uid != geteuid() ||
        is_open_here(status.st_dev, status.st_ino))
      continue;
    file.fd = open(file.path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (file.fd < 0)
      continue;
    if (is_ours(&file, ignored))
      remove_if_dead(&file);
    close(file.fd); /* the gate goes with it */
  }
  closedir(folder);
}
