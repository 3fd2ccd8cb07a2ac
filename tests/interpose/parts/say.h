/* One line on stdout in one write: lines of several processes and of dying ones do not mix or get
 * lost. */
#ifndef TESTS_INTERPOSE_PARTS_SAY_H
#define TESTS_INTERPOSE_PARTS_SAY_H

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#define LEAVING_FD 99 /* the double tells that it has begun to leave, if this is open */

__attribute__((format(printf, 1, 2))) static inline void say(const char *format, ...) {
  char line[2048];
  va_list arguments;
  va_start(arguments, format);
  int length = vsnprintf(line, sizeof line - 1, format, arguments);
  va_end(arguments);
  line[length++] = '\n';
  if (write(STDOUT_FILENO, line, (size_t)length) < 0)
    _exit(99);
}

#endif
