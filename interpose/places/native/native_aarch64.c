/* Targets of aarch64 instructions, by the Arm manual's section C4.1.65 "Branches, exception
 * generating and system instructions". */
#include "interpose/places/native/native_decode.h"

#include <string.h>

/* A field of a word, signed, in units of 4 bytes. */
static int64_t native_distance(uint32_t word, unsigned low, unsigned bits) {
  uint32_t field = word >> low << (32 - bits);
  return (int64_t)((int32_t)field >> (32 - bits)) * 4;
}

static void set_target(struct native_instruction *is, enum native_kind kind, int64_t target) {
  is->kind = (uint8_t)kind;
  is->has_target = true;
  is->target = target;
}

bool native_decode_aarch64(const uint8_t *code, size_t size, struct native_instruction *is) {
  uint32_t word;
  if (size < sizeof word)
    return false;
  memcpy(&word, code, sizeof word);
  *is = (struct native_instruction){.kind = NATIVE_PLAIN, .length = sizeof word};
  if ((word & 0x7C000000) == 0x14000000) /* B, BL */
    set_target(is, word >> 31 ? NATIVE_CALL : NATIVE_JUMP, native_distance(word, 0, 26));
  else if ((word & 0xFF000000) == 0x54000000 /* B.cond, BC.cond */ ||
           (word & 0x7E000000) == 0x34000000) /* CBZ, CBNZ */
    set_target(is, NATIVE_BRANCH, native_distance(word, 5, 19));
  else if ((word & 0x7E000000) == 0x36000000) /* TBZ, TBNZ */
    set_target(is, NATIVE_BRANCH, native_distance(word, 5, 14));
  else if ((word & 0xFEFFF000) == 0xD61F0000) /* BR, and with a key */
    is->kind = NATIVE_JUMP_REGISTER;
  else if ((word & 0xFEFFF000) == 0xD63F0000) /* BLR */
    is->kind = NATIVE_CALL;
  else if ((word & 0xFFFFF000) == 0xD65F0000) /* RET */
    is->kind = NATIVE_RETURN;
  else if ((word & 0xFFFF0000) == 0 || (word & 0xFFE0001F) == 0xD4200000) /* UDF, BRK */
    is->kind = NATIVE_TRAP;
  else if (word == 0xD503201F) /* NOP */
    is->details = NATIVE_NOTHING;
  return true;
}
