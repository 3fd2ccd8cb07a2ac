/* In which round of the outermost loop around it a call is made (places.h). What a place says of it is
 * remembered by the place's id; the number is read again. */
#include "interpose/places/places.h"

#include <stdlib.h>

#include "core/place/place_rounds.h"
#include "interpose/places/python/python_frames.h"
#include "interpose/self/thread.h"

enum { KEPT = 32 };

/* Whose frame the loop is one of. */
enum loop_of { LOOP_NONE, LOOP_OWN, LOOP_WAITING, LOOP_NATIVE };

struct kept {
  uint32_t id;
  struct places_round round;
  enum loop_of of;
  union {
    struct python_loop in;
    struct native_loop native; /* LOOP_NATIVE */
  };
  union {
    uint32_t looks; /* python_waiting_looks, when it was read */
    uintptr_t sp;   /* LOOP_NATIVE: of the call that was looked at */
  };
  /* Who has taken note of which round: places_round_noted. */
  const void *asker;
  uint32_t noted;
};

/* KEPT of them, of the thread's own, by the low bits of ids; NULL: none yet, or no memory. */
static _Thread_local struct kept *kept;

static void forget_places(void) {
  free(kept);
  kept = NULL;
}

static struct kept *find_kept(uint32_t id) {
  if (kept == NULL && (kept = calloc(KEPT, sizeof(*kept))) != NULL)
    thread_at_end(forget_places);
  return kept == NULL ? NULL : &kept[id % KEPT];
}

/* Whether it stands in native code, in a loop that may say its rounds. */
static bool is_native(void) {
  const struct native_site *site = guard_thread.site;
  return atomic_load_explicit(&site->is_watched, memory_order_relaxed) ||
         (site->is_record && !atomic_load_explicit(&site->is_described, memory_order_relaxed));
}

static enum loop_of find_loop(struct kept *kept_one) {
  if (is_native())
    return places_native_loop(&kept_one->native) ? LOOP_NATIVE : LOOP_NONE;
  if (places_are_missed())
    return python_loop(&kept_one->in) ? LOOP_OWN : LOOP_NONE;
  return python_waiting_loop(&kept_one->in) ? LOOP_WAITING : LOOP_NONE;
}

/* Looks at the place, which has this id. */
static bool look_at_place(struct kept *to, uint32_t id) {
  struct place place;
  struct place_begin begin;
  *to = (struct kept){.id = 0};
  if (!places_describe(&place) || place.id != id || place.nnodes == 0)
    return false;
  *to = (struct kept){.id = id};
  if (!place_round_begins(&place, &begin) || (to->of = find_loop(to)) == LOOP_NONE)
    return true;
  if (to->of == LOOP_NATIVE)
    to->sp = places_caller.sp;
  else
    to->looks = python_waiting_looks();
  to->round = (struct places_round){.loop = begin.place.id,
                                    .number = begin.number,
                                    .comes = begin.comes,
                                    .each = place_is_of_each_epoch(&place)};
  return true;
}

static bool read_native(struct kept *kept_one) {
  const struct native_entry entry = places_entry();
  struct place_round round = {0, 0};
  if (kept_one->sp == entry.sp) /* its frame is there, as all between */
    round = native_loop_round(&kept_one->native, native_loop_value(&kept_one->native, &entry));
  if (round.number == 0)
    return false;
  kept_one->round.number = round.number;
  return true;
}

/* Reads the number again. False: it has to be looked at. */
static bool read_again(struct kept *kept_one) {
  if (kept_one->of == LOOP_NATIVE)
    return read_native(kept_one);
  struct place_round round;
  uint32_t looks = python_waiting_looks();
  if (kept_one->of == LOOP_NONE || (kept_one->of == LOOP_WAITING && kept_one->looks == looks))
    return true;
  bool is_there = kept_one->of == LOOP_OWN ? python_loop_round(&kept_one->in, &round)
                                           : python_waiting_round(&kept_one->in, &round);
  if (!is_there || round.number == 0)
    return false;
  kept_one->round.number = round.number;
  kept_one->looks = looks;
  return true;
}

static struct kept *kept_here(void) {
  uint32_t id = python_is_present() || is_native() ? places_current() : 0;
  return id == 0 ? NULL : find_kept(id);
}

bool places_round(struct places_round *round, const void *asker) {
  struct kept *of = kept_here();
  uint32_t id = places_current();
  if (of == NULL || ((of->id != id || !read_again(of)) && !look_at_place(of, id)))
    return false;
  if (asker != NULL && of->asker == asker && of->noted == of->round.number)
    return false;
  *round = of->round;
  return true;
}

/* From now on calls there in this round are not looked at. */
static void note_native(const struct kept *of) {
  static _Atomic uint32_t threads;
  static const uint8_t wheres[] = {
      [3] = NATIVE_IN_RBX,  [5] = NATIVE_IN_RBP,  [12] = NATIVE_IN_R12,
      [13] = NATIVE_IN_R13, [14] = NATIVE_IN_R14, [15] = NATIVE_IN_R15};
  struct native_site *site = guard_thread.site;
  const struct native_entry entry = places_entry();
  uint8_t where = NATIVE_IN_FRAME;
  if (guard_thread.number == 0)
    guard_thread.number = (uint64_t)(atomic_fetch_add(&threads, 1) + 1) << 32;
  bool is_static = of->native.counter.variable.reg == NATIVE_STATIC;
  uintptr_t from = is_static ? native_word(entry.sp + (uintptr_t)NATIVE_RETURN_AT) : entry.sp;
  int64_t distance = (int64_t)(of->native.at - from);
  if (of->native.at == 0)
    where = wheres[of->native.counter.variable.reg];
  else if (distance != (int32_t)distance || (!is_static && distance < 0))
    where = NATIVE_NOWHERE;
  else if (is_static)
    where = NATIVE_IN_PROGRAM;
  if (where == NATIVE_IN_FRAME || where == NATIVE_IN_PROGRAM)
    atomic_store_explicit(&site->counter_at, (int32_t)distance, memory_order_relaxed);
  atomic_store_explicit(&site->counter_in, where, memory_order_relaxed);
  atomic_store_explicit(&site->counter,
                        guard_thread.number | (uint32_t)native_loop_value(&of->native, &entry),
                        memory_order_relaxed);
}

void places_round_noted(const void *asker) {
  struct kept *of = kept_here();
  if (of == NULL || of->id != places_current())
    return;
  of->asker = asker;
  of->noted = of->round.number;
  if (of->of == LOOP_NATIVE)
    note_native(of);
}
