/* What calls are given: see native_passed.h. */
#include "interpose/places/native/native_passed.h"

#include <string.h>

#include "interpose/places/native/native_operands.h"

/* rbx, rbp, r12 to r15. */
#define KEPT ((uint32_t)(1u << RBX | 1u << RBP | 0xF000u))

/* rdi, rsi, rdx, rcx, r8, r9, as the System V ABI of x86-64 has it. */
static const uint8_t ARGUMENT_OF[NATIVE_ARGUMENTS] = {7, 6, RDX, RCX, 8, 9};

static int64_t number_at(const uint8_t *end, uint32_t bytes) {
  int32_t value;
  memcpy(&value, end - sizeof value, sizeof value);
  return bytes == 1 ? (int8_t)end[-1] : value;
}

/* What a memory operand names, as a word or as an address; `at`: the instruction. */
static struct native_content memory_of(const struct native_operands *is, const uint8_t *at,
                                       bool address) {
  if (is->is_slot)
    return (struct native_content){address ? FRAME_ADDRESS : FRAME_WORD,
                                   (uint64_t)is->base << 32 | (uint32_t)is->at};
  int32_t distance;
  if (!is->is_far || is->mode != 0 || is->other_segment || is->length < sizeof distance)
    return (struct native_content){0};
  memcpy(&distance, at + is->length - sizeof distance, sizeof distance);
  return (struct native_content){address ? ADDRESS : WORD,
                                 (uint64_t)((intptr_t)(at + is->length) + distance)};
}

/* Whether an instruction changes no register: it compares, does nothing, or writes to memory. */
static bool changes_nothing(const struct native_operands *is) {
  bool to_memory = is->mode != 3 && native_operands_has_modrm(is);
  if (is->two)
    return is->opcode == 0x1F || (to_memory && native_operands_stores_vector(is->opcode));
  if (is->opcode < 0x40)
    return (is->opcode & 0x38) == 0x38 || (to_memory && !(is->opcode & 2));
  if ((is->opcode & 0xFC) == 0x80)
    return (is->reg & 7) == 7 || to_memory;
  return (is->opcode & 0xFE) == 0x84 || is->opcode == 0x90 ||
         (to_memory &&
          (is->opcode == 0x88 || is->opcode == 0x89 || is->opcode == 0xC6 || is->opcode == 0xC7));
}

void native_passing_step(struct native_passing *passing, const uint8_t *at, size_t length) {
  struct native_content *registers = passing->registers, pushed = passing->pushed;
  struct native_operands is;
  passing->pushed = (struct native_content){0};
  if (!native_operands_read(&is, at, length)) {
    memset(registers, 0, 16 * sizeof *registers);
    return;
  }
  struct native_content made = {0};
  uint32_t into = is.reg;
  if (changes_nothing(&is))
    return;
  if (!is.two && (is.opcode & 0xFD) == 0x68) { /* push number */
    passing->pushed = (struct native_content){
        NUMBER, (uint64_t)number_at(at + length, is.opcode == 0x6A ? 1 : 4)};
    return;
  }
  if (!is.two && (is.opcode & 0xF8) == 0xB8) { /* mov number */
    into = (uint32_t)((is.opcode & 7) | (is.rex & 1) << 3);
    if (!(is.rex & 8))
      made = (struct native_content){NUMBER, (uint64_t)number_at(at + length, 4)};
  } else if (!is.two && is.opcode == 0xC7 && is.mode == 3) {
    into = is.rm;
    made = (struct native_content){NUMBER, (uint64_t)number_at(at + length, 4)};
  } else if (!is.two && (is.opcode == 0x31 || is.opcode == 0x33) && is.mode == 3 &&
             is.reg == is.rm) {
    made = (struct native_content){NUMBER, 0};
  } else if (!is.two && is.opcode == 0x8D) {
    made = memory_of(&is, at, true);
  } else if (!is.two && is.opcode == 0x8B) {
    made = is.mode == 3 ? registers[is.rm] : memory_of(&is, at, false);
  } else if (!is.two && is.opcode == 0x89) {
    into = is.rm;
    made = registers[is.reg];
  } else if (!is.two && (is.opcode & 0xF8) == 0x58) { /* pop */
    into = (uint32_t)((is.opcode & 7) | (is.rex & 1) << 3);
    made = pushed;
  } else {
    if (!native_operands_has_modrm(&is) || (!is.two && (is.opcode & 0xFE) == 0xF6)) {
      struct native_content *of_strings = registers + ARGUMENT_OF[1]; /* and the next one */
      registers[RAX] = registers[RDX] = registers[RCX] = of_strings[0] = of_strings[1] = made;
    }
    if (is.mode == 3)
      registers[is.rm] = made;
  }
  if (made.kind == UNTOUCHED)
    made = (struct native_content){0};
  registers[into] = made;
}

/* Before a block, or (behind_call) behind a call: what it keeps is what it was. */
static void passed_forget(struct native_content *registers, bool behind_call) {
  for (uint32_t i = 0; i < NATIVE_REGISTERS; i++) {
    bool is_kept = KEPT >> i & 1;
    if (!behind_call || !is_kept)
      registers[i] = (struct native_content){is_kept ? VARIABLE : UNTOUCHED, is_kept ? i : 0};
  }
}

void native_passing_begin(struct native_passing *passing) {
  passed_forget(passing->registers, false);
  passing->pushed = (struct native_content){0};
}

static uint64_t callee_of(const struct native_cursor *cursor) {
  struct native_operands is;
  if (cursor->is.has_target)
    return (uint64_t)((intptr_t)cursor->at + cursor->is.target);
  if (!native_operands_read(&is, cursor->at, cursor->is.length))
    return 0;
  return memory_of(&is, cursor->at, false).value;
}

struct native_passed native_passing_call(struct native_passing *passing,
                                         const struct native_cursor *call) {
  struct native_passed passed = {.callee = callee_of(call)};
  for (uint32_t i = 0; i < NATIVE_ARGUMENTS; i++)
    passed.arguments[i] = passing->registers[ARGUMENT_OF[i]];
  passed_forget(passing->registers, true);
  return passed;
}

static bool is_equal(const struct native_content *x, const struct native_content *y) {
  return x->kind >= VARIABLE && x->kind == y->kind && x->value == y->value;
}

bool native_passes_some(const struct native_passed *passed) {
  for (uint32_t i = 0; i < NATIVE_ARGUMENTS; i++)
    if (passed->arguments[i].kind != UNTOUCHED)
      return true;
  return false;
}

bool native_passes_alike(const struct native_passed *a, const struct native_passed *b) {
  if (a->callee != b->callee)
    return false;
  for (uint32_t i = 0; i < NATIVE_ARGUMENTS; i++) {
    const struct native_content *x = &a->arguments[i], *y = &b->arguments[i];
    if (x->kind > VARIABLE && y->kind > VARIABLE && !is_equal(x, y))
      return false;
  }
  return true;
}

bool native_passes_same(const struct native_passed *a, const struct native_passed *b) {
  if (a->callee == 0 || !native_passes_alike(a, b))
    return false;
  for (uint32_t i = 0; i < NATIVE_ARGUMENTS; i++)
    if (is_equal(&a->arguments[i], &b->arguments[i]))
      return true;
  return !a->takes_some;
}

bool native_passes_otherwise(const struct native_passed *a, const struct native_passed *b) {
  for (uint32_t i = 0; i < NATIVE_ARGUMENTS; i++) {
    const struct native_content *x = &a->arguments[i], *y = &b->arguments[i];
    if ((x->kind == NUMBER && y->kind == VARIABLE) || (x->kind == VARIABLE && y->kind == NUMBER))
      return true;
  }
  return false;
}
