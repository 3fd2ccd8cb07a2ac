/* Reads of memory that may not be there (python_memory.h): process_vm_readv of the own process,
 * which needs no right (kernel: mm_access lets every process at its own memory).
 */
#include "interpose/places/python/python_memory.h"

#include <errno.h>
#include <unistd.h>

bool python_memory_read_pieces(void *to, const struct iovec *from, size_t n) {
  struct iovec here = {to, 0};
  for (size_t i = 0; i < n; i++)
    here.iov_len += from[i].iov_len;
  int error = errno; /* of the program */
  ssize_t read = process_vm_readv(getpid(), &here, 1, from, n, 0);
  errno = error;
  return read >= 0 && (size_t)read == here.iov_len;
}

bool python_memory_read(void *to, uint64_t from, size_t size) {
  struct iovec there = {(void *)from, size};
  return python_memory_read_pieces(to, &there, 1);
}

uint64_t python_memory_word(uint64_t from) {
  uint64_t word;
  return python_memory_read(&word, from, sizeof(word)) ? word : 0;
}
