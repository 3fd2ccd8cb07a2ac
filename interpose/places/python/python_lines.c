/* Tables of lines (python_code.h). */
#include "interpose/places/python/python_code.h"

/* 3.9: pairs of bytes: how far on in bytes, and how many lines on, which may be negative. */
static int64_t line_by_pairs(const struct python_code *code, int64_t at) {
  int64_t line = code->first_line, position = 0;
  for (uint32_t i = 0; i + 1 < code->lines.size; i += 2) {
    position += code->lines.data[i];
    if (position > at)
      break;
    line += (int8_t)code->lines.data[i + 1];
  }
  return line;
}

/* 3.10: the same, but the second byte is for the range that the first one ends, and -128 stands for
 * no line. */
enum { NO_LINE = -128 };
static int64_t line_by_ranges(const struct python_code *code, int64_t at) {
  int64_t line = code->first_line, end = 0;
  for (uint32_t i = 0; i + 1 < code->lines.size; i += 2) {
    int8_t step = (int8_t)code->lines.data[i + 1];
    end += code->lines.data[i];
    line += step == NO_LINE ? 0 : step;
    if (at < end)
      return step == NO_LINE ? 0 : line;
  }
  return 0;
}

/* 3.11: entries begin with a byte that has its highest bit set, four bits of a form, and three of a
 * length in code units less one. Numbers of six bits a byte, lowest first, with bit 6 where there
 * are more; signed ones have their sign in the lowest bit. */
enum form {
  FORM_ONE_LINE_0 = 10,
  FORM_ONE_LINE_2 = 12,
  FORM_NO_COLUMNS = 13,
  FORM_LONG = 14,
  FORM_NONE = 15
};

static int64_t signed_number(const struct python_bytes *table, uint32_t at) {
  uint64_t number = 0;
  for (unsigned shift = 0; at < table->size && shift < 60; shift += 6, at++) {
    number |= (uint64_t)(table->data[at] & 63) << shift;
    if ((table->data[at] & 64) == 0)
      break;
  }
  return number & 1 ? -(int64_t)(number >> 1) : (int64_t)(number >> 1);
}

static int64_t line_step(const struct python_bytes *table, uint32_t at) {
  unsigned form = table->data[at] >> 3 & 15;
  if (form == FORM_NO_COLUMNS || form == FORM_LONG)
    return signed_number(table, at + 1);
  return form >= FORM_ONE_LINE_0 && form <= FORM_ONE_LINE_2 ? (int64_t)form - FORM_ONE_LINE_0 : 0;
}

static int64_t line_by_entries(const struct python_code *code, uint32_t unit) {
  int64_t line = code->first_line;
  uint64_t end = 0;
  for (uint32_t i = 0; i < code->lines.size; i++) {
    uint8_t first = code->lines.data[i];
    if ((first & 128) == 0)
      continue; /* within an entry */
    end += (first & 7u) + 1;
    line += line_step(&code->lines, i);
    if (unit < end)
      return (first >> 3 & 15) == FORM_NONE ? 0 : line;
  }
  return 0;
}

uint32_t python_line(unsigned minor, const struct python_code *code, uint32_t unit) {
  int64_t at = (int64_t)unit * 2;
  int64_t line = minor >= 11   ? line_by_entries(code, unit)
                 : minor == 10 ? line_by_ranges(code, at)
                               : line_by_pairs(code, at);
  return line > 0 && line <= INT32_MAX ? (uint32_t)line : 0;
}
