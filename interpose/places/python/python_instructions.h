/* The instructions of a code object of CPython, with where each may go. */
#ifndef NCCL_JOIN_INTERPOSE_PYTHON_INSTRUCTIONS_H
#define NCCL_JOIN_INTERPOSE_PYTHON_INSTRUCTIONS_H

#include <stdbool.h>
#include "interpose/places/python/python_code.h"
#include "interpose/places/python/python_layout.h"
#include "interpose/places/python/python_opcodes.h"

#define PYTHON_NOWHERE UINT32_MAX

struct python_instruction {
  uint32_t unit;   /* of its opcode, behind EXTENDED_ARG */
  uint32_t target; /* the instruction that it may jump to, by number; PYTHON_NOWHERE. Of a SETUP:
                      the handler */
  uint32_t argument;
  uint32_t handler; /* the instruction that its exceptions go to; PYTHON_NOWHERE */
  enum python_opcode opcode;
  bool goes_on;  /* the next instruction may follow */
  bool swallows; /* its jump is taken when an __exit__ swallows an exception */
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

/* What the compiler makes two loops of, made one again.
 *
 *   - From 3.10 to 3.13 the test of a `while` stands before the loop and once more at its end, but
 *     `continue` goes to the first one, around the loop. Here it goes to the other.
 *   - A `while True` may begin with a NOP that only `continue` goes back to.
 */

/* Changes targets of instructions whose jumps and handlers are known. False: no memory. */
bool python_rounds_unite(unsigned minor, const struct python_code *code,
                         struct python_instructions *instructions);

#endif
