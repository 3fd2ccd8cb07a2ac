/* Values of x86-64 code (native_values.h), by the opcode maps of the Intel 64 manual (volume 2,
 * appendix A). What is left out here is taken to change everything. */
#include "interpose/places/native/native_values.h"

#include <string.h>

#include "interpose/places/native/native_operands.h"

static uint64_t values_mask(uint32_t bits) {
  return bits >= 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1;
}

static struct native_number values_number(uint64_t value, uint32_t bits) {
  return (struct native_number){value & values_mask(bits), bits};
}

static const struct native_number unknown;

static struct native_number values_extend(struct native_number from, uint32_t to, bool with_sign) {
  uint64_t top = UINT64_C(1) << (from.bits - 1);
  return values_number(
      with_sign && (from.value & top) ? from.value | ~values_mask(from.bits) : from.value, to);
}

static struct native_number low_bits(struct native_number from, uint32_t bits) {
  return from.bits >= bits ? values_number(from.value, bits) : unknown;
}

/* The last bytes of an instruction. */
static struct native_number values_immediate(const struct native_operands *is, size_t bytes,
                                             uint32_t bits) {
  uint64_t value = 0;
  memcpy(&value, is->code + is->length - bytes, bytes);
  return values_extend(values_number(value, (uint32_t)bytes * 8), bits, true);
}

static size_t immediate_bytes(uint32_t bits) {
  return bits == 16 ? 2 : bits == 8 ? 1 : 4;
}

/* ---- registers and slots ---- */

static void forget_slots(struct native_values *values) {
  memset(values->slots, 0, sizeof values->slots);
}

static void forget_slots_of(struct native_values *values, uint32_t base) {
  for (uint32_t i = 0; i < NATIVE_SLOTS; i++)
    if (values->slots[i].base == base)
      values->slots[i] = (struct native_slot){0};
}

static void forget_all(struct native_values *values) {
  *values = (struct native_values){0};
}

/* ah, ch, dh and bh. */
static bool is_high_byte(const struct native_operands *is, uint8_t reg, uint32_t bits) {
  return bits == 8 && is->rex == 0 && reg >= 4 && reg < 8;
}

static struct native_number get_register(const struct native_values *values,
                                         const struct native_operands *is, uint8_t reg,
                                         uint32_t bits) {
  return is_high_byte(is, reg, bits) ? unknown : low_bits(values->registers[reg], bits);
}

static void set_register(struct native_values *values, const struct native_operands *is,
                         uint8_t reg, struct native_number to, uint32_t bits) {
  if (is_high_byte(is, reg, bits)) {
    values->registers[reg - 4] = unknown;
    return;
  }
  struct native_number *of = &values->registers[reg];
  if (to.bits == 0)
    *of = unknown;
  else if (bits >= 32)
    *of = values_number(to.value, 64); /* the upper half is cleared */
  else
    *of =
        of->bits > bits ? values_number((of->value & ~values_mask(bits)) | to.value, of->bits) : to;
  if (reg == RSP || reg == RBP)
    forget_slots_of(values, reg);
}

static bool is_in_frame(const struct native_operands *is, const struct native_frame_use *use) {
  return is->is_slot && (is->base == RSP || use->has_pointer);
}

static struct native_number get_memory(const struct native_values *values,
                                       const struct native_frame_use *use,
                                       const struct native_operands *is, uint32_t bits) {
  for (uint32_t i = 0; i < NATIVE_SLOTS && is_in_frame(is, use); i++) {
    const struct native_slot *slot = &values->slots[i];
    if (slot->number.bits != 0 && slot->base == is->base && slot->at == is->at)
      return low_bits(slot->number, bits);
  }
  return unknown;
}

/* Two registers may lead to the same bytes; so may any other, where addresses are known. */
static void set_memory(struct native_values *values, const struct native_frame_use *use,
                       const struct native_operands *is, struct native_number to, uint32_t bits) {
  if (is->is_far)
    return;
  if (!is_in_frame(is, use)) {
    bool may_be_frame = use->is_taken || is->base == RSP || (is->base == RBP && use->has_pointer);
    if (may_be_frame)
      forget_slots(values);
    return;
  }
  struct native_slot *free = NULL;
  for (uint32_t i = 0; i < NATIVE_SLOTS; i++) {
    struct native_slot *slot = &values->slots[i];
    bool apart = slot->base == is->base && ((int64_t)slot->at + slot->number.bits / 8 <= is->at ||
                                            (int64_t)is->at + bits / 8 <= slot->at);
    if (slot->number.bits != 0 && !apart)
      *slot = (struct native_slot){0};
    if (slot->number.bits == 0)
      free = slot;
  }
  if (to.bits != 0 && free != NULL)
    *free = (struct native_slot){is->at, is->base, to};
}

static struct native_number get_rm(const struct native_values *values,
                                   const struct native_frame_use *use,
                                   const struct native_operands *is, uint32_t bits) {
  return is->mode == 3 ? get_register(values, is, is->rm, bits) : get_memory(values, use, is, bits);
}

static void set_rm(struct native_values *values, const struct native_frame_use *use,
                   const struct native_operands *is, struct native_number to, uint32_t bits) {
  if (is->mode == 3)
    set_register(values, is, is->rm, to, bits);
  else
    set_memory(values, use, is, to, bits);
}

/* ---- what instructions do ---- */

enum operation { ADD, OR, ADC, SBB, AND, SUB, XOR, CMP };

/* Returns the result, and sets the flags. */
static struct native_number values_compute(struct native_values *values, enum operation operation,
                                           struct native_number a, struct native_number b,
                                           uint32_t bits) {
  values->has_flags = a.bits != 0 && b.bits != 0 && operation != ADC && operation != SBB;
  if (!values->has_flags)
    return unknown;
  bool subtracts = operation == SUB || operation == CMP;
  uint64_t result = subtracts          ? a.value - b.value
                    : operation == ADD ? a.value + b.value
                    : operation == OR  ? a.value | b.value
                    : operation == AND ? a.value & b.value
                                       : a.value ^ b.value;
  uint64_t top = UINT64_C(1) << (bits - 1);
  result &= values_mask(bits);
  values->zero = result == 0;
  values->sign = (result & top) != 0;
  values->carry = subtracts ? a.value < b.value : operation == ADD && result < a.value;
  uint64_t wraps = subtracts          ? (a.value ^ b.value) & (a.value ^ result)
                   : operation == ADD ? (a.value ^ result) & (b.value ^ result)
                                      : 0;
  values->overflow = (wraps & top) != 0;
  return values_number(result, bits);
}

static void values_arithmetic(struct native_values *values, const struct native_frame_use *use,
                              const struct native_operands *is) {
  enum operation operation = (enum operation)(is->opcode >> 3);
  uint8_t form = is->opcode & 7;
  uint32_t bits = form & 1 ? is->bits : 8;
  bool to_register = form == 2 || form == 3, has_immediate = form >= 4;
  struct native_number reg = has_immediate ? values_immediate(is, immediate_bytes(bits), bits)
                                           : get_register(values, is, is->reg, bits);
  struct native_number rm =
      has_immediate ? get_register(values, is, RAX, bits) : get_rm(values, use, is, bits);
  if (!has_immediate && is->mode == 3 && is->reg == is->rm &&
      (operation == XOR || operation == SUB))
    reg = rm = values_number(0, bits);
  struct native_number result =
      values_compute(values, operation, to_register ? reg : rm, to_register ? rm : reg, bits);
  if (operation == CMP)
    return;
  if (has_immediate)
    set_register(values, is, RAX, result, bits);
  else if (to_register)
    set_register(values, is, is->reg, result, bits);
  else
    set_rm(values, use, is, result, bits);
}

/* 80, 81 and 83. */
static void arithmetic_with_immediate(struct native_values *values,
                                      const struct native_frame_use *use,
                                      const struct native_operands *is) {
  enum operation operation = (enum operation)(is->reg & 7);
  uint32_t bits = is->opcode == 0x80 ? 8 : is->bits;
  struct native_number b =
      values_immediate(is, is->opcode == 0x81 ? immediate_bytes(bits) : 1, bits);
  struct native_number result =
      values_compute(values, operation, get_rm(values, use, is, bits), b, bits);
  if (operation != CMP)
    set_rm(values, use, is, result, bits);
}

/* F6 and F7. */
static void values_unary(struct native_values *values, const struct native_frame_use *use,
                         const struct native_operands *is) {
  uint32_t bits = is->opcode == 0xF6 ? 8 : is->bits, what = is->reg & 7;
  struct native_number rm = get_rm(values, use, is, bits);
  if (what <= 1) {
    (void)values_compute(values, AND, rm, values_immediate(is, immediate_bytes(bits), bits), bits);
  } else if (what == 2) {
    set_rm(values, use, is, rm.bits != 0 ? values_number(~rm.value, bits) : unknown, bits);
  } else if (what == 3) {
    set_rm(values, use, is, values_compute(values, SUB, values_number(0, bits), rm, bits), bits);
  } else {
    values->registers[RAX] = values->registers[RDX] = unknown;
    values->has_flags = false;
  }
}

static void values_increment(struct native_values *values, const struct native_frame_use *use,
                             const struct native_operands *is) {
  uint32_t bits = is->opcode == 0xFE ? 8 : is->bits;
  struct native_number rm = get_rm(values, use, is, bits);
  enum operation operation = (is->reg & 7) == 0 ? ADD : SUB;
  struct native_number result = values_compute(values, operation, rm, values_number(1, bits), bits);
  values->has_flags = false; /* the carry stays as it was */
  set_rm(values, use, is, result, bits);
}

/* A called function keeps rbx, rbp, rsp and r12 to r15. */
static void values_call(struct native_values *values, const struct native_frame_use *use) {
  static const uint16_t kept = 1u << 3 | 1u << RSP | 1u << RBP | 0xF000u;
  for (uint32_t i = 0; i < NATIVE_REGISTERS; i++)
    if (!(kept >> i & 1))
      values->registers[i] = unknown;
  values->has_flags = false;
  if (use->is_taken)
    forget_slots(values);
}

static bool has_condition(const struct native_values *values, uint8_t condition) {
  bool less = values->sign != values->overflow, is = false;
  switch (condition >> 1) {
  case 0:
    is = values->overflow;
    break;
  case 1:
    is = values->carry;
    break;
  case 2:
    is = values->zero;
    break;
  case 3:
    is = values->carry || values->zero;
    break;
  case 4:
    is = values->sign;
    break;
  case 6:
    is = less;
    break;
  case 7:
    is = less || values->zero;
    break;
  }
  return is != (condition & 1);
}

/* Parity is not kept. */
static bool is_condition_known(const struct native_values *values, uint8_t condition) {
  return values->has_flags && condition >> 1 != 5;
}

/* Whether the opcode 0F xx is known. */
static bool step_two(struct native_values *values, const struct native_frame_use *use,
                     const struct native_operands *is) {
  uint8_t opcode = is->opcode;
  if (opcode == 0x1E && is->reg == 1) /* reads the shadow stack's pointer */
    return false;
  if (opcode == 0x1E || opcode == 0x1F || opcode == 0x0D || opcode == 0x18 ||
      native_operands_is_vector(opcode))
    return true;
  if (native_operands_stores_vector(opcode)) {
    if (is->mode != 3)
      set_memory(values, use, is, unknown, 128);
  } else if (opcode == 0x2E || opcode == 0x2F) {
    values->has_flags = false;
  } else if (opcode == 0x2C || opcode == 0x2D || opcode >> 4 == 4) {
    set_register(values, is, is->reg, unknown, is->bits);
  } else if (opcode >> 4 == 8) {
    return true;
  } else if (opcode >> 4 == 9) {
    bool known = is_condition_known(values, opcode & 15);
    set_rm(values, use, is, known ? values_number(has_condition(values, opcode & 15), 8) : unknown,
           8);
  } else if (opcode == 0xAF) {
    set_register(values, is, is->reg, unknown, is->bits);
    values->has_flags = false;
  } else if (opcode == 0xB6 || opcode == 0xB7 || opcode == 0xBE || opcode == 0xBF) {
    struct native_number from = get_rm(values, use, is, opcode & 1 ? 16 : 8);
    set_register(values, is, is->reg,
                 from.bits != 0 ? values_extend(from, is->bits, opcode >= 0xBE) : unknown,
                 is->bits);
  } else {
    return false;
  }
  return true;
}

/* Moves. */
static bool step_move(struct native_values *values, const struct native_frame_use *use,
                      const struct native_operands *is) {
  uint8_t opcode = is->opcode;
  uint32_t bits = opcode & 1 ? is->bits : 8;
  if (opcode == 0x88 || opcode == 0x89) {
    set_rm(values, use, is, get_register(values, is, is->reg, bits), bits);
  } else if (opcode == 0x8A || opcode == 0x8B) {
    set_register(values, is, is->reg, get_rm(values, use, is, bits), bits);
  } else if ((opcode == 0xC6 || opcode == 0xC7) && (is->reg & 7) == 0) {
    set_rm(values, use, is, values_immediate(is, immediate_bytes(bits), bits), bits);
  } else if (opcode >> 4 == 0xB) {
    bits = opcode & 8 ? is->bits : 8;
    uint8_t reg = (uint8_t)((opcode & 7) | (is->rex & 1) << 3);
    set_register(values, is, reg, values_immediate(is, bits / 8, bits), bits);
  } else if (opcode == 0x63) {
    struct native_number from = get_rm(values, use, is, 32);
    set_register(values, is, is->reg,
                 from.bits != 0 ? values_extend(from, is->bits, true) : unknown, is->bits);
  } else if (opcode == 0x8D) {
    set_register(values, is, is->reg, unknown, is->bits);
  } else {
    return false;
  }
  return true;
}

/* Push, pop, leave and calls. */
static bool step_stack(struct native_values *values, const struct native_frame_use *use,
                       const struct native_operands *is) {
  uint8_t opcode = is->opcode, what = opcode == 0xFF ? is->reg & 7 : 0;
  if (opcode == 0xE8 || (opcode == 0xFF && what == 2)) {
    values_call(values, use);
    return true;
  }
  if (opcode >> 3 == 11) {
    uint8_t reg = (uint8_t)((opcode & 7) | (is->rex & 1) << 3);
    set_register(values, is, reg, unknown, 64);
  } else if (opcode == 0xC9) {
    set_register(values, is, RBP, unknown, 64);
  } else if (opcode >> 3 != 10 && opcode != 0x68 && opcode != 0x6A && what != 6) {
    return false;
  }
  set_register(values, is, RSP, unknown, 64);
  return true;
}

/* The rest of the opcodes of one byte. */
static bool step_one(struct native_values *values, const struct native_frame_use *use,
                     const struct native_operands *is) {
  uint8_t opcode = is->opcode;
  if (opcode < 0x40 && (opcode & 7) < 6) {
    values_arithmetic(values, use, is);
  } else if (opcode == 0x80 || opcode == 0x81 || opcode == 0x83) {
    arithmetic_with_immediate(values, use, is);
  } else if (opcode == 0x84 || opcode == 0x85) {
    uint32_t bits = opcode & 1 ? is->bits : 8;
    (void)values_compute(values, AND, get_rm(values, use, is, bits),
                         get_register(values, is, is->reg, bits), bits);
  } else if (opcode == 0xA8 || opcode == 0xA9) {
    uint32_t bits = opcode & 1 ? is->bits : 8;
    (void)values_compute(values, AND, get_register(values, is, RAX, bits),
                         values_immediate(is, immediate_bytes(bits), bits), bits);
  } else if (opcode == 0xF6 || opcode == 0xF7) {
    values_unary(values, use, is);
  } else if (opcode == 0xFE || (opcode == 0xFF && (is->reg & 7) <= 1)) {
    values_increment(values, use, is);
  } else if (opcode == 0x69 || opcode == 0x6B) {
    set_register(values, is, is->reg, unknown, is->bits);
    values->has_flags = false;
  } else if (opcode == 0xC0 || opcode == 0xC1 || (opcode >= 0xD0 && opcode < 0xD4)) {
    set_rm(values, use, is, unknown, opcode & 1 ? is->bits : 8);
    values->has_flags = false;
  } else if (opcode == 0x98 || opcode == 0x99) {
    values->registers[opcode == 0x98 ? RAX : RDX] = unknown;
  } else {
    return opcode >> 4 == 7 || opcode == 0xE9 || opcode == 0xEB || (opcode == 0x90 && is->rex == 0);
  }
  return true;
}

void native_values_step(struct native_values *values, const struct native_frame_use *use,
                        const uint8_t *code, size_t length) {
  struct native_operands is;
  bool known = native_operands_read(&is, code, length);
  if (known && is.two)
    known = step_two(values, use, &is);
  else if (known)
    known =
        step_move(values, use, &is) || step_stack(values, use, &is) || step_one(values, use, &is);
  if (!known)
    forget_all(values);
}

bool native_values_decide(const struct native_values *values, const uint8_t *code, size_t length,
                          bool *is_taken) {
  struct native_operands is;
  if (!native_operands_read(&is, code, length) || is.opcode >> 4 != (is.two ? 8 : 7) ||
      !is_condition_known(values, is.opcode & 15))
    return false;
  *is_taken = has_condition(values, is.opcode & 15);
  return true;
}

static bool meet_numbers(struct native_number *to, struct native_number other) {
  struct native_number before = *to;
  uint32_t bits = to->bits < other.bits ? to->bits : other.bits;
  bool equal = bits != 0 && ((to->value ^ other.value) & values_mask(bits)) == 0;
  *to = equal ? values_number(to->value, bits) : unknown;
  return to->bits != before.bits;
}

static bool meet_slots(struct native_slot *slot, const struct native_values *other) {
  struct native_number number = unknown;
  for (uint32_t i = 0; i < NATIVE_SLOTS; i++)
    if (other->slots[i].base == slot->base && other->slots[i].at == slot->at)
      number = other->slots[i].number.bits != 0 ? other->slots[i].number : number;
  return meet_numbers(&slot->number, number);
}

bool native_values_meet(struct native_values *values, const struct native_values *other) {
  bool less = false;
  for (uint32_t i = 0; i < NATIVE_REGISTERS; i++)
    less |= meet_numbers(&values->registers[i], other->registers[i]);
  for (uint32_t i = 0; i < NATIVE_SLOTS; i++)
    if (values->slots[i].number.bits != 0)
      less |= meet_slots(&values->slots[i], other);
  bool same = other->has_flags && values->zero == other->zero && values->sign == other->sign &&
              values->carry == other->carry && values->overflow == other->overflow;
  less |= values->has_flags && !same;
  values->has_flags &= same;
  return less;
}
