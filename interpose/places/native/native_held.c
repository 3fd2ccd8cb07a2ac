/* What operands of x86-64's instructions hold (native_held.h). */
#include "interpose/places/native/native_held.h"

enum { STATICS_MAX = 8 }; /* most slots are for the frame */

struct native_held native_narrowed(struct native_held held, uint32_t bits) {
  if (bits < 64 && (held.width == 0 || bits < held.width))
    held.width = (uint8_t)bits;
  return held;
}

/* What rbp leads to is no part of the frame in a function that has it for something else. */
static bool is_of_frame(const struct native_testing *testing, const struct native_operands *is) {
  return is->is_slot && (is->base == RSP || testing->use.has_pointer);
}

static bool is_in_frame(const struct native_testing *testing, const struct native_operands *is) {
  return is->is_slot && (is->base == RSP ? testing->has_depth : testing->use.has_pointer);
}

/* NULL: there are too many, or none, and none is to be added. */
static struct native_held *find_slot(struct native_testing *testing, uint32_t base, int64_t at,
                                     bool adds) {
  uint32_t i = 0;
  while (i < testing->nslots && (testing->slots[i].base != base || testing->slots[i].at != at))
    i++;
  if (i == NATIVE_TESTED_SLOTS || (i == testing->nslots && !adds))
    return NULL;
  if (i == testing->nslots) {
    testing->slots[i].base = base;
    testing->slots[i].at = at;
    testing->contents[NATIVE_REGISTERS + i] =
        testing->forgets ? native_anything : native_slot_before(testing, i);
    testing->nslots++;
  }
  return &testing->contents[NATIVE_REGISTERS + i];
}

struct native_held *native_slot_of(struct native_testing *testing,
                                   const struct native_operands *is) {
  if (!is_in_frame(testing, is))
    return NULL;
  return find_slot(testing, is->base, is->base == RSP ? is->at - testing->pushed : is->at, true);
}

static bool held_is_static(const struct native_operands *is, uint32_t bits) {
  return is->mode != 3 && is->is_relative && !is->other_segment && (bits == 32 || bits == 64);
}

static int64_t address_of(const struct native_operands *is) {
  return (int64_t)(uintptr_t)(is->code + is->length) + is->at;
}

/* ah, ch, dh and bh are none. */
struct native_held *native_register_of(struct native_testing *testing,
                                       const struct native_operands *is, uint8_t reg,
                                       uint32_t bits) {
  return bits == 8 && is->rex == 0 && reg >= 4 && reg < 8 ? NULL : &testing->contents[reg];
}

static struct native_held *rm_of(struct native_testing *testing, const struct native_operands *is,
                                 uint32_t bits) {
  if (is->mode == 3)
    return native_register_of(testing, is, is->rm, bits);
  if (held_is_static(is, bits))
    return find_slot(testing, NATIVE_STATIC, address_of(is), false);
  return native_slot_of(testing, is);
}

/* Where the stack lies tells nothing. */
static struct native_held held_by(const struct native_testing *testing,
                                  const struct native_held *content, uint32_t bits) {
  bool is_top = content == &testing->contents[RSP];
  return content == NULL || is_top ? native_anything : native_narrowed(*content, bits);
}

/* Memory elsewhere is another place if what leads to it changes. */
struct native_held native_get_rm(struct native_testing *testing, const struct native_operands *is,
                                 uint32_t bits) {
  const struct native_held *content = rm_of(testing, is, bits);
  struct native_held memory = held_by(testing, content, bits);
  if (held_is_static(is, bits))
    memory.memory = (struct native_memory){.bits = bits, .at = address_of(is)};
  if (content != NULL || is->mode == 3 || is_of_frame(testing, is) || is->other_segment ||
      (bits != 32 && bits != 64))
    return memory;
  if (!is->is_far && !is->has_index) {
    const struct native_held *base = &testing->contents[is->base];
    memory.by = base->by;
    if (base->like != 0)
      memory.memory = (struct native_memory){
          (int64_t)((uint64_t)base->plus + (uint64_t)(int64_t)is->at), base->like, bits};
  }
  return memory;
}

struct native_held native_get_reg(struct native_testing *testing, const struct native_operands *is,
                                  uint32_t bits) {
  const struct native_held *content = native_register_of(testing, is, is->reg, bits);
  return held_by(testing, content, bits);
}

void native_set_held(struct native_held *content, struct native_held to) {
  if (content != NULL)
    *content = to;
}

void native_forget_held(struct native_testing *testing, uint32_t first) {
  testing->forgets = true;
  for (uint32_t i = first; i < NATIVE_REGISTERS + testing->nslots; i++)
    testing->contents[i] = native_anything;
}

/* What the stack pointer leads to where it is lost is no word that the frame pointer leads to: a
 * function with both has arrays there. */
static void forget_slots(struct native_testing *testing, bool of_stack_alone) {
  if (!of_stack_alone)
    native_forget_held(testing, NATIVE_REGISTERS);
  for (uint32_t i = 0; i < testing->nslots; i++)
    if (testing->slots[i].base == RSP)
      testing->contents[NATIVE_REGISTERS + i] = native_anything;
}

/* Others may write to words of the object: a called function, or who has their addresses. */
void native_doubt_statics(struct native_testing *testing) {
  for (uint32_t i = 0; i < testing->nslots; i++) {
    struct native_held *content = &testing->contents[NATIVE_REGISTERS + i];
    if (testing->slots[i].base != NATIVE_STATIC)
      continue;
    if (content->like == NATIVE_REGISTERS + i + 1)
      content->by_more = true;
    else
      *content = native_anything;
  }
}

static uint32_t count_statics(const struct native_testing *testing) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < testing->nslots; i++)
    count += testing->slots[i].base == NATIVE_STATIC;
  return count;
}

/* What is written to a word of the frame, to others that lie in part where it does. */
static void cover_slots(struct native_testing *testing, const struct native_held *written,
                        uint32_t bits) {
  size_t number = (size_t)(written - testing->contents) - NATIVE_REGISTERS;
  int64_t at = testing->slots[number].at;
  for (uint32_t i = 0; i < testing->nslots; i++) {
    int64_t before = at - testing->slots[i].at;
    struct native_held *other = &testing->contents[NATIVE_REGISTERS + i];
    if (testing->slots[i].base != testing->slots[number].base || before == 0)
      continue;
    if (before > 0 && before < 8)
      *other = native_narrowed(*other, (uint32_t)before * 8);
    else if (before < 0 && -before < bits / 8)
      *other = native_anything;
  }
}

void native_set_rm(struct native_testing *testing, const struct native_operands *is,
                   struct native_held to, uint32_t bits) {
  struct native_held *content = rm_of(testing, is, bits);
  if (content == NULL && held_is_static(is, bits) && count_statics(testing) < STATICS_MAX)
    content = find_slot(testing, NATIVE_STATIC, address_of(is), true);
  if (content == NULL && is->mode == 3)
    /* ah and the like. The analyzer takes that for no `testing` at all:
     * NOLINTNEXTLINE(clang-analyzer-core.NullDereference) */
    testing->contents[is->rm - 4] = native_anything;
  else if (content == NULL && is_of_frame(testing, is))
    forget_slots(testing, is->base == RSP && testing->use.has_pointer);
  else if (content == NULL) {
    testing->calls = true; /* may be the frame, where others know that */
    native_doubt_statics(testing);
  } else {
    *content = to;
    if (is->mode != 3)
      cover_slots(testing, content, bits);
  }
}

/* ---- the stack ---- */

void native_move_stack(struct native_testing *testing, int64_t bytes) {
  testing->pushed += bytes;
}

/* The word that the stack pointer leads to; NULL: none that is followed. */
static struct native_held *top_of(struct native_testing *testing) {
  return testing->has_depth ? find_slot(testing, RSP, -testing->pushed, false) : NULL;
}

void native_push_word(struct native_testing *testing, struct native_held pushed) {
  native_move_stack(testing, 8);
  native_set_held(top_of(testing), pushed);
}

struct native_held native_pop_word(struct native_testing *testing) {
  const struct native_held *top = top_of(testing);
  native_move_stack(testing, -8);
  return top != NULL ? *top : native_anything;
}

/* An instruction that has set the stack pointer to anything but itself and a number has lost it. */
void native_follow_stack(struct native_testing *testing) {
  struct native_held *top = &testing->contents[RSP];
  testing->loses_stack |= top->like != RSP + 1;
  testing->has_depth &= !testing->loses_stack;
  native_move_stack(testing, -top->plus);
  *top = native_as_before(RSP);
}
