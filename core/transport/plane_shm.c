/* The plane over a segment's logs (plane_shm.h): who is alive, and a bell that is a futex between
 * processes. */
#include "core/transport/plane_shm.h"

#include <assert.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "core/transport/segment.h"

/* Spinning longer than a futex takes to wake somebody (8 us, twice that when the machine is busy)
 * gains nothing. Between two looks the logs are left to those who write them. */
#define SPIN_NANOSECONDS 20000
#define PAUSES_BETWEEN_LOOKS 8

struct plane_shm {
  struct plane plane; /* first: a plane is cast to its plane_shm */
  struct segment_map *map;
  uint32_t *slot_of;
};

static void ring_word(_Atomic uint32_t *bell) {
  atomic_fetch_add(bell, 1);
  syscall(SYS_futex, bell, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static void shm_ring(struct plane *plane) {
  struct plane_shm *shm = (struct plane_shm *)plane;
  _Atomic uint32_t *beyond = atomic_load_explicit(&shm->map->beyond.bell, memory_order_relaxed);
  ring_word(&plane->team->bell);
  if (beyond != NULL)
    ring_word(beyond);
}

/* The agent of a team across machines is to know whether any rank of this machine waits: then it
 * asks other machines what their ranks do (segment_remote.h). The first to wait wakes it. */
static void begin_waiting(struct plane *plane) {
  struct plane_shm *shm = (struct plane_shm *)plane;
  _Atomic uint32_t *beyond = atomic_load_explicit(&shm->map->beyond.bell, memory_order_relaxed);
  struct segment_header *header = (struct segment_header *)shm->map->base;
  if (beyond != NULL && atomic_fetch_add(&header->waiting, 1) == 0)
    ring_word(beyond);
}

static void end_waiting(struct plane *plane) {
  struct plane_shm *shm = (struct plane_shm *)plane;
  struct segment_header *header = (struct segment_header *)shm->map->base;
  if (atomic_load_explicit(&shm->map->beyond.bell, memory_order_relaxed) != NULL)
    atomic_fetch_sub(&header->waiting, 1);
}

static void plane_relax(void) {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ __volatile__("yield");
#endif
}

static void shm_pause(struct plane *plane) {
  if (plane->looks == 0) {
    sched_yield();
    return;
  }
  for (int i = 0; i < PAUSES_BETWEEN_LOOKS; i++)
    plane_relax();
}

static bool shm_spin(struct plane *plane, uint64_t *since) {
  if (plane->looks == 0)
    return false;
  shm_pause(plane);
  uint64_t now = (uint64_t)segment_now();
  if (*since == 0)
    *since = now;
  return now - *since < plane->looks;
}

static void shm_wait(struct plane *plane, uint32_t seen, unsigned milliseconds) {
  struct timespec timeout = {.tv_sec = milliseconds / 1000,
                             .tv_nsec = milliseconds % 1000 * 1000000L};
  /* Not FUTEX_PRIVATE: the others are in other processes. Whatever it returns, the caller looks
   * again. */
  begin_waiting(plane);
  syscall(SYS_futex, &plane->team->bell, FUTEX_WAIT, seen, &timeout, NULL, 0);
  end_waiting(plane);
}

/* The kernel may end a sleep later by the thread's timer slack, 50 us if nobody has said anything
 * else (prctl(2), PR_SET_TIMERSLACK). It is the program's thread: it gets its own back. */
static void shm_nap(struct plane *plane, uint32_t seen, uint64_t until) {
  struct timespec end = {.tv_sec = (time_t)(until / 1000000000),
                         .tv_nsec = (long)(until % 1000000000)};
  int slack = prctl(PR_GET_TIMERSLACK, 0UL, 0UL, 0UL, 0UL);
  if (slack > 1)
    prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
  /* A futex's own time is CLOCK_MONOTONIC, and with a bit set it is absolute (futex(2)). */
  begin_waiting(plane);
  syscall(SYS_futex, &plane->team->bell, FUTEX_WAIT_BITSET, seen, &end, NULL,
          FUTEX_BITSET_MATCH_ANY);
  end_waiting(plane);
  if (slack > 1)
    prctl(PR_SET_TIMERSLACK, (unsigned long)slack, 0UL, 0UL, 0UL);
}

/* Of a rank on another machine: whether the agent, which would tell of it, stands still. */
static bool is_beyond_reach(const struct plane_shm *shm, uint32_t slot) {
  return segment_slot(shm->map, slot)->machine[0] != '\0' &&
         segment_beyond_is_still(shm->map, (uint64_t)segment_now() / 1000000);
}

static bool shm_alive(struct plane *plane, uint32_t rank) {
  const struct plane_shm *shm = (const struct plane_shm *)plane;
  if (rank >= plane->nranks)
    return false;
  if (!segment_slot_is_ready(shm->map, shm->slot_of[rank]))
    return true; /* it has yet to come */
  if (segment_slot_is_held(shm->map, shm->slot_of[rank]))
    return !is_beyond_reach(shm, shm->slot_of[rank]);
  segment_look_how_it_ended(shm->map, shm->slot_of[rank]);
  return false;
}

static bool shm_stopped(const struct plane *plane, uint32_t rank) {
  const struct plane_shm *shm = (const struct plane_shm *)plane;
  return segment_slot_is_stopped(shm->map, shm->slot_of[rank]) ||
         is_beyond_reach(shm, shm->slot_of[rank]);
}

static struct plane_fate shm_fate(const struct plane *plane, uint32_t rank) {
  const struct plane_shm *shm = (const struct plane_shm *)plane;
  return segment_fate(shm->map, shm->slot_of[rank]);
}

static const char *shm_machine(const struct plane *plane, uint32_t rank) {
  const struct plane_shm *shm = (const struct plane_shm *)plane;
  const char *name = segment_slot(shm->map, shm->slot_of[rank])->machine;
  return name[0] != '\0' ? name : NULL;
}

static uint32_t usable_processors(void) {
  cpu_set_t sets[8]; /* a kernel may be built for 8192; one set holds 1024 */
  if (sched_getaffinity(0, sizeof(sets), sets) != 0)
    return 1;
  return (uint32_t)CPU_COUNT_S(sizeof(sets), sets);
}

static bool slots_are_valid(const struct segment *segment, uint32_t rank, uint32_t nranks,
                            const uint32_t *slot_of) {
  const struct segment_map *map = segment->map;
  if (nranks > map->slots || rank >= nranks || slot_of[rank] != segment->slot)
    return false;
  for (uint32_t i = 0; i < nranks; i++)
    if (slot_of[i] >= map->slots)
      return false;
  return true;
}

static bool slots_are_ready(const struct segment *segment, uint32_t nranks,
                            const uint32_t *slot_of) {
  uint32_t i = 0;
  while (i < nranks && segment_slot_is_ready(segment->map, slot_of[i]))
    i++;
  return i == nranks;
}

static struct plane *plane_of(struct segment *segment, uint32_t rank, uint32_t nranks,
                              const uint32_t *slot_of) {
  assert(rank < nranks);
  struct segment_map *map = segment->map;
  struct plane_shm *shm = calloc(1, sizeof(*shm));
  if (shm == NULL)
    return NULL;
  *shm = (struct plane_shm){
      .plane = {.rank = rank,
                .nranks = nranks,
                .team = (struct plane_team *)(map->base + segment_team_offset(map->slots)),
                .logs = calloc(nranks, sizeof(struct plane_log *)),
                /* Every rank of the team can have a processor of its own. */
                .looks = usable_processors() >= nranks ? SPIN_NANOSECONDS : 0,
                .ring = shm_ring,
                .spin = shm_spin,
                .wait = shm_wait,
                .nap = shm_nap,
                .pause = shm_pause,
                .alive = shm_alive,
                .stopped = shm_stopped,
                .fate = shm_fate,
                .machine = shm_machine},
      .map = map,
      .slot_of = calloc(nranks, sizeof(*slot_of)),
  };
  if (shm->plane.logs == NULL || shm->slot_of == NULL) {
    plane_shm_destroy(shm);
    return NULL;
  }
  for (uint32_t i = 0; i < nranks; i++) {
    shm->slot_of[i] = slot_of[i];
    shm->plane.logs[i] =
        (struct plane_log *)(map->base + segment_log_offset(map->slots, slot_of[i]));
  }
  segment->plane = shm;
  return &shm->plane;
}

struct plane *segment_plane(struct segment *segment, uint32_t rank, uint32_t nranks,
                            const uint32_t *slot_of) {
  return segment->plane == NULL && slots_are_valid(segment, rank, nranks, slot_of) &&
                 slots_are_ready(segment, nranks, slot_of)
             ? plane_of(segment, rank, nranks, slot_of)
             : NULL;
}

struct plane *segment_plane_early(struct segment *segment, uint32_t rank, uint32_t nranks,
                                  const uint32_t *slot_of) {
  char reason[ATTACHMENT_REASON_SIZE];
  if (segment->plane != NULL || !slots_are_valid(segment, rank, nranks, slot_of))
    return NULL;
  for (uint32_t i = 0; i < nranks; i++)
    if (!segment_allocate_log(segment->map, slot_of[i], reason))
      return NULL;
  return plane_of(segment, rank, nranks, slot_of);
}

void plane_shm_destroy(struct plane_shm *plane) {
  if (plane == NULL)
    return;
  free(plane->plane.logs);
  free(plane->slot_of);
  free(plane);
}
