/* Memory that a benchmark shares with the ranks that it starts (job.h) and with the NCCL stand-in
 * that these load: results, meetings of ranks outside of NCCL, and when a collective entered NCCL.
 */
#ifndef NCCL_JOIN_TOOLS_BENCH_AREA_H
#define NCCL_JOIN_TOOLS_BENCH_AREA_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/bench/steps.h"

#define AREA_RANKS 8
#define AREA_STAMPS 65536 /* a power of two */
#define AREA_SAMPLES 65536
#define AREA_ID_BYTES 128 /* of an ncclUniqueId */

/* The fd of the memory and the rank's number, in the environment of a rank. */
#define AREA_VARIABLE "BENCH_AREA"
#define AREA_RANK_VARIABLE "BENCH_RANK"

struct area_rank {
  /* Written by the stamping stand-in: collectives that have entered NCCL, shadows too, and when,
   * in nanoseconds of area_now; of the last AREA_STAMPS. */
  _Alignas(64) _Atomic uint64_t entered;
  _Atomic uint64_t stamps[AREA_STAMPS];
  /* Written by the rank's program. */
  _Atomic uint64_t progress;
  uint64_t nsamples;
  double samples[AREA_SAMPLES];
};

struct area {
  uint32_t nranks;
  bool counted;                    /* rank 0 is single-stepped between its marks */
  struct steps_watched watched;    /* of rank 0 */
  _Atomic uint32_t arrived;        /* calls of ncclCommInitRank, of all ranks */
  _Atomic uint32_t waiting;        /* ranks in area_meet */
  _Atomic uint32_t meetings;       /* futex word */
  unsigned char id[AREA_ID_BYTES]; /* rank 0's, for a job on several machines */
  struct area_rank ranks[AREA_RANKS];
};

/* The driver's: makes the memory; its descriptor is inherited. NULL on failure. */
struct area *area_create(int *fd);
/* Everything zero again, for the next job. */
void area_clear(struct area *area);

/* A rank's, by its environment; NULL if it is no rank of a benchmark. */
struct area *area_open(int *rank);

/* Waits until all ranks are here. */
void area_meet(struct area *area);

/* CLOCK_MONOTONIC, which all processes of a machine share, in nanoseconds. */
uint64_t area_now(void);

/* Beyond AREA_SAMPLES samples are dropped. */
void area_add_sample(struct area *area, int rank, double sample);

/* Waits until this many collectives of the rank have entered NCCL. Ends the process after a
 * minute. */
void area_wait_entered(const struct area *area, int rank, uint64_t entered);

void area_sleep_us(unsigned microseconds);

#endif
