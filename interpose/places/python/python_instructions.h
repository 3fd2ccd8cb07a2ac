/* The instructions of a code object of CPython, with where each may go. */
#ifndef NCCL_JOIN_INTERPOSE_PYTHON_INSTRUCTIONS_H
#define NCCL_JOIN_INTERPOSE_PYTHON_INSTRUCTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "interpose/places/python/python_code.h"
#include "interpose/places/python/python_layout.h"
#include "interpose/places/python/python_opcodes.h"

#define PYTHON_NOWHERE UINT32_MAX

struct python_instruction {
  uint32_t unit;    /* of its opcode, behind EXTENDED_ARG */
  uint32_t next;    /* the instruction that may follow, by number; PYTHON_NOWHERE */
  uint32_t target;  /* the one that it may jump to; PYTHON_NOWHERE, also of a SETUP */
  uint32_t handler; /* the one that its exceptions go to; PYTHON_NOWHERE */
  uint32_t same;    /* the one that it is a copy of, or itself: python_copies_unite */
  uint32_t argument;
  uint32_t line;    /* 0: none */
  uint64_t columns; /* see python_lines_at */
  enum python_opcode opcode;
  enum python_effect effect;
  uint8_t number; /* of its opcode; from 3.11 on perhaps a specialised one */
  bool swallows;  /* its jump is taken when an __exit__ swallows an exception */
};

struct python_instructions {
  struct python_instruction *all;
  uint32_t n;
};

/* False: not understood, or no memory. To be freed with free(all) either way. */
bool python_instructions_read(const struct python_layout *layout, const struct python_code *code,
                              struct python_instructions *instructions);

/* Whether it may raise, or run other code. */
static inline bool python_instruction_is_loud(const struct python_instruction *instruction) {
  switch (instruction->opcode) {
  case OPCODE_OTHER:
  case OPCODE_CALL:
  case OPCODE_YIELD:
  case OPCODE_FOR_ITER:
  case OPCODE_SEND:
  case OPCODE_RAISE:
  case OPCODE_SETUP_WITH:
  case OPCODE_END_ASYNC_FOR:
  case OPCODE_WITH_EXCEPT:
    return true;
  case OPCODE_UNKNOWN:
  case OPCODE_QUIET:
  case OPCODE_NOP:
  case OPCODE_PRECALL:
  case OPCODE_EXTENDED:
  case OPCODE_BRANCH:
  case OPCODE_BRANCH_BACK:
  case OPCODE_BRANCH_TO:
  case OPCODE_JUMP:
  case OPCODE_JUMP_BACK:
  case OPCODE_JUMP_TO:
  case OPCODE_RETURN:
  case OPCODE_SETUP:
  case OPCODE_POP_BLOCK:
  case OPCODE_POP_EXCEPT:
  case OPCODE_LINE:
  case OPCODE_INSTRUCTION:
    return false;
  }
  return false;
}

/* Whether it jumps or goes on by a value. */
static inline bool python_instruction_is_branch(const struct python_instruction *instruction) {
  return instruction->opcode == OPCODE_BRANCH || instruction->opcode == OPCODE_BRANCH_BACK ||
         instruction->opcode == OPCODE_BRANCH_TO;
}

/* python_copies.c, for python_instructions.c.
 *
 * Makes one of copies of code: whatever leads to a copy leads to the first one, which `same` names,
 * and nothing leads to the others any more. False: no memory, or too much to compare.
 *
 * From 3.10 to 3.13 the test of a `while` stands before the loop and once more at its end, and
 * `continue` goes to the first one: as they stand, these are two loops. Likewise a `while True` may
 * begin with a NOP that only `continue` goes back to. */
bool python_copies_unite(unsigned minor, struct python_instructions *instructions);

#endif
