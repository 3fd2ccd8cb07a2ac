/* Runs a random program on simulated ranks, and checks what must be true of the agreed sequences:
 *   - at every index of a team all ranks issue the same unit;
 *   - the real units of a rank are exactly its program, in order;
 *   - no rank waits for ever, neither for the others' decisions nor for the device: all come to
 *     their end, or are freed because a rank has failed;
 *   - with early termination: all ranks stop where their programs first differ, or later, and
 *     nothing is left on any device;
 *   - which units met, and whether it is told where the wrong ones did (meetings.h).
 */
#ifndef NCCL_JOIN_TESTS_SIMULATION_SIMULATE_H
#define NCCL_JOIN_TESTS_SIMULATION_SIMULATE_H

#include <stdbool.h>
#include <stdint.h>

#include "tests/simulation/machines.h"
#include "tests/simulation/program.h"

struct simulation {
  bool deadlock, mismatch, wrong_order; /* each must stay false; so must the next */
  /* Ranks wait for the device for ever: their streams have units of several teams in orders that do
   * not go together, or a rank that others need waits for them there. */
  bool stuck_on_device;
  /* Early termination: a rank was stopped; not exactly where the programs of the ranks first
   * differ; one has heard of a failure, though there is none; something is left on a device. */
  bool stopped, inexact, wrong_failure, left_over;
  /* Of all agreed sequences: struct meetings_sum. */
  uint64_t indices, met, wrong, other_epoch, other_iteration, split;
  bool silent, silent_apart; /* in one of them */
  bool told;                 /* more than that places cannot be seen */
  uint64_t reals, shadows, commits, claims;
  uint64_t yields;        /* of those, between two ranks or in a chain */
  uint64_t late_yields;   /* only because it was quiet */
  uint64_t waits;         /* for those behind, before a unit of another team */
  struct traffic traffic; /* between machines */
};

/* The schedule is deterministic by seed. trace: print what every rank does. */
struct simulation simulate(const struct program *program, uint64_t seed, bool trace);

/* The same on several machines. */
struct simulation simulate_on(const struct program *program, const struct layout *layout,
                              uint64_t seed, bool trace);

#endif
