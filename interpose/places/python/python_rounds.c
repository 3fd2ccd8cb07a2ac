/* Iterators on the stacks of frames (python_rounds.h). */
#include "interpose/places/python/python_rounds.h"

#include "core/place/place_rounds.h"
#include "interpose/places/python/python_memory.h"

/* PyTypeObject, Include/cpython/object.h: equal in all versions. What has it is an iterator, and
 * nothing else that a statement keeps on the stack while a loop runs in it: a `with` keeps what it
 * calls at its end. */
enum { TYPE_ITERNEXT = 224 };

/* Objects/listobject.c, tupleobject.c: how many the iterator has given, and of what. enumobject.c: the
 * number that comes next, and the iterator. */
enum { COUNTER = 16, ITERATED = 24 };

/* Objects/rangeobject.c: before 3.12 how many have been given, where it begins, the step, and how many
 * there are; since then the next number, the step, and how many are left. */
enum { RANGE_WORDS = 4 };

enum { STACK_MAX = 64, TAGS = 3 };

/* The address of the lowest value on a frame's stack; 0: not known. */
static uint64_t stack_of(const struct python_layout *layout, const struct python_frame *frame) {
  uint64_t at = frame->address + layout->at.frame_stack;
  if (layout->at.code_locals == 0)
    return python_memory_word(at);
  uint32_t nlocals;
  if (!python_memory_read(&nlocals, frame->code + layout->at.code_locals, sizeof(nlocals)) ||
      nlocals > UINT16_MAX)
    return 0;
  return at + nlocals * sizeof(uint64_t);
}

static uint32_t as_round(uint64_t number) {
  return number <= PLACE_ROUND_MAX ? (uint32_t)number : 0;
}

/* Since 3.12 numbers count instead of rounds: they begin alike on all ranks, mostly (settle_levels). */
static struct place_round round_of_range(const struct python_layout *layout, uint64_t object) {
  int64_t words[RANGE_WORDS];
  if (!python_memory_read(words, object + COUNTER, sizeof(words)))
    return (struct place_round){0};
  if (layout->minor < 12)
    return (struct place_round){as_round((uint64_t)words[0]), as_round((uint64_t)words[3])};
  int64_t next = words[0], step = words[1], left = words[2];
  if (step <= 0 || next < 0 || left < 0 || next > INT32_MAX || left > INT32_MAX)
    return (struct place_round){0};
  return (struct place_round){as_round((uint64_t)(next / step)),
                              as_round((uint64_t)(next / step + left))};
}

/* Whether the program has it, too, and may take from it beside the loop, or the enumerate, that has it.
 * Include/object.h: the count of references is the first thing in an object; since 3.12 its lower half. */
static bool is_shared(uint64_t object) {
  return (uint32_t)python_memory_word(object) != 1;
}

/* Of an iterator of these types. */
static struct place_round round_of(const struct python_layout *layout, uint64_t object,
                                   uint64_t type) {
  if (is_shared(object))
    return (struct place_round){0};
  uint64_t of = python_memory_word(object + ITERATED);
  struct place_round round = {as_round(python_memory_word(object + COUNTER)), 0};
  if (type == layout->range_iterator)
    return round_of_range(layout, object);
  if (type == layout->list_iterator || type == layout->tuple_iterator)
    return (struct place_round){round.number, as_round(python_memory_word(of + PYTHON_SIZE))};
  return (struct place_round){0};
}

static struct place_round round_of_any(const struct python_layout *layout, uint64_t object,
                                       uint64_t type) {
  if (type != layout->enumerate)
    return round_of(layout, object, type);
  if (is_shared(object))
    return (struct place_round){0};
  uint64_t of = python_memory_word(object + ITERATED);
  struct place_round round = round_of(layout, of, python_memory_word(of + PYTHON_TYPE));
  return round.number != 0
             ? round
             : (struct place_round){as_round(python_memory_word(object + COUNTER)), 0};
}

void python_rounds(const struct python_layout *layout, const struct python_frame *frame,
                   const uint8_t *iterators, uint32_t n, struct place_round *rounds) {
  uint32_t most = 0, found = 0;
  for (uint32_t i = 0; i < n; i++) {
    rounds[i] = (struct place_round){0};
    most = iterators[i] > most ? iterators[i] : most;
  }
  uint64_t stack = most == 0 ? 0 : stack_of(layout, frame);
  for (uint32_t slot = 0; stack != 0 && found < most && slot < STACK_MAX; slot++) {
    uint64_t object = python_memory_word(stack + slot * sizeof(uint64_t)) & ~(uint64_t)TAGS;
    uint64_t type = object == 0 ? 0 : python_memory_word(object + PYTHON_TYPE);
    if (type == 0 || python_memory_word(type + TYPE_ITERNEXT) == 0)
      continue;
    found++;
    for (uint32_t i = 0; i < n; i++)
      if (iterators[i] == found)
        rounds[i] = round_of_any(layout, object, type);
  }
}
