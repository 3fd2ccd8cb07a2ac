/* What goes into device buffers and what comes out of them, without the program having to wait in
 * between.
 *
 * A program that runs ahead of its device cannot reuse one host buffer. A tape gives every fill and
 * every reading a piece of pinned memory of its own, copies in stream order, and prints the
 * readings as RESULT lines when it is played.
 *
 * A block of elements alternates between two numbers, the first at even places and the second at
 * odd ones: one says who took part (2^rank, so that a sum is a bit mask of ranks), the other what
 * it was for (iteration and epoch).
 */
#ifndef PROGRAMS_TAPE_H
#define PROGRAMS_TAPE_H

#include "tests/programs/ranks.h"

struct tape;

/* A program's one tape. It uses, and waits for, the stream of ranks. */
struct tape *tape_create(struct ranks *ranks);

/* Copies count elements of the two alternating values into device memory. */
void tape_fill(struct tape *tape, ncclDataType_t datatype, void *device, size_t count, double even,
               double odd);

/* The same with every value of zero bits. */
void tape_clear(struct tape *tape, void *device, size_t size);

/* Reads blocks * count elements back, to be printed with the name that the format makes, followed
 * by the even and (if count is above 1) odd value of each block, or by "mixed" if a block does not
 * alternate. */
void tape_read(struct tape *tape, ncclDataType_t datatype, const void *device, size_t blocks,
               size_t count, const char *format, ...) __attribute__((format(printf, 6, 7)));

/* Waits for the stream and prints what has been read since the last time. */
void tape_play(struct tape *tape);

/* The sum over all readings played so far of their first value. */
double tape_total(const struct tape *tape);

#endif
