/* LD_PRELOAD: an agent that is held up whenever it has looked at its ranks: before it asks whether
 * any holds the byte of the board that says so. What they do meanwhile it must hear of all the
 * same. LATE_MS: for so many milliseconds. */
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "core/machines/board.h"

static bool is_board(int file) {
  char link[64], path[256] = "";
  snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  return readlink(link, path, sizeof path - 1) > 0 && strstr(path, "nccl-join-machines-") != NULL;
}

static void hold_up(void) {
  const char *late = getenv("LATE_MS");
  long milliseconds = late == NULL ? 0 : strtol(late, NULL, 10);
  nanosleep(&(struct timespec){milliseconds / 1000, milliseconds % 1000 * 1000000}, NULL);
}

int fcntl(int file, int command, ...) {
  va_list rest;
  va_start(rest, command);
  void *argument = va_arg(rest, void *);
  va_end(rest);
  const struct flock *lock = argument;
  if (command == F_GETLK && lock->l_start == BOARD_RANKS && is_board(file))
    hold_up();
  return (int)syscall(SYS_fcntl, file, command, argument);
}
