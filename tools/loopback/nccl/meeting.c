/* The bell, the wait, and what can break a wait. */
#include "meeting.h"

#include "report.h"
#include "settings.h"

#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static const int spins = 200;             /* about a microsecond: a peer on another core */
static const int yields = 20;             /* a peer on this core */
static const int64_t tick_ns = 100000000; /* longest sleep: how late a death may be noticed */

static int64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static inline void cpu_relax(void) {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  atomic_signal_fence(memory_order_seq_cst);
#endif
}

/* Not FUTEX_PRIVATE: the word is shared between processes. */
static void futex_wait(_Atomic uint32_t *word, uint32_t value) {
  struct timespec tick = {.tv_sec = 0, .tv_nsec = tick_ns};
  syscall(SYS_futex, word, FUTEX_WAIT, value, &tick, NULL, 0);
}

void meeting_ring(const struct segment *segment) {
  struct segment_shared *shared = segment->shared;
  /* Sequentially consistent with the sleeper's increment of sleepers: either it sees the new bell,
   * or we see it. */
  atomic_fetch_add(&shared->bell, 1);
  if (atomic_load(&shared->sleepers) > 0)
    syscall(SYS_futex, &shared->bell, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

static void meeting_sleep(const struct segment *segment, uint32_t bell) {
  struct segment_shared *shared = segment->shared;
  atomic_fetch_add(&shared->sleepers, 1);
  if (atomic_load(&shared->bell) == bell)
    futex_wait(&shared->bell, bell);
  atomic_fetch_sub(&shared->sleepers, 1);
}

void meeting_stop(const struct segment *segment, const char *text) {
  struct segment_shared *shared = segment->shared;
  uint32_t none = STOP_NONE;
  if (atomic_compare_exchange_strong(&shared->stop, &none, STOP_BEING_WRITTEN)) {
    snprintf(shared->stop_text, sizeof shared->stop_text, "%s", text);
    atomic_store(&shared->stop, STOP_WRITTEN);
    meeting_ring(segment);
  }
  report_stop("%s", text);
}

/* Why rank will never come, or NULL if it may. */
static const char *rank_is_gone(const struct segment *segment, int rank) {
  struct segment_rank *peer = segment_rank(segment, rank);
  switch ((enum presence)atomic_load(&peer->presence)) {
  case PRESENCE_NONE:
  case PRESENCE_CLAIMED:
    return NULL;
  case PRESENCE_HERE:
    return segment_is_alive(segment, rank) ? NULL : "its process has died";
  case PRESENCE_DESTROYED:
    return "it has destroyed its communicator";
  case PRESENCE_ABORTED:
    return "it has aborted its communicator";
  }
  return NULL;
}

static int first_rank_gone(const struct segment *segment, const struct vigil *vigil,
                           const char **why) {
  for (int rank = 0; rank < segment->nranks; rank++) {
    if (rank == segment->rank || !vigil->awaits(vigil->subject, rank))
      continue;
    *why = rank_is_gone(segment, rank);
    if (*why != NULL)
      return rank;
  }
  return -1;
}

static void report_hang(const struct segment *segment, const struct vigil *vigil) {
  char what[SEGMENT_DESCRIPTION_BYTES], line[2048] = "";
  size_t used = 0;
  vigil->describe(vigil->subject, what, sizeof what);
  for (int rank = 0; rank < segment->nranks && used < sizeof line; rank++) {
    bool missing = rank != segment->rank && vigil->awaits(vigil->subject, rank);
    struct segment_rank *peer = segment_rank(segment, rank);
    const char *gone = missing ? rank_is_gone(segment, rank) : NULL;
    int added;
    if (!missing)
      added = snprintf(line + used, sizeof line - used, " rank %d here;", rank);
    else if (atomic_load(&peer->presence) == PRESENCE_NONE)
      added = snprintf(line + used, sizeof line - used, " rank %d MISSING, it never came;", rank);
    else
      added = snprintf(line + used, sizeof line - used,
                       " rank %d MISSING, pid %d, %llu collective units begun%s%s;", rank,
                       (int)peer->pid, (unsigned long long)atomic_load(&peer->units),
                       gone != NULL ? ", " : "", gone != NULL ? gone : "");
    used += added > 0 ? (size_t)added : 0;
  }
  report_line("HANG? rank %d of %d has waited %d s in %s:%s", segment->rank, segment->nranks,
              settings_get()->hang_seconds, what, line);
}

/* Whether a rank waited for is gone for good. It may have come before it went, since it was looked
 * at, while others are still missing: so it is asked for again. */
static bool peer_is_lost(const struct segment *segment, const struct vigil *vigil) {
  const char *why;
  int gone = settings_get()->death_is_error ? first_rank_gone(segment, vigil, &why) : -1;
  if (gone < 0 || vigil->reached(vigil->subject) || !vigil->awaits(vigil->subject, gone))
    return false;
  char what[SEGMENT_DESCRIPTION_BYTES];
  vigil->describe(vigil->subject, what, sizeof what);
  report_error("rank %d lost rank %d in %s: %s", segment->rank, gone, what, why);
  return true;
}

enum meeting_result meeting_await(const struct segment *segment, const struct vigil *vigil) {
  struct segment_shared *shared = segment->shared;
  int64_t begin = 0, last_look = 0;
  int64_t hang_ns = (int64_t)settings_get()->hang_seconds * 1000000000;
  bool hang_reported = false;
  for (int round = 0;; round++) {
    uint32_t bell = atomic_load(&shared->bell);
    if (vigil->reached(vigil->subject))
      return MEETING_REACHED;
    if (vigil->cancelled(vigil->subject))
      return MEETING_CANCELLED;
    if (atomic_load(&shared->stop) == STOP_WRITTEN)
      report_stop("%s", shared->stop_text);
    if (round < spins) {
      cpu_relax();
      continue;
    }
    if (round < spins + yields) {
      sched_yield();
      continue;
    }
    int64_t now = now_ns();
    if (begin == 0)
      begin = last_look = now;
    if (now - last_look >= tick_ns) {
      last_look = now;
      if (peer_is_lost(segment, vigil))
        return MEETING_LOST;
      if (!hang_reported && hang_ns > 0 && now - begin >= hang_ns) {
        report_hang(segment, vigil);
        hang_reported = true;
      }
    }
    meeting_sleep(segment, bell);
  }
}
