/* Locks on bytes of a file that processes share (POSIX record locks, fcntl(2)). All see who holds a
 * lock, and it goes with its process, however that ends.
 *
 * A lock belongs to a process, not to a thread or a descriptor. A process never sees its own locks,
 * and loses all of them when it closes any descriptor of the file: so it opens such a file once.
 * Any thread. */
#ifndef NCCL_JOIN_CORE_FILE_LOCK_H
#define NCCL_JOIN_CORE_FILE_LOCK_H

#include <stdbool.h>
#include <stdint.h>

/* type: F_WRLCK, F_RDLCK (shared) or F_UNLCK. Does not wait: false, with errno (EAGAIN or EACCES:
 * another process has it). */
bool file_lock_set(int file, short type, uint32_t byte);

/* Whether another process has one on any of so many bytes; count 0: to the end of the file. True,
 * too, if it cannot be known. */
bool file_lock_is_held(int file, uint32_t byte, uint32_t count);

#endif
