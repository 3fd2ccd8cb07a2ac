/* Tables of lines (python_code.h). */
#include "interpose/places/python/python_code.h"

/* 3.9: pairs of bytes: how far on in bytes, and how many lines on, which may be negative. */
static void pass_pairs(struct python_lines *lines, int64_t at) {
  const struct python_bytes *table = lines->table;
  for (; lines->next + 1 < table->size && lines->end + table->data[lines->next] <= at;
       lines->next += 2) {
    lines->end += table->data[lines->next];
    lines->line += (int8_t)table->data[lines->next + 1];
  }
}

/* 3.10: the same, but the second byte is for the range that the first one ends, and -128 stands for
 * no line. */
enum { NO_LINE = -128 };
static void pass_ranges(struct python_lines *lines, int64_t at) {
  const struct python_bytes *table = lines->table;
  for (; at >= lines->end && lines->next + 1 < table->size; lines->next += 2) {
    int8_t step = (int8_t)table->data[lines->next + 1];
    lines->end += table->data[lines->next];
    lines->line += step == NO_LINE ? 0 : step;
    lines->is_none = step == NO_LINE;
  }
  lines->is_none |= at >= lines->end;
}

/* 3.11: entries begin with a byte that has its highest bit set, four bits of a form, and three of a
 * length in code units less one. Numbers of six bits a byte, lowest first, with bit 6 where there
 * are more; signed ones have their sign in the lowest bit. */
enum form {
  FORM_SHORT_LAST = 9,
  FORM_ONE_LINE_0 = 10,
  FORM_ONE_LINE_2 = 12,
  FORM_NO_COLUMNS = 13,
  FORM_LONG = 14,
  FORM_NONE = 15
};

static uint8_t byte_at(const struct python_bytes *table, uint32_t at) {
  return at < table->size ? table->data[at] : 0;
}

static uint64_t number_at(const struct python_bytes *table, uint32_t *at) {
  uint64_t number = 0;
  for (unsigned shift = 0; *at < table->size && shift < 60; shift += 6) {
    uint8_t byte = table->data[(*at)++];
    number |= (uint64_t)(byte & 63) << shift;
    if ((byte & 64) == 0)
      break;
  }
  return number;
}

static int64_t signed_at(const struct python_bytes *table, uint32_t *at) {
  uint64_t number = number_at(table, at);
  return number & 1 ? -(int64_t)(number >> 1) : (int64_t)(number >> 1);
}

/* Never 0. Columns of more than 23 bits, and more than 65,535 lines, are cut. */
static uint64_t columns_of(uint64_t more_lines, uint64_t first, uint64_t last) {
  const uint64_t all = (1u << 23) - 1;
  return UINT64_C(1) << 63 | (more_lines & UINT16_MAX) << 46 | (first & all) << 23 | (last & all);
}

static void take_entry(struct python_lines *lines, uint32_t at, unsigned form) {
  const struct python_bytes *table = lines->table;
  lines->is_none = form == FORM_NONE;
  lines->columns = 0;
  if (form <= FORM_SHORT_LAST) {
    uint8_t second = byte_at(table, at);
    uint64_t first = form << 3 | second >> 4;
    lines->columns = columns_of(0, first, first + (second & 15));
  } else if (form <= FORM_ONE_LINE_2) {
    lines->line += form - FORM_ONE_LINE_0;
    lines->columns = columns_of(0, byte_at(table, at), byte_at(table, at + 1));
  } else if (form == FORM_NO_COLUMNS) {
    lines->line += signed_at(table, &at);
  } else if (form == FORM_LONG) {
    lines->line += signed_at(table, &at);
    uint64_t more_lines = number_at(table, &at), first = number_at(table, &at);
    lines->columns = columns_of(more_lines, first - 1, number_at(table, &at) - 1);
  }
}

static void pass_entries(struct python_lines *lines, int64_t at) {
  const struct python_bytes *table = lines->table;
  for (; at >= lines->end && lines->next < table->size; lines->next++) {
    uint8_t first = table->data[lines->next];
    if ((first & 128) == 0)
      continue; /* within an entry */
    lines->end += INT64_C(2) * ((first & 7) + 1);
    take_entry(lines, lines->next + 1, first >> 3 & 15);
  }
  lines->is_none |= at >= lines->end;
}

void python_lines_begin(struct python_lines *lines, unsigned minor,
                        const struct python_code *code) {
  *lines = (struct python_lines){.minor = minor, .table = &code->lines, .line = code->first_line};
}

uint32_t python_lines_at(struct python_lines *lines, uint32_t unit, uint64_t *columns) {
  int64_t at = (int64_t)unit * 2;
  if (lines->minor >= 11)
    pass_entries(lines, at);
  else if (lines->minor == 10)
    pass_ranges(lines, at);
  else
    pass_pairs(lines, at);
  bool has_line = !lines->is_none && lines->line > 0 && lines->line <= INT32_MAX;
  *columns = has_line ? lines->columns : 0;
  return has_line ? (uint32_t)lines->line : 0;
}

uint32_t python_line(unsigned minor, const struct python_code *code, uint32_t unit) {
  struct python_lines lines;
  uint64_t columns;
  python_lines_begin(&lines, minor, code);
  return python_lines_at(&lines, unit, &columns);
}
