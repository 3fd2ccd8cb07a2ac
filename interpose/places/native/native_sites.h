/* Calls known by the return addresses on the stack: their ids, found again without unwinding.
 *
 * A site is a call's return address and those of the frames above. It is compared word by word with
 * what lies on the stack, so functions that all calls go through do not hide who called them. Where
 * on the stack the words lie is read once, from the unwind tables (native_frames.h).
 *
 * Sites are shared by all threads and never freed; there is a bounded number of them.
 */
#ifndef NCCL_JOIN_INTERPOSE_NATIVE_SITES_H
#define NCCL_JOIN_INTERPOSE_NATIVE_SITES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Of how many of the program's frames the id is made at most: the caller and those above. Who asks
 * may have it end with an object that says itself who has called it, once the id is made of
 * NATIVE_INNER_FRAMES. Of more frames than NATIVE_SITE_FRAMES there is no site: each call walks. */
#define NATIVE_ID_FRAMES 512u
#define NATIVE_SITE_FRAMES 64u
#define NATIVE_INNER_FRAMES 4u

/* Whether the object loaded at `base` says itself who has called it. */
typedef bool native_tells(uintptr_t base);

/* The state of whoever called a function, as it will be when the function has returned. */
struct native_caller {
  uintptr_t pc; /* the return address */
  uintptr_t sp; /* the stack pointer: the function's CFA */
  uintptr_t fp; /* the frame pointer register */
};

/* Where a function that keeps a frame has saved its caller's frame pointer, from its CFA; 0: not
 * the same in all functions. And where any function's return address lies. */
#ifdef __x86_64__
#define NATIVE_POINTER_AT (-16)
#define NATIVE_RETURN_AT (-8)
#else
#define NATIVE_POINTER_AT 0
#define NATIVE_RETURN_AT 0 /* where counters are not known */
#endif

#define NATIVE_NO_POINTER INT32_MIN

/* Behind the last of the frames above. */
#define NATIVE_NO_MORE INT32_MIN

/* A frame above, and where on the stack its return address lies. */
struct native_above {
  uintptr_t pc; /* the return address */
  int32_t at;   /* from the CFA, or from where the frame pointer leads; NATIVE_NO_MORE */
  /* Where the frame pointer lies by which the frame is found, from where the one before led;
   * NATIVE_NO_POINTER: it lies where all those before it make it. */
  int32_t pointer_at;
};

/* The same as it was when the site was learnt, all from the CFA. Where a frame has no pointer, that
 * of the one before once more. */
struct native_then {
  uintptr_t pc;
  intptr_t pointer_at, leads_to; /* where the pointer lies, and where it leads */
  intptr_t at;                   /* where the return address lies; NATIVE_NO_MORE */
};

/* So many of the frames above are compared without a loop. */
#define NATIVE_NEAR_FRAMES 3u

/* A bit that the addresses of no program's code have. */
#define NATIVE_WATCHED ((uintptr_t)1 << (sizeof(uintptr_t) * 8 - 2))

struct native_site {
  /* Which comparison is for this site.
   *   the return address   native_site_is_at
   *   its complement       native_site_is_chained_at: a frame is found by its frame pointer
   *   0                    none: an object may lie elsewhere by now
   * While it is watched, NATIVE_WATCHED is turned round in it. */
  _Atomic uintptr_t key;
  _Atomic bool is_watched;   /* native_site_watch */
  _Atomic bool is_described; /* native_site_tell */
  /* Of a site that is watched: where the loop's counter lies as the call is made (struct
   * native_place_of); with NATIVE_AND_OUTER that of the loop in the outermost one, whose own
   * counter is `outer`; and what they were when a thread last took note of it
   * (native_counters_mixed), below the thread's number (guard.h). */
  _Atomic uint8_t counter_in, outer_in;
  _Atomic int32_t counter_at, outer_at;
  _Atomic uint64_t counter;
  uint32_t id;    /* equal on all ranks; 0: unknown */
  bool is_record; /* of the table of sites (native_sites.c) */
  bool is_deep;   /* there are more frames above than the near ones */
  /* The innermost of `above` and `then`. Where there are fewer, the last one is compared again. */
  struct native_above near[NATIVE_NEAR_FRAMES];
  struct native_then near_then[NATIVE_NEAR_FRAMES];
  const struct native_above *above; /* from the innermost outward */
  const struct native_then *then;   /* of each the same */
  uintptr_t top;                    /* the end of the last of `then`, from the CFA */
  /* The two sites that threads were last seen to come to after this one; never NULL. */
  _Atomic(struct native_site *) next, other;
};

/* A word of the stack, in a register: so one register is enough for all that is compared, and the
 * wrappers need not save any. */
static inline __attribute__((always_inline)) uintptr_t native_word(uintptr_t at) {
  uintptr_t word = *(const uintptr_t *)at;
  __asm__("" : "+r"(word));
  return word;
}

static inline __attribute__((always_inline)) bool
native_returns_there(const struct native_above *above, uintptr_t cfa) {
  return native_word(cfa + (uintptr_t)(intptr_t)above->at) == above->pc;
}

/* Whether the call is that site's for certain. What lies above one frame is read only if that frame
 * is the one that was seen there. */
static inline __attribute__((always_inline)) bool
native_site_is_at(const struct native_site *site, uintptr_t return_address, uintptr_t cfa) {
  uintptr_t key = atomic_load_explicit(&site->key, memory_order_relaxed);
  if (key != return_address || !native_returns_there(&site->near[0], cfa) ||
      !native_returns_there(&site->near[1], cfa) || !native_returns_there(&site->near[2], cfa))
    return false;
  if (!site->is_deep)
    return true;
  const struct native_above *above = &site->above[NATIVE_NEAR_FRAMES];
  while (above->at != NATIVE_NO_MORE && native_returns_there(above, cfa))
    above++;
  return above->at == NATIVE_NO_MORE;
}
_Static_assert(NATIVE_NEAR_FRAMES == 3, "one comparison for each");

enum native_where {
  NATIVE_NOWHERE,
  NATIVE_IN_FRAME,
  NATIVE_IN_RBX,
  NATIVE_IN_RBP,
  NATIVE_IN_R12,
  NATIVE_IN_R13,
  NATIVE_IN_R14,
  NATIVE_IN_R15,
  NATIVE_IN_PROGRAM, /* so many bytes from what the call returns to */
  NATIVE_AND_OUTER = 1 << 4,
};

struct native_place_of {
  uint8_t in; /* enum native_where */
  int32_t at; /* in the frame so far above the CFA; in the program from what the call returns to */
};

/* The lower halves of two counters, as one. */
static inline uint32_t native_counters_mixed(uint32_t outer, uint32_t within) {
  return outer * UINT32_C(0x9e3779b1) + within;
}

/* The lower half of a counter. False: it lies nowhere that is known. has_frame: the function of
 * that CFA keeps a frame. Only in a file that leaves the program's registers alone (places.h). */
static inline __attribute__((always_inline)) bool native_counter_read(uint8_t in,
                                                                      const _Atomic int32_t *at,
                                                                      uintptr_t cfa, bool has_frame,
                                                                      uint64_t *value) {
#if defined(PLACES_KEEPS_REGISTERS) && defined(__x86_64__)
  switch (in) {
  case NATIVE_IN_FRAME:
    *value = *(const uint32_t *)(cfa + (uintptr_t)(intptr_t)atomic_load_explicit(
                                           at, memory_order_relaxed));
    return true;
  case NATIVE_IN_RBX:
    __asm__ volatile("mov %%ebx, %k0" : "=r"(*value));
    return true;
  case NATIVE_IN_RBP: /* a function that keeps a frame has put it on the stack */
    if (!has_frame)
      __asm__ volatile("mov %%ebp, %k0" : "=r"(*value));
    else
      *value = *(const uint32_t *)(cfa + (uintptr_t)NATIVE_POINTER_AT);
    return true;
  case NATIVE_IN_R12:
    __asm__ volatile("mov %%r12d, %k0" : "=r"(*value));
    return true;
  case NATIVE_IN_R13:
    __asm__ volatile("mov %%r13d, %k0" : "=r"(*value));
    return true;
  case NATIVE_IN_R14:
    __asm__ volatile("mov %%r14d, %k0" : "=r"(*value));
    return true;
  case NATIVE_IN_R15:
    __asm__ volatile("mov %%r15d, %k0" : "=r"(*value));
    return true;
  case NATIVE_IN_PROGRAM:
    *value =
        *(const uint32_t *)(native_word(cfa + (uintptr_t)NATIVE_RETURN_AT) +
                            (uintptr_t)(intptr_t)atomic_load_explicit(at, memory_order_relaxed));
    return true;
  default:
    return false;
  }
#else
  (void)in, (void)at, (void)cfa, (void)has_frame, (void)value;
  return false;
#endif
}

/* Of a site with NATIVE_AND_OUTER. No part of the path of others. */
__attribute__((noinline, unused)) static bool native_counters_read(const struct native_site *site,
                                                                   uintptr_t cfa, bool has_frame,
                                                                   uint64_t *value) {
  uint64_t outer, within;
  uint8_t in = atomic_load_explicit(&site->counter_in, memory_order_relaxed);
  if (!(in & NATIVE_AND_OUTER) ||
      !native_counter_read(in & ~NATIVE_AND_OUTER, &site->counter_at, cfa, has_frame, &within) ||
      !native_counter_read(atomic_load_explicit(&site->outer_in, memory_order_relaxed),
                           &site->outer_at, cfa, has_frame, &outer))
    return false;
  *value = native_counters_mixed((uint32_t)outer, (uint32_t)within);
  return true;
}

/* Whether the site's loops are in the rounds in which the thread last took note of it. thread: its
 * number, in the upper half. As native_counter_read. */
static inline __attribute__((always_inline)) bool
native_site_is_in_round(const struct native_site *site, uintptr_t cfa, uint64_t thread,
                        bool has_frame) {
  uint64_t value = 0;
  uint8_t in = atomic_load_explicit(&site->counter_in, memory_order_relaxed);
  if (!native_counter_read(in, &site->counter_at, cfa, has_frame, &value) &&
      !native_counters_read(site, cfa, has_frame, &value))
    return false;
  return (thread | value) == atomic_load_explicit(&site->counter, memory_order_relaxed);
}

/* Comes before a thread's first call, and before any behind a call without a site. */
extern __attribute__((visibility("hidden"))) struct native_site native_site_nowhere;

/* A stack: its bounds. */
struct native_bounds {
  uintptr_t low, size; /* where words may begin; 0: not known */
};

/* native_site_is_at where frames are found by their frame pointers, as they are saved one in the
 * other; the caller's by the function whose CFA this is (NATIVE_POINTER_AT). Nothing is read
 * outside of the stack above the CFA. */
static inline __attribute__((always_inline)) bool
native_site_is_chained_at(const struct native_site *site, uintptr_t return_address, uintptr_t cfa,
                          const struct native_bounds *stack) {
  uintptr_t key = atomic_load_explicit(&site->key, memory_order_relaxed);
  uintptr_t below = cfa - stack->low, left = stack->size - below, base = 0; /* from the CFA */
  if (key != ~return_address || below >= stack->size)
    return false;
  for (const struct native_above *above = site->above; above->at != NATIVE_NO_MORE; above++) {
    if (above->pointer_at != NATIVE_NO_POINTER)
      base = native_word(cfa + base + (uintptr_t)(intptr_t)above->pointer_at) - cfa;
    uintptr_t slot = base + (uintptr_t)(intptr_t)above->at;
    if (slot >= left || native_word(cfa + slot) != above->pc)
      return false;
  }
  return true;
}

static inline __attribute__((always_inline)) bool native_is_as_then(const struct native_then *then,
                                                                    uintptr_t cfa) {
  return native_word(cfa + (uintptr_t)then->pointer_at) - cfa == (uintptr_t)then->leads_to &&
         native_word(cfa + (uintptr_t)then->at) == then->pc;
}

/* native_site_is_chained_at for the case that all frames are as large as when the site was learnt,
 * as those are that have no object of another size each time. False otherwise. */
static inline __attribute__((always_inline)) bool
native_site_is_as_then(const struct native_site *site, uintptr_t return_address, uintptr_t cfa,
                       const struct native_bounds *stack) {
  uintptr_t key = atomic_load_explicit(&site->key, memory_order_relaxed);
  uintptr_t below = cfa - stack->low;
  if (key != ~return_address || below >= stack->size || below + site->top > stack->size ||
      !native_is_as_then(&site->near_then[0], cfa) ||
      !native_is_as_then(&site->near_then[1], cfa) || !native_is_as_then(&site->near_then[2], cfa))
    return false;
  if (!site->is_deep)
    return true;
  const struct native_then *then = &site->then[NATIVE_NEAR_FRAMES];
  while (then->at != NATIVE_NO_MORE && native_is_as_then(then, cfa))
    then++;
  return then->at == NATIVE_NO_MORE;
}

/* The site of a call; NULL: unknown, or there is no room for more of them. `after`: the site of the
 * thread's call before, for which it is noted. *id: also without a site. tells: which object ends
 * the id; NULL: none does. A site that such an object ends has no key. */
struct native_site *native_site_find(const struct native_caller *caller, struct native_site *after,
                                     native_tells *tells, uint32_t *id);

/* Whether a loop around the site says its rounds. Then each call there is to be looked at by who
 * asks for the site. */
void native_site_tell(struct native_site *site, bool says_rounds);

/* To be called before an object is opened: if one has been closed, other code may come to lie at
 * its addresses, and no site counts until it has been looked at again. */
void native_sites_expect_opening(void);

#endif
