/* Device time of simulated ranks, as NCCL has it: a unit of a team is done once it is at the head
 * of its stream on every rank of the team. Every rank has a stream for each communicator, or one
 * for all of them, and one for the shadows of each team.
 *
 * Two ranks that issue units of two teams in different orders on one stream each wait for ever
 * here, as they do on a GPU.
 */
#ifndef NCCL_JOIN_TESTS_SIMULATION_DEVICE_H
#define NCCL_JOIN_TESTS_SIMULATION_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

#include "tests/simulation/program.h"

struct device;

struct device *device_create(const struct program *program);
void device_destroy(struct device *device);

/* The rank issues unit `index` of a team, for real or as a shadow. */
void device_issue(struct device *device, uint32_t rank, uint32_t team, uint64_t index, bool real);

/* Whether the stream that such a unit would go to is full. */
bool device_is_full(const struct device *device, uint32_t rank, uint32_t team, bool real);

/* Whether all that the rank has issued for real is done. */
bool device_is_idle(const struct device *device, uint32_t rank);

/* Prints what every stream holds. */
void device_print(const struct device *device);

#endif
