/* Programs on machines of as many ranks each that all ranks execute alike, but for how many batches
 * the last ones have: how much agents send for what, whatever the number of machines.
 */
#ifndef NCCL_JOIN_TESTS_SIMULATION_ALIKE_H
#define NCCL_JOIN_TESTS_SIMULATION_ALIKE_H

#include "tests/simulation/simulate.h"

#define ALIKE_UNITS 3u /* of a batch */

struct alike {
  uint32_t nmachines, each; /* ranks; in all at most PROGRAM_RANKS_MAX */
};

/* Each rank has so many batches; the last one, or, with a machine, all of the last machine have
 * `less`. Links have no delay, and the tree has up to 16 children. */
struct simulation alike_train(struct alike alike, uint16_t batches, uint16_t less, bool machine);

/* So many units, none in a loop: each is claimed by all. At most 100. */
struct simulation alike_claim(struct alike alike, uint8_t units);

/* NULL: nothing is wrong with it. */
const char *alike_wrong(const struct simulation *result);

#endif
