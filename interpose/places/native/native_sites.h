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

/* Where a function that keeps a frame has saved its caller's frame pointer, from its CFA; 0: not
 * the same in all functions. */
#ifdef __x86_64__
#define NATIVE_POINTER_AT (-16)
#else
#define NATIVE_POINTER_AT 0
#endif

#define NATIVE_NO_POINTER INT32_MIN

struct native_site {
  /* Which comparison is for this site.
   *   the return address   native_site_is_at
   *   its complement       native_site_is_chained_at: a frame is found by its frame pointer
   *   0                    none: there are more frames, or an object may lie elsewhere by now */
  _Atomic uintptr_t key;
  int32_t at[NATIVE_SITE_FRAMES - 1];      /* where the return addresses of the frames above lie */
  uint32_t id;                             /* equal on all ranks; 0: unknown */
  uintptr_t above[NATIVE_SITE_FRAMES - 1]; /* those return addresses */
  /* The two sites that threads were last seen to come to after this one; never NULL. */
  _Atomic(struct native_site *) next, other;
  /* Where the frame pointer lies by which the frame is found, from where the one before led;
   * NATIVE_NO_POINTER: it lies where all those before it make it. */
  int32_t pointer_at[NATIVE_SITE_FRAMES - 1];
  /* The same as it was when the site was learnt, all from the CFA: where the pointers lie, where
   * they lead, where the return addresses are, and the end of the last of those. Where a frame has
   * no pointer, a pair of another one once more. */
  struct native_then {
    intptr_t pointer_at[NATIVE_SITE_FRAMES - 1], base[NATIVE_SITE_FRAMES - 1];
    intptr_t at[NATIVE_SITE_FRAMES - 1];
    uintptr_t top;
  } then;
  bool is_record; /* of the table of sites (native_sites.c) */
};

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
  return key == return_address &&
         native_word(cfa + (uintptr_t)(intptr_t)site->at[0]) == site->above[0] &&
         native_word(cfa + (uintptr_t)(intptr_t)site->at[1]) == site->above[1] &&
         native_word(cfa + (uintptr_t)(intptr_t)site->at[2]) == site->above[2];
}
_Static_assert(NATIVE_SITE_FRAMES == 4, "one line above for each but the caller");

/* No program's code lies in the upper half of the addresses. */
static inline __attribute__((always_inline)) bool
native_site_is_chained(const struct native_site *site) {
  return (intptr_t)atomic_load_explicit(&site->key, memory_order_relaxed) < 0;
}

/* Comes before a thread's first call, and before any behind a call without a site. */
extern __attribute__((visibility("hidden"))) struct native_site native_site_nowhere;

/* A stack: its bounds. */
struct native_bounds {
  uintptr_t low, size; /* where words may begin; 0: not known */
};

/* One frame of native_site_is_chained_at. *base, from the CFA: what it lies above. Nothing is read
 * outside of the `left` bytes of stack above the CFA. */
static inline __attribute__((always_inline)) bool native_frame_is_at(const struct native_site *site,
                                                                     int i, uintptr_t cfa,
                                                                     uintptr_t left,
                                                                     uintptr_t *base) {
  if (site->pointer_at[i] != NATIVE_NO_POINTER)
    *base = native_word(cfa + *base + (uintptr_t)(intptr_t)site->pointer_at[i]) - cfa;
  uintptr_t slot = *base + (uintptr_t)(intptr_t)site->at[i];
  return slot < left && native_word(cfa + slot) == site->above[i];
}

/* The same where frames are found by their frame pointers, as they are saved one in the other; the
 * caller's by the function whose CFA this is (NATIVE_POINTER_AT). */
static inline __attribute__((always_inline)) bool
native_site_is_chained_at(const struct native_site *site, uintptr_t return_address, uintptr_t cfa,
                          const struct native_bounds *stack) {
  uintptr_t key = atomic_load_explicit(&site->key, memory_order_relaxed);
  uintptr_t below = cfa - stack->low, left = stack->size - below, base = 0;
  return key == ~return_address && below < stack->size &&
         native_frame_is_at(site, 0, cfa, left, &base) &&
         native_frame_is_at(site, 1, cfa, left, &base) &&
         native_frame_is_at(site, 2, cfa, left, &base);
}

/* Whether a pointer leads where it led when the site was learnt. */
static inline __attribute__((always_inline)) bool native_leads_there(const struct native_site *site,
                                                                     int i, uintptr_t cfa) {
  return native_word(cfa + (uintptr_t)site->then.pointer_at[i]) - cfa ==
         (uintptr_t)site->then.base[i];
}
static inline __attribute__((always_inline)) bool
native_returns_there(const struct native_site *site, int i, uintptr_t cfa) {
  return native_word(cfa + (uintptr_t)site->then.at[i]) == site->above[i];
}

/* native_site_is_chained_at for the case that all frames are as large as when the site was learnt,
 * as those are that have no object of another size each time. False otherwise. */
static inline __attribute__((always_inline)) bool
native_site_is_as_then(const struct native_site *site, uintptr_t return_address, uintptr_t cfa,
                       const struct native_bounds *stack) {
  uintptr_t key = atomic_load_explicit(&site->key, memory_order_relaxed);
  uintptr_t below = cfa - stack->low;
  return key == ~return_address && below < stack->size && below + site->then.top <= stack->size &&
         native_leads_there(site, 0, cfa) && native_returns_there(site, 0, cfa) &&
         native_leads_there(site, 1, cfa) && native_returns_there(site, 1, cfa) &&
         native_leads_there(site, 2, cfa) && native_returns_there(site, 2, cfa);
}

/* The site of a call; NULL: unknown, or there is no room for more of them. `after`: the site of the
 * thread's call before, for which it is noted. *id: also without a site. */
struct native_site *native_site_find(const struct native_caller *caller, struct native_site *after,
                                     uint32_t *id);

/* To be called before an object is opened: if one has been closed, other code may come to lie at
 * its addresses, and no site counts until it has been looked at again. */
void native_sites_expect_opening(void);

#endif
