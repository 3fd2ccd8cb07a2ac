/* Exact counts of what rank 0 of a job does between two marks: there it is single-stepped, on the
 * processor itself, so that nothing is estimated or simulated.
 *
 * A region without anything between its marks has some instructions too, and two system calls:
 * measure one, and subtract.
 */
#ifndef NCCL_JOIN_TOOLS_BENCH_STEPS_H
#define NCCL_JOIN_TOOLS_BENCH_STEPS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct steps {
  uint64_t instructions;
  uint64_t locked; /* of them, those that lock a cache line; see steps_knows_locked */
  uint64_t system_calls;
  uint64_t allocations; /* calls of malloc, calloc, realloc, aligned_alloc, posix_memalign, free */
  uint64_t mutexes;     /* calls of pthread_mutex_lock and of what else may wait for a thread */
};

#define STEPS_REGIONS 64

struct steps_taken {
  unsigned nregions;
  struct steps regions[STEPS_REGIONS]; /* in the order of their marks */
};

/* Where the functions that are counted lie in the rank, which writes it into the area. */
#define STEPS_FUNCTIONS 8
struct steps_watched {
  uint64_t allocations[STEPS_FUNCTIONS], mutexes[STEPS_FUNCTIONS]; /* 0: none */
};

/* A rank's: once before the first mark; then the marks. A signal ends it if nobody steps it. */
void steps_watch(struct steps_watched *watched);
void steps_begin(void);
void steps_end(void);

/* The driver's. In the child, before exec. */
void steps_allow(void);

/* In the parent: follows the child until it has ended, and fills *taken. Returns its status as
 * waitpid does, -1 if it could not be followed. */
int steps_take(pid_t child, const struct steps_watched *watched, struct steps_taken *taken);

/* In the parent, instead: how many system calls the child makes from exec to its end; -1 if it
 * could not be followed, or did not end with status 0. */
long steps_count_system_calls(pid_t child);

/* Whether `locked` is counted on this processor: x86-64 only. */
bool steps_knows_locked(void);

#endif
