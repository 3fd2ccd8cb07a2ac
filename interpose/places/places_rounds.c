/* In which rounds of the outer loops around it a call is made (places.h). What a place says of it
 * is remembered by the place's id; the number is read again. */
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
  uint32_t levels; /* of so many loops the number is read again */
  union {
    struct python_loop in[PLACE_LEVELS];
    struct native_loop native[PLACE_LEVELS]; /* LOOP_NATIVE */
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

static void find_loops(struct kept *to) {
  if (is_native()) {
    to->of = LOOP_NATIVE;
    to->levels = places_native_loops(to->native);
  } else if (places_are_missed()) {
    to->of = LOOP_OWN;
    to->levels = python_call_loops(to->in);
  } else {
    to->of = LOOP_WAITING;
    to->levels = python_waiting_loops(to->in);
  }
  if (to->levels == 0)
    to->of = LOOP_NONE;
}

/* Looks at the place, which has this id. */
static bool look_at_place(struct kept *to, uint32_t id) {
  struct place place;
  struct place_begin begin;
  *to = (struct kept){.id = 0};
  if (!places_describe(&place) || place.id != id || place.nnodes == 0)
    return false;
  *to = (struct kept){.id = id};
  if (!place_round_begins(&place, 0, &begin))
    return true;
  find_loops(to);
  if (to->of == LOOP_NATIVE)
    to->sp = places_caller.sp;
  else if (to->of != LOOP_NONE)
    to->looks = python_waiting_looks();
  uint32_t level = 0;
  for (; level < to->levels && place_round_begins(&place, level, &begin); level++) {
    to->round.of[level].loop = begin.place.id;
    to->round.of[level].number = begin.number;
    to->round.of[level].total = place_epoch(place.rounds, level).total;
    to->round.of[level].comes = begin.comes;
  }
  to->levels = level;
  to->round.each = place_is_of_each_epoch(&place);
  return true;
}

/* What the loop at a level says now. False: it is not there any more. */
static bool read_loop(struct kept *of, uint32_t level, const struct native_entry *entry,
                      struct place_round *round) {
  switch (of->of) {
  case LOOP_NATIVE:
    *round = native_loop_round(&of->native[level], native_loop_value(&of->native[level], entry));
    return true;
  case LOOP_OWN:
    return python_loop_round(&of->in[level], round);
  case LOOP_WAITING:
    return python_waiting_round(&of->in[level], round);
  case LOOP_NONE:
    break;
  }
  return false;
}

/* Reads the numbers again. False: it has to be looked at; so, too, in another round around a loop,
 * which may have another limit then. */
static bool read_again(struct kept *of) {
  const struct native_entry entry = places_entry();
  uint32_t looks = of->of == LOOP_NATIVE ? 0 : python_waiting_looks(), around = 0;
  if (of->of == LOOP_NONE || (of->of == LOOP_WAITING && of->looks == looks))
    return true;
  if (of->of == LOOP_NATIVE &&
      of->sp != entry.sp) /* otherwise its frame is there, as all between */
    return false;
  for (uint32_t level = 0; level < of->levels; level++) {
    struct place_round round;
    if (!read_loop(of, level, &entry, &round) || round.number == 0)
      return false;
    uint32_t number = place_number_of((struct place_numbers){round.number, around});
    if (level + 1 < of->levels && number != of->round.of[level].number)
      return false;
    of->round.of[level].number = around = number;
  }
  if (of->of != LOOP_NATIVE)
    of->looks = looks;
  return true;
}

static struct kept *kept_here(void) {
  uint32_t id = python_is_present() || is_native() ? places_current() : 0;
  return id == 0 ? NULL : find_kept(id);
}

/* It tells in which round of the loop around that is, too. */
static uint32_t innermost_number(const struct kept *of) {
  return of->levels == 0 ? 0 : of->round.of[of->levels - 1].number;
}

bool places_round(struct places_round *round, const void *asker) {
  struct kept *of = kept_here();
  uint32_t id = places_current();
  if (of == NULL || ((of->id != id || !read_again(of)) && !look_at_place(of, id)))
    return false;
  if (asker != NULL && of->asker == asker && of->noted == innermost_number(of))
    return false;
  *round = of->round;
  return true;
}

/* Where a loop's counter lies as the call is made. */
static struct native_place_of find_counter_of(const struct native_loop *loop,
                                              const struct native_entry *entry) {
  static const uint8_t wheres[] = {
      [3] = NATIVE_IN_RBX,  [5] = NATIVE_IN_RBP,  [12] = NATIVE_IN_R12,
      [13] = NATIVE_IN_R13, [14] = NATIVE_IN_R14, [15] = NATIVE_IN_R15};
  bool is_static = loop->counter.variable.reg == NATIVE_STATIC;
  uintptr_t from = is_static ? native_word(entry->sp + (uintptr_t)NATIVE_RETURN_AT) : entry->sp;
  int64_t distance = (int64_t)(loop->at - from);
  if (loop->at == 0)
    return (struct native_place_of){.in = wheres[loop->counter.variable.reg]};
  if (distance != (int32_t)distance || (!is_static && distance < 0))
    return (struct native_place_of){.in = NATIVE_NOWHERE};
  return (struct native_place_of){.in = is_static ? NATIVE_IN_PROGRAM : NATIVE_IN_FRAME,
                                  .at = (int32_t)distance};
}

/* From now on calls there in this round are not looked at. */
static void note_native(const struct kept *of) {
  static _Atomic uint32_t threads;
  struct native_site *site = guard_thread.site;
  const struct native_entry entry = places_entry();
  if (guard_thread.number == 0)
    guard_thread.number = (uint64_t)(atomic_fetch_add(&threads, 1) + 1) << 32;
  struct native_place_of counter = find_counter_of(&of->native[0], &entry);
  uint32_t value = (uint32_t)native_loop_value(&of->native[0], &entry);
  if (of->levels > 1) {
    struct native_place_of within = find_counter_of(&of->native[1], &entry);
    value = native_counters_mixed(value, (uint32_t)native_loop_value(&of->native[1], &entry));
    atomic_store_explicit(&site->outer_in, counter.in, memory_order_relaxed);
    atomic_store_explicit(&site->outer_at, counter.at, memory_order_relaxed);
    counter.in = counter.in == NATIVE_NOWHERE || within.in == NATIVE_NOWHERE
                     ? NATIVE_NOWHERE
                     : within.in | NATIVE_AND_OUTER;
    counter.at = within.at;
  }
  atomic_store_explicit(&site->counter_at, counter.at, memory_order_relaxed);
  atomic_store_explicit(&site->counter_in, counter.in, memory_order_relaxed);
  atomic_store_explicit(&site->counter, guard_thread.number | value, memory_order_relaxed);
}

void places_round_noted(const void *asker) {
  struct kept *of = kept_here();
  if (of == NULL || of->id != places_current())
    return;
  of->asker = asker;
  of->noted = innermost_number(of);
  if (of->of == LOOP_NATIVE)
    note_native(of);
}
