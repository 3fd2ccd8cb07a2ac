/* Making a program that fails smaller, so that it can be read. */
#ifndef NCCL_JOIN_TESTS_SIMULATION_SHRINK_H
#define NCCL_JOIN_TESTS_SIMULATION_SHRINK_H

#include "tests/simulation/run.h"

/* Whether the program does what is counted, and is still of its row: an even one has the same units
 * on all ranks. */
bool program_shows(const struct program *program, uint64_t seed, enum measure measure);

/* Fewer ranks, epochs, iterations and units, and a plainer schedule, for as long as it shows the
 * same. Changes nothing if it does not. */
void program_shrink(struct program *program, uint64_t seed, enum measure measure);

#endif
