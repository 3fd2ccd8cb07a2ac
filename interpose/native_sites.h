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
  /* What native_site_is_at looks at: the return address, and where above the CFA the others lie. 0:
   * the frames are not of constant size, or more, or an object may lie elsewhere by now. */
  _Atomic uintptr_t key;
  uint32_t at[NATIVE_SITE_FRAMES - 1];
  uint32_t id; /* equal on all ranks; 0: unknown */
  uintptr_t above[NATIVE_SITE_FRAMES - 1];
  /* The one that a thread was seen to come to after this one; never NULL. */
  _Atomic(struct native_site *) next;
  bool is_record; /* of the table of sites (native_sites.c) */
};
_Static_assert(sizeof(struct native_site) <= 64, "one cache line");

/* A word of the stack, in a register: so one register is enough for all that is compared, and the
 * wrappers need not save any. */
static inline __attribute__((always_inline)) uintptr_t native_word(uintptr_t at) {
  uintptr_t word = *(const uintptr_t *)at;
  __asm__("" : "+r"(word));
  return word;
}

/* Whether the call is that site's for certain. What lies above one frame is read only if that frame
 * is the one that was seen there. */
static inline __attribute__((always_inline)) bool
native_site_is_at(const struct native_site *site, uintptr_t return_address, uintptr_t cfa) {
  uintptr_t key = atomic_load_explicit(&site->key, memory_order_relaxed);
  return key == return_address && native_word(cfa + site->at[0]) == site->above[0] &&
         native_word(cfa + site->at[1]) == site->above[1] &&
         native_word(cfa + site->at[2]) == site->above[2];
}
_Static_assert(NATIVE_SITE_FRAMES == 4, "one line above for each but the caller");

/* The site of a call; NULL: unknown, or there is no room for more of them. `after`: the site of the
 * thread's call before, for which it is noted. *id: also without a site. */
struct native_site *native_site_find(const struct native_caller *caller, struct native_site *after,
                                     uint32_t *id);

/* To be called before an object is opened: if any has been closed, other code may come to lie at
 * its addresses. */
void native_sites_expect_opening(void);

#endif
