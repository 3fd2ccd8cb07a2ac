/* Whether threads of this process have run: their processor times, which the kernel counts in
 * nanoseconds, are the same as long as they have not.
 *
 * Of threads by their numbers for the system. A watch belongs to one thread at a time; begins as
 * zeros. No function allocates; each asks the kernel once for each thread that is watched.
 */
#ifndef NCCL_JOIN_INTERPOSE_PYTHON_WATCH_H
#define NCCL_JOIN_INTERPOSE_PYTHON_WATCH_H

#include <stdbool.h>
#include <stdint.h>

#define PYTHON_WATCHED_MAX 16u

struct python_watch {
  uint32_t n;
  bool is_whole; /* these are all threads that matter, and their times are known */
  struct {
    uint64_t thread, time;
    bool seen;
  } of[PYTHON_WATCHED_MAX];
};

/* The processor time of a thread, in nanoseconds; 0: not known, or not counted so exactly. */
uint64_t python_watch_time(uint64_t thread);

/* Before anything of the threads is read; then once for each of them, and at the end: those that
 * have not been named since then are watched no more. python_watch_thread returns the thread's time
 * when it began; 0: not known, as of a thread that was not watched before, or of more than
 * PYTHON_WATCHED_MAX. */
void python_watch_begin(struct python_watch *watch);
uint64_t python_watch_thread(struct python_watch *watch, uint64_t thread);
void python_watch_end(struct python_watch *watch);

/* Whether none of them has run since the watch began, and all are known. */
bool python_watch_is_still(const struct python_watch *watch);

#endif
