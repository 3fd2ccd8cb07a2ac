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

/* How a word is read: of the calling thread's own frames, and of objects that these hold, plainly. */
typedef uint64_t load_word(uint64_t address);

static uint64_t load_plainly(uint64_t address) {
  return python_load(address);
}

/* Since 3.12 numbers count instead of rounds: they begin alike on all ranks, mostly (settle_levels). */
static struct place_round round_of_range(const struct python_layout *layout, uint64_t object,
                                         load_word *load) {
  int64_t words[RANGE_WORDS];
  for (int i = 0; i < RANGE_WORDS; i++)
    words[i] = (int64_t)load(object + COUNTER + (uint64_t)i * sizeof(words[0]));
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
static bool is_shared(uint64_t object, load_word *load) {
  return (uint32_t)load(object) != 1;
}

/* Of an iterator of these types. */
static struct place_round round_of(const struct python_layout *layout, uint64_t object,
                                   uint64_t type, load_word *load) {
  if (is_shared(object, load))
    return (struct place_round){0};
  if (type == layout->range_iterator)
    return round_of_range(layout, object, load);
  if (type != layout->list_iterator && type != layout->tuple_iterator)
    return (struct place_round){0};
  uint64_t of = load(object + ITERATED);
  return (struct place_round){as_round(load(object + COUNTER)),
                              of == 0 ? 0 : as_round(load(of + PYTHON_SIZE))};
}

static struct place_round round_of_any(const struct python_layout *layout, uint64_t object,
                                       load_word *load) {
  uint64_t type = load(object + PYTHON_TYPE);
  if (type != layout->enumerate)
    return round_of(layout, object, type, load);
  if (is_shared(object, load))
    return (struct place_round){0};
  uint64_t of = load(object + ITERATED);
  struct place_round round =
      of == 0 ? (struct place_round){0} : round_of(layout, of, load(of + PYTHON_TYPE), load);
  return round.number != 0 ? round : (struct place_round){as_round(load(object + COUNTER)), 0};
}

/* The next iterator on a stack, from a slot on; 0: there is none. */
static uint64_t next_iterator(uint64_t stack, uint32_t *slot, uint64_t *object) {
  for (; *slot < STACK_MAX; ++*slot) {
    uint64_t at = stack + *slot * sizeof(uint64_t);
    *object = python_memory_word(at) & ~(uint64_t)TAGS;
    uint64_t type = *object == 0 ? 0 : python_memory_word(*object + PYTHON_TYPE);
    if (type == 0 || python_memory_word(type + TYPE_ITERNEXT) == 0)
      continue;
    ++*slot;
    return at;
  }
  return 0;
}

void python_rounds(const struct python_layout *layout, const struct python_frame *frame,
                   const uint8_t *iterators, uint32_t n, struct place_round *rounds) {
  uint32_t most = 0, slot = 0;
  uint64_t object;
  for (uint32_t i = 0; i < n; i++) {
    rounds[i] = (struct place_round){0};
    most = iterators[i] > most ? iterators[i] : most;
  }
  uint64_t stack = most == 0 ? 0 : stack_of(layout, frame);
  for (uint32_t found = 1; stack != 0 && found <= most; found++) {
    if (next_iterator(stack, &slot, &object) == 0)
      return;
    for (uint32_t i = 0; i < n; i++)
      if (iterators[i] == found)
        rounds[i] = round_of_any(layout, object, python_memory_word);
  }
}

struct place_round python_rounds_again(const struct python_layout *layout,
                                       const struct python_frame *frame, struct python_loop *loop,
                                       bool is_own) {
  load_word *load = is_own ? load_plainly : python_memory_word;
  if (loop->slot != 0 && (load(loop->slot) & ~(uint64_t)TAGS) == loop->object)
    return round_of_any(layout, loop->object, load);
  uint64_t stack = stack_of(layout, frame);
  uint32_t slot = 0, found = 0;
  loop->slot = 0;
  while (stack != 0 && found++ < loop->iterator)
    if ((loop->slot = next_iterator(stack, &slot, &loop->object)) == 0)
      return (struct place_round){0};
  return loop->slot == 0 ? (struct place_round){0}
                         : round_of_any(layout, loop->object, python_memory_word);
}
