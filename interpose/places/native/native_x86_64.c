/* Lengths and targets of x86-64 instructions, by the opcode maps of the Intel 64 manual (volume 2,
 * appendix A) and AMD's XOP. Tests compare the lengths with objdump's. */
#include "interpose/places/native/native_decode.h"

#include <string.h>

/* What follows an opcode, a letter each:
 *   .  nothing              m  ModRM             b  ModRM and 1 byte   z  ModRM and 2 or 4 bytes
 *   1  1 byte               2  2 bytes           3  3 bytes            4  2 or 4 bytes
 *   r  1 byte, relative     R  4, relative       o  an address         v  2, 4 or 8 bytes
 *   g  ModRM and, if its register is 0 or 1, what b has (G: z)         x  not in 64-bit mode */
static const char one_byte[257] = "mmmm14xxmmmm14x."
                                  "mmmm14xxmmmm14xx"
                                  "mmmm14xxmmmm14xx"
                                  "mmmm14xxmmmm14xx"
                                  "................"
                                  "................"
                                  "xxxm....4z1b...."
                                  "rrrrrrrrrrrrrrrr"
                                  "bzxbmmmmmmmmmmmm"
                                  "..........x....."
                                  "oooo....14......"
                                  "11111111vvvvvvvv"
                                  "bb2.xxbz3.2..1x."
                                  "mmmmxxx.mmmmmmmm"
                                  "rrrr1111RRxr...."
                                  "......gG......mm";

static const char two_bytes[257] = "mmmmx.....x.xm.b"
                                   "mmmmmmmmmmmmmmmm"
                                   "mmmmmmmmmmmmmmmm"
                                   "......x.xxxxxxxx"
                                   "mmmmmmmmmmmmmmmm"
                                   "mmmmmmmmmmmmmmmm"
                                   "mmmmmmmmmmmmmmmm"
                                   "bbbbmmm.mmxxmmmm"
                                   "RRRRRRRRRRRRRRRR"
                                   "mmmmmmmmmmmmmmmm"
                                   "...mbmmm...mbmmm"
                                   "mmmmmmmmmmbmmmmm"
                                   "mmbmbbbm........"
                                   "mmmmmmmmmmmmmmmm"
                                   "mmmmmmmmmmmmmmmm"
                                   "mmmmmmmmmmmmmmmm";

enum map { MAP_ONE, MAP_TWO, MAP_38, MAP_3A, MAP_XOP_8, MAP_XOP_9, MAP_XOP_A, MAP_FP16, MAP_NONE };

/* While an instruction is read. */
struct reading {
  const uint8_t *code;
  size_t size;
  size_t at;
  bool operand16; /* prefix 66 */
  bool address32;
  bool repeat; /* prefix F2 */
  bool wide;   /* REX.W */
  bool vector; /* VEX, EVEX or XOP */
  enum map map;
  uint8_t opcode;
  bool has_modrm;
  uint8_t modrm;
  uint8_t sib;
  size_t displacement; /* where it stands; 0: there is none of 4 bytes */
};

static bool native_x86_64_take(struct reading *reading, uint8_t *byte) {
  if (reading->at >= reading->size)
    return false;
  *byte = reading->code[reading->at++];
  return true;
}

static int32_t native_x86_64_read32(const uint8_t *at) {
  int32_t value;
  memcpy(&value, at, sizeof value);
  return value;
}

/* True if byte is a prefix. */
static bool take_prefix(struct reading *reading, uint8_t byte) {
  switch (byte) {
  case 0x66:
    reading->operand16 = true;
    return true;
  case 0x67:
    reading->address32 = true;
    return true;
  case 0xF2:
    reading->repeat = true;
    return true;
  case 0xF0:
  case 0xF3:
  case 0x26:
  case 0x2E:
  case 0x36:
  case 0x3E:
  case 0x64:
  case 0x65:
    return true;
  }
  return false;
}

static enum map vector_map(uint8_t number) {
  static const enum map maps[] = {MAP_NONE, MAP_TWO,  MAP_38,    MAP_3A,    MAP_NONE, MAP_FP16,
                                  MAP_FP16, MAP_NONE, MAP_XOP_8, MAP_XOP_9, MAP_XOP_A};
  return number < sizeof maps / sizeof *maps ? maps[number] : MAP_NONE;
}

/* VEX (C4, C5), EVEX (62) and XOP (8F): the map's number and more, then the opcode. */
static bool take_vector(struct reading *reading, uint8_t first) {
  uint8_t byte;
  uint8_t rest = first == 0x62 ? 2 : first == 0xC5 ? 0 : 1;
  reading->vector = true;
  if (!native_x86_64_take(reading, &byte))
    return false;
  reading->map = first == 0xC5 ? MAP_TWO : vector_map(byte & (first == 0x62 ? 7 : 31));
  while (rest-- > 0)
    if (!native_x86_64_take(reading, &byte))
      return false;
  return reading->map != MAP_NONE && native_x86_64_take(reading, &reading->opcode);
}

static bool take_opcode(struct reading *reading) {
  uint8_t byte;
  do {
    if (!native_x86_64_take(reading, &byte))
      return false;
  } while (take_prefix(reading, byte));
  if (byte >= 0x40 && byte <= 0x4F) {
    reading->wide = byte & 8;
    if (!native_x86_64_take(reading, &byte))
      return false;
  }
  bool is_xop =
      byte == 0x8F && reading->at < reading->size && (reading->code[reading->at] & 31) >= 8;
  if (byte == 0xC4 || byte == 0xC5 || byte == 0x62 || is_xop)
    return take_vector(reading, byte);
  if (byte == 0x0F) {
    reading->map = MAP_TWO;
    if (!native_x86_64_take(reading, &byte))
      return false;
    if (byte == 0x38 || byte == 0x3A) {
      reading->map = byte == 0x38 ? MAP_38 : MAP_3A;
      return native_x86_64_take(reading, &reading->opcode);
    }
  }
  reading->opcode = byte;
  return true;
}

static char what_follows(const struct reading *reading) {
  uint8_t opcode = reading->opcode;
  switch (reading->map) {
  case MAP_ONE:
    return one_byte[opcode];
  case MAP_TWO:
    if (reading->vector && two_bytes[opcode] != 'b')
      return opcode == 0x77 ? '.'
                            : 'm'; /* VZEROUPPER; opcodes with nothing in the other encoding */
    return two_bytes[opcode];
  case MAP_3A:
  case MAP_XOP_8:
    return 'b';
  case MAP_XOP_A:
    return 'z';
  case MAP_38:
  case MAP_XOP_9:
  case MAP_FP16:
    return 'm';
  case MAP_NONE:
    break;
  }
  return 'x';
}

static bool take_modrm(struct reading *reading) {
  if (!native_x86_64_take(reading, &reading->modrm))
    return false;
  reading->has_modrm = true;
  uint8_t mode = reading->modrm >> 6;
  uint8_t base = reading->modrm & 7;
  if (mode == 3)
    return true;
  if (base == 4) {
    if (!native_x86_64_take(reading, &reading->sib))
      return false;
    base = reading->sib & 7;
  }
  if (mode == 2 || (mode == 0 && base == 5)) {
    reading->displacement = reading->at;
    reading->at += 4;
  } else if (mode == 1) {
    reading->at += 1;
  }
  return true;
}

/* How many bytes follow the opcode, or its ModRM. */
static size_t native_immediate(const struct reading *reading, char follows) {
  size_t operand = reading->operand16 && !reading->wide && !reading->vector ? 2 : 4;
  bool tests = (reading->modrm & 0x30) == 0; /* group 3: TEST has one, the others not */
  switch (follows) {
  case '1':
  case 'r':
  case 'b':
    return 1;
  case '2':
  case '3':
    return (size_t)(follows - '0');
  case '4':
  case 'z':
    return operand;
  case 'R':
    return 4;
  case 'o':
    return reading->address32 ? 4 : 8;
  case 'v':
    return reading->wide ? 8 : operand;
  case 'g':
    return tests ? 1 : 0;
  case 'G':
    return tests ? operand : 0;
  }
  /* EXTRQ and INSERTQ of SSE4a */
  if (reading->map == MAP_TWO && reading->opcode == 0x78 && !reading->vector)
    return reading->operand16 || reading->repeat ? 2 : 0;
  return 0;
}

/* ---- What an instruction does ---- */

static void set_target(const struct reading *reading, struct native_instruction *is,
                       enum native_kind kind, char follows) {
  const uint8_t *end = reading->code + reading->at;
  is->kind = (uint8_t)kind;
  is->has_target = true;
  is->target =
      (int64_t)reading->at + (follows == 'R' ? native_x86_64_read32(end - 4) : (int8_t)end[-1]);
}

static enum native_kind kind_of(const struct reading *reading) {
  if (reading->vector)
    return NATIVE_PLAIN;
  if (reading->map == MAP_TWO)
    return reading->opcode == 0x0B || reading->opcode == 0xB9 || reading->opcode == 0xFF
               ? NATIVE_TRAP
               : NATIVE_PLAIN;
  if (reading->map != MAP_ONE)
    return NATIVE_PLAIN;
  uint8_t group = reading->modrm >> 3 & 7;
  switch (reading->opcode) {
  case 0xC2:
  case 0xC3:
  case 0xCA:
  case 0xCB:
  case 0xCF:
    return NATIVE_RETURN;
  case 0xCC:
  case 0xF4:
    return NATIVE_TRAP;
  case 0xFF:
    if (group == 2 || group == 3)
      return NATIVE_CALL;
    if (group == 4)
      return reading->modrm >> 6 == 3 ? NATIVE_JUMP_REGISTER : NATIVE_JUMP_MEMORY;
    return group == 5 ? NATIVE_JUMP_MEMORY : NATIVE_PLAIN;
  }
  return NATIVE_PLAIN;
}

/* CMP or AND with a number: 3C, 3D, 24, 25, and 80, 81, 83 with 7 or 4 as the ModRM's register. */
static void see_compare(const struct reading *reading, struct native_instruction *is,
                        char follows) {
  uint8_t opcode = reading->opcode;
  uint8_t group = reading->modrm >> 3 & 7;
  bool is_group =
      (opcode == 0x80 || opcode == 0x81 || opcode == 0x83) && (group == 7 || group == 4);
  bool is_plain = opcode == 0x3C || opcode == 0x3D || opcode == 0x24 || opcode == 0x25;
  if (reading->map != MAP_ONE || !(is_group || is_plain))
    return;
  size_t bytes = native_immediate(reading, follows);
  uint64_t value = 0;
  memcpy(&value, reading->code + reading->at - bytes, bytes);
  is->details |= NATIVE_COMPARE;
  is->value = value;
}

/* 90, and 0F 1F. */
static void see_nothing(const struct reading *reading, struct native_instruction *is) {
  if ((reading->map == MAP_ONE && reading->opcode == 0x90) ||
      (reading->map == MAP_TWO && reading->opcode == 0x1F && !reading->vector))
    is->details |= NATIVE_NOTHING;
}

/* Indices; LEA of a place relative to the code, or a jump by it; a table without base register. */
static void see_address(const struct reading *reading, struct native_instruction *is) {
  bool has_index = reading->modrm >> 6 != 3 && (reading->modrm & 7) == 4 && reading->has_modrm;
  if (has_index && reading->sib >> 6 >= 2)
    is->details |= reading->sib >> 6 == 2 ? NATIVE_INDEX_4 : NATIVE_INDEX_8;
  if (reading->map != MAP_ONE || reading->displacement == 0 || reading->modrm >> 6 != 0)
    return;
  int32_t distance = native_x86_64_read32(reading->code + reading->displacement);
  if ((reading->opcode == 0x8D || is->kind == NATIVE_JUMP_MEMORY) && (reading->modrm & 7) == 5) {
    is->details |= NATIVE_ADDRESS;
    is->target = (int64_t)reading->at + distance;
  } else if ((reading->modrm & 7) == 4 && reading->sib >> 6 == 3 && (reading->sib & 7) == 5 &&
             (reading->opcode == 0x8B || is->kind == NATIVE_JUMP_MEMORY)) {
    is->details |= NATIVE_TABLE;
    is->value = (uint64_t)(int64_t)distance;
  }
}

bool native_decode_x86_64(const uint8_t *code, size_t size, struct native_instruction *is) {
  struct reading reading = {.code = code, .size = size < 15 ? size : 15, .map = MAP_ONE};
  *is = (struct native_instruction){.kind = NATIVE_PLAIN};
  if (!take_opcode(&reading))
    return false;
  char follows = what_follows(&reading);
  if (follows == 'x' || (strchr("mbzgG", follows) != NULL && !take_modrm(&reading)))
    return false;
  reading.at += native_immediate(&reading, follows);
  if (reading.at > reading.size)
    return false;
  is->length = (uint8_t)reading.at;
  is->kind = (uint8_t)kind_of(&reading);
  bool is_call = reading.map == MAP_ONE && reading.opcode == 0xE8;
  bool is_jump = reading.map == MAP_ONE && (reading.opcode == 0xE9 || reading.opcode == 0xEB);
  if (!reading.vector && (follows == 'r' || follows == 'R'))
    set_target(&reading, is,
               is_call   ? NATIVE_CALL
               : is_jump ? NATIVE_JUMP
                         : NATIVE_BRANCH,
               follows);
  if (reading.map == MAP_ONE && reading.opcode == 0xC7 && reading.modrm == 0xF8) /* XBEGIN */
    set_target(&reading, is, NATIVE_BRANCH, 'R');
  see_compare(&reading, is, follows);
  see_address(&reading, is);
  see_nothing(&reading, is);
  return true;
}
