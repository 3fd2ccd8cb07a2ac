/* Locks on bytes of a file (file_lock.h). */
#include "core/transport/file_lock.h"

#include <fcntl.h>
#include <stdio.h>

bool file_lock_set(int file, short type, uint32_t byte) {
  struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};
  return fcntl(file, F_SETLK, &lock) == 0;
}

bool file_lock_is_held(int file, uint32_t byte, uint32_t count) {
  struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = byte, .l_len = count};
  return fcntl(file, F_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}
