/* Finds a function's entry in the unwind tables and interprets it (eh_frame.h). */
#include "interpose/eh_frame.h"

#include <limits.h>
#include <string.h>

/* DWARF's numbers of the registers. */
#if defined(__x86_64__)
enum { REGISTER_STACK = 7, REGISTER_FRAME = 6, REGISTER_RETURN = 16 };
#elif defined(__aarch64__)
enum { REGISTER_STACK = 31, REGISTER_FRAME = 29, REGISTER_RETURN = 30 };
#else
enum { REGISTER_STACK = -1, REGISTER_FRAME = -1, REGISTER_RETURN = -1 }; /* nothing is understood */
#endif

/* ---- reading ---- */

/* From then on all that is read is 0, and what was being read is given up. */
struct reader {
  const uint8_t *at, *end;
  bool failed;
};

static uint64_t read_word(struct reader *from, size_t size) {
  uint64_t word = 0;
  if (from->failed || (size_t)(from->end - from->at) < size) {
    from->failed = true;
    return 0;
  }
  memcpy(&word, from->at, size); /* little-endian, as all processors that are known here */
  from->at += size;
  return word;
}

static uint8_t read_byte(struct reader *from) {
  return (uint8_t)read_word(from, 1);
}

static int64_t read_signed(struct reader *from, size_t size) {
  unsigned unused = 64 - 8 * (unsigned)size;
  return (int64_t)(read_word(from, size) << unused) >> unused;
}

static uint64_t read_leb(struct reader *from, bool is_signed) {
  uint64_t value = 0;
  unsigned shift = 0;
  uint8_t byte;
  do {
    byte = read_byte(from);
    if (shift < 64)
      value |= (uint64_t)(byte & 0x7f) << shift;
    shift += 7;
  } while ((byte & 0x80) != 0 && !from->failed);
  if (is_signed && shift < 64 && (byte & 0x40) != 0)
    value |= ~UINT64_C(0) << shift;
  return value;
}

static uint64_t read_uleb(struct reader *from) {
  return read_leb(from, false);
}

static int64_t read_sleb(struct reader *from) {
  return (int64_t)read_leb(from, true);
}

/* Encodings of pointers (DW_EH_PE_): the format, and what it is relative to. */
enum { ENCODED_OMITTED = 0xff, ENCODED_RELATIVE = 0x70, ENCODED_PC = 0x10, ENCODED_DATA = 0x30 };

static uint64_t read_formatted(struct reader *from, uint8_t encoding) {
  switch (encoding & 0x0f) {
  case 0x00: /* absptr */
  case 0x04: /* udata8 */
  case 0x0c: /* sdata8 */
    return read_word(from, 8);
  case 0x01:
    return read_uleb(from);
  case 0x02:
    return read_word(from, 2);
  case 0x03:
    return read_word(from, 4);
  case 0x09:
    return (uint64_t)read_sleb(from);
  case 0x0a:
    return (uint64_t)read_signed(from, 2);
  case 0x0b:
    return (uint64_t)read_signed(from, 4);
  default:
    from->failed = true;
    return 0;
  }
}

/* data: what "relative to data" means. Pointers to pointers do not stand where functions begin. */
static uintptr_t read_pointer(struct reader *from, uint8_t encoding, const uint8_t *data) {
  const uint8_t *here = from->at;
  uint64_t value = read_formatted(from, encoding);
  switch (encoding & 0xf0) {
  case 0:
    return value;
  case ENCODED_PC:
    return (uintptr_t)here + value;
  case ENCODED_DATA:
    return (uintptr_t)data + value;
  default:
    from->failed = true;
    return 0;
  }
}

/* ---- the search ---- */

struct header_row {
  int32_t function, entry; /* relative to the header */
};

/* The entry of the last function that begins at or before pc, by the sorted table that all linkers
 * make: 4-byte offsets from the header. */
static const uint8_t *entry_for(const struct code_module *module, uintptr_t pc) {
  struct reader header = {module->unwind_header, module->tables_end, module->unwind_header == NULL};
  uint8_t version = read_byte(&header), frame = read_byte(&header), count = read_byte(&header),
          table = read_byte(&header);
  if (version != 1 || table != 0x3b || count == ENCODED_OMITTED)
    return NULL;
  read_pointer(&header, frame, module->unwind_header);
  uint64_t rows = read_pointer(&header, count, module->unwind_header);
  if (header.failed || rows > (size_t)(header.end - header.at) / sizeof(struct header_row))
    return NULL;
  intptr_t offset = (intptr_t)(pc - (uintptr_t)module->unwind_header);
  struct header_row row = {0, 0};
  uint64_t low = 0, high = rows;
  while (low < high) {
    uint64_t middle = (low + high) / 2;
    memcpy(&row, header.at + middle * sizeof(row), sizeof(row));
    if (row.function <= offset)
      low = middle + 1;
    else
      high = middle;
  }
  if (low == 0)
    return NULL;
  memcpy(&row, header.at + (low - 1) * sizeof(row), sizeof(row));
  return module->unwind_header + row.entry;
}

/* ---- entries ---- */

/* What the entries of many functions have in common (a CIE). */
struct common {
  struct reader program;
  uint64_t code_unit;
  int64_t data_unit;
  uint8_t pointers; /* their encoding */
  bool is_augmented;
};

/* The bytes of an entry behind its length; failed if it does not lie in the tables. */
static struct reader entry_bytes(const struct code_module *module, const uint8_t *entry) {
  struct reader bytes = {entry, module->tables_end,
                         entry < module->tables || entry >= module->tables_end};
  uint64_t size = read_word(&bytes, 4);
  if (size == UINT32_MAX)
    size = read_word(&bytes, 8);
  if (size == 0 || size > (size_t)(bytes.end - bytes.at))
    bytes.failed = true;
  if (!bytes.failed)
    bytes.end = bytes.at + size;
  return bytes;
}

/* False: nothing that can be undone by these rules, as a signal's frame. */
static bool read_augmentation(struct reader *from, const char *letters, struct common *common) {
  common->pointers = 0;
  common->is_augmented = *letters == 'z';
  if (!common->is_augmented)
    return *letters == '\0';
  uint64_t size = read_uleb(from);
  if (from->failed || size > (size_t)(from->end - from->at))
    return false;
  struct reader data = {from->at, from->at + size, false};
  from->at += size;
  for (const char *letter = letters + 1; *letter != '\0'; letter++) {
    uint8_t encoding;
    switch (*letter) {
    case 'R':
      common->pointers = read_byte(&data);
      break;
    case 'L':
      read_byte(&data);
      break;
    case 'P':
      encoding = read_byte(&data);
      read_formatted(&data, encoding);
      break;
    case 'B': /* aarch64: the second key signs return addresses */
      break;
    default:
      return false;
    }
  }
  return !data.failed;
}

static bool read_common(const struct code_module *module, const uint8_t *entry,
                        struct common *common) {
  struct reader from = entry_bytes(module, entry);
  uint64_t id = read_word(&from, 4);
  uint8_t version = read_byte(&from);
  const char *letters = (const char *)from.at;
  while (read_byte(&from) != 0)
    ;
  if (from.failed || id != 0 || (version != 1 && version != 3))
    return false;
  common->code_unit = read_uleb(&from);
  common->data_unit = read_sleb(&from);
  uint64_t return_register = version == 1 ? read_byte(&from) : read_uleb(&from);
  if (return_register != REGISTER_RETURN || !read_augmentation(&from, letters, common))
    return false;
  common->program = from;
  return !from.failed;
}

/* ---- rules ---- */

enum saved { SAVED_NOT, SAVED_AT_CFA, SAVED_AT_FRAME, SAVED_NOWHERE, SAVED_OTHERWISE };

struct saved_register {
  enum saved how;
  int64_t at;
};

struct row {
  enum { CFA_OTHER, CFA_OF_REGISTER, CFA_LOADED } cfa;
  uint64_t cfa_register;
  int64_t cfa_offset; /* of what is loaded: where from */
  struct saved_register frame, back;
};

#define REMEMBERED_MAX 8

struct interpreter {
  struct reader program;
  const struct common *common;
  uintptr_t location, pc; /* rules from location on; looked for are those at pc */
  struct row row, initial, remembered[REMEMBERED_MAX];
  unsigned nremembered;
  bool failed;
};

static void save(struct interpreter *of, uint64_t number, enum saved how, int64_t at) {
  struct saved_register saved = {how, at};
  if (number == REGISTER_FRAME)
    of->row.frame = saved;
  else if (number == REGISTER_RETURN)
    of->row.back = saved;
}

static void restore(struct interpreter *of, uint64_t number) {
  if (number == REGISTER_FRAME)
    of->row.frame = of->initial.frame;
  else if (number == REGISTER_RETURN)
    of->row.back = of->initial.back;
}

static void define_cfa(struct interpreter *of, uint64_t number, int64_t offset) {
  of->row.cfa = CFA_OF_REGISTER;
  of->row.cfa_register = number;
  of->row.cfa_offset = offset;
}

/* The frame pointer plus a constant (DW_OP_breg), and with is_loaded what lies there
 * (DW_OP_deref): how compilers put the CFA of a function that aligns its stack. */
static bool reads_frame(struct reader *program, bool is_loaded, int64_t *offset) {
  uint64_t size = read_uleb(program);
  if (program->failed || size > (size_t)(program->end - program->at)) {
    program->failed = true;
    return false;
  }
  struct reader expression = {program->at, program->at + size, false};
  program->at += size;
  bool is_frame = read_byte(&expression) == 0x70 + REGISTER_FRAME;
  *offset = read_sleb(&expression);
  if (is_loaded)
    is_frame = is_frame && read_byte(&expression) == 0x06;
  return is_frame && !expression.failed && expression.at == expression.end;
}

static void define_cfa_expression(struct interpreter *of) {
  int64_t offset;
  bool is_known = reads_frame(&of->program, true, &offset);
  of->row.cfa = is_known ? CFA_LOADED : CFA_OTHER;
  of->row.cfa_offset = offset;
}

static void save_by_expression(struct interpreter *of) {
  uint64_t number = read_uleb(&of->program);
  int64_t offset;
  bool is_known = reads_frame(&of->program, false, &offset);
  save(of, number, is_known ? SAVED_AT_FRAME : SAVED_OTHERWISE, offset);
}

static void remember(struct interpreter *of) {
  if (of->nremembered == REMEMBERED_MAX)
    of->failed = true;
  else
    of->remembered[of->nremembered++] = of->row;
}

static void recall(struct interpreter *of) {
  if (of->nremembered == 0)
    of->failed = true;
  else
    of->row = of->remembered[--of->nremembered];
}

/* DWARF 5, 6.4.2; those from 0x1c on are vendors'. */
static void define(struct interpreter *of, uint8_t instruction) {
  struct reader *program = &of->program;
  int64_t unit = of->common->data_unit;
  uint64_t number;
  switch (instruction) {
  case 0x0c: /* def_cfa */
    number = read_uleb(program);
    define_cfa(of, number, (int64_t)read_uleb(program));
    break;
  case 0x0d: /* def_cfa_register */
    define_cfa(of, read_uleb(program), of->row.cfa_offset);
    break;
  case 0x0e: /* def_cfa_offset */
    of->row.cfa_offset = (int64_t)read_uleb(program);
    break;
  case 0x0f:
    define_cfa_expression(of);
    break;
  case 0x12: /* def_cfa_sf */
    number = read_uleb(program);
    define_cfa(of, number, read_sleb(program) * unit);
    break;
  case 0x13: /* def_cfa_offset_sf */
    of->row.cfa_offset = read_sleb(program) * unit;
    break;
  default:
    of->failed = true;
  }
}

static void save_or_define(struct interpreter *of, uint8_t instruction) {
  struct reader *program = &of->program;
  int64_t unit = of->common->data_unit;
  uint64_t number;
  switch (instruction) {
  case 0x05: /* offset_extended */
    number = read_uleb(program);
    save(of, number, SAVED_AT_CFA, (int64_t)read_uleb(program) * unit);
    break;
  case 0x11: /* offset_extended_sf */
    number = read_uleb(program);
    save(of, number, SAVED_AT_CFA, read_sleb(program) * unit);
    break;
  case 0x06: /* restore_extended */
    restore(of, read_uleb(program));
    break;
  case 0x07: /* undefined */
    save(of, read_uleb(program), SAVED_NOWHERE, 0);
    break;
  case 0x08: /* same_value */
    save(of, read_uleb(program), SAVED_NOT, 0);
    break;
  case 0x09: /* register */
  case 0x14: /* val_offset */
  case 0x15: /* val_offset_sf */
    save(of, read_uleb(program), SAVED_OTHERWISE, 0);
    read_uleb(program);
    break;
  case 0x10:
    save_by_expression(of);
    break;
  case 0x0a:
    remember(of);
    break;
  case 0x0b:
    recall(of);
    break;
  case 0x2e: /* GNU_args_size */
    read_uleb(program);
    break;
  case 0x2d: /* aarch64: the return address is signed from here on, or not any more */
    break;
  default:
    define(of, instruction);
  }
}

static void advance(struct interpreter *of, uint64_t units) {
  of->location += units * of->common->code_unit;
}

static void interpret(struct interpreter *of) {
  struct reader *program = &of->program;
  while (!of->failed && !program->failed && program->at < program->end && of->location <= of->pc) {
    uint8_t instruction = read_byte(program), operand = instruction & 0x3f;
    switch (instruction >> 6) {
    case 1:
      advance(of, operand);
      continue;
    case 2:
      save(of, operand, SAVED_AT_CFA, (int64_t)read_uleb(program) * of->common->data_unit);
      continue;
    case 3:
      restore(of, operand);
      continue;
    }
    switch (instruction) {
    case 0x00:
      break;
    case 0x01:
      of->location = read_pointer(program, of->common->pointers, NULL);
      break;
    case 0x02:
    case 0x03:
    case 0x04:
      advance(of, read_word(program, (size_t)1 << (instruction - 0x02)));
      break;
    default:
      save_or_define(of, instruction);
    }
  }
}

/* ---- from the row to the rule ---- */

static bool fits(int64_t offset) {
  return offset >= INT32_MIN && offset <= INT32_MAX;
}

static bool rule_from(const struct row *row, struct frame_rule *rule) {
  rule->is_outermost = row->back.how == SAVED_NOWHERE;
  if (rule->is_outermost)
    return true;
  if (row->back.how != SAVED_AT_CFA || !fits(row->back.at) || !fits(row->cfa_offset) ||
      !fits(row->frame.at))
    return false;
  rule->return_at = (int32_t)row->back.at;
  rule->fp_at = (int32_t)row->frame.at;
  rule->pointer = row->frame.how == SAVED_NOT        ? FRAME_POINTER_SAME
                  : row->frame.how == SAVED_AT_CFA   ? FRAME_POINTER_AT_CFA
                  : row->frame.how == SAVED_AT_FRAME ? FRAME_POINTER_AT_FRAME
                                                     : FRAME_POINTER_LOST;
  if (row->cfa == CFA_LOADED) {
    rule->base = FRAME_BASE_SAVED;
    rule->cfa_saved_at = (int32_t)row->cfa_offset;
    return true;
  }
  rule->cfa_offset = (int32_t)row->cfa_offset;
  rule->base = row->cfa_register == REGISTER_STACK ? FRAME_BASE_STACK : FRAME_BASE_POINTER;
  return row->cfa == CFA_OF_REGISTER &&
         (row->cfa_register == REGISTER_STACK || row->cfa_register == REGISTER_FRAME);
}

/* The common part's program first; what it leaves is what restore goes back to. */
static bool run(const struct common *common, struct reader program, uintptr_t begin, uintptr_t pc,
                struct row *row) {
  struct interpreter of = {
      .program = common->program, .common = common, .location = begin, .pc = pc};
  interpret(&of);
  if (of.failed || of.program.failed)
    return false;
  of.initial = of.row;
  of.program = program;
  interpret(&of);
  *row = of.row;
  return !of.failed && !of.program.failed;
}

bool eh_frame_rule(const struct code_module *module, uintptr_t pc, struct frame_rule *rule) {
  const uint8_t *entry = entry_for(module, pc);
  if (entry == NULL)
    return false;
  struct reader from = entry_bytes(module, entry);
  const uint8_t *id_at = from.at;
  uint64_t id = read_word(&from, 4);
  struct common common;
  if (from.failed || id == 0 || id > (size_t)(id_at - module->tables) ||
      !read_common(module, id_at - id, &common))
    return false;
  uintptr_t begin = read_pointer(&from, common.pointers, module->unwind_header);
  uint64_t size = read_formatted(&from, common.pointers & 0x0f);
  if (from.failed || pc - begin >= size)
    return false;
  if (common.is_augmented) {
    uint64_t skipped = read_uleb(&from);
    if (from.failed || skipped > (size_t)(from.end - from.at))
      return false;
    from.at += skipped;
  }
  *rule = (struct frame_rule){.function = (const uint8_t *)begin, .function_size = size};
  struct row row;
  return run(&common, from, begin, pc, &row) && rule_from(&row, rule);
}
