/* The guard's state (guard.h). */
#include "interpose/self/guard.h"

_Thread_local struct guard_thread guard_thread = {.site = &native_site_nowhere,
                                                  .fast_path.handle = GUARD_NO_HANDLE};
_Atomic(enum guard_mode) guard_mode;
_Atomic bool guard_places;

void guard_turn_off(void) {
  atomic_store(&guard_mode, GUARD_OFF);
  atomic_store_explicit(&guard_places, false, memory_order_relaxed);
}
