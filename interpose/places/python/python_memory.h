/* Reading memory of this process that may not be there: objects of CPython whose layout is
 * believed, and those of other threads. A wrong address costs a failed system call, never a fault.
 */
#ifndef NCCL_JOIN_INTERPOSE_PYTHON_MEMORY_H
#define NCCL_JOIN_INTERPOSE_PYTHON_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

/* Copies all `size` bytes at `from`, or returns false. Any thread; errno stays. It takes 1 to 2
 * microseconds. */
bool python_memory_read(void *to, uint64_t from, size_t size);

/* Copies n pieces, one behind the other to `to`: all, or false. n is at most 1,024. One system
 * call, 0.1 to 0.4 microseconds a piece. */
bool python_memory_read_pieces(void *to, const struct iovec *from, size_t n);

/* The word at `from`; 0 if it cannot be read. */
uint64_t python_memory_word(uint64_t from);

#endif
