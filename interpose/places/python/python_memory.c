/* Reads of memory that may not be there (python_memory.h): process_vm_readv of the own process,
 * which needs no right (kernel: mm_access lets every process at its own memory).
 */
#include "interpose/places/python/python_memory.h"

#include <errno.h>
#include <unistd.h>

bool python_memory_read_pieces(const struct iovec *to, const struct iovec *from, size_t n) {
  size_t size = 0;
  for (size_t i = 0; i < n; i++)
    size += from[i].iov_len;
  int error = errno; /* of the program */
  ssize_t read = process_vm_readv(getpid(), to, n, from, n, 0);
  errno = error;
  return read >= 0 && (size_t)read == size;
}

bool python_memory_read(void *to, uint64_t from, size_t size) {
  struct iovec there = {(void *)from, size};
  return python_memory_read_pieces(&(struct iovec){to, size}, &there, 1);
}

uint64_t python_memory_word(uint64_t from) {
  uint64_t word;
  return python_memory_read(&word, from, sizeof(word)) ? word : 0;
}
