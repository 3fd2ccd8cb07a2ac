/* Calls of the core into libc that fail when a test wants them to: no memory, no room, no answer
 * from the kernel. The linker puts these between (--wrap, tests/rules.mk); what Criterion and libc
 * do themselves is not touched.
 */
#ifndef TESTS_UNIT_FAILING_H
#define TESTS_UNIT_FAILING_H

#include <stdbool.h>

enum call {
  CALL_ALLOCATION, /* malloc, calloc, realloc, aligned_alloc */
  CALL_FCNTL,
  CALL_FSTAT,
  CALL_FTRUNCATE,
  CALL_GETCWD,
  CALL_GETHOSTNAME,
  CALL_MMAP,
  CALL_OPEN,
  CALL_POSIX_FALLOCATE,
  CALL_PREAD,
  CALL_ACCESS,
  CALL_SCHED_GETAFFINITY,
  CALL_WRITE,
  CALLS
};

/* The nth such call from now on, 1 being the next, fails with an error, and `times` in all. For one
 * kind of call at a time; 0 times: none any more. */
void fail_call(enum call call, int nth, int times, int error);

/* Whether the call that was to fail has been made. */
bool call_has_failed(enum call call);

/* Makes gethostname say this. */
void call_host(const char *name);

#endif
