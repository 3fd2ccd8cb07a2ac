/* Creating, finding, laying out and leaving a communicator's shared memory. */
#include "segment.h"

#include "report.h"
#include "settings.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define SEGMENT_VERSION 1
#define STAGE_BYTES_TOTAL (1u << 20) /* of all ranks, one parity */
#define STAGE_BYTES_MAX (128u << 10)
#define SLOT_BYTES_TOTAL (1u << 20) /* of all channels, one slot */
#define SLOT_BYTES_MAX (64u << 10)
#define SLOT_BYTES_MIN 256u

static const char segment_prefix[] = "loopback-nccl-";
static const int stale_seconds = 5;            /* a name younger than this may still get its lock */
static const int creation_milliseconds = 5000; /* between creating a name and filling the memory */

/* /dev/shm is where glibc's shm_open keeps them, see shm_overview(7). */
static const char *segment_folder(void) {
  const char *folder = settings_get()->folder;
  return folder != NULL ? folder : "/dev/shm";
}

static size_t round_up(size_t size, size_t unit) {
  return (size + unit - 1) / unit * unit;
}

static size_t clamp(size_t value, size_t least, size_t most) {
  return value < least ? least : value > most ? most : value;
}

static size_t channel_size(const struct segment *segment) {
  return round_up(sizeof(struct segment_channel) + SEGMENT_CHANNEL_SLOTS * segment->slot_bytes,
                  SEGMENT_LINE);
}

static void segment_lay_out(struct segment *segment, int nranks) {
  size_t ranks = (size_t)nranks;
  segment->nranks = nranks;
  segment->stage_bytes = round_up(
      clamp(STAGE_BYTES_TOTAL / ranks, SEGMENT_LINE * ranks, STAGE_BYTES_MAX), SEGMENT_LINE);
  segment->slot_bytes = round_up(
      clamp(SLOT_BYTES_TOTAL / (ranks * ranks), SLOT_BYTES_MIN, SLOT_BYTES_MAX), SEGMENT_LINE);
  segment->ranks_offset = round_up(sizeof(struct segment_shared), SEGMENT_LINE);
  segment->channels_offset = segment->ranks_offset + ranks * sizeof(struct segment_rank);
  segment->stages_offset = segment->channels_offset + ranks * ranks * channel_size(segment);
  segment->size = segment->stages_offset + 2 * ranks * segment->stage_bytes;
}

struct segment_channel *segment_channel(const struct segment *segment, int sender, int receiver) {
  size_t index = (size_t)sender * (size_t)segment->nranks + (size_t)receiver;
  return (struct segment_channel *)((char *)segment->shared + segment->channels_offset +
                                    index * channel_size(segment));
}

void *segment_channel_data(const struct segment *segment, struct segment_channel *channel,
                           uint64_t slot) {
  return (char *)(channel + 1) + slot % SEGMENT_CHANNEL_SLOTS * segment->slot_bytes;
}

void *segment_stage(const struct segment *segment, int rank, uint64_t step) {
  size_t index = (size_t)rank * 2 + step % 2;
  return (char *)segment->shared + segment->stages_offset + index * segment->stage_bytes;
}

/* Start time of a live process, for segment_rank.started; 0 if there is none (or it is a zombie).
 * Field 3 of /proc/PID/stat is the state, field 22 the start time (proc(5)). The second is in
 * parentheses and may hold anything. */
static uint64_t process_start_time(pid_t pid) {
  char path[64], text[1024];
  snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
  int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0)
    return 0;
  ssize_t size = read(file, text, sizeof text - 1);
  close(file);
  if (size <= 0)
    return 0;
  text[size] = '\0';
  char *field = strrchr(text, ')');
  if (field == NULL || field[1] == '\0' || field[2] == 'Z' || field[2] == 'X')
    return 0;
  for (int number = 2; number < 22 && field != NULL; number++)
    field = strchr(field + 1, ' ');
  return field != NULL ? strtoull(field, NULL, 10) : 0;
}

static bool is_stale(int file) {
  struct stat status;
  return fstat(file, &status) == 0 && status.st_uid == geteuid() &&
         time(NULL) - status.st_mtime > stale_seconds && flock(file, LOCK_EX | LOCK_NB) == 0;
}

/* Removes names that a run left which died while its ranks were meeting. */
static void segment_reap(void) {
  DIR *folder = opendir(segment_folder());
  if (folder == NULL)
    return;
  for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
    if (strncmp(entry->d_name, segment_prefix, strlen(segment_prefix)) != 0)
      continue;
    int file = openat(dirfd(folder), entry->d_name, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (file < 0)
      continue;
    if (is_stale(file))
      unlinkat(dirfd(folder), entry->d_name, 0);
    close(file);
  }
  closedir(folder);
}

static ncclResult_t segment_map(struct segment *segment) {
  void *memory = mmap(NULL, segment->size, PROT_READ | PROT_WRITE, MAP_SHARED, segment->file, 0);
  if (memory == MAP_FAILED) {
    report_error("cannot map %zu bytes of shared memory %s: %s", segment->size, segment->name,
                 strerror(errno));
    return ncclSystemError;
  }
  segment->shared = memory;
  return ncclSuccess;
}

/* The new name is this process's: give it memory and fill it in. */
static ncclResult_t segment_fill(struct segment *segment) {
  flock(segment->file, LOCK_SH);
  int failure = posix_fallocate(segment->file, 0, (off_t)segment->size);
  if (failure != 0) {
    report_error("cannot allocate %zu bytes in %s for shared memory %s: %s", segment->size,
                 segment_folder(), segment->name, strerror(failure));
    return ncclSystemError;
  }
  ncclResult_t result = segment_map(segment);
  if (result != ncclSuccess)
    return result;
  segment->shared->version = SEGMENT_VERSION;
  segment->shared->nranks = segment->nranks;
  atomic_store(&segment->shared->ready, 1);
  return ncclSuccess;
}

/* Another process has created the name; wait until it has filled the memory. ncclInProgress: it
 * vanished, begin again. */
static ncclResult_t segment_find(struct segment *segment) {
  flock(segment->file, LOCK_SH);
  for (int waited = 0; waited < creation_milliseconds; waited++) {
    struct stat status;
    if (fstat(segment->file, &status) != 0 || status.st_nlink == 0)
      return ncclInProgress;
    if (status.st_size >= (off_t)sizeof(struct segment_shared)) {
      size_t wanted = segment->size;
      segment->size = (size_t)status.st_size;
      ncclResult_t result = segment_map(segment);
      if (result != ncclSuccess)
        return result;
      bool ready = atomic_load(&segment->shared->ready);
      if (ready && segment->size == wanted && segment->shared->nranks == segment->nranks)
        return ncclSuccess;
      /* Unless its size was asked for before it had been set. */
      if (ready && fstat(segment->file, &status) == 0 && status.st_size == (off_t)segment->size) {
        report_error("rank %d was created with %d ranks, the ranks before it with %d",
                     segment->rank, segment->nranks, (int)segment->shared->nranks);
        return ncclInvalidUsage;
      }
      segment_close(segment);
      segment->size = wanted;
    }
    usleep(1000);
  }
  report_error("shared memory %s was created and never filled", segment->name);
  unlink(segment->name);
  return ncclInProgress;
}

static ncclResult_t segment_create_or_find(struct segment *segment) {
  segment_reap();
  for (;;) {
    ncclResult_t result = ncclInProgress;
    segment->file = open(segment->name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (segment->file >= 0) {
      result = segment_fill(segment);
      if (result != ncclSuccess)
        unlink(segment->name);
    } else if (errno == EEXIST) {
      segment->file = open(segment->name, O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0600);
      if (segment->file < 0 && errno == ENOENT)
        continue;
      if (segment->file >= 0)
        result = segment_find(segment);
    }
    if (segment->file < 0) {
      report_error("cannot open shared memory %s: %s", segment->name, strerror(errno));
      return ncclSystemError;
    }
    if (result == ncclSuccess)
      return result;
    segment_release_name(segment, false);
    if (result != ncclInProgress)
      return result;
  }
}

/* A lock on the rank's byte that goes with the last descriptor of this opening of the file
 * (fcntl(2), open file description locks). */
static bool segment_lock(const struct segment *segment, int command, struct flock *lock) {
  return fcntl(segment->presence, command, lock) == 0;
}

static bool segment_hold(struct segment *segment) {
  struct flock lock = {.l_type = F_WRLCK, .l_start = segment->rank, .l_len = 1};
  segment->presence = open(segment->name, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
  if (segment->presence >= 0 && segment_lock(segment, F_OFD_SETLK, &lock))
    return true;
  report_error("cannot hold rank %d of %s: %s", segment->rank, segment->name, strerror(errno));
  return false;
}

bool segment_is_alive(const struct segment *segment, int rank) {
  const struct segment_rank *peer = segment_rank(segment, rank);
  struct flock lock = {.l_type = F_WRLCK, .l_start = rank, .l_len = 1};
  if (segment->presence < 0)
    return process_start_time(peer->pid) == peer->started;
  return rank == segment->rank || !segment_lock(segment, F_OFD_GETLK, &lock) ||
         lock.l_type != F_UNLCK;
}

/* Tells the ranks that are here that this communicator will never be. */
static void segment_refuse(struct segment *segment, ncclResult_t result) {
  uint32_t none = ncclSuccess;
  atomic_compare_exchange_strong(&segment->shared->refused, &none, (uint32_t)result);
}

ncclResult_t segment_open(struct segment *segment, uint64_t hash, int nranks, int rank,
                          int device) {
  *segment = (struct segment){.rank = rank, .file = -1, .presence = -1};
  if (nranks > SEGMENT_RANKS_MAX) {
    report_error("%d ranks: the loopback NCCL has room for %d", nranks, SEGMENT_RANKS_MAX);
    return ncclSystemError;
  }
  segment_lay_out(segment, nranks);
  snprintf(segment->name, sizeof segment->name, "%s/%s%u-%016llx", segment_folder(), segment_prefix,
           (unsigned)geteuid(), (unsigned long long)hash);
  ncclResult_t result = segment_create_or_find(segment);
  if (result != ncclSuccess) {
    if (segment->shared != NULL) {
      segment_refuse(segment, result);
      segment_close(segment);
    }
    return result;
  }

  struct segment_rank *self = segment_rank(segment, rank);
  uint32_t none = PRESENCE_NONE;
  if (!atomic_compare_exchange_strong(&self->presence, &none, PRESENCE_CLAIMED)) {
    report_error("rank %d of %d ranks has already checked in", rank, nranks);
    segment_refuse(segment, ncclInvalidUsage);
    segment_release_name(segment, true);
    segment_close(segment);
    return ncclInvalidUsage;
  }
  if (settings_get()->folder != NULL && !segment_hold(segment))
    return ncclSystemError;
  self->pid = getpid();
  self->started = process_start_time(self->pid);
  self->device = device;
  return ncclSuccess;
}

void segment_attach(struct segment *segment) {
  struct segment_shared *shared = segment->shared;
  atomic_store(&segment_rank(segment, segment->rank)->presence, PRESENCE_HERE);
  if (atomic_fetch_add(&shared->attached, 1) + 1 == (uint32_t)segment->nranks) {
    unlink(segment->name);
    atomic_store(&shared->complete, 1);
  }
}

void segment_release_name(struct segment *segment, bool remove) {
  if (segment->file < 0)
    return;
  if (remove)
    unlink(segment->name);
  close(segment->file);
  segment->file = -1;
}

void segment_close(struct segment *segment) {
  if (segment->shared != NULL)
    munmap(segment->shared, segment->size);
  if (segment->presence >= 0)
    close(segment->presence);
  segment->presence = -1;
  segment->shared = NULL;
}
