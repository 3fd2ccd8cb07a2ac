/* The guard's state (guard.h), and the one decision behind it. */
#include "interpose/self/guard.h"

#include <stddef.h>
#include <unistd.h>

#include "core/settings/settings.h"
#include "interpose/places/places.h"
#include "interpose/nccl/real.h"

_Thread_local struct guard_thread guard_thread = {.site = &places_nowhere,
                                                  .hot.handle = GUARD_NO_HANDLE};
_Atomic(enum guard_mode) guard_mode;

__attribute__((cold)) bool guard_decide(void) {
  if (!real_resolve())
    return false;
  struct settings settings;
  /* What is wrong with the other settings is said where communicators are made. */
  settings_read(&settings, environ, NULL, 0);
  /* Stored before the mode: who has a communicator has seen that. */
  atomic_store_explicit(&places_on, settings.enabled && settings.places, memory_order_relaxed);
  /* Another thread, or fork, may have decided meanwhile. */
  enum guard_mode undecided = GUARD_UNDECIDED;
  atomic_compare_exchange_strong(&guard_mode, &undecided, settings.enabled ? GUARD_ON : GUARD_OFF);
  return atomic_load(&guard_mode) == GUARD_ON;
}

void guard_turn_off(void) {
  atomic_store(&guard_mode, GUARD_OFF);
  atomic_store_explicit(&places_on, false, memory_order_relaxed);
}
