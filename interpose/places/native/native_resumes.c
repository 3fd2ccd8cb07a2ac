/* Recognises coroutines of C++ (native_graph.h), by the few x86-64 instructions that read and
 * write the number of the point where they are suspended. */
#include "interpose/places/native/native_graph.h"

#include <string.h>

enum {
  NUMBER_FROM = 16,    /* in the frame: behind the addresses of resume and destroy */
  NUMBERS_MAX = 4,     /* candidates */
  BEGINNING_MAX = 128, /* instructions */
  REGISTER_STACK = 4,
  REGISTER_FRAME = 5,
  NO_REGISTER = 255,
};

/* A word in memory that an instruction reads or writes: how far behind what a register says. */
struct word {
  int32_t distance;
  uint32_t size;
};

/* An instruction as far as it matters here. */
struct form {
  bool has_memory; /* behind a register other than those of the stack */
  bool wide;
  bool half;   /* prefix 66 */
  uint8_t map; /* 0F: of two bytes */
  uint8_t opcode;
  uint8_t field; /* a register, or more of the opcode */
  int32_t distance;
  const uint8_t *rest; /* behind the operand */
};

/* False: of no interest. The instruction is known to be whole. */
static bool read_form(const struct native_cursor *cursor, struct form *form) {
  const uint8_t *at = cursor->at, *end = at + cursor->is.length;
  *form = (struct form){0};
  if (*at == 0x66) {
    form->half = true;
    at++;
  }
  uint8_t extended = 0;
  if (at < end && *at >= 0x40 && *at <= 0x4F)
    extended = *at++;
  form->wide = extended & 8;
  if (at < end && *at == 0x0F)
    form->map = *at++;
  if (end - at < 2)
    return false;
  form->opcode = *at++;
  uint8_t modrm = *at++;
  uint8_t base = modrm & 7, mode = modrm >> 6;
  form->field = (uint8_t)((extended & 4) << 1 | (modrm >> 3 & 7));
  if (mode == 3 || base == REGISTER_STACK || (base == REGISTER_FRAME && !(extended & 1)) ||
      (base == REGISTER_FRAME && mode == 0))
    return false;
  if (mode == 1) {
    form->distance = (int8_t)*at; // NOLINT(bugprone-signed-char-misuse,cert-str34-c): a number
    at += 1;
  } else if (mode == 2) {
    memcpy(&form->distance, at, sizeof form->distance);
    at += 4;
  }
  form->rest = at;
  return at <= end;
}

/* Whether a byte or two are read or compared with a number. */
static bool reads_number(const struct form *form, struct word *word) {
  *word = (struct word){form->distance, form->half ? 2 : 1};
  if (form->map == 0x0F) {
    word->size = form->opcode == 0xB7 ? 2 : 1;
    return form->opcode == 0xB6 || form->opcode == 0xB7;
  }
  switch (form->opcode) {
  case 0x8A:
    return true;
  case 0x80:
    return form->field == 7;
  case 0xF6:
    return form->field <= 1;
  case 0x8B:
    return form->half;
  case 0x81:
  case 0x83:
    return form->half && form->field == 7;
  }
  return false;
}

static bool writes_number(const struct form *form, struct word *word) {
  *word = (struct word){form->distance, form->half ? 2 : 1};
  if (form->map != 0)
    return false;
  switch (form->opcode) {
  case 0xC6:
  case 0x88:
    return true;
  case 0xC7:
  case 0x89:
    return form->half;
  }
  return false;
}

/* The register that XOR with itself makes 0, or NO_REGISTER. */
static uint8_t find_zeroed(const struct native_cursor *cursor) {
  const uint8_t *at = cursor->at;
  uint8_t extended = *at >= 0x40 && *at <= 0x4F ? *at++ : 0;
  bool is_xor = cursor->at + cursor->is.length - at == 2 && (*at == 0x31 || *at == 0x33);
  if (!is_xor || at[1] >> 6 != 3 || (at[1] & 7) != (at[1] >> 3 & 7) ||
      (extended >> 2 & 1) != (extended & 1))
    return NO_REGISTER;
  return (uint8_t)((extended & 1) << 3 | (at[1] & 7));
}

/* The first of the two addresses becomes NULL. zeroed: the register that was made 0 last. */
static bool says_done(const struct form *form, uint8_t zeroed) {
  static const uint8_t zero[4];
  if (form->map != 0 || !form->wide || form->distance != 0)
    return false;
  return form->opcode == 0x89 ? form->field == zeroed
                              : form->opcode == 0xC7 && memcmp(form->rest, zero, sizeof zero) == 0;
}

/* What the function reads before it first decides where to go. */
static uint32_t find_numbers(const struct native_code *code, struct word *numbers) {
  struct native_cursor cursor;
  bool failed;
  uint32_t count = 0;
  bool more = native_first(code, &cursor, &failed);
  for (uint32_t i = 0; more && i < BEGINNING_MAX && count < NUMBERS_MAX; i++) {
    struct form form;
    if (cursor.is.kind == NATIVE_JUMP) {
      more = native_jump(code, &cursor, &failed);
      continue;
    }
    if (read_form(&cursor, &form) && reads_number(&form, &numbers[count]) &&
        numbers[count].distance >= NUMBER_FROM)
      count++;
    if (cursor.is.kind != NATIVE_PLAIN)
      break;
    more = native_next(code, &cursor, &failed);
  }
  return count;
}

bool native_resumes(const struct native_code *code) {
  struct word numbers[NUMBERS_MAX];
  if (code->decode != native_decode_x86_64)
    return false;
  uint32_t count = find_numbers(code, numbers), written = 0;
  bool is_done = false, failed;
  uint8_t zeroed = NO_REGISTER;
  struct native_cursor cursor;
  for (bool more = count > 0 && native_first(code, &cursor, &failed); more;
       more = native_next(code, &cursor, &failed)) {
    struct form form;
    struct word word;
    if (find_zeroed(&cursor) != NO_REGISTER || cursor.is.kind != NATIVE_PLAIN)
      zeroed = find_zeroed(&cursor);
    if (cursor.is.kind != NATIVE_PLAIN || !read_form(&cursor, &form))
      continue;
    is_done |= says_done(&form, zeroed);
    for (uint32_t i = 0; writes_number(&form, &word) && i < count; i++)
      written += word.distance == numbers[i].distance && word.size == numbers[i].size;
  }
  return is_done && written >= 2;
}
