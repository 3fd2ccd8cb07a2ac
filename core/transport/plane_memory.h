/* The plane of ranks that live in one process and are driven by one thread: for tests and for
 * simulating thousands of ranks. Waiting returns at once.
 */
#ifndef NCCL_JOIN_CORE_PLANE_MEMORY_H
#define NCCL_JOIN_CORE_PLANE_MEMORY_H

#include "core/transport/plane.h"

struct plane_memory;

/* A team of nranks; NULL if there is no memory. */
struct plane_memory *plane_memory_create(uint32_t nranks);
void plane_memory_destroy(struct plane_memory *memory);

/* One rank's side, owned by the plane_memory. */
struct plane *plane_memory_rank(struct plane_memory *memory, uint32_t rank);

/* From now on the rank counts as dead. */
void plane_memory_kill(struct plane_memory *memory, uint32_t rank);

/* How often the bell was rung. */
uint64_t plane_memory_rings(const struct plane_memory *memory);

#endif
