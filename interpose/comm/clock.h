/* How long a rank waits for the others, and how often it looks up meanwhile. */
#ifndef NCCL_JOIN_INTERPOSE_CLOCK_H
#define NCCL_JOIN_INTERPOSE_CLOCK_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "interpose/comm/endpoint.h"

/* A rank that is rung wakes at once; these bound waits for what nobody rings for. A death, for one,
 * is to free everybody well within a second. */
#define WAIT_ALONE_MS 50
#define LOOK_FOR_DEAD_MS 100

/* A rank of several teams hears the bell of one of them only. */
#define WAIT_SEVERAL_MS 1

/* A thread that waits looks up far more often than this. One that has not looked up for so long was
 * in a process that did not run. */
#define CLOCK_STOPPED_MS 2000

/* CLOCK_MONOTONIC. */
static inline uint64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static inline uint64_t now_ms(void) {
  return now_ns() / 1000000;
}

/* To be asked at each look of a wait: for how many milliseconds the process has been stopped since
 * the last one (by Ctrl-Z, a debugger, or a machine that slept), which is not to count as waiting.
 * 0: it has not. now: in ms. *looked_ms: when it was asked last; 0 at first. */
static inline uint64_t clock_stopped(uint64_t *looked_ms, uint64_t now) {
  uint64_t gone = *looked_ms == 0 ? 0 : now - *looked_ms;
  *looked_ms = now;
  return gone < CLOCK_STOPPED_MS ? 0 : gone;
}

/* Since when something has been waited for, without the time that the process was stopped
 * (clock_stopped). Not later than now: it may have begun since clock_stopped was asked before. */
static inline uint64_t clock_without(uint64_t since_ms, uint64_t stopped_ms, uint64_t now) {
  return since_ms + stopped_ms < now ? since_ms + stopped_ms : now;
}

/* Asked when NCCL_JOIN_TIMEOUT has passed: whether the rank waits as it would without nccl-join,
 * for a rank whose program has not come so far yet. It does if in all teams of the rank nobody has
 * left, and nobody has joined since all were last together. Such a wait is no error, however long
 * it is. */
bool clock_is_programs_own(const struct endpoint *end);

#endif
