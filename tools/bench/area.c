/* Memory shared by the ranks of a benchmark (area.h). */
#include "tools/bench/area.h"

#include <limits.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static const uint64_t wait_limit_ns = UINT64_C(60000000000);

static struct area *map(int fd) {
  void *memory = mmap(NULL, sizeof(struct area), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  return memory == MAP_FAILED ? NULL : memory;
}

struct area *area_create(int *fd) {
  *fd = memfd_create("nccl-join-bench", 0);
  if (*fd < 0 || ftruncate(*fd, sizeof(struct area)) != 0)
    return NULL;
  return map(*fd);
}

void area_clear(struct area *area) {
  memset(area, 0, sizeof *area);
}

struct area *area_open(int *rank) {
  const char *fd = getenv(AREA_VARIABLE), *number = getenv(AREA_RANK_VARIABLE);
  if (fd == NULL || number == NULL)
    return NULL;
  *rank = (int)strtol(number, NULL, 10);
  return *rank < 0 || *rank >= AREA_RANKS ? NULL : map((int)strtol(fd, NULL, 10));
}

void area_meet(struct area *area) {
  uint32_t meetings = atomic_load(&area->meetings);
  if (atomic_fetch_add(&area->waiting, 1) + 1 == area->nranks) {
    atomic_store(&area->waiting, 0);
    atomic_fetch_add(&area->meetings, 1);
    syscall(SYS_futex, &area->meetings, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
  }
  while (atomic_load(&area->meetings) == meetings)
    syscall(SYS_futex, &area->meetings, FUTEX_WAIT, meetings, NULL, NULL, 0);
}

uint64_t area_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

void area_add_sample(struct area *area, int rank, double sample) {
  struct area_rank *me = &area->ranks[rank];
  if (me->nsamples < AREA_SAMPLES)
    me->samples[me->nsamples++] = sample;
}

void area_sleep_us(unsigned microseconds) {
  nanosleep(&(struct timespec){.tv_sec = microseconds / 1000000,
                               .tv_nsec = microseconds % 1000000 * 1000L},
            NULL);
}

void area_wait_entered(const struct area *area, int rank, uint64_t entered) {
  uint64_t end = area_now() + wait_limit_ns;
  while (atomic_load(&area->ranks[rank].entered) < entered) {
    if (area_now() > end) {
      fprintf(stderr, "rank %d did not get as far as %lu collectives in a minute\n", rank,
              (unsigned long)entered);
      _exit(1);
    }
    area_sleep_us(20);
  }
}
