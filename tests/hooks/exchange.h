/* Two ranks on two threads, against the loopback's CUDA and NCCL: rank 0 issues units, rank 1
 * shadows them. What rank 0 gets must be the result over its own data alone.
 *
 * The loopback's libcuda.so.1 and libnccl.so.2 must be on LD_LIBRARY_PATH; tests are skipped
 * without. Its device memory faults on any access that is not allocated, and ranks whose units do
 * not match end the run.
 */
#ifndef TESTS_HOOKS_EXCHANGE_H
#define TESTS_HOOKS_EXCHANGE_H

#include <stdbool.h>
#include <stddef.h>

#include "hooks/shadow.h"

/* A unit as the active rank issues it and as the joined rank learns it. Only the member's count,
 * datatype, kind, reduction and root are given; the active rank is root wherever there is one. */
struct exchange {
  const struct member *members;
  uint32_t nmembers;
  int shadow_root; /* handed to the shadow; the members may name another */
};

/* Bytes that a shadow with aliases may hold at the end of a test; 0: without aliases, any. */
extern size_t exchange_most_held;

/* Before a test: finds the loopback. */
void exchange_open(void);

/* Issues one unit after the other, and fails the test if a result is wrong. */
void exchange_run(const struct exchange *exchanges, size_t nexchanges, bool nonblocking);

#endif
