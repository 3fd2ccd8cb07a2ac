/* Reading again, with one system call, what was read the last time: a search through the same
 * threads and frames as before reads the same addresses, mostly.
 *
 * One thread of the process at a time; another one that asks meanwhile gets NULL, with which each
 * read is a system call of its own. So is a read of what was not read the last time. Reads as
 * python_memory.h does; no function allocates or waits.
 */
#ifndef NCCL_JOIN_INTERPOSE_PYTHON_AHEAD_H
#define NCCL_JOIN_INTERPOSE_PYTHON_AHEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct python_ahead;

/* Reads what was read between the last begin and end. What python_ahead_read returns is as old as
 * this call. python_ahead_end is to follow, unless it returns NULL. */
struct python_ahead *python_ahead_begin(void);

/* Copies all `size` bytes at `from`, or returns false. ahead: may be NULL. */
bool python_ahead_read(struct python_ahead *ahead, void *to, uint64_t from, size_t size);

/* The word at `from`; 0 if it cannot be read. */
uint64_t python_ahead_word(struct python_ahead *ahead, uint64_t from);

void python_ahead_end(struct python_ahead *ahead);

#endif
