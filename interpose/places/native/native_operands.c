/* Reading operands: see native_operands.h. */
#include "interpose/places/native/native_operands.h"

#include <string.h>

static bool take_prefixes(struct native_operands *is, size_t *next) {
  for (; *next < is->length; ++*next) {
    uint8_t byte = is->code[*next];
    if (byte == 0x66)
      is->wide16 = true;
    else if (byte == 0xF2 || byte == 0xF3)
      is->repeats = true;
    else if (byte == 0x64 || byte == 0x65)
      is->other_segment = true;
    else if (byte != 0x2E && byte != 0x36 && byte != 0x3E && byte != 0x26)
      break;
  }
  if (*next < is->length && (is->code[*next] & 0xF0) == 0x40)
    is->rex = is->code[(*next)++];
  is->bits = is->rex & 8 ? 64 : is->wide16 ? 16 : 32;
  return *next < is->length;
}

static void take_memory(struct native_operands *is, size_t next) {
  uint8_t base = is->rm & 7;
  if (base == 4 && next < is->length) {
    uint8_t sib = is->code[next++];
    is->has_index = (sib & 0x38) != 0x20 || (is->rex & 2) != 0;
    base = sib & 7;
    is->is_far = !is->has_index && base == 5 && is->mode == 0;
  } else {
    is->is_far = is->is_relative = base == 5 && is->mode == 0;
  }
  is->base = base | (is->rex & 1) << 3;
  bool has_base = !(base == 5 && is->mode == 0);
  is->is_slot =
      has_base && !is->has_index && (is->base == RSP || is->base == RBP) && !is->other_segment;
  if (is->mode == 1 && next < is->length)
    is->at = (is->code[next] ^ 0x80) - 0x80; /* with its sign */
  else if ((is->mode == 2 || is->is_far) && next + 4 <= is->length)
    memcpy(&is->at, is->code + next, sizeof is->at);
}

/* ModRM, and what follows it. */
static void take_modrm(struct native_operands *is, size_t next) {
  uint8_t modrm = is->code[next];
  is->mode = modrm >> 6;
  is->reg = (uint8_t)((modrm >> 3 & 7) | (is->rex & 4) << 1);
  is->rm = (uint8_t)((modrm & 7) | (is->mode == 3 ? (is->rex & 1) << 3 : 0));
  if (is->mode != 3)
    take_memory(is, next + 1);
}

bool native_operands_has_modrm(const struct native_operands *is) {
  uint8_t opcode = is->opcode;
  if (is->two)
    return opcode < 0x80 || opcode >= 0x90;
  if (opcode < 0x40)
    return (opcode & 7) < 4;
  return opcode == 0x63 || opcode == 0x69 || opcode == 0x6B || (opcode >= 0x80 && opcode < 0x90) ||
         opcode == 0xC0 || opcode == 0xC1 || opcode == 0xC6 || opcode == 0xC7 ||
         (opcode >= 0xD0 && opcode < 0xD4) || opcode == 0xF6 || opcode == 0xF7 || opcode >= 0xFE;
}

bool native_operands_read(struct native_operands *is, const uint8_t *code, size_t length) {
  size_t next = 0;
  *is = (struct native_operands){.code = code, .length = length};
  if (!take_prefixes(is, &next))
    return false;
  is->opcode = code[next++];
  is->two = is->opcode == 0x0F;
  if (is->two && next == length)
    return false;
  if (is->two)
    is->opcode = code[next++];
  if (!native_operands_has_modrm(is))
    return true;
  if (next == length)
    return false;
  take_modrm(is, next);
  return true;
}

/* Intel 64 manual, volume 2, 2.3.5 and 2.7.1: bits of REX are there the other way round. */
bool native_operands_read_vector(struct native_operands *is, struct native_vector *vector,
                                 const uint8_t *code, size_t length) {
  size_t payload = code[0] == 0xC5   ? 1
                   : code[0] == 0xC4 ? 2
                   : code[0] == 0x62 ? 3
                                     : 0,
         next = 1 + payload;
  *is = (struct native_operands){.code = code, .length = length};
  if (payload == 0 || next + 2 > length)
    return false;
  uint8_t first = (uint8_t)~code[1], last = code[payload == 3 ? 2 : payload];
  vector->map = payload == 1 ? 1 : code[1] & (payload == 3 ? 7 : 31);
  vector->prefix = last & 3;
  vector->other = (uint8_t)~last >> 3 & 15;
  vector->is_extended = payload == 3;
  vector->bits = payload == 3 ? 512 : 256;
  bool is_wide = payload != 1 && (last & 0x80) != 0;
  is->rex = (uint8_t)(0x40 | (is_wide ? 8 : 0) | (first & 0x80 ? 4 : 0) |
                      (payload != 1 ? (first & 0x60) >> 5 : 0));
  is->bits = is_wide ? 64 : 32;
  is->opcode = code[next++];
  take_modrm(is, next);
  return true;
}

bool native_operands_is_vector(uint8_t opcode) {
  return opcode == 0x10 || opcode == 0x12 || opcode == 0x14 || opcode == 0x15 || opcode == 0x16 ||
         opcode == 0x28 || opcode == 0x2A || (opcode >= 0x51 && opcode <= 0x70) || opcode == 0xC6 ||
         opcode == 0xD4 || opcode == 0xEB || opcode == 0xEF || opcode == 0xFE;
}

bool native_operands_stores_vector(uint8_t opcode) {
  return opcode == 0x11 || opcode == 0x13 || opcode == 0x17 || opcode == 0x29 || opcode == 0x7F ||
         opcode == 0xD6;
}
