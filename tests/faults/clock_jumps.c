/* Preloaded: the time of day jumps by CLOCK_JUMPS_BY seconds (forwards or backwards) CLOCK_JUMPS_MS
 * milliseconds after the process first asked for it or for the other clock, and back again after as
 * long. CLOCK_MONOTONIC goes on as ever: nobody can set it.
 */
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define EXPORTED __attribute__((visibility("default")))

static long number(const char *name) {
  const char *text = getenv(name);
  return text != NULL ? strtol(text, NULL, 10) : 0;
}

/* How far the clock is off just now, in seconds. */
static time_t jump(void) {
  static _Atomic long begin_ms;
  struct timespec now;
  syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
  long now_ms = now.tv_sec * 1000 + now.tv_nsec / 1000000, never = 0;
  atomic_compare_exchange_strong(&begin_ms, &never, now_ms);
  long period = number("CLOCK_JUMPS_MS"), passed = now_ms - atomic_load(&begin_ms);
  return period > 0 && passed / period % 2 == 1 ? number("CLOCK_JUMPS_BY") : 0;
}

EXPORTED int clock_gettime(clockid_t clock, struct timespec *time) {
  time_t off = jump();
  int result = (int)syscall(SYS_clock_gettime, clock, time);
  if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
    time->tv_sec += off;
  return result;
}

EXPORTED int gettimeofday(struct timeval *restrict time, void *restrict zone) {
  int result = (int)syscall(SYS_gettimeofday, time, zone);
  if (result == 0)
    time->tv_sec += jump();
  return result;
}

EXPORTED time_t time(time_t *result) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (result != NULL)
    *result = now.tv_sec;
  return now.tv_sec;
}
