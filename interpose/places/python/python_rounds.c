/* Iterators on the stacks of frames (python_rounds.h). */
#include "interpose/places/python/python_rounds.h"

#include "core/place/place_rounds.h"
#include "interpose/places/python/python_code.h"
#include "interpose/places/python/python_loops.h"
#include "interpose/places/python/python_memory.h"

/* PyTypeObject, Include/cpython/object.h: equal in all versions. What has it is an iterator, and
 * nothing else that a statement keeps on the stack while a loop runs in it: a `with` keeps what it
 * calls at its end. */
enum { TYPE_ITERNEXT = 224 };

/* Objects/listobject.c, tupleobject.c: how many the iterator has given, and of what. enumobject.c:
 * the number that comes next, and the iterator. */
enum { COUNTER = 16, ITERATED = 24 };

/* Python/bltinmodule.c: how many iterators there are, and the tuple of them. Objects/dictobject.c:
 * how many entries there are, and how many are left. Of what goes backwards (listobject.c,
 * enumobject.c) COUNTER is the index that comes next. */
enum { DICT_USED = 24, DICT_LEFT = 48, ZIPPED_MAX = 8 };

/* Objects/rangeobject.c: before 3.12 how many have been given, where it begins, the step, and how
 * many there are; since then the next number, the step, and how many are left. */
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

/* How a word is read: of the calling thread's own frames, and of objects that these hold, plainly.
 * What reads is compiled for either, as it is on the fast path. */
typedef uint64_t load_word(uint64_t address);

PYTHON_INLINE uint64_t load_plainly(uint64_t address) {
  return python_load(address);
}

/* Since 3.12 numbers count instead of rounds: they begin alike on all ranks, mostly
 * (settle_levels). */
PYTHON_INLINE struct place_round round_of_range(const struct python_layout *layout, uint64_t object,
                                                load_word *load) {
  int64_t words[RANGE_WORDS];
  for (int i = 0; i < RANGE_WORDS; i++)
    words[i] = (int64_t)load(object + COUNTER + (uint64_t)i * sizeof(words[0]));
  if (layout->minor < 12)
    return (struct place_round){as_round((uint64_t)words[0]), as_round((uint64_t)words[3])};
  int64_t next = words[0], step = words[1], left = words[2];
  if (step == 0 || next < -INT32_MAX || left < 0 || next > INT32_MAX || left > INT32_MAX)
    return (struct place_round){0};
  if (step < 0 || (next < step && left <= -next / step)) /* it goes down, or ends below 0 */
    return place_round_left(left);
  if (next < step)
    return (struct place_round){0};
  return (struct place_round){as_round((uint64_t)(next / step)),
                              as_round((uint64_t)(next / step + left))};
}

/* Whether the program has it, too, and may take from it beside the loop, or the enumerate, that has
 * it. Include/object.h: the count of references is the first thing in an object; since 3.12 its
 * lower half. */
static bool is_shared(uint64_t object) {
  return (uint32_t)python_memory_word(object) != 1;
}

static bool is_one_of(uint64_t type, const uint64_t *types, uint32_t n) {
  bool is = false;
  for (uint32_t i = 0; i < n; i++)
    is |= types[i] == type;
  return is && type != 0;
}

static bool is_of_dict(const struct python_layout *layout, uint64_t type) {
  return is_one_of(type, layout->dict_iterators, 6);
}

static bool is_reverse(const struct python_layout *layout, uint64_t type) {
  return is_one_of(type, layout->reverse_iterators, 2);
}

/* Of an iterator that counts. */
PYTHON_INLINE struct place_round round_of(const struct python_layout *layout, uint64_t object,
                                          uint64_t type, load_word *load) {
  if (type == layout->range_iterator)
    return round_of_range(layout, object, load);
  bool is_sequence = type == layout->list_iterator || type == layout->tuple_iterator;
  if (!is_sequence && is_of_dict(layout, type)) {
    uint64_t used = load(object + DICT_USED);
    return (struct place_round){as_round(used - load(object + DICT_LEFT)), as_round(used)};
  }
  if (!is_sequence)
    return place_round_left((int64_t)load(object + COUNTER) + 1); /* is_reverse */
  uint64_t of = load(object + ITERATED);
  return (struct place_round){as_round(load(object + COUNTER)),
                              of == 0 ? 0 : as_round(load(of + PYTHON_SIZE))};
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

/* ---- which object counts ---- */

static bool is_counting(const struct python_layout *layout, uint64_t type) {
  return type != 0 &&
         (type == layout->range_iterator || type == layout->list_iterator ||
          type == layout->tuple_iterator || is_of_dict(layout, type) || is_reverse(layout, type));
}

/* Of a zip whose iterators all count: that of the first one, and as many more as all have. */
PYTHON_INLINE struct place_round round_of_zip(const struct python_layout *layout, uint64_t object,
                                              load_word *load) {
  uint64_t n = load(object + COUNTER), items = load(object + ITERATED) + layout->at.tuple_items;
  struct place_round made = {0};
  uint32_t left = UINT32_MAX;
  for (uint64_t i = 0; i < n && n <= ZIPPED_MAX; i++) {
    uint64_t within = load(items + i * sizeof(uint64_t)), type = load(within + PYTHON_TYPE);
    struct place_round round = {0};
    if (is_counting(layout, type))
      round = round_of(layout, within, type, load);
    if (round.number == 0 || round.total < round.number)
      return (struct place_round){0};
    made.number = i == 0 ? round.number : made.number;
    left = round.total - round.number < left ? round.total - round.number : left;
  }
  return (struct place_round){made.number, made.number == 0 ? 0 : as_round(made.number + left)};
}

/* Whether nobody else has one of a zip's iterators. */
static bool is_zip_alone(const struct python_layout *layout, uint64_t object) {
  uint64_t n = python_memory_word(object + COUNTER),
           items = python_memory_word(object + ITERATED) + layout->at.tuple_items;
  for (uint64_t i = 0; i < n && n <= ZIPPED_MAX; i++)
    if (is_shared(python_memory_word(items + i * sizeof(uint64_t))))
      return false;
  return n != 0 && n <= ZIPPED_MAX;
}

static bool hold_object(struct python_loop *loop, uint64_t at, uint64_t object) {
  if (object == 0 || loop->nheld == PYTHON_HELD_MAX)
    return false;
  loop->held[loop->nheld++] =
      (struct python_held){at, object, python_memory_word(object + PYTHON_TYPE)};
  return true;
}

/* The frame of a generator that waits to be asked for more. Before 3.11 it is an object of its own.
 */
static bool frame_of(const struct python_layout *layout, uint64_t generator,
                     struct python_frame *frame, struct python_loop *loop) {
  uint8_t bytes[UINT8_MAX];
  frame->address = generator + layout->at.generator_frame;
  if (layout->minor < 11) {
    uint64_t at = frame->address;
    frame->address = python_memory_word(at);
    if (!hold_object(loop, at, frame->address))
      return false;
  }
  return python_memory_read(bytes, frame->address, layout->at.frame_size) &&
         python_frame_of(&layout->at, layout->minor, bytes, frame) &&
         python_memory_word(frame->code + PYTHON_TYPE) == layout->code_type &&
         hold_object(loop, frame->address + layout->at.frame_code, frame->code);
}

static bool passes_on(const struct python_layout *layout, const struct python_frame *frame) {
  struct python_code *code = python_code_read(layout, frame->code);
  bool passes =
      code != NULL &&
      python_loops_gives(layout, code, python_code_instruction(layout, code, frame->where));
  python_code_free(code);
  return passes;
}

static bool follow_iterator(const struct python_layout *layout, uint64_t at, uint64_t object,
                            struct python_loop *loop);

static bool follow_generator(const struct python_layout *layout, uint64_t generator,
                             struct python_loop *loop) {
  struct python_frame frame;
  uint64_t object;
  uint32_t slot = 0;
  if (!frame_of(layout, generator, &frame, loop) || !passes_on(layout, &frame))
    return false;
  uint64_t stack = stack_of(layout, &frame);
  uint64_t at = stack == 0 ? 0 : next_iterator(stack, &slot, &object);
  return at != 0 && follow_iterator(layout, at, object, loop);
}

/* From the iterator that lies there to what counts. An enumerate counts itself where nothing within
 * does. */
static bool follow_iterator(const struct python_layout *layout, uint64_t at, uint64_t object,
                            struct python_loop *loop) {
  uint8_t before = loop->nheld;
  if (is_shared(object) || !hold_object(loop, at, object))
    return false;
  uint8_t here = loop->nheld;
  uint64_t type = loop->held[before].type, within = object + ITERATED;
  bool counts = is_counting(layout, type) ||
                (type != 0 && type == layout->zip && is_zip_alone(layout, object));
  if (type != 0 && type == layout->generator)
    counts = follow_generator(layout, object, loop);
  if (type != 0 && type == layout->enumerate) {
    if (!follow_iterator(layout, within, python_memory_word(within), loop))
      loop->nheld = here;
    counts = true;
  }
  loop->nheld = counts ? loop->nheld : before;
  return counts;
}

/* Whether all is still held as it was. What is held by something else has not been freed as long as
 * that is there. */
PYTHON_INLINE bool is_held(const struct python_loop *loop, load_word *load) {
  for (uint32_t i = 0; i < loop->nheld; i++) {
    const struct python_held *held = &loop->held[i];
    if ((load(held->at) & ~(uint64_t)TAGS) != held->object ||
        load(held->object + PYTHON_TYPE) != held->type)
      return false;
  }
  return loop->nheld > 0;
}

PYTHON_INLINE struct place_round round_of_held(const struct python_layout *layout,
                                               const struct python_loop *loop, load_word *load) {
  const struct python_held *last = &loop->held[loop->nheld - 1];
  if (last->type == layout->enumerate)
    return (struct place_round){as_round(load(last->object + COUNTER)), 0};
  if (last->type == layout->zip)
    return round_of_zip(layout, last->object, load);
  return round_of(layout, last->object, last->type, load);
}

static struct place_round round_at(const struct python_layout *layout, uint64_t at, uint64_t object,
                                   struct python_loop *loop) {
  loop->nheld = 0;
  return follow_iterator(layout, at, object, loop) ? round_of_held(layout, loop, python_memory_word)
                                                   : (struct place_round){0};
}

/* ---- of the iterators of a frame ---- */

void python_rounds(const struct python_layout *layout, const struct python_frame *frame,
                   const uint8_t *iterators, uint32_t n, struct place_round *rounds) {
  uint32_t most = 0, slot = 0;
  uint64_t object;
  struct python_loop loop;
  for (uint32_t i = 0; i < n; i++) {
    rounds[i] = (struct place_round){0};
    most = iterators[i] > most ? iterators[i] : most;
  }
  uint64_t stack = most == 0 ? 0 : stack_of(layout, frame);
  for (uint32_t found = 1; stack != 0 && found <= most; found++) {
    uint64_t at = next_iterator(stack, &slot, &object);
    if (at == 0)
      return;
    for (uint32_t i = 0; i < n; i++)
      if (iterators[i] == found)
        rounds[i] = round_at(layout, at, object, &loop);
  }
}

/* Looks for the iterator of the loop. */
static __attribute__((noinline)) struct place_round look_again(const struct python_layout *layout,
                                                               const struct python_frame *frame,
                                                               struct python_loop *loop) {
  uint64_t stack = stack_of(layout, frame), at = 0, object = 0;
  uint32_t slot = 0, found = 0;
  while (stack != 0 && found++ < loop->iterator)
    if ((at = next_iterator(stack, &slot, &object)) == 0)
      break;
  if (at == 0)
    return (struct place_round){0};
  return round_at(layout, at, object, loop);
}

struct place_round python_rounds_again(const struct python_layout *layout,
                                       const struct python_frame *frame, struct python_loop *loop,
                                       bool is_own) {
  if (is_own && is_held(loop, load_plainly))
    return round_of_held(layout, loop, load_plainly);
  if (!is_own && is_held(loop, python_memory_word))
    return round_of_held(layout, loop, python_memory_word);
  return look_again(layout, frame, loop);
}
