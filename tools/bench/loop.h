/* The training loop that the ranks of benchmarks run: a body of eight all-reduces. */
#ifndef NCCL_JOIN_TOOLS_BENCH_LOOP_H
#define NCCL_JOIN_TOOLS_BENCH_LOOP_H

#include <stdint.h>

#include <nccl.h>

#include "tools/bench/area.h"

#define LOOP_UNITS 8 /* of one iteration */
#define LOOP_GROUP 8 /* all-reduces */

/* Iterations after which the body is known to nccl-join for sure (LEARNER_REPEATS is 3), and other
 * hypotheses about it are no longer checked (LAGS_CALM units, twice). */
#define LOOP_LEARNT 512
#define LOOP_LEARNT_UNITS ((uint64_t)LOOP_LEARNT * LOOP_UNITS)

/* Selects the device (the loopback's), and makes a communicator of all ranks of the job. */
ncclComm_t loop_communicator(uint32_t nranks, int rank);
/* The same for a job on several machines, whose ranks need an id that rank 0 has made. */
ncclComm_t loop_communicator_of_machines(struct area *area, int rank);

/* One unit of the body: an all-reduce. */
static inline void loop_unit(ncclComm_t comm, size_t position) {
  ncclAllReduce(NULL, NULL, 1000 * (position + 1), ncclFloat, ncclSum, comm, NULL);
}

/* One iteration: all-reduces of different sizes. */
static inline void loop_iteration(ncclComm_t comm) {
  for (size_t position = 0; position < LOOP_UNITS; position++)
    loop_unit(comm, position);
}

/* The same, the last one of another line: as where gradients are accumulated, or a loss follows. */
static inline void loop_rounds(ncclComm_t comm) {
  for (size_t position = 0; position < LOOP_UNITS - 1; position++)
    loop_unit(comm, position);
  loop_unit(comm, LOOP_UNITS - 1);
}

/* A unit of another body, 0 or 1: a group of eight all-reduces. */
static inline void loop_group(ncclComm_t comm, size_t position) {
  ncclGroupStart();
  for (size_t i = 1; i <= LOOP_GROUP; i++)
    ncclAllReduce(NULL, NULL, 1000 * i + position, ncclFloat, ncclSum, comm, NULL);
  ncclGroupEnd();
}

static inline void loop_groups(ncclComm_t comm) {
  loop_group(comm, 0);
  loop_group(comm, 1);
}

/* A unit outside of the loop, of that many elements. */
static inline void loop_other(ncclComm_t comm, size_t count) {
  ncclAllReduce(NULL, NULL, count, ncclInt32, ncclMax, comm, NULL);
}

#endif
