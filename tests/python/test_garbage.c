/* What the reader of CPython makes of bytes that no compiler has written, and of objects that are
 * none: nothing that is wrong enough to crash. It reads no interpreter here. */
#include <criterion/criterion.h>

#include "interpose/places/python/python_code.h"
#include "interpose/places/python/python_graph.h"
#include "interpose/places/python/python_opcodes.h"

#include <stdlib.h>
#include <string.h>

enum { UNITS_MAX = 120, TABLE_MAX = 60, FUNCTIONS = 4000, OBJECTS = 20000, OBJECT_WORDS = 128 };

static uint32_t chance = 1;

static uint32_t draw(uint32_t below) {
  chance = chance * 1664525u + 1013904223u; /* Numerical Recipes */
  return (chance >> 8) % below;
}

/* Opcodes of the version, so that most functions are read beyond their first instruction. */
static void draw_units(const char *row, uint8_t *units, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) {
    do
      units[(size_t)2 * i] = (uint8_t)draw(256);
    while (python_opcode_of(row, units[(size_t)2 * i]) == OPCODE_UNKNOWN);
    units[(size_t)2 * i + 1] = (uint8_t)draw(draw(2) ? 4 : 256);
  }
}

static struct python_bytes draw_table(uint8_t *data) {
  uint32_t size = draw(TABLE_MAX);
  for (uint32_t i = 0; i < size; i++)
    data[i] = (uint8_t)draw(256);
  return (struct python_bytes){data, size};
}

/* Whether it was read. The arrays are as long as they say, for sanitizers. */
static bool read_one(const struct python_layout *layout) {
  uint32_t n = 1 + draw(UNITS_MAX);
  uint8_t *units = malloc((size_t)2 * n), lines[TABLE_MAX], exceptions[TABLE_MAX];
  cr_assert_not_null(units);
  draw_units(layout->opcodes, units, n);
  struct python_code *code = calloc(1, sizeof(*code));
  cr_assert_not_null(code);
  code->units = units;
  code->nunits = n;
  code->first_line = draw(100);
  code->lines = draw_table(lines);
  code->exceptions = draw_table(exceptions);
  if (draw(2))
    code->exceptions.size = 0;
  struct python_graph graph;
  bool made = python_graph_make(layout, code, &graph);
  struct flow *flow = made ? flow_analyse(&graph.flow) : NULL;
  for (uint32_t i = 0; made && i < graph.ninstructions; i++)
    cr_assert(graph.same[i] < graph.ninstructions && graph.units[i] < n);
  flow_free(flow);
  python_graph_free(&graph);
  free(units);
  free(code);
  return flow != NULL;
}

Test(garbage, code_of_random_instructions_is_read_or_not_known, .timeout = 300) {
  for (unsigned minor = PYTHON_MINOR_FIRST; minor <= PYTHON_MINOR_LAST; minor++) {
    struct python_layout layout = {.minor = minor, .opcodes = python_opcode_rows[minor]};
    unsigned read = 0;
    for (int i = 0; i < FUNCTIONS; i++)
      read += read_one(&layout);
    cr_expect_gt(read, 0, "3.%u: none of %d functions", minor, FUNCTIONS);
  }
}

/* Words of an object: what may be a type, an address within the objects or elsewhere, a number. */
static uint64_t draw_word(const uint64_t *objects, const struct python_layout *layout) {
  switch (draw(5)) {
  case 0:
    return (uint64_t)(objects + draw(OBJECT_WORDS));
  case 1:
    return (uint64_t)draw(16);
  case 2:
    return (uint64_t)draw(UINT32_MAX) << 24 | draw(UINT32_MAX);
  case 3:
    return draw(2) ? layout->code_type : layout->bytes_type;
  default:
    return draw(2) ? layout->text_type : layout->tuple_type;
  }
}

Test(garbage, objects_of_random_words_are_no_code, .timeout = 300) {
  static uint64_t objects[OBJECT_WORDS];
  static const char *const versions[] = {
      "3.9.18 (main, Jan 1 2024) [GCC 12]", "3.10.13 (main, Jan 1 2024) [GCC 12]",
      "3.11.7 (main, Jan 1 2024) [GCC 12]", "3.12.1 (main, Jan 1 2024) [GCC 12]"};
  for (size_t version = 0; version < sizeof(versions) / sizeof(versions[0]); version++) {
    struct python_layout layout;
    cr_assert(python_layout_of(&layout, versions[version], NULL));
    layout.code_type = 0x1000;
    layout.bytes_type = 0x2000;
    layout.text_type = 0x3000;
    layout.tuple_type = 0x4000;
    for (int i = 0; i < OBJECTS; i++) {
      for (uint32_t word = 0; word < OBJECT_WORDS; word++)
        objects[word] = draw_word(objects, &layout);
      objects[PYTHON_TYPE / 8] = layout.code_type;
      struct python_code *code = python_code_read(&layout, (uint64_t)objects);
      if (code != NULL)
        python_code_instruction(&layout, code, draw(1000));
      python_code_free(code);
    }
  }
}
