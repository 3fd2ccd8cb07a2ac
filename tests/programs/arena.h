/* Device memory of one kind that a program's buffers are cut from, as a framework's allocator does
 * it, registered with a communicator as a whole (ncclCommRegister).
 */
#ifndef PROGRAMS_ARENA_H
#define PROGRAMS_ARENA_H

#include "tests/programs/ranks.h"

struct arena;

/* The program's only one. kind: plain (cudaMalloc, not registered), registered (the same,
 * registered), mapped (cuMemCreate, can be exported, registered), private (the same, cannot be
 * exported), pieces (as mapped, in pieces of one granule, and buffers lie across their borders),
 * window (cudaMalloc, registered as a window; NCCL 2.27 and later). size: of the largest buffer;
 * all of them have to fit into ten times as much. Any other kind ends the program. */
struct arena *arena_create(const struct ranks *ranks, const char *kind, size_t size);

/* A buffer. Those of different ranks do not lie at the same offset. */
void *arena_take(struct arena *arena, size_t size);

/* Takes the registration back; the memory stays. */
void arena_deregister(struct arena *arena);

#endif
