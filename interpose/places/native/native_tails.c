/* Finds frames that tail calls have left out: see native_frames.h. */
#include "interpose/places/native/native_frames.h"

#include <string.h>

#include "interpose/places/native/native_decode.h"
#include "interpose/places/native/native_object.h"

/* Of a function that is searched: this bounds the time that a claim takes. */
enum { LOOKED_AT_MAX = 65536 };

#if defined(__x86_64__)
static native_decode *const decode = native_decode_x86_64;
enum { CALL_LENGTH = 5 };
#elif defined(__aarch64__)
static native_decode *const decode = native_decode_aarch64;
enum { CALL_LENGTH = 4 };
#else
enum { CALL_LENGTH = 1 };
static bool decode_nothing(const uint8_t *code, size_t size,
                           struct native_instruction *instruction) {
  (void)code, (void)size, (void)instruction;
  return false;
}
static native_decode *const decode = decode_nothing;
#endif

static const uint8_t *target_of(const uint8_t *at, const struct native_instruction *is) {
  return (const uint8_t *)((uintptr_t)at + (uintptr_t)is->target);
}

/* What the caller calls; NULL: it says so in a register, or in memory. */
static const uint8_t *called_by(const struct native_frame *caller) {
  struct native_instruction is;
  const uint8_t *call = (const uint8_t *)caller->pc - CALL_LENGTH;
  if (!caller->has_rule || call < (const uint8_t *)caller->rule.function ||
      !decode(call, CALL_LENGTH, &is) || is.kind != NATIVE_CALL || !is.has_target ||
      is.length != CALL_LENGTH)
    return NULL;
  return target_of(call, &is);
}

/* Ways by jumps from one function to another. */
struct search {
  const struct native_object *object;
  const struct native_frame *caller;
  const uint8_t *to;
  struct native_frame way[NATIVE_TAILS_MAX];
  struct native_frame *found; /* the first way */
  size_t length;              /* of it */
  uint32_t ways;
};

static void set_frame(struct native_frame *frame, const struct native_frame *caller,
                      struct native_part function, const uint8_t *behind) {
  *frame =
      (struct native_frame){.pc = (uintptr_t)behind, .module = caller->module, .has_rule = true};
  frame->rule.function = function.begin;
  frame->rule.function_size = (size_t)(function.end - function.begin);
}

static bool begins_function(const struct search *search, const uint8_t *at,
                            struct native_part *function) {
  bool is_moved;
  return native_function_at(search->object, at, function, &is_moved) && !is_moved &&
         function->begin == at && function->end - function->begin <= LOOKED_AT_MAX;
}

/* The next jump out of a function, at or behind *at, which comes to stand behind it. NULL: no more.
 */
static const uint8_t *next_jump(struct native_part function, const uint8_t **at) {
  struct native_instruction is;
  while (*at < function.end && decode(*at, (size_t)(function.end - *at), &is)) {
    const uint8_t *to = target_of(*at, &is);
    *at += is.length;
    if (is.has_target && (is.kind == NATIVE_JUMP || is.kind == NATIVE_BRANCH) &&
        (to < function.begin || to >= function.end))
      return to;
  }
  return NULL;
}

/* All ways are looked at, one function after the other, as deep as there is room. */
static void native_look(struct search *search, const uint8_t *from) {
  struct native_part functions[NATIVE_TAILS_MAX];
  const uint8_t *at[NATIVE_TAILS_MAX];
  size_t depth = 0;
  if (!begins_function(search, from, &functions[0]))
    return;
  at[0] = from;
  while (search->ways < 2) {
    const uint8_t *to = next_jump(functions[depth], &at[depth]);
    if (to == NULL && depth-- == 0)
      return;
    if (to == NULL)
      continue;
    set_frame(&search->way[depth], search->caller, functions[depth], at[depth]);
    if (to == search->to) {
      if (search->ways++ == 0)
        memcpy(search->found, search->way, (search->length = depth + 1) * sizeof *search->way);
    } else if (depth + 1 < NATIVE_TAILS_MAX && begins_function(search, to, &functions[depth + 1])) {
      at[++depth] = to;
    }
  }
}

size_t native_tails_find(const struct native_frame *caller, const struct native_frame *callee,
                         struct native_frame tails[NATIVE_TAILS_MAX]) {
  struct native_object object;
  const uint8_t *called = called_by(caller);
  if (called == NULL || !callee->has_rule || called == callee->rule.function ||
      !native_object_of(called, &object))
    return 0;
  struct search search = {
      .object = &object, .caller = caller, .to = callee->rule.function, .found = tails};
  native_look(&search, called);
  return search.ways == 1 ? search.length : 0;
}
