/* Calls known by the return addresses on the stack: their ids, found again without unwinding.
 *
 * A site is a call's return address and those of the few frames above. It is compared word by word
 * with what lies on the stack, so a function that all calls go through does not hide who called
 * it. Where on the stack the words lie is read once, from the unwind tables (native_frames.h).
 *
 * Sites are shared by all threads and never freed; there is a bounded number of them.
 */
#ifndef NCCL_JOIN_INTERPOSE_NATIVE_SITES_H
#define NCCL_JOIN_INTERPOSE_NATIVE_SITES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Of how many of the program's frames the id is made: the caller and those above. */
#define NATIVE_SITE_FRAMES 4u

/* The state of whoever called a function, as it will be when the function has returned. */
struct native_caller {
  uintptr_t pc; /* the return address */
  uintptr_t sp; /* the stack pointer: the function's CFA */
  uintptr_t fp; /* the frame pointer register */
};

struct native_site {
  /* What native_site_is_at looks at: the return address, with native_openings; and where above the
   * CFA the others lie. 0: the frames are not of constant size, or more. */
  _Atomic uintptr_t key;
  int32_t at[NATIVE_SITE_FRAMES - 1];
  uint32_t id; /* equal on all ranks; 0: unknown */
  uintptr_t above[NATIVE_SITE_FRAMES - 1];
  /* The one that a thread was seen to come to after this one; never NULL. */
  _Atomic(struct native_site *) next;
};

/* Changes with every dlopen, in its upper 16 bits: other code may lie at an address since. */
extern __attribute__((visibility("hidden"))) uint64_t native_openings;

/* Whether the call is that site's for certain. */
static inline __attribute__((always_inline)) bool
native_site_is_at(const struct native_site *site, uintptr_t return_address, uintptr_t cfa) {
  uintptr_t key = return_address ^ native_openings;
  if (atomic_load_explicit(&site->key, memory_order_relaxed) != key)
    return false;
  for (unsigned i = 0; i < NATIVE_SITE_FRAMES - 1; i++)
    if (*(const uintptr_t *)(cfa + (uintptr_t)(intptr_t)site->at[i]) != site->above[i])
      return false;
  return true;
}

/* The site of a call; NULL: unknown, or there is no room for more of them. `after`: the site of the
 * thread's call before, for which it is noted. *id: also without a site. */
struct native_site *native_site_find(const struct native_caller *caller, struct native_site *after,
                                     uint32_t *id);

#endif
