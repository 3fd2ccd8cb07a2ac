/* The one decision behind the guard (self/guard.h): whether calls are acted on at all. */
#include <stddef.h>
#include <unistd.h>

#include "core/settings/settings.h"
#include "interpose/nccl/real.h"
#include "interpose/self/guard.h"

__attribute__((cold)) bool guard_decide(void) {
  if (!real_resolve())
    return false;
  struct settings settings;
  /* What is wrong with the other settings is said where communicators are made. */
  settings_read(&settings, environ, NULL, 0);
  /* Stored before the mode: who has a communicator has seen that. */
  atomic_store_explicit(&guard_places, settings.enabled && settings.places, memory_order_relaxed);
  /* Another thread, or fork, may have decided meanwhile. */
  enum guard_mode undecided = GUARD_UNDECIDED;
  atomic_compare_exchange_strong(&guard_mode, &undecided, settings.enabled ? GUARD_ON : GUARD_OFF);
  return atomic_load(&guard_mode) == GUARD_ON;
}
