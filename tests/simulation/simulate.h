/* Runs a random program on simulated ranks that share one team, and checks what must be true of the
 * agreed sequence:
 *   - at every index all ranks issue the same unit;
 *   - the real units of a rank are exactly its program, in order;
 *   - no rank waits for ever: all come to their end and leave together;
 *   - which units met: whether all real issues at an index stand at the same place of the program.
 */
#ifndef NCCL_JOIN_TESTS_SIMULATION_SIMULATE_H
#define NCCL_JOIN_TESTS_SIMULATION_SIMULATE_H

#include <stdbool.h>
#include <stdint.h>

#include "tests/simulation/program.h"

struct simulation {
  bool deadlock, mismatch, wrong_order; /* each must stay false */
  uint64_t indices;                     /* of the agreed sequence */
  uint64_t met; /* indices where every real issue was of the same place in the program */
  uint64_t reals, shadows, commits, claims;
  uint64_t conflicts; /* indices where ranks wanted different units */
};

/* The schedule is deterministic by seed. */
struct simulation simulate(const struct program *program, uint64_t seed);

#endif
