/* Whose rounds count (python_thread.h). */
#include "interpose/places/python/python_thread.h"

#include <stdatomic.h>
#include <unistd.h>

#define SEVERAL UINT64_MAX

static _Atomic uint64_t only; /* that has been asked for; 0: none yet */

bool python_thread_counts(uint64_t thread) {
  uint64_t before = 0;
  if (!atomic_compare_exchange_strong(&only, &before, thread) && before != thread)
    atomic_store(&only, SEVERAL);
  return thread == (uint64_t)getpid() || python_thread_still_counts(thread);
}

bool python_thread_still_counts(uint64_t thread) {
  return thread == 0 || atomic_load_explicit(&only, memory_order_relaxed) == thread;
}
