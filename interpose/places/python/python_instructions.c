/* Instructions, jumps and handlers of a code object (python_instructions.h). */
#include "interpose/places/python/python_instructions.h"

#include <stdlib.h>

/* While reading: by code unit, the instruction that begins there or that it is a prefix of. */
struct reading {
  const struct python_layout *layout;
  const struct python_code *code;
  struct python_instructions *instructions;
  uint32_t *at_unit; /* PYTHON_NOWHERE: a cache */
};

static uint32_t instruction_at(const struct reading *reading, uint64_t unit) {
  return unit < reading->code->nunits ? reading->at_unit[unit] : PYTHON_NOWHERE;
}

/* ---- jumps ---- */

enum way { WAY_NONE, WAY_AHEAD, WAY_BACK, WAY_TO };

static enum way way_of(enum python_opcode opcode) {
  switch (opcode) {
  case OPCODE_BRANCH:
  case OPCODE_FOR_ITER:
  case OPCODE_SEND:
  case OPCODE_JUMP:
  case OPCODE_SETUP:
  case OPCODE_SETUP_WITH:
    return WAY_AHEAD;
  case OPCODE_BRANCH_BACK:
  case OPCODE_JUMP_BACK:
    return WAY_BACK;
  case OPCODE_BRANCH_TO:
  case OPCODE_JUMP_TO:
    return WAY_TO;
  case OPCODE_UNKNOWN:
  case OPCODE_QUIET:
  case OPCODE_NOP:
  case OPCODE_OTHER:
  case OPCODE_CALL:
  case OPCODE_PRECALL:
  case OPCODE_EXTENDED:
  case OPCODE_RETURN:
  case OPCODE_YIELD:
  case OPCODE_RAISE:
  case OPCODE_POP_BLOCK:
  case OPCODE_POP_EXCEPT:
  case OPCODE_END_ASYNC_FOR:
  case OPCODE_WITH_EXCEPT:
  case OPCODE_LINE:
  case OPCODE_INSTRUCTION:
    return WAY_NONE;
  }
  return WAY_NONE;
}

static bool goes_on(enum python_opcode opcode) {
  return opcode != OPCODE_JUMP && opcode != OPCODE_JUMP_BACK && opcode != OPCODE_JUMP_TO &&
         opcode != OPCODE_RETURN && opcode != OPCODE_RAISE;
}

/* The code unit that an instruction jumps to, for instruction_at. `next`: of the next instruction.
 */
static uint64_t target_unit(unsigned minor, enum way way, uint32_t argument, uint32_t next) {
  uint64_t units = minor == 9 ? argument / 2 : argument;
  if (way == WAY_TO)
    return units;
  return way == WAY_AHEAD ? next + units : next - units; /* wraps to what is no code unit */
}

/* First pass: instructions with their arguments, and where the next one begins in `handler`. */
static bool python_split(struct reading *reading) {
  const struct python_code *code = reading->code;
  const char *row = reading->layout->opcodes;
  uint32_t argument = 0, first = 0, n = 0;
  for (uint32_t i = 0; i < code->nunits;) {
    uint8_t number = code->units[(size_t)2 * i];
    enum python_opcode opcode = python_opcode_of(row, number);
    if (opcode == OPCODE_UNKNOWN || opcode == OPCODE_LINE || opcode == OPCODE_INSTRUCTION)
      return false;
    argument = argument << 8 | code->units[(size_t)2 * i + 1];
    reading->at_unit[i] = n;
    uint32_t next = i + 1 + python_opcode_caches(row, number);
    if (opcode != OPCODE_EXTENDED) {
      reading->instructions->all[n] =
          (struct python_instruction){.unit = i,
                                      .same = n,
                                      .argument = argument,
                                      .handler = next,
                                      .opcode = opcode,
                                      .effect = python_opcode_effect(row, number),
                                      .number = number};
      reading->instructions->all[n].next = goes_on(opcode) ? n + 1 : PYTHON_NOWHERE;
      n++;
      argument = 0;
      first = next;
    }
    i = next;
  }
  reading->instructions->n = n;
  if (n == 0 || first < code->nunits) /* the last one whole, and no prefix of nothing */
    return false;
  if (reading->instructions->all[n - 1].next == n)
    reading->instructions->all[n - 1].next = PYTHON_NOWHERE;
  return true;
}

static void find_lines(struct reading *reading) {
  struct python_lines lines;
  python_lines_begin(&lines, reading->layout->minor, reading->code);
  for (uint32_t i = 0; i < reading->instructions->n; i++) {
    struct python_instruction *instruction = &reading->instructions->all[i];
    instruction->line = python_lines_at(&lines, instruction->unit, &instruction->columns);
  }
}

static bool find_targets(struct reading *reading) {
  for (uint32_t i = 0; i < reading->instructions->n; i++) {
    struct python_instruction *instruction = &reading->instructions->all[i];
    enum way way = way_of(instruction->opcode);
    uint32_t next = instruction->handler;
    instruction->target = instruction->handler = PYTHON_NOWHERE;
    if (way == WAY_NONE)
      continue;
    instruction->target = instruction_at(
        reading, target_unit(reading->layout->minor, way, instruction->argument, next));
    if (instruction->target == PYTHON_NOWHERE)
      return false;
  }
  return true;
}

/* After a call of __exit__ with an exception comes a branch on what it returned. In an `async with`
 * it is awaited first. */
static void mark_swallowing(struct python_instructions *instructions) {
  bool is_behind_exit = false;
  for (uint32_t i = 0; i < instructions->n; i++) {
    struct python_instruction *instruction = &instructions->all[i];
    instruction->swallows = is_behind_exit && python_instruction_is_branch(instruction);
    is_behind_exit = instruction->opcode == OPCODE_WITH_EXCEPT ||
                     (is_behind_exit && !python_instruction_is_branch(instruction));
  }
}

/* What a SEND yields comes back to it until the awaited is done. */
static void straighten_awaits(struct python_instructions *instructions) {
  for (uint32_t i = 0; i < instructions->n; i++) {
    struct python_instruction *instruction = &instructions->all[i];
    if (instruction->opcode == OPCODE_JUMP_BACK &&
        instructions->all[instruction->target].opcode == OPCODE_SEND)
      instruction->target = instructions->all[instruction->target].target;
  }
}

/* ---- handlers: the exception table ---- */

/* Numbers of six bits a byte, highest first; bit 6: there are more. Bit 7 begins an entry. */
static bool next_number(const struct python_bytes *table, uint32_t *at, uint32_t *number) {
  *number = 0;
  for (; *at < table->size; (*at)++) {
    *number = *number << 6 | (table->data[*at] & 63);
    if ((table->data[*at] & 64) == 0) {
      (*at)++;
      return true;
    }
  }
  return false;
}

static bool handlers_by_table(struct reading *reading) {
  const struct python_bytes *table = &reading->code->exceptions;
  struct python_instructions *instructions = reading->instructions;
  for (uint32_t at = 0; at < table->size;) {
    uint32_t start, length, target, depth;
    if (!next_number(table, &at, &start) || !next_number(table, &at, &length) ||
        !next_number(table, &at, &target) || !next_number(table, &at, &depth))
      return false;
    uint32_t handler = instruction_at(reading, target), first = instruction_at(reading, start);
    if (handler == PYTHON_NOWHERE || first == PYTHON_NOWHERE)
      return false;
    for (uint32_t i = first;
         i < instructions->n && instructions->all[i].unit < (uint64_t)start + length; i++)
      instructions->all[i].handler = handler;
  }
  return true;
}

/* ---- handlers: the stack of blocks ---- */

/* A stack is a list that shares its lower part with others. */
struct block {
  uint32_t below;   /* PYTHON_NOWHERE: the stack is empty below */
  uint32_t handler; /* PYTHON_NOWHERE: of an exception that is being handled */
};

struct stacks {
  struct block *blocks; /* two for each SETUP */
  uint32_t nblocks;
  uint32_t *at;   /* by instruction: the uppermost block before it */
  bool *is_known; /* by instruction */
  uint32_t *work; /* instructions that are still to be followed */
  uint32_t nwork;
};

static uint32_t python_push(struct stacks *stacks, uint32_t below, uint32_t handler) {
  stacks->blocks[stacks->nblocks] = (struct block){below, handler};
  return stacks->nblocks++;
}

static uint32_t python_pop(const struct stacks *stacks, uint32_t top) {
  return top == PYTHON_NOWHERE ? top : stacks->blocks[top].below;
}

static void python_reach(struct stacks *stacks, uint32_t instruction, uint32_t top) {
  if (stacks->is_known[instruction])
    return;
  stacks->is_known[instruction] = true;
  stacks->at[instruction] = top;
  stacks->work[stacks->nwork++] = instruction;
}

static uint32_t handler_in(const struct stacks *stacks, uint32_t top) {
  while (top != PYTHON_NOWHERE && stacks->blocks[top].handler == PYTHON_NOWHERE)
    top = stacks->blocks[top].below;
  return top == PYTHON_NOWHERE ? top : stacks->blocks[top].handler;
}

static void python_instructions_follow(struct stacks *stacks,
                                       struct python_instructions *instructions, uint32_t i) {
  struct python_instruction *instruction = &instructions->all[i];
  uint32_t top = stacks->at[i];
  instruction->handler = handler_in(stacks, top);
  bool sets_up = instruction->opcode == OPCODE_SETUP || instruction->opcode == OPCODE_SETUP_WITH;
  if (sets_up) {
    python_reach(stacks, instruction->target, python_push(stacks, top, PYTHON_NOWHERE));
    top = python_push(stacks, top, instruction->target);
  } else if (instruction->opcode == OPCODE_POP_BLOCK || instruction->opcode == OPCODE_POP_EXCEPT ||
             instruction->opcode == OPCODE_END_ASYNC_FOR) {
    top = python_pop(stacks, top);
  }
  if (instruction->target != PYTHON_NOWHERE && !sets_up)
    python_reach(stacks, instruction->target, top);
  if (instruction->next != PYTHON_NOWHERE)
    python_reach(stacks, instruction->next, top);
}

static bool handlers_by_blocks(struct python_instructions *instructions) {
  uint32_t n = instructions->n;
  struct stacks stacks = {.blocks = malloc(2 * (size_t)n * sizeof(*stacks.blocks)),
                          .at = malloc(n * sizeof(*stacks.at)),
                          .is_known = calloc(n, sizeof(*stacks.is_known)),
                          .work = malloc(n * sizeof(*stacks.work))};
  bool made =
      stacks.blocks != NULL && stacks.at != NULL && stacks.is_known != NULL && stacks.work != NULL;
  if (made)
    python_reach(&stacks, 0, PYTHON_NOWHERE);
  while (made && stacks.nwork > 0)
    python_instructions_follow(&stacks, instructions, stacks.work[--stacks.nwork]);
  free(stacks.blocks);
  free(stacks.at);
  free(stacks.is_known);
  free(stacks.work);
  return made;
}

/* A SETUP is no jump: only exceptions come to its handler. */
static void forget_setups(struct python_instructions *instructions) {
  for (uint32_t i = 0; i < instructions->n; i++)
    if (instructions->all[i].opcode == OPCODE_SETUP ||
        instructions->all[i].opcode == OPCODE_SETUP_WITH)
      instructions->all[i].target = PYTHON_NOWHERE;
}

/* ---- all of it ---- */

static bool find_handlers(struct reading *reading) {
  if (reading->layout->minor >= 11)
    return handlers_by_table(reading);
  bool made = handlers_by_blocks(reading->instructions);
  forget_setups(reading->instructions);
  return made;
}

static bool read_instructions(struct reading *reading) {
  if (!python_split(reading) || !find_targets(reading))
    return false;
  find_lines(reading);
  mark_swallowing(reading->instructions);
  straighten_awaits(reading->instructions);
  return find_handlers(reading) &&
         python_copies_unite(reading->layout->minor, reading->instructions);
}

bool python_instructions_read(const struct python_layout *layout, const struct python_code *code,
                              struct python_instructions *instructions) {
  instructions->n = 0;
  instructions->all = malloc(code->nunits * sizeof(*instructions->all));
  struct reading reading = {.layout = layout,
                            .code = code,
                            .instructions = instructions,
                            .at_unit = malloc(code->nunits * sizeof(*reading.at_unit))};
  bool known = instructions->all != NULL && reading.at_unit != NULL;
  for (uint32_t i = 0; known && i < code->nunits; i++)
    reading.at_unit[i] = PYTHON_NOWHERE;
  known = known && read_instructions(&reading);
  free(reading.at_unit);
  return known;
}
