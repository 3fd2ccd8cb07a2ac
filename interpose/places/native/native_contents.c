/* What x86-64's instructions do to what is held in registers and in a function's frame, for its
 * conditions (native_contents.h): by the opcode maps of the Intel 64 manual (volume 2, appendix A).
 * What is left out here is taken to change everything. */
#include "interpose/places/native/native_held.h"

#include <string.h>

static struct native_held made_of(struct native_held a, struct native_held b) {
  return (struct native_held){.by = a.by | b.by,
                              .by_more = a.by_more || b.by_more,
                              .is_result = (a.is_result && (b.is_result || b.is_number)) ||
                                           (b.is_result && a.is_number)};
}

static struct native_held contents_number(int64_t number) {
  return (struct native_held){.is_number = true, .plus = number};
}

static void set_flags(struct native_testing *testing, struct native_held to) {
  testing->flags = to;
  testing->compared.bits = 0;
}

/* What the flags tell is how a and b compare. */
static void set_compared(struct native_testing *testing, struct native_held a, struct native_held b,
                         uint32_t bits) {
  testing->compared = (struct native_comparison){a, b, bits, false, JUMP_OTHERWISE, false};
}

/* The lowest bit of a byte: a flag of the program, as clang keeps it. */
static void set_bit_tested(struct native_testing *testing, struct native_held byte) {
  set_compared(testing, byte, contents_number(0), 8);
  testing->compared.is_bit = true;
}

/* Whether something is 0. Of a flag that has been kept that is how a and b compared; which of the
 * two it tells is left open. */
static void set_tested(struct native_testing *testing, struct native_held held, uint32_t bits) {
  if (held.truth != 0 && held.truth == testing->ntruths && testing->truth.bits != 0) {
    testing->compared = testing->truth;
    testing->compared.is_truth = true;
  } else {
    set_compared(testing, held, contents_number(0), bits);
  }
}

static struct native_held keep_flag(struct native_testing *testing) {
  struct native_held held = made_of(testing->flags, contents_number(0));
  testing->truth = testing->compared;
  held.truth = ++testing->ntruths;
  return held;
}

/* The last bytes of an instruction, with their sign. */
static int64_t contents_immediate(const struct native_operands *is, uint32_t bytes) {
  const uint8_t *end = is->code + is->length;
  int64_t value;
  int32_t four;
  int16_t two;
  switch (bytes) {
  case 1:
    return (int8_t)end[-1];
  case 2:
    memcpy(&two, end - sizeof two, sizeof two);
    return two;
  case 8:
    memcpy(&value, end - sizeof value, sizeof value);
    return value;
  default:
    memcpy(&four, end - sizeof four, sizeof four);
    return four;
  }
}

static uint32_t immediate_bytes(uint32_t bits) {
  return bits == 8 ? 1 : bits == 16 ? 2 : 4;
}

/* ---- instructions ---- */

enum operation { ADD = 0, SUB = 5, XOR = 6, CMP = 7 };

static struct native_held contents_plus(struct native_held a, int64_t number) {
  a.is_moved = true;
  a.is_number = false;
  a.truth = 0;
  a.plus = (int64_t)((uint64_t)a.plus + (uint64_t)number); /* whatever stands in the code */
  a.memory.bits = 0;
  return a;
}

static void contents_arithmetic(struct native_testing *testing, const struct native_operands *is) {
  uint32_t operation = is->opcode >> 3, form = is->opcode & 7, bits = form & 1 ? is->bits : 8;
  bool to_register = form == 2 || form == 3, has_immediate = form >= 4;
  struct native_held *rax = &testing->contents[RAX];
  int64_t number = has_immediate ? contents_immediate(is, immediate_bytes(bits)) : 0;
  struct native_held reg =
      has_immediate ? contents_number(number) : native_get_reg(testing, is, bits);
  struct native_held rm =
      has_immediate ? native_narrowed(*rax, bits) : native_get_rm(testing, is, bits);
  bool clears = operation == XOR && !has_immediate && is->mode == 3 && is->reg == is->rm;
  struct native_held made = clears ? contents_number(0) : made_of(reg, rm);
  set_flags(testing, made);
  if (has_immediate && (operation == ADD || operation == SUB))
    made = contents_plus(rm, operation == ADD ? number : -number);
  if (operation == CMP)
    set_compared(testing, rm, reg, bits);
  if (operation == CMP)
    return;
  if (has_immediate)
    *rax = made;
  else if (to_register)
    native_set_held(native_register_of(testing, is, is->reg, bits), made);
  else
    native_set_rm(testing, is, made, bits);
}

/* 80, 81 and 83. */
static void arithmetic_with_immediate(struct native_testing *testing,
                                      const struct native_operands *is) {
  uint32_t operation = is->reg & 7, bits = is->opcode == 0x80 ? 8 : is->bits;
  int64_t number = contents_immediate(is, is->opcode == 0x81 ? immediate_bytes(bits) : 1);
  struct native_held rm = native_get_rm(testing, is, bits),
                     made = made_of(rm, contents_number(number));
  bool adds = operation == ADD || operation == SUB;
  set_flags(testing, made);
  if (adds)
    made = contents_plus(rm, operation == ADD ? number : -number);
  if (operation == CMP)
    set_compared(testing, rm, contents_number(number), bits);
  else if (is->mode == 3 && is->rm == RSP && adds)
    native_move_stack(testing, operation == SUB ? number : -number);
  else
    native_set_rm(testing, is, made, bits);
  if (adds)
    set_compared(testing, made, contents_number(0), bits);
}

/* F6 and F7, FE and FF. */
static bool contents_unary(struct native_testing *testing, const struct native_operands *is) {
  uint32_t bits = is->opcode & 1 ? is->bits : 8, what = is->reg & 7;
  struct native_held rm = native_get_rm(testing, is, bits);
  set_flags(testing, made_of(rm, contents_number(0)));
  if (is->opcode >= 0xFE && what <= 1) {
    struct native_held made = contents_plus(rm, what == 0 ? 1 : -1);
    native_set_rm(testing, is, made, bits);
    set_compared(testing, made, contents_number(0), bits);
  } else if (is->opcode >= 0xFE)
    return false;
  else if (is->opcode == 0xF6 && what <= 1 && contents_immediate(is, 1) == 1)
    set_bit_tested(testing, rm);
  else if (what == 2 || what == 3)
    native_set_rm(testing, is, made_of(rm, rm), bits);
  else if (what > 3) /* products, quotients and remainders */
    testing->contents[RAX] = testing->contents[RDX] =
        made_of(made_of(rm, testing->contents[RAX]), testing->contents[RDX]);
  return true;
}

static void contents_call(struct native_testing *testing) {
  for (uint32_t i = 0; i < NATIVE_REGISTERS; i++)
    if (!(NATIVE_KEPT >> i & 1) && i != RSP)
      testing->contents[i] = native_anything;
  testing->contents[RAX].is_result = true;
  set_flags(testing, native_anything);
  testing->calls = true;
  native_doubt_statics(testing);
}

static struct native_held loaded_address(struct native_testing *testing,
                                         const struct native_operands *is) {
  const struct native_held *slot = native_slot_of(testing, is);
  if (slot != NULL)
    testing->taken |= UINT64_C(1) << (slot - testing->contents - NATIVE_REGISTERS);
  bool is_sum = !is->is_far && (is->mode == 1 || is->mode == 2) && !is->has_index &&
                (is->base != RSP || is->reg == RSP);
  return is_sum ? contents_plus(testing->contents[is->base], is->at) : native_anything;
}

static void contents_branch(struct native_testing *testing, uint8_t opcode) {
  testing->values.tests = testing->flags.by;
  testing->values.tests_more = testing->flags.by_more;
  testing->values.asks = testing->flags.is_result ? testing->called : 0;
  testing->decides = testing->compared;
  bool is_overflow = (opcode & 14) == 0, is_parity = (opcode & 14) == 10;
  if (is_overflow || is_parity) /* they tell nothing of what is compared */
    testing->decides.bits = 0;
  if (testing->compared.is_truth)
    return;
  if ((opcode & 15) == 4)
    testing->decides.jumps = JUMP_IF_EQUAL;
  else if ((opcode & 15) == 5)
    testing->decides.jumps = JUMP_IF_NOT_EQUAL;
}

/* Where the stack pointer leads others than the frame pointer are told of. */
static void take_top(struct native_testing *testing, const struct native_operands *is) {
  bool from_stack = is->mode == 3 && ((is->opcode == 0x89 && is->reg == RSP && is->rm != RBP) ||
                                      (is->opcode == 0x8B && is->rm == RSP && is->reg != RBP));
  const struct native_operands top = {.is_slot = true, .base = RSP};
  const struct native_held *slot = from_stack ? native_slot_of(testing, &top) : NULL;
  if (slot != NULL)
    testing->taken |= UINT64_C(1) << (slot - testing->contents - NATIVE_REGISTERS);
}

/* Moves; false: it is none. */
static bool step_move(struct native_testing *testing, const struct native_operands *is) {
  uint8_t opcode = is->opcode;
  uint32_t bits = opcode & 1 ? is->bits : 8;
  take_top(testing, is);
  if (opcode == 0x88 || opcode == 0x89)
    native_set_rm(testing, is, native_get_reg(testing, is, bits), bits);
  else if (opcode == 0x8A || opcode == 0x8B)
    native_set_held(native_register_of(testing, is, is->reg, bits),
                    native_get_rm(testing, is, bits));
  else if ((opcode == 0xC6 || opcode == 0xC7) && (is->reg & 7) == 0)
    native_set_rm(
        testing, is,
        native_narrowed(
            contents_number(contents_immediate(is, opcode & 1 ? immediate_bytes(bits) : 1)), bits),
        bits);
  else if (opcode >> 4 == 0xB)
    native_set_held(
        native_register_of(testing, is, (uint8_t)((opcode & 7) | (is->rex & 1) << 3),
                           opcode & 8 ? is->bits : 8),
        native_narrowed(contents_number(contents_immediate(is, opcode & 8 ? is->bits / 8 : 1)),
                        opcode & 8 ? is->bits : 8));
  else if (opcode == 0x63)
    native_set_held(native_register_of(testing, is, is->reg, is->bits),
                    native_get_rm(testing, is, 32));
  else if (opcode == 0x8D)
    native_set_held(native_register_of(testing, is, is->reg, is->bits),
                    loaded_address(testing, is));
  else
    return false;
  return true;
}

/* Calls, and what moves the stack; false: it is none. */
static bool step_stack(struct native_testing *testing, const struct native_operands *is) {
  uint8_t opcode = is->opcode, what = opcode == 0xFF ? is->reg & 7 : 0;
  if (opcode == 0xE8 || (opcode == 0xFF && what == 2)) {
    contents_call(testing);
  } else if (opcode >> 3 == 11) {
    testing->contents[(opcode & 7) | (is->rex & 1) << 3] = native_pop_word(testing);
  } else if (opcode >> 3 == 10) {
    native_push_word(testing, testing->contents[(opcode & 7) | (is->rex & 1) << 3]);
  } else if (opcode == 0x68 || opcode == 0x6A) {
    native_push_word(testing, contents_number(contents_immediate(is, opcode == 0x68 ? 4 : 1)));
  } else if (what == 6) {
    native_push_word(testing, native_get_rm(testing, is, 64));
  } else if (opcode == 0xC9) {
    testing->contents[RBP] = testing->contents[RSP] = native_anything;
  } else {
    return false;
  }
  return true;
}

static bool step_one(struct native_testing *testing, const struct native_operands *is) {
  uint8_t opcode = is->opcode;
  uint32_t bits = opcode & 1 ? is->bits : 8;
  if (opcode < 0x40 && (opcode & 7) < 6) {
    contents_arithmetic(testing, is);
  } else if (opcode == 0x80 || opcode == 0x81 || opcode == 0x83) {
    arithmetic_with_immediate(testing, is);
  } else if (opcode == 0x84 || opcode == 0x85) {
    struct native_held rm = native_get_rm(testing, is, bits);
    set_flags(testing, made_of(rm, native_get_reg(testing, is, bits)));
    if (is->mode == 3 && is->rm == is->reg)
      set_tested(testing, rm, bits);
  } else if (opcode == 0xA8 || opcode == 0xA9) {
    set_flags(testing, made_of(testing->contents[RAX], contents_number(0)));
    if (opcode == 0xA8 && contents_immediate(is, 1) == 1)
      set_bit_tested(testing, native_narrowed(testing->contents[RAX], 8));
  } else if (opcode == 0xF6 || opcode == 0xF7 || opcode == 0xFE || opcode == 0xFF) {
    return contents_unary(testing, is);
  } else if (opcode == 0x69 || opcode == 0x6B) {
    set_flags(testing, made_of(native_get_rm(testing, is, bits), contents_number(0)));
    native_set_held(native_register_of(testing, is, is->reg, is->bits), testing->flags);
  } else if (opcode == 0xC0 || opcode == 0xC1 || (opcode >= 0xD0 && opcode < 0xD4)) {
    set_flags(testing, made_of(native_get_rm(testing, is, bits), testing->contents[RCX]));
    native_set_rm(testing, is, testing->flags, bits);
  } else if (opcode == 0x99) {
    testing->contents[RDX] = made_of(testing->contents[RAX], contents_number(0));
  } else if (opcode >> 4 == 7) {
    contents_branch(testing, opcode);
  } else {
    return opcode == 0x98 || opcode == 0xE9 || opcode == 0xEB || opcode == 0xC3 ||
           (opcode == 0x90 && is->rex == 0);
  }
  return true;
}

/* Bits that an instruction writes of a vector register: MOVSS, MOVSD and MOVQ, MOVLPS and MOVHPS,
 * and others. */
static uint32_t bits_of_vector(const struct native_operands *is) {
  bool is_half = is->opcode == 0x13 || is->opcode == 0x17 || is->opcode == 0xD6;
  bool is_scalar = is->opcode == 0x11 && is->repeats;
  return is_scalar && memchr(is->code, 0xF3, 2) != NULL ? 32 : is_half || is_scalar ? 64 : 128;
}

/* 0F xx. */
static bool step_two(struct native_testing *testing, const struct native_operands *is) {
  uint8_t opcode = is->opcode;
  struct native_held *reg = native_register_of(testing, is, is->reg, is->bits);
  if (opcode == 0x1E || opcode == 0x1F || opcode == 0x0D || opcode == 0x18)
    return true;
  if (opcode == 0x2E || opcode == 0x2F)
    set_flags(testing, native_anything);
  else if (opcode == 0x2C || opcode == 0x2D)
    native_set_held(reg, native_anything);
  else if (opcode >> 4 == 4)
    native_set_held(reg,
                    made_of(made_of(native_get_rm(testing, is, is->bits), *reg), testing->flags));
  else if (opcode >> 4 == 8)
    contents_branch(testing, opcode);
  else if (opcode >> 4 == 9)
    native_set_rm(testing, is, keep_flag(testing), 8);
  else if (opcode == 0xAF) {
    native_set_held(reg, made_of(native_get_rm(testing, is, is->bits), *reg));
    set_flags(testing, *reg);
  } else if (opcode == 0xB6 || opcode == 0xB7 || opcode == 0xBE || opcode == 0xBF)
    native_set_held(reg, native_get_rm(testing, is, opcode & 1 ? 16 : 8));
  else if (opcode == 0x7E && is->wide16 && !is->repeats) /* from a vector register */
    native_set_rm(testing, is, native_anything, is->bits == 64 ? 64 : 32);
  else if (native_operands_is_vector(opcode) || (opcode == 0x7E && is->repeats))
    return true;
  else if (is->mode != 3 && native_operands_stores_vector(opcode))
    native_set_rm(testing, is, native_anything, bits_of_vector(is));
  else
    return native_operands_stores_vector(opcode);
  return true;
}

static bool contents_step(struct native_testing *testing, const uint8_t *code, size_t length) {
  struct native_operands is;
  if (native_vectors_step(testing, code, length))
    return true;
  if (!native_operands_read(&is, code, length))
    return false;
  return is.two ? step_two(testing, &is)
                : step_move(testing, &is) || step_stack(testing, &is) || step_one(testing, &is);
}

void native_contents_step(struct native_testing *testing, const uint8_t *code, size_t length) {
  if (!contents_step(testing, code, length)) {
    native_forget_held(testing, 0);
    set_flags(testing, native_anything);
    testing->contents[RSP] = native_as_before(RSP); /* what others do to it is known */
  }
  native_follow_stack(testing);
}
