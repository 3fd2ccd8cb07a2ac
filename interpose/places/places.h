/* Where in the program the calling thread's call of NCCL stands (core/place/place.h), put together
 * from what can be seen of it: native frames, their machine code, and Python's frames.
 *
 *   thread                                 place
 *   begun by an engine's library, in a     that of the thread that waits for it, where that can be
 *   process with Python                    read (python_frames.h), and its own Python frames, if any
 *   begun by any other library, there,     unknown
 *   and without Python frames
 *   any other with Python frames           what the program does outside of Python, the chain of
 *                                          Python's frames, and one node for the native frames
 *   any other                              its native frames
 *
 * Loops of an engine or a framework are never taken for loops of the program.
 *
 * Finding a call's id (places_hit, places_here) is on the fast path: while the places come in the
 * order in which they came before, it is a comparison of the return addresses on the stack, without
 * a call, lock, allocation or system call. Describing a place reads code, and may allocate and
 * lock; that is for claims. Of an engine's thread finding takes system calls.
 *
 * All functions: any thread, each for its own call.
 */
#ifndef NCCL_JOIN_INTERPOSE_PLACES_H
#define NCCL_JOIN_INTERPOSE_PLACES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/place/place.h"
#include "interpose/self/guard.h"
#include "interpose/places/native/native_sites.h"
#include "interpose/places/native/native_frames.h"
#include "interpose/places/native/native_rounds.h"

#define PLACES_STATE extern __attribute__((visibility("hidden")))

/* Whether places are looked for; while not, all are unknown. */
static inline bool places_are_on(void) {
  return atomic_load_explicit(&guard_places, memory_order_relaxed);
}

/* Who made the call that is acted on: places_called. */
PLACES_STATE _Thread_local struct native_caller places_caller;

/* What registers that calls keep held then. */
PLACES_STATE _Thread_local struct places_kept {
  uintptr_t of[EH_KEPT]; /* rbx, r12 to r15 */
  bool is_known;
} places_kept;

/* In a file that is compiled so that it leaves these registers alone (PLACES_KEEPS_REGISTERS), they
 * are as the program's call has had them. */
static inline __attribute__((always_inline)) void places_keep(void) {
#if defined(PLACES_KEEPS_REGISTERS) && defined(__x86_64__)
  __asm__ volatile(
      "mov %%rbx, %0\n\tmov %%r12, %1\n\tmov %%r13, %2\n\tmov %%r14, %3\n\tmov %%r15, %4"
      : "=m"(places_kept.of[0]), "=m"(places_kept.of[1]), "=m"(places_kept.of[2]),
        "=m"(places_kept.of[3]), "=m"(places_kept.of[4]));
  places_kept.is_known = true;
#else
  places_kept.is_known = false;
#endif
}

/* The id that was found last. */
static inline uint32_t places_current(void) {
  return guard_thread.site->id;
}

/* Whether the call stands at one of the two sites that were seen to come after the thread's last
 * one: after the last call of a loop two may come, one inside of it and one behind. If so,
 * places_current has its id from now on. Arguments: as struct native_caller. */
static inline __attribute__((always_inline)) bool places_hit(uintptr_t return_address,
                                                             uintptr_t cfa) {
  struct native_site *last = guard_thread.site;
  struct native_site *next = atomic_load_explicit(&last->next, memory_order_acquire);
  if (!native_site_is_at(next, return_address, cfa)) {
    next = atomic_load_explicit(&last->other, memory_order_acquire);
    if (!native_site_is_at(next, return_address, cfa))
      return false;
  }
  guard_thread.site = next;
  return true;
}

/* The same for sites in a loop that says its rounds, if the thread has taken note of this one
 * there. */
static inline __attribute__((always_inline)) bool places_hit_watched(uintptr_t return_address,
                                                                     uintptr_t cfa) {
  struct native_site *last = guard_thread.site;
  struct native_site *next = atomic_load_explicit(&last->next, memory_order_acquire);
  uintptr_t key = return_address ^ NATIVE_WATCHED;
  if (!native_site_is_at(next, key, cfa)) {
    next = atomic_load_explicit(&last->other, memory_order_acquire);
    if (!native_site_is_at(next, key, cfa))
      return false;
  }
  if (!native_site_is_in_round(next, cfa, guard_thread.number, false))
    return false;
  guard_thread.site = next;
  return true;
}

/* The same for frames that are found by frame pointers. */
static inline __attribute__((always_inline)) bool places_hit_chained(uintptr_t return_address,
                                                                     uintptr_t cfa) {
  struct native_site *last = guard_thread.site;
  struct native_site *next = atomic_load_explicit(&last->next, memory_order_acquire);
  if (NATIVE_POINTER_AT == 0)
    return false;
  if (!native_site_is_as_then(next, return_address, cfa, &guard_thread.stack)) {
    next = atomic_load_explicit(&last->other, memory_order_acquire);
    if (!native_site_is_as_then(next, return_address, cfa, &guard_thread.stack))
      return false;
  }
  guard_thread.site = next;
  return true;
}

static inline __attribute__((always_inline)) bool
places_hit_chained_watched(uintptr_t return_address, uintptr_t cfa) {
  struct native_site *last = guard_thread.site;
  struct native_site *next = atomic_load_explicit(&last->next, memory_order_acquire);
  uintptr_t key = return_address ^ NATIVE_WATCHED;
  if (NATIVE_POINTER_AT == 0)
    return false;
  if (!native_site_is_as_then(next, key, cfa, &guard_thread.stack)) {
    next = atomic_load_explicit(&last->other, memory_order_acquire);
    if (!native_site_is_as_then(next, key, cfa, &guard_thread.stack))
      return false;
  }
  if (!native_site_is_in_round(next, cfa, guard_thread.number, true))
    return false;
  guard_thread.site = next;
  return true;
}

/* Which of them to ask. */
enum places_shape { PLACES_FLAT, PLACES_FLAT_WATCHED, PLACES_CHAINED };
static inline __attribute__((always_inline)) enum places_shape places_shape(void) {
  struct native_site *next = atomic_load_explicit(&guard_thread.site->next, memory_order_acquire);
  uintptr_t key = atomic_load_explicit(&next->key, memory_order_relaxed);
  if (key < NATIVE_WATCHED)
    return PLACES_FLAT;
  return (intptr_t)key < 0 ? PLACES_CHAINED : PLACES_FLAT_WATCHED;
}

/* Says who made the call that is acted on. Nothing is read of it yet. */
static inline void places_called(uintptr_t return_address, uintptr_t cfa, const uintptr_t *frame) {
  places_caller = (struct native_caller){return_address, cfa, *frame};
  places_keep();
}

/* For functions that the program's call has come to by jumps. Where the compiler has made calls of
 * the jumps, the caller seen is in our own code; that is noticed, and costs a walk. */
#define PLACES_HIT()                                                                               \
  places_hit((uintptr_t)__builtin_return_address(0), (uintptr_t)__builtin_dwarf_cfa())
#define PLACES_HIT_WATCHED()                                                                       \
  places_hit_watched((uintptr_t)__builtin_return_address(0), (uintptr_t)__builtin_dwarf_cfa())
/* The function that uses them must keep a frame of its own. */
#define PLACES_HIT_CHAINED()                                                                       \
  places_hit_chained((uintptr_t)__builtin_return_address(0),                                       \
                     (uintptr_t)__builtin_frame_address(0) - (uintptr_t)NATIVE_POINTER_AT)
#define PLACES_HIT_CHAINED_WATCHED()                                                               \
  places_hit_chained_watched((uintptr_t)__builtin_return_address(0),                               \
                             (uintptr_t)__builtin_frame_address(0) - (uintptr_t)NATIVE_POINTER_AT)
#define PLACES_CALLED()                                                                            \
  places_called((uintptr_t)__builtin_return_address(0), (uintptr_t)__builtin_dwarf_cfa(),          \
                __builtin_frame_address(0))

/* The id of the call of places_called; 0: unknown, or places are off. To be asked once for each
 * call. */
uint32_t places_here(void);

/* The whole place of the call that the calling thread is in, at any depth below it. False: nothing
 * is known, and *out is the unknown place. Of an engine's thread it is what is seen now: the id may
 * be another than before. Remembers what places_text is to say of it. */
bool places_describe(struct place *out);

/* In which rounds of loops around it a call is made: of the outermost one, and of the one in it, if
 * that has another loop around the call (place_round_begins). */
struct places_round {
  struct {
    uint32_t
        loop; /* id of the place at which its rounds begin; 0: there is none, or it does not say its rounds */
    uint32_t number; /* as in struct place_begin */
    uint32_t total;  /* place_epoch */
    bool comes;      /* each round comes to the call, or to a loop that it stands in */
  } of[PLACE_LEVELS];
  bool each; /* place_is_of_each_epoch */
};

/* Finds the rounds of the call of places_called; places_here comes first. False: its place is not
 * known, or says no rounds, or `asker` has noted this round at this place (NULL: nobody has). It
 * takes some 30 ns if the place has been asked for lately, else as long as places_describe. Of an
 * engine's thread, that has not looked again who waits for it: nothing is looked at. In
 * places_rounds.c. */
bool places_round(struct places_round *round, const void *asker);
/* False: not of this call. A few loads. */
static inline bool places_may_say_rounds(void) {
  const struct native_site *site = guard_thread.site;
  return !site->is_record || atomic_load_explicit(&site->is_watched, memory_order_relaxed) ||
         !atomic_load_explicit(&site->is_described, memory_order_relaxed);
}
void places_round_noted(const void *asker);

/* Of the place of places_describe, in native code: the outermost loops around it, so many of these
 * as say their rounds. Walks the stack. */
uint32_t places_native_loops(struct native_loop loops[PLACE_LEVELS]);
struct native_entry places_entry(void);

/* Whether the place of the call that the calling thread is in should be seen, so that users are to
 * hear of it if it is not: places are on, and the thread is not an engine's. */
bool places_are_missed(void);

/* Whether the call is made by Python code of a file whose path ends so: one of the innermost frames
 * is of it. Allocates, and copies code: to be asked once for each place. */
bool places_are_in_file(const char *end);

/* A place for messages: "train.py:41 in the loop of train.py:38", "train_epoch+0x41 (./train), in a
 * loop"; "an unknown place" for one that has not been described in this process. Returns text. */
const char *places_text(uint32_t id, char *text, size_t size);

/* Whether the place has been described in this process. */
bool places_are_described(uint32_t id);

/* Makes the text of the calling thread's place for places_text, if there is none yet. stack: its
 * own; waited_for: another thread waits for it, and where that stands counts too. The texts of the
 * first few hundred places are kept, for good. */
void places_text_remember(const struct place *place, const struct native_stack *stack,
                          bool waited_for);

#endif
