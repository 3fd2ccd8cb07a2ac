/* Interprets the programs of the unwind tables (eh_frame_program.h). */
#include "interpose/places/native/eh_frame_program.h"

#define REMEMBERED_MAX 8

#ifdef __x86_64__
static const uint8_t kept_registers[EH_KEPT] = {3, 12, 13, 14, 15};
#else
static const uint8_t kept_registers[EH_KEPT] = {UINT8_MAX, UINT8_MAX, UINT8_MAX, UINT8_MAX,
                                                UINT8_MAX};
#endif

struct interpreter {
  struct eh_reader program;
  const struct eh_common *common;
  uintptr_t location, pc; /* rules from location on; looked for are those at pc */
  struct eh_row row, initial, remembered[REMEMBERED_MAX];
  unsigned nremembered;
  bool failed;
};

static void eh_frame_save(struct interpreter *of, uint64_t number, enum saved how, int64_t at) {
  struct eh_saved saved = {how, at};
  if (number == REGISTER_FRAME)
    of->row.frame = saved;
  else if (number == REGISTER_RETURN)
    of->row.back = saved;
  for (unsigned i = 0; i < EH_KEPT; i++)
    if (number == kept_registers[i])
      of->row.kept[i] = saved;
}

static void eh_frame_restore(struct interpreter *of, uint64_t number) {
  if (number == REGISTER_FRAME)
    of->row.frame = of->initial.frame;
  else if (number == REGISTER_RETURN)
    of->row.back = of->initial.back;
  for (unsigned i = 0; i < EH_KEPT; i++)
    if (number == kept_registers[i])
      of->row.kept[i] = of->initial.kept[i];
}

static void define_cfa(struct interpreter *of, uint64_t number, int64_t offset) {
  of->row.cfa = CFA_OF_REGISTER;
  of->row.cfa_register = number;
  of->row.cfa_offset = offset;
}

/* The frame pointer plus a constant (DW_OP_breg), and with is_loaded what lies there
 * (DW_OP_deref): how compilers put the CFA of a function that aligns its stack. */
static bool reads_frame(struct eh_reader *program, bool is_loaded, int64_t *offset) {
  uint64_t size = eh_read_uleb(program);
  if (program->failed || size > (size_t)(program->end - program->at)) {
    program->failed = true;
    return false;
  }
  struct eh_reader expression = {program->at, program->at + size, false};
  program->at += size;
  bool is_frame = eh_read_byte(&expression) == 0x70 + REGISTER_FRAME;
  *offset = eh_read_sleb(&expression);
  if (is_loaded)
    is_frame = is_frame && eh_read_byte(&expression) == 0x06;
  return is_frame && !expression.failed && expression.at == expression.end;
}

static void define_cfa_expression(struct interpreter *of) {
  int64_t offset = 0;
  bool is_known = reads_frame(&of->program, true, &offset);
  of->row.cfa = is_known ? CFA_LOADED : CFA_OTHER;
  of->row.cfa_offset = offset;
}

static void save_by_expression(struct interpreter *of) {
  uint64_t number = eh_read_uleb(&of->program);
  int64_t offset = 0;
  bool is_known = reads_frame(&of->program, false, &offset);
  eh_frame_save(of, number, is_known ? SAVED_AT_FRAME : SAVED_OTHERWISE, offset);
}

static void eh_frame_remember(struct interpreter *of) {
  if (of->nremembered == REMEMBERED_MAX)
    of->failed = true;
  else
    of->remembered[of->nremembered++] = of->row;
}

static void eh_frame_recall(struct interpreter *of) {
  if (of->nremembered == 0)
    of->failed = true;
  else
    of->row = of->remembered[--of->nremembered];
}

/* DWARF 5, 6.4.2; those from 0x1c on are vendors'. */
static void eh_frame_define(struct interpreter *of, uint8_t instruction) {
  struct eh_reader *program = &of->program;
  int64_t unit = of->common->data_unit;
  uint64_t number;
  switch (instruction) {
  case 0x0c: /* def_cfa */
    number = eh_read_uleb(program);
    define_cfa(of, number, (int64_t)eh_read_uleb(program));
    break;
  case 0x0d: /* def_cfa_register */
    define_cfa(of, eh_read_uleb(program), of->row.cfa_offset);
    break;
  case 0x0e: /* def_cfa_offset */
    of->row.cfa_offset = (int64_t)eh_read_uleb(program);
    break;
  case 0x0f:
    define_cfa_expression(of);
    break;
  case 0x12: /* def_cfa_sf */
    number = eh_read_uleb(program);
    define_cfa(of, number, eh_read_sleb(program) * unit);
    break;
  case 0x13: /* def_cfa_offset_sf */
    of->row.cfa_offset = eh_read_sleb(program) * unit;
    break;
  default:
    of->failed = true;
  }
}

static void save_or_define(struct interpreter *of, uint8_t instruction) {
  struct eh_reader *program = &of->program;
  int64_t unit = of->common->data_unit;
  uint64_t number;
  switch (instruction) {
  case 0x05: /* offset_extended */
    number = eh_read_uleb(program);
    eh_frame_save(of, number, SAVED_AT_CFA, (int64_t)eh_read_uleb(program) * unit);
    break;
  case 0x11: /* offset_extended_sf */
    number = eh_read_uleb(program);
    eh_frame_save(of, number, SAVED_AT_CFA, eh_read_sleb(program) * unit);
    break;
  case 0x06: /* restore_extended */
    eh_frame_restore(of, eh_read_uleb(program));
    break;
  case 0x07: /* undefined */
    eh_frame_save(of, eh_read_uleb(program), SAVED_NOWHERE, 0);
    break;
  case 0x08: /* same_value */
    eh_frame_save(of, eh_read_uleb(program), SAVED_NOT, 0);
    break;
  case 0x09: /* register */
  case 0x14: /* val_offset */
  case 0x15: /* val_offset_sf */
    eh_frame_save(of, eh_read_uleb(program), SAVED_OTHERWISE, 0);
    eh_read_uleb(program);
    break;
  case 0x10:
    save_by_expression(of);
    break;
  case 0x0a:
    eh_frame_remember(of);
    break;
  case 0x0b:
    eh_frame_recall(of);
    break;
  case 0x2e: /* GNU_args_size */
    eh_read_uleb(program);
    break;
  case 0x2d: /* aarch64: the return address is signed from here on, or not any more */
    break;
  default:
    eh_frame_define(of, instruction);
  }
}

static void eh_frame_advance(struct interpreter *of, uint64_t units) {
  of->location += units * of->common->code_unit;
}

static void eh_frame_interpret(struct interpreter *of) {
  struct eh_reader *program = &of->program;
  while (!of->failed && !program->failed && program->at < program->end && of->location <= of->pc) {
    uint8_t instruction = eh_read_byte(program), operand = instruction & 0x3f;
    switch (instruction >> 6) {
    case 1:
      eh_frame_advance(of, operand);
      continue;
    case 2:
      eh_frame_save(of, operand, SAVED_AT_CFA,
                    (int64_t)eh_read_uleb(program) * of->common->data_unit);
      continue;
    case 3:
      eh_frame_restore(of, operand);
      continue;
    }
    switch (instruction) {
    case 0x00:
      break;
    case 0x01:
      of->location = eh_read_pointer(program, of->common->pointers, NULL);
      break;
    case 0x02:
    case 0x03:
    case 0x04:
      eh_frame_advance(of, eh_read_word(program, (size_t)1 << (instruction - 0x02)));
      break;
    default:
      save_or_define(of, instruction);
    }
  }
}

/* The common part's program first; what it leaves is what restore goes back to. */
bool eh_program_run(const struct eh_common *common, struct eh_reader program, uintptr_t begin,
                    uintptr_t pc, struct eh_row *row) {
  struct interpreter of = {
      .program = common->program, .common = common, .location = begin, .pc = pc};
  eh_frame_interpret(&of);
  if (of.failed || of.program.failed)
    return false;
  of.initial = of.row;
  of.program = program;
  eh_frame_interpret(&of);
  *row = of.row;
  return !of.failed && !of.program.failed;
}
