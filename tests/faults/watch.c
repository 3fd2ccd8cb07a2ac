/* The watch of watch.h. The segment is opened through /proc/<pid>/fd of a rank: its name is gone by
 * the time that matters. Opening and closing it here does not touch the ranks' locks.
 */
#include "tests/faults/watch.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/transport/segment.h"

struct watch {
  int nranks;
  const struct running *running;
  char marks_path[64], environment[PATH_MAX + 256];
  volatile unsigned char *marks; /* by rank: inside a call */
  struct segment_map map;        /* base NULL before it has been found */
};

const char *state_name(enum state state) {
  static const char *const names[STATES] = {"starting",  "creating", "running", "in a call",
                                            "in flight", "parked",   "joined",  "leaving",
                                            "ending",    "gone"};
  return names[state];
}

struct watch *watch_create(int nranks, int slower_us) {
  struct watch *watch = calloc(1, sizeof *watch);
  cr_assert(watch != NULL);
  watch->nranks = nranks;
  strcpy(watch->marks_path, "/tmp/nccl-join-marks-XXXXXX");
  int file = mkstemp(watch->marks_path);
  cr_assert(file >= 0 && ftruncate(file, RUN_RANKS_MAX) == 0);
  watch->marks = mmap(NULL, RUN_RANKS_MAX, PROT_READ, MAP_SHARED, file, 0);
  cr_assert(watch->marks != MAP_FAILED);
  close(file);
  char object[PATH_MAX], path[PATH_MAX];
  snprintf(path, sizeof path, "%s/faults/mark_calls.so", run_build_folder());
  cr_assert(realpath(path, object) != NULL, "%s is missing", path);
  snprintf(watch->environment, sizeof watch->environment,
           "LD_PRELOAD=%s MARK_CALLS_IN=%s MARK_CALLS_SLOWER_US=%d", object, watch->marks_path,
           slower_us);
  return watch;
}

const char *watch_environment(const struct watch *watch) {
  return watch->environment;
}

void watch_begin(struct watch *watch, const struct running *running) {
  watch->running = running;
}

void watch_free(struct watch *watch) {
  if (watch->map.base != NULL)
    munmap(watch->map.base, watch->map.bytes);
  munmap((void *)watch->marks, RUN_RANKS_MAX);
  unlink(watch->marks_path);
  free(watch);
}

/* ---- the segment ---- */

/* A descriptor of the segment that a process has open, or -1. */
static int open_segment_of(pid_t process) {
  char folder[64], path[PATH_MAX], target[PATH_MAX];
  snprintf(folder, sizeof folder, "/proc/%d/fd", (int)process);
  DIR *files = opendir(folder);
  int found = -1;
  for (struct dirent *file; files != NULL && found < 0 && (file = readdir(files)) != NULL;) {
    snprintf(path, sizeof path, "%s/%s", folder, file->d_name);
    ssize_t length = readlink(path, target, sizeof target - 1);
    if (length > 0 && strncmp(target, "/dev/shm/nccl-join-", 19) == 0)
      found = open(path, O_RDWR | O_CLOEXEC);
  }
  if (files != NULL)
    closedir(files);
  return found;
}

/* False while it is being laid out. */
static bool map_segment(struct watch *watch, int file) {
  struct segment_header header;
  struct stat status;
  if (pread(file, &header, sizeof header, 0) != sizeof header || header.magic != SEGMENT_MAGIC ||
      fstat(file, &status) != 0 || (uint64_t)status.st_size != header.bytes)
    return false;
  void *base = mmap(NULL, header.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  cr_assert(base != MAP_FAILED);
  watch->map = (struct segment_map){.base = base, .bytes = header.bytes, .slots = header.slots};
  return true;
}

static bool find_segment(struct watch *watch) {
  for (int rank = 0; rank < watch->nranks && watch->map.base == NULL; rank++) {
    int file = open_segment_of(run_process(watch->running, rank));
    if (file < 0)
      continue;
    map_segment(watch, file);
    close(file);
  }
  return watch->map.base != NULL;
}

unsigned char *watch_memory(struct watch *watch, size_t *bytes) {
  if (!find_segment(watch))
    return NULL;
  *bytes = watch->map.bytes;
  return watch->map.base;
}

/* ---- states ---- */

static bool has_ended(pid_t process) {
  siginfo_t info = {0};
  return waitid(P_PID, (id_t)process, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid != 0;
}

static const struct plane_log *log_of(const struct watch *watch, int rank) {
  return (const struct plane_log *)(watch->map.base +
                                    segment_log_offset(watch->map.slots, (uint32_t)rank));
}

static bool somebody_is_behind(const struct watch *watch, uint64_t head) {
  bool behind = false;
  for (int rank = 0; rank < watch->nranks; rank++)
    behind |= segment_slot_is_ready(&watch->map, (uint32_t)rank) &&
              (watch->marks[rank] || atomic_load(&log_of(watch, rank)->head) < head);
  return behind;
}

static enum state state_in_team(const struct watch *watch, int rank) {
  const struct plane_log *log = log_of(watch, rank);
  uint64_t head = atomic_load(&log->head);
  if (atomic_load(&log->state) != RANK_PRESENT)
    return atomic_load(&log->state) == RANK_ABSENT ? STATE_CREATING : STATE_ENDING;
  if (head > 0 && atomic_load(&log->entries[(head - 1) % PLANE_RING].flags) & ENTRY_LEAVE)
    return STATE_ENDING;
  if (atomic_load(&log->claim) == head + 1) {
    if (atomic_load(&log->claim_hash) == 0)
      return STATE_LEAVING;
    bool real = head == 0 || atomic_load(&log->entries[(head - 1) % PLANE_RING].flags) & ENTRY_REAL;
    return real ? STATE_PARKED : STATE_JOINED;
  }
  if (watch->marks[rank])
    return STATE_IN_CALL;
  return somebody_is_behind(watch, head) ? STATE_IN_FLIGHT : STATE_RUNNING;
}

enum state watch_state(struct watch *watch, int rank) {
  if (has_ended(run_process(watch->running, rank)))
    return STATE_GONE;
  if (!find_segment(watch) || !segment_slot_is_ready(&watch->map, (uint32_t)rank))
    return STATE_STARTING;
  return state_in_team(watch, rank);
}
