/* What instructions with VEX and EVEX prefixes do to what is held in registers and in a function's
 * frame (native_held.h): mostly nothing, as they work on vector registers. By the opcode maps of
 * the Intel 64 manual (volume 2, appendix A) and the instructions' own pages. */
#include <string.h>

#include "interpose/places/native/native_held.h"

enum { NONE, P66, PF3, PF2 }; /* struct native_vector's prefix */

static bool is_among(uint8_t opcode, const char *opcodes, size_t n) {
  return memchr(opcodes, opcode, n) != NULL;
}
#define AMONG(opcode, opcodes) is_among(opcode, opcodes, sizeof(opcodes) - 1)

/* BMI's work on general registers: BLSR and the like to vvvv, MULX to both. */
static bool is_general(const struct native_operands *is, const struct native_vector *vector) {
  return (vector->map == 2 && AMONG(is->opcode, "\xF2\xF3\xF5\xF6\xF7")) ||
         (vector->map == 3 && is->opcode == 0xF0);
}

static bool writes_other(const struct native_operands *is, const struct native_vector *vector) {
  return vector->map == 2 && AMONG(is->opcode, "\xF3\xF6");
}

/* Conversions, masks and the like: to the register of ModRM's middle, as KMOV. */
static bool writes_register(const struct native_operands *is, const struct native_vector *vector) {
  bool converts = vector->is_extended && (is->opcode == 0x78 || is->opcode == 0x79) &&
                  (vector->prefix == PF3 || vector->prefix == PF2);
  if (is_general(is, vector))
    return is->opcode != 0xF3;
  return vector->map == 1 && (converts || AMONG(is->opcode, "\x2C\x2D\x50\xC5\xD7\x93"));
}

/* Those that write a part of a vector to rm: a register, or memory. */
static bool vector_extracts(const struct native_operands *is, const struct native_vector *vector) {
  return (vector->map == 1 && is->opcode == 0x7E && vector->prefix != PF3) ||
         (vector->map == 3 && is->opcode >= 0x14 && is->opcode <= 0x17);
}

/* Those whose rm may be written, if that is memory. */
static bool vector_stores(const struct native_operands *is, const struct native_vector *vector) {
  if (vector->map == 1)
    return AMONG(is->opcode, "\x11\x13\x17\x29\x2B\x7F\x91\xAE\xD6\xE7");
  if (vector->map == 2)
    return AMONG(is->opcode, "\x2E\x2F\x63\x8A\x8B\x8E\xA0\xA1\xA2\xA3") ||
           (vector->is_extended && vector->prefix == PF3);
  return AMONG(is->opcode, "\x19\x1B\x1D\x39\x3B");
}

/* What is compared by the flags then is followed no more. */
static bool sets_flags(const struct native_operands *is, const struct native_vector *vector) {
  if (vector->map == 1)
    return AMONG(is->opcode, "\x2E\x2F\x98\x99");
  return vector->map == 2 && (is_general(is, vector) || AMONG(is->opcode, "\x0E\x0F\x17"));
}

/* String comparisons may set ecx; of half floats nothing is known. */
static bool is_known(const struct native_operands *is, const struct native_vector *vector) {
  bool compares = vector->map == 3 && is->opcode >= 0x60 && is->opcode <= 0x63;
  return vector->map >= 1 && vector->map <= 3 && !compares &&
         (vector->map == 1 || is->opcode < 0xF0 || is_general(is, vector));
}

static uint32_t bits_stored(const struct native_operands *is, const struct native_vector *vector) {
  bool is_half = vector->map == 1 && AMONG(is->opcode, "\x13\x17\xD6");
  if (vector_extracts(is, vector))
    return is->bits;
  if (vector->map == 1 && is->opcode == 0x11 && vector->prefix >= PF3)
    return vector->prefix == PF3 ? 32 : 64;
  return is_half ? 64 : vector->bits;
}

static void store_vector(struct native_testing *testing, const struct native_operands *is,
                         const struct native_vector *vector) {
  bool is_near = is->is_slot && is->mode == 1 && vector->is_extended;
  if (is_near && (is->base == RSP || testing->use.has_pointer))
    native_forget_held(testing, NATIVE_REGISTERS);
  else
    native_set_rm(testing, is, native_anything, bits_stored(is, vector));
}

bool native_vectors_step(struct native_testing *testing, const uint8_t *code, size_t length) {
  struct native_operands is;
  struct native_vector vector;
  if (length == 3 && code[0] == 0xC5 && code[2] == 0x77) /* VZEROUPPER, VZEROALL */
    return true;
  if (!native_operands_read_vector(&is, &vector, code, length) || !is_known(&is, &vector))
    return false;
  if (writes_register(&is, &vector))
    testing->contents[is.reg] = native_anything;
  else if (vector_extracts(&is, &vector) && is.mode == 3)
    testing->contents[is.rm] = native_anything;
  else if (is.mode != 3 && (vector_extracts(&is, &vector) || vector_stores(&is, &vector)))
    store_vector(testing, &is, &vector);
  if (writes_other(&is, &vector))
    testing->contents[vector.other] = native_anything;
  if (sets_flags(&is, &vector)) {
    testing->flags = native_anything;
    testing->compared.bits = 0;
  }
  return true;
}
