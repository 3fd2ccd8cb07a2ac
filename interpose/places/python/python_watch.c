/* Processor times of threads (python_watch.h). */
#include "interpose/places/python/python_watch.h"

#include <time.h>

/* The clock's number is that of CPUCLOCK_PERTHREAD_MASK and CPUCLOCK_SCHED in the kernel's
 * posix-timers.h. */
uint64_t python_watch_time(uint64_t thread) {
  static _Atomic bool is_exact;
  struct timespec time, step;
  clockid_t clock = (clockid_t)(~(uint32_t)thread << 3 | 6);
  if (thread == 0 || clock_gettime(clock, &time) != 0)
    return 0;
  if (!is_exact)
    is_exact = clock_getres(clock, &step) == 0 && step.tv_nsec == 1 && step.tv_sec == 0;
  if (!is_exact)
    return 0;
  return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

void python_watch_begin(struct python_watch *watch) {
  watch->is_whole = true;
  for (uint32_t i = 0; i < watch->n; i++) {
    watch->of[i].time = python_watch_time(watch->of[i].thread);
    watch->of[i].seen = false;
  }
}

uint64_t python_watch_thread(struct python_watch *watch, uint64_t thread) {
  uint64_t time = 0;
  uint32_t i = 0;
  while (i < watch->n && watch->of[i].thread != thread)
    i++;
  if (i < watch->n) {
    time = watch->of[i].time;
    watch->of[i].seen = true;
  } else if (watch->n < PYTHON_WATCHED_MAX) {
    watch->of[watch->n].seen = true;
    watch->of[watch->n++].thread = thread;
  }
  watch->is_whole &= time != 0;
  return time;
}

void python_watch_end(struct python_watch *watch) {
  uint32_t kept = 0;
  for (uint32_t i = 0; i < watch->n; i++)
    if (watch->of[i].seen)
      watch->of[kept++] = watch->of[i];
  watch->n = kept;
}

bool python_watch_is_still(const struct python_watch *watch) {
  for (uint32_t i = 0; i < watch->n; i++)
    if (python_watch_time(watch->of[i].thread) != watch->of[i].time)
      return false;
  return watch->is_whole;
}
