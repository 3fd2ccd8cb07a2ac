/* What each opcode of CPython is for the flow of control, by minor version: as the standard
 * library's `opcode` says, with names told apart by tests/python/opcodes.py. A specialised or
 * instrumented opcode is what the general one is.
 */
#ifndef NCCL_JOIN_INTERPOSE_PYTHON_OPCODES_H
#define NCCL_JOIN_INTERPOSE_PYTHON_OPCODES_H

#include <stdint.h>

#define PYTHON_MINOR_FIRST 9u
#define PYTHON_MINOR_LAST 14u

/* The values are the letters of python_opcodes.inc. Jumps count in code units (3.9: bytes), from
 * the next instruction or, absolute, from the beginning. */
enum python_opcode {
  OPCODE_UNKNOWN = '.',  /* not of this version, or generated code stands in its place */
  OPCODE_QUIET = 'q',    /* goes on, calls nothing, does not raise */
  OPCODE_NOP = 'n',      /* does nothing */
  OPCODE_OTHER = 'o',    /* goes on, may call what an operator, a property, ... calls, may raise */
  OPCODE_CALL = 'c',     /* calls */
  OPCODE_PRECALL = 'p',  /* 3.11: may do the work of the CALL behind it */
  OPCODE_EXTENDED = 'e', /* higher bits of the next instruction's argument */
  OPCODE_BRANCH = 'f',   /* jumps ahead or goes on */
  OPCODE_BRANCH_BACK = 'b', /* 3.11 */
  OPCODE_BRANCH_TO = 'a',   /* absolute; 3.9, 3.10 */
  OPCODE_FOR_ITER = 'F',    /* like BRANCH; calls */
  OPCODE_SEND = 's',        /* like BRANCH; calls. await, yield from */
  OPCODE_JUMP = 'J',        /* ahead */
  OPCODE_JUMP_BACK = 'B',
  OPCODE_JUMP_TO = 'A', /* absolute; 3.9, 3.10 */
  OPCODE_RETURN = 'r',
  OPCODE_RAISE = 'x',
  OPCODE_SETUP = 'h',         /* 3.9, 3.10: from here exceptions go to what lies ahead */
  OPCODE_SETUP_WITH = 'H',    /* the same, after a call */
  OPCODE_POP_BLOCK = 'k',     /* ends the innermost of these */
  OPCODE_POP_EXCEPT = 'v',    /* the exception is handled */
  OPCODE_END_ASYNC_FOR = 'y', /* the same in 3.9 and 3.10, or raises it again */
  OPCODE_WITH_EXCEPT = 'w',   /* calls __exit__ with an exception */
  OPCODE_LINE = 'l',          /* 3.12: what stood here is in the monitoring data */
  OPCODE_INSTRUCTION = 'i',   /* the same, for events of single instructions */
};

/* The row of a minor version (PYTHON_MINOR_FIRST to PYTHON_MINOR_LAST): for each opcode two
 * characters, its enum python_opcode and, in hexadecimal, how many code units behind it are caches.
 */
extern const char *const python_opcode_rows[];

static inline enum python_opcode python_opcode_of(const char *row, uint8_t opcode) {
  return (enum python_opcode)row[2 * opcode];
}

static inline uint32_t python_opcode_caches(const char *row, uint8_t opcode) {
  char digit = row[2 * opcode + 1];
  return (uint32_t)(digit <= '9' ? digit - '0' : digit - 'a' + 10);
}

#endif
