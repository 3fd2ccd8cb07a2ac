/* The plane of ranks that one thread drives in one process, for tests and for simulating thousands
 * of ranks. Waiting returns at once. Nothing here is thread-safe, and nor is transport_memory, the
 * transport made of it (attachment.h), whatever that header says of other transports.
 */
#ifndef NCCL_JOIN_CORE_PLANE_MEMORY_H
#define NCCL_JOIN_CORE_PLANE_MEMORY_H

#include "core/transport/plane.h"

struct plane_memory;

/* Logs for so many ranks, and what they share; NULL if there is no memory. */
struct plane_memory *plane_memory_create(uint32_t nranks);
void plane_memory_destroy(struct plane_memory *memory);

/* One rank's side of the team of all, owned by the plane_memory. NULL if there is no memory, the
 * first time. */
struct plane *plane_memory_rank(struct plane_memory *memory, uint32_t rank);

/* Makes the rank in a slot a rank of a team of some of them: slot_of[rank] is the slot, and so on;
 * copied. The same side as plane_memory_rank of the slot gives. False if there is no memory. */
bool plane_memory_set_team(struct plane_memory *memory, uint32_t rank, uint32_t nranks,
                           const uint32_t *slot_of);

/* From now on the rank in a slot counts as dead. */
void plane_memory_kill(struct plane_memory *memory, uint32_t slot);

/* The same for an attachment of transport_memory, which stays to be detached. */
struct attachment;
void transport_memory_kill(struct attachment *attachment);

/* How often the bell was rung. */
uint64_t plane_memory_rings(const struct plane_memory *memory);

#endif
