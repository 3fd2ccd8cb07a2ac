/* Whether others may know where a function's frame lies: see native_values.h. */
#include "interpose/places/native/native_values.h"

#include "interpose/places/native/native_operands.h"

static bool is_stack_register(const struct native_frame_use *use, uint8_t reg) {
  return reg == RSP || (reg == RBP && use->has_pointer);
}

/* Opcodes whose ModRM has no register in its middle. */
static bool has_extension(uint8_t opcode) {
  return (opcode >= 0x80 && opcode <= 0x83) || opcode == 0xC0 || opcode == 0xC1 || opcode == 0xC6 ||
         opcode == 0xC7 || opcode >= 0xD0;
}

/* Whether it sets one of the two to the other, or moves the stack pointer. */
static bool keeps_frame(const struct native_operands *is) {
  if (is->two || is->mode != 3)
    return false;
  if (is->opcode == 0x89 || is->opcode == 0x8B)
    return is->reg >= RSP && is->reg <= RBP && is->rm >= RSP && is->rm <= RBP;
  bool by_register = (is->opcode == 0x29 || is->opcode == 0x01) && is->reg != RSP && is->reg != RBP;
  return is->rm == RSP && (by_register || is->opcode == 0x81 || is->opcode == 0x83);
}

/* VMOVQ and VPINSRQ from a general register, with VEX or EVEX. */
static bool moves_to_vector(const uint8_t *code, size_t length, uint8_t *rm) {
  size_t at = code[0] == 0xC5 ? 2 : code[0] == 0xC4 ? 3 : code[0] == 0x62 ? 4 : length;
  if (at + 1 >= length || (code[at] != 0x6E && code[at] != 0x22) || code[at + 1] >> 6 != 3)
    return false;
  *rm = code[at + 1] & 7;
  return true;
}

void native_values_look(struct native_frame_use *use, const uint8_t *code, size_t length) {
  struct native_operands is;
  uint8_t rm;
  if (moves_to_vector(code, length, &rm))
    use->is_taken |= is_stack_register(use, rm);
  if (!native_operands_read(&is, code, length))
    return;
  bool to_pointer = (is.opcode == 0x89 && is.reg == RSP && is.rm == RBP) ||
                    (is.opcode == 0x8B && is.reg == RBP && is.rm == RSP);
  use->has_pointer |= to_pointer && !is.two && is.mode == 3;
  if (keeps_frame(&is))
    return;
  if (!is.two && is.opcode == 0x8D && is.mode != 3)
    use->is_taken |= is_stack_register(use, (uint8_t)is.base) && is.reg != RSP;
  else if (!is.two && is.opcode == 0x54 && !(is.rex & 1))
    use->is_taken = true;
  else if (native_operands_has_modrm(&is))
    use->is_taken |= (is.mode == 3 && is_stack_register(use, is.rm)) ||
                     (!is.two && !has_extension(is.opcode) && is_stack_register(use, is.reg));
}
