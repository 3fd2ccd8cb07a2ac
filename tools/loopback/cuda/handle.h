/* Which handles are alive. A program's handle is looked up here before it is followed, so that a
 * destroyed or invented one is an error and not a crash.
 *
 * The caller serialises: each kind is used under the lock of the file that owns the kind. */
#ifndef LOOPBACK_CUDA_HANDLE_H
#define LOOPBACK_CUDA_HANDLE_H

#include <stdbool.h>
#include <stddef.h>

/* A set of addresses: open addressing, power-of-two capacity. Starts as {0}. */
struct handle_set {
  const void **slots;
  size_t capacity;
  size_t filled; /* live and removed slots */
};

/* False if there is no memory. Adding twice is adding once. */
bool handle_add(struct handle_set *set, const void *handle);
void handle_remove(struct handle_set *set, const void *handle);
bool handle_is_live(const struct handle_set *set, const void *handle);

#endif
