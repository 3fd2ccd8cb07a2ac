/* The last line of WARN or ERROR of a process, where nccl-join status finds it: in memory that has
 * a descriptor with a name (memfd_create(2)), made with the first line. The process itself needs
 * only the memory, so nothing happens to a program that closes descriptors it does not know, but
 * that nobody finds the line any more.
 */
#ifndef NCCL_JOIN_CORE_LAST_LINE_H
#define NCCL_JOIN_CORE_LAST_LINE_H

#include <stdatomic.h>
#include <stdint.h>

#define LAST_LINE_SIZE 1024
#define LAST_LINE_NAME "nccl-join-warning"
#define LAST_LINE_FORMAT 1u

/* What the memory holds. */
struct last_line {
  uint32_t format;
  _Atomic uint32_t changes; /* odd while the rest is being written; 0: nothing has been */
  uint64_t at_ms;           /* CLOCK_MONOTONIC */
  char text[LAST_LINE_SIZE];
};

/* By one thread at a time. Nothing happens where there is no memory, or no descriptor. */
void last_line_show(const char *text);

/* For tests. */
void last_line_forget(void);

#endif
